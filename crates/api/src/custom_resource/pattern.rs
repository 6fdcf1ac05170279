//! Regular expressions as Go reads them.
//!
//! Patterns of schemas are those of Go's `regexp` (RE2). The `regex` crate has almost the same
//! language, in linear time as well. Where the two differ the pattern is rewritten: in Go `\d`,
//! `\w`, `\s` and `\b` are about ASCII, `[` in a class is a letter, and a `{` that begins no
//! repetition, too.

use std::sync::Arc;

use regex::Regex;

/// A pattern. Two are equal if they are written so.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// As it was written.
    pub(crate) text: String,
    compiled: Result<Arc<Regex>, String>,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let compiled = Regex::new(&rewritten(text));
        Self {
            text: text.to_owned(),
            compiled: compiled.map(Arc::new).map_err(|error| {
                let error = error.to_string();
                // The last line says what is wrong, those before show where.
                let line = error.lines().next_back().unwrap_or_default();
                line.trim_start_matches("error: ").to_owned()
            }),
        }
    }

    /// Why it is none.
    pub(crate) fn error(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }

    /// Whether it is found in a text; nothing fits a pattern that is none.
    pub(crate) fn fits(&self, text: &str) -> bool {
        self.compiled
            .as_ref()
            .is_ok_and(|regex| regex.is_match(text))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

fn rewritten(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    let (mut is_in_class, mut is_class_start) = (false, false);
    while let Some(c) = rest.next() {
        let was_class_start = std::mem::take(&mut is_class_start);
        match c {
            '\\' => {
                if let Some(escaped) = rest.next() {
                    push_escape(&mut text, escaped, is_in_class);
                } else {
                    text.push('\\');
                }
            }
            '[' if is_in_class && rest.peek() == Some(&':') => text.push('['),
            '[' if is_in_class => text.push_str("\\["),
            '[' => {
                text.push('[');
                (is_in_class, is_class_start) = (true, true);
                if rest.next_if_eq(&'^').is_some() {
                    text.push('^');
                }
            }
            ']' if is_in_class && was_class_start => text.push_str("\\]"),
            ']' if is_in_class && text.ends_with(':') => {
                // The end of a named class such as `[:alpha:]`.
                text.push(']');
            }
            ']' => {
                text.push(']');
                is_in_class = false;
            }
            '&' | '~' if is_in_class => {
                text.push('\\');
                text.push(c);
            }
            '{' if !is_in_class && !begins_repetition(rest.clone()) => text.push_str("\\{"),
            other => text.push(other),
        }
    }
    text
}

fn push_escape(text: &mut String, escaped: char, is_in_class: bool) {
    const DIGIT: &str = "0-9";
    const WORD: &str = "0-9A-Za-z_";
    const SPACE: &str = "\\t\\n\\x0C\\r ";
    let class = match escaped.to_ascii_lowercase() {
        'd' => DIGIT,
        'w' => WORD,
        's' => SPACE,
        'b' if escaped == 'b' && !is_in_class => return text.push_str("(?-u:\\b)"),
        _ => {
            text.push('\\');
            return text.push(escaped);
        }
    };
    text.push_str(&match (escaped.is_ascii_uppercase(), is_in_class) {
        (true, _) => format!("[^{class}]"),
        (false, true) => class.to_owned(),
        (false, false) => format!("[{class}]"),
    });
}

/// Whether what follows a `{` makes it a repetition: `3}`, `3,}`, `3,5}`.
fn begins_repetition(mut rest: impl Iterator<Item = char>) -> bool {
    let mut seen_digit = false;
    let mut seen_comma = false;
    loop {
        match rest.next() {
            Some(c) if c.is_ascii_digit() => seen_digit = true,
            Some(',') if seen_digit && !seen_comma => seen_comma = true,
            Some('}') => return seen_digit,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_go() {
        for (pattern, text, fits) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w+$", "ä", false),
            (r"^[\w.-]+$", "a.b-c_1", true),
            (r"^[\W]$", "-", true),
            (r"^[[]$", "[", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[:alpha:]_]+$", "ab_", true),
            (r"^{x}$", "{x}", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^a{2}$", "aaa", false),
            (r"^[a&&b]+$", "a&b", true),
            (r"\bfoo\b", "a foo b", true),
            (
                r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$",
                "* * * * */5",
                true,
            ),
        ] {
            let compiled = Pattern::new(pattern);
            assert_eq!(compiled.error(), None, "{pattern}");
            assert_eq!(compiled.fits(text), fits, "{pattern} {text}");
        }
        assert!(Pattern::new("(").error().is_some());
        assert!(Pattern::new(r"(?=a)").error().is_some());
    }
}
