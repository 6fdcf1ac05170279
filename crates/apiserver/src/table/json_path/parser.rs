//! Reads paths. The letters of the grammar are client-go's, see [there](super).

use serde_json::Value;

use super::{Comparison, End, Filter, JsonPath, Slice, Step};

/// The steps of a path. The error says what is wrong with it.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut parser = Parser { rest: text };
    let mut steps = Vec::new();
    while let Some(step) = parser.step(&steps)? {
        steps.push(step);
    }
    Ok(steps)
}

/// What is left to be read. Conditions and unions are paths within a path, but hold no further
/// ones, so it takes no depth to read them.
struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    /// The next step; `None` at the end.
    fn step(&mut self, before: &[Step]) -> Result<Option<Step>, String> {
        loop {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                return self.filter().map(Some);
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                if before.last() == Some(&Step::Descend) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                // A name may follow at once, without a dot of its own.
                self.rest = rest;
                return Ok(Some(Step::Descend));
            }
            let mut chars = self.rest.chars();
            let Some(first) = chars.next() else {
                return Ok(None);
            };
            match first {
                // The value that is looked at, which goes without saying.
                ' ' | '@' | '$' => self.rest = chars.as_str(),
                '[' => {
                    self.rest = chars.as_str();
                    return self.brackets().map(Some);
                }
                '"' | '\'' => {
                    self.rest = chars.as_str();
                    return self.quoted(first).map(Some);
                }
                '.' => {
                    self.rest = chars.as_str();
                    return Ok(Some(self.field()));
                }
                _ if matches!(before.last(), Some(Step::Descend)) && is_word(first) => {
                    return Ok(Some(self.field()));
                }
                '+' | '-' | '0'..='9' => return self.number().map(Some),
                _ if is_word(first) => return self.word().map(Some),
                _ => return Err(format!("unrecognized character in path: {first:?}")),
            }
        }
    }

    fn take(&mut self, len: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    /// A name, up to what ends one and is not escaped.
    fn field(&mut self) -> Step {
        let mut name = String::new();
        let mut is_escaped = false;
        let mut len = self.rest.len();
        for (i, c) in self.rest.char_indices() {
            if c == '\\' {
                // A backslash is never part of a name, not even an escaped one.
                is_escaped = !is_escaped;
                continue;
            }
            if !is_escaped && ends_name(c) {
                len = i;
                break;
            }
            is_escaped = false;
            name.push(c);
        }
        self.take(len);
        match name.as_str() {
            "*" => Step::Wildcard,
            _ => Step::Field(name),
        }
    }

    /// What follows an opening bracket: a number, a slice, a name in quotes, several with commas.
    fn brackets(&mut self) -> Result<Step, String> {
        let end = self.rest.find([']', '\n']);
        let end = end.filter(|&end| self.rest[end..].starts_with(']'));
        let inside = self.take(end.ok_or("unterminated array")?);
        self.take(1);
        if inside.contains(',') {
            let element = |text: &str| match in_brackets(text.trim_matches(' '))? {
                steps if steps.is_empty() => Err(format!("invalid array index {text}")),
                steps => Ok(JsonPath { steps }),
            };
            return Ok(Step::Union(
                inside.split(',').map(element).collect::<Result<_, _>>()?,
            ));
        }
        match <[Step; 1]>::try_from(in_brackets(inside)?) {
            Ok([step]) => Ok(step),
            // A name with dots in it is several names.
            Err(steps) => Ok(Step::Union(vec![JsonPath { steps }])),
        }
    }

    /// What follows `[?(`.
    fn filter(&mut self) -> Result<Step, String> {
        let inside = self.take(end_of_filter(self.rest).ok_or("unterminated filter")?);
        self.rest = self
            .rest
            .strip_prefix(")]")
            .ok_or("unclosed array expect ]")?;
        let is_sign = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let start = inside.find(is_sign).unwrap_or(inside.len());
        let (left, behind) = inside.split_at(start);
        let right = behind.trim_start_matches(is_sign);
        let (sign, right) = behind.split_at(behind.len() - right.len());
        if left.is_empty() || sign.is_empty() || right.is_empty() {
            let left = JsonPath::parse(inside)?;
            return Ok(Step::Filter(Filter { left, right: None }));
        }
        let comparison = match sign {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterEqual,
            _ => return Err(format!("unrecognized filter operator {sign}")),
        };
        let (left, right) = (JsonPath::parse(left)?, JsonPath::parse(right)?);
        let right = Some((comparison, right));
        Ok(Step::Filter(Filter { left, right }))
    }

    /// A text, after its opening quote.
    fn quoted(&mut self, quote: char) -> Result<Step, String> {
        let mut text = String::new();
        let mut is_escaped = false;
        for (i, c) in self.rest.char_indices() {
            match c {
                _ if is_escaped => {
                    text.push(unescaped(c).ok_or("invalid syntax")?);
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                '\n' => break,
                _ if c == quote => {
                    self.take(i + c.len_utf8());
                    return Ok(Step::Constant(text.into()));
                }
                _ => text.push(c),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    fn number(&mut self) -> Result<Step, String> {
        let digits = self.rest.trim_start_matches(['+', '-']);
        let sign_len = (self.rest.len() - digits.len()).min(1);
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let end = self.rest[sign_len..].find(|c| !is_digit(c));
        let text = self.take(end.map_or(self.rest.len(), |end| sign_len + end));
        let number = match text.parse::<i64>() {
            Ok(integer) => Some(Value::from(integer)),
            Err(_) => text.parse::<f64>().ok().map(Value::from),
        };
        let number = number.ok_or_else(|| format!("cannot parse number {text}"))?;
        Ok(Step::Constant(number))
    }

    /// `true` or `false`; upstream's words for loops are no use in a column.
    fn word(&mut self) -> Result<Step, String> {
        let len = self.rest.find(ends_name).unwrap_or(self.rest.len());
        match self.take(len) {
            "true" => Ok(Step::Constant(true.into())),
            "false" => Ok(Step::Constant(false.into())),
            word => Err(format!("unrecognized identifier {word}")),
        }
    }
}

/// What stands between brackets, if it is one thing. A name in quotes is read as after a dot.
fn in_brackets(text: &str) -> Result<Vec<Step>, String> {
    let quoted = text.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    if let Some(name) = quoted.filter(|name| !name.contains('\'')) {
        return Ok(JsonPath::parse(&format!(".{name}"))?.steps);
    }
    slice(if text == "*" { ":" } else { text }).map(|slice| vec![Step::Elements(slice)])
}

fn slice(text: &str) -> Result<Slice, String> {
    let invalid = || format!("invalid array index {text}");
    let number = |text: &str| match text {
        "" => Ok(None),
        text if text.starts_with('+') => Err(invalid()),
        text => text.parse::<i64>().map(Some).map_err(|_| invalid()),
    };
    let mut parts = text.split(':');
    let start = number(parts.next().unwrap_or_default())?;
    let end = match parts.next() {
        None => End::OfOne,
        Some(end) => number(end)?.map_or(End::OfList, End::At),
    };
    let step = number(parts.next().unwrap_or_default())?;
    match parts.next() {
        Some(_) => Err(invalid()),
        None => Ok(Slice { start, end, step }),
    }
}

/// Where the closing parenthesis of a condition is: the first that is not within quotes, of which
/// a condition has one pair.
fn end_of_filter(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_closed = false;
    let mut last = '(';
    for (i, c) in text.char_indices() {
        match (c, quote) {
            ('\n', _) => return None,
            ('"' | '\'', None) => quote = Some(c),
            ('"' | '\'', Some(open)) if c == open && last != '\\' => is_closed = true,
            (')', quote) if quote.is_none() || is_closed => return Some(i),
            _ => {}
        }
        last = c;
    }
    None
}

fn ends_name(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The character that an escape in a text stands for; of Go's escapes, those of one letter.
fn unescaped(c: char) -> Option<char> {
    Some(match c {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' | '"' | '\'' => c,
        _ => return None,
    })
}
