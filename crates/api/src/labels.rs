//! Label selectors: which objects, by their labels.
//!
//! A selector is a list of requirements that must all hold. It comes as text, as in
//! `kubectl get -l 'app=web,tier in (front,back),!canary'`, or as the
//! [`LabelSelector`] of an object. Source, with error texts:
//! `k8s.io/apimachinery/pkg/labels`, Kubernetes 1.36.
//!
//! ```
//! use outrank_api::labels::Selector;
//!
//! let selector = Selector::parse("tier in (front,back), app=web").unwrap();
//! assert_eq!(selector.to_string(), "app=web,tier in (back,front)");
//! let labels = [("app", "web"), ("tier", "front")];
//! assert!(selector.matches(&labels.map(|(k, v)| (k.into(), v.into())).into()));
//! ```

use std::fmt;

use crate::names;
use crate::types::{LabelSelector, StringMap};

/// How a [`Requirement`] compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label is there with one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// `=`: as `In` with one value.
    Equals,
    /// `==`: the same.
    DoubleEquals,
    /// `!=`: as `NotIn` with one value.
    NotEquals,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than the value.
    GreaterThan,
    /// The label is an integer less than the value.
    LessThan,
}

/// One condition on a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// How the label's value is compared.
    pub operator: Operator,
    /// With what: none for `Exists` and `DoesNotExist`, one for the comparisons.
    pub values: Vec<String>,
}

impl Requirement {
    /// A valid requirement, or all that is wrong. `path` is the field that holds it, as
    /// named in the errors; it may be empty.
    pub fn new(
        key: &str,
        operator: Operator,
        values: Vec<String>,
        path: &str,
    ) -> Result<Self, Vec<String>> {
        let child = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        let mut errors = Vec::new();
        let key_errors = names::label_key_errors(key);
        if !key_errors.is_empty() {
            errors.push(invalid(
                &child("key"),
                &names::quoted(key),
                &key_errors.join("; "),
            ));
        }
        let values_path = child("values");
        if let Some(rule) = broken_count_rule(operator, values.len()) {
            errors.push(invalid(&values_path, &names::quoted_list(&values), rule));
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
            for (i, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    let path = format!("{values_path}[{i}]");
                    errors.push(invalid(&path, &names::quoted(value), rule));
                }
            }
        }
        for (i, value) in values.iter().enumerate() {
            let value_errors = names::label_value_errors(value);
            if !value_errors.is_empty() {
                let path = format!("{values_path}[{i}][{key}]");
                errors.push(invalid(
                    &path,
                    &names::quoted(value),
                    &value_errors.join("; "),
                ));
            }
        }
        if errors.is_empty() {
            return Ok(Self {
                key: key.to_owned(),
                operator,
                values,
            });
        }
        Err(errors)
    }

    /// Whether labels fulfil the requirement.
    pub fn matches(&self, labels: &StringMap) -> bool {
        let label = labels.get(&self.key);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                label.is_some_and(|value| self.values.contains(value))
            }
            Operator::NotIn | Operator::NotEquals => {
                label.is_none_or(|value| !self.values.contains(value))
            }
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.integers(label).is_some_and(|(l, r)| l > r),
            Operator::LessThan => self.integers(label).is_some_and(|(l, r)| l < r),
        }
    }

    /// The label and the only value as integers, if they are.
    fn integers(&self, label: Option<&String>) -> Option<(i64, i64)> {
        match self.values.as_slice() {
            [value] => Some((label?.parse().ok()?, value.parse().ok()?)),
            _ => None,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

fn invalid(path: &str, value: &str, rule: &str) -> String {
    format!("{path}: Invalid value: {value}: {rule}")
}

/// The rule on the number of values that is broken, if one is.
fn broken_count_rule(operator: Operator, count: usize) -> Option<&'static str> {
    match operator {
        Operator::In | Operator::NotIn => {
            (count == 0).then_some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
            (count != 1).then_some("exact-match compatibility requires one single value")
        }
        Operator::Exists | Operator::DoesNotExist => {
            (count != 0).then_some("values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan => {
            (count != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
    }
}

/// Requirements that must all hold, in order of their keys; or the selector that
/// selects nothing. The default selects everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// `None` selects nothing.
    requirements: Option<Vec<Requirement>>,
}

impl Default for Selector {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl Selector {
    /// Selects nothing.
    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Selects what fulfils all the requirements.
    pub fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            requirements: Some(requirements),
        }
    }

    /// Reads the selector language of `kubectl -l`. The error is upstream's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser {
            tokens: tokens(text),
            position: 0,
        }
        .selector()
        .map(Self::of)
    }

    /// The selector of an object: absent selects nothing, empty everything. The error is
    /// upstream's text.
    pub fn from_label_selector(selector: Option<&LabelSelector>) -> Result<Self, String> {
        let Some(selector) = selector else {
            return Ok(Self::nothing());
        };
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            let requirement = Requirement::new(key, Operator::Equals, vec![value.clone()], "");
            requirements.push(requirement.map_err(|errors| names::joined_errors(&errors))?);
        }
        for expression in &selector.match_expressions {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let operator = names::quoted(other);
                    return Err(format!("{operator} is not a valid label selector operator"));
                }
            };
            let values = expression.values.clone();
            let requirement = Requirement::new(&expression.key, operator, values, "");
            requirements.push(requirement.map_err(|errors| names::joined_errors(&errors))?);
        }
        Ok(Self::of(requirements))
    }

    /// Selects what has all these labels; nothing is validated.
    pub fn from_set(labels: &StringMap) -> Self {
        let requirement = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.clone()],
        };
        Self {
            requirements: Some(labels.iter().map(requirement).collect()),
        }
    }

    /// Whether labels are selected.
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }

    /// Whether the selector selects everything because it requires nothing.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// The requirements, ordered by key; `None` if the selector selects nothing.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }
}

/// The selector language, in canonical form; empty for both everything and nothing.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().flatten().enumerate() {
            let separator = if i == 0 { "" } else { "," };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

/// Words and symbols of the selector language. `in` and `notin` are ordinary words that
/// the parser understands where an operator is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// Splits a selector into tokens. Upstream's reader takes a NUL for the end of what it
/// reads: one behind a token is skipped, one before a token ends the selector.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next().filter(|&c| c != '\0') {
        let len = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if is_symbol(first) {
            1
        } else {
            rest.find(|c| is_symbol(c) || is_space(c) || c == '\0')
                .unwrap_or(rest.len())
        };
        let (token, behind) = rest.split_at(len);
        tokens.push(if is_symbol(first) {
            Token::Symbol(token)
        } else {
            Token::Word(token)
        });
        let behind = behind.strip_prefix('\0').unwrap_or(behind);
        rest = behind.trim_start_matches(is_space);
    }
    tokens
}

/// Recursive descent over the tokens; each method reads one element of the grammar.
struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens
            .get(self.position)
            .copied()
            .unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    /// `requirement { "," requirement }`, or nothing.
    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                Token::End => return Ok(requirements),
                Token::Symbol(other) => {
                    return Err(format!(
                        "found '{other}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self.requirement();
            requirements.push(
                requirement.map_err(|error| format!("unable to parse requirement: {error}"))?,
            );
            match (self.next(), self.peek()) {
                (Token::End, _) => return Ok(requirements),
                (Token::Symbol(","), Token::Word(_) | Token::Symbol("!")) => {}
                (Token::Symbol(","), other) => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: identifier after ','"));
                }
                (other, _) => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    /// `key`, `"!" key` or `key operator values`.
    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let key_errors = names::label_key_errors(key);
        if !key_errors.is_empty() {
            return Err(invalid(
                "<nil>",
                &names::quoted(key),
                &key_errors.join("; "),
            ));
        }
        let (operator, mut values) = if negated {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            (Operator::Exists, Vec::new())
        } else {
            match self.operator()? {
                operator @ (Operator::In | Operator::NotIn) => (operator, self.values()?),
                operator => (operator, vec![self.value()?]),
            }
        };
        values.sort_unstable();
        values.dedup();
        let values = values.into_iter().map(str::to_owned).collect();
        Requirement::new(key, operator, values, "").map_err(|errors| names::joined_errors(&errors))
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.next() {
            Token::Word("in") => Ok(Operator::In),
            Token::Word("notin") => Ok(Operator::NotIn),
            Token::Symbol("=") => Ok(Operator::Equals),
            Token::Symbol("==") => Ok(Operator::DoubleEquals),
            Token::Symbol("!=") => Ok(Operator::NotEquals),
            Token::Symbol(">") => Ok(Operator::GreaterThan),
            Token::Symbol("<") => Ok(Operator::LessThan),
            other => {
                let found = other.text();
                Err(format!(
                    "found '{found}', expected: in, notin, =, ==, !=, gt, lt"
                ))
            }
        }
    }

    /// The value of a comparison, empty if nothing is there.
    fn value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok("");
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// `"(" [ value ] { "," [ value ] } ")"`, where a missing value is empty.
    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        match self.peek() {
            Token::Word(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.next();
                return Ok(vec![""]);
            }
            other => {
                let found = other.text();
                return Err(format!("found '{found}', expected: ',', ')' or identifier"));
            }
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => values.push(value),
                Token::Symbol(",") => {
                    if values.is_empty() || self.peek() == Token::Symbol(",") {
                        values.push("");
                    }
                    if self.peek() == Token::Symbol(")") {
                        values.push("");
                    } else {
                        continue;
                    }
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', or identifier",
                        other.text()
                    ));
                }
            }
            match self.peek() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => {
                    self.next();
                    return Ok(values);
                }
                other => {
                    return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> StringMap {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn keywords_are_words_elsewhere() {
        let selector = Selector::parse("in in (in,notin),notin=in").unwrap();
        assert_eq!(selector.to_string(), "in in (in,notin),notin=in");
        assert!(selector.matches(&labels(&[("in", "notin"), ("notin", "in")])));
    }

    #[test]
    fn missing_values_are_empty() {
        for text in ["a in ()", "a in (,)", "a in (,,)"] {
            assert_eq!(
                Selector::parse(text).unwrap().to_string(),
                "a in ()",
                "{text}"
            );
        }
        assert_eq!(
            Selector::parse("a in (b,,c)").unwrap().to_string(),
            "a in (,b,c)"
        );
        assert!(Selector::parse("a in (b,").is_err());
        assert!(Selector::parse("a in (b").is_err());
    }

    #[test]
    fn nothing_and_everything() {
        let nothing = Selector::from_label_selector(None).unwrap();
        assert!(!nothing.matches(&labels(&[])) && !nothing.is_empty());
        let everything = Selector::from_label_selector(Some(&LabelSelector::default())).unwrap();
        assert!(everything.matches(&labels(&[])) && everything.is_empty());
        assert_eq!(everything, Selector::default());
    }

    #[test]
    fn compares_integers() {
        let selector = Selector::parse("a>5,a<7").unwrap();
        assert!(selector.matches(&labels(&[("a", "6")])));
        for value in ["5", "7", "x", "", "6.0"] {
            assert!(!selector.matches(&labels(&[("a", value)])), "{value}");
        }
    }

    #[test]
    fn a_nul_ends_what_is_read() {
        assert_eq!(Selector::parse("a\0,b").unwrap().to_string(), "a,b");
        assert_eq!(Selector::parse("a \0,b").unwrap().to_string(), "a");
    }
}
