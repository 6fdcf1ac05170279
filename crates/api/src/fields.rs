//! Field selectors: which objects, by a few of their fields, as in
//! `kubectl get --field-selector spec.nodeName=node-1,status.phase!=Running`.
//!
//! In a value, `,`, `=` and `\` are written with a `\` before them. Source, with error
//! texts: `k8s.io/apimachinery/pkg/fields`, Kubernetes 1.36.

use std::fmt;

use crate::types::StringMap;

/// One condition on a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRequirement {
    /// The field, such as `metadata.name`.
    pub key: String,
    /// Whether the field must have the value (`=`) or must not (`!=`).
    pub equal: bool,
    /// The value, without escapes.
    pub value: String,
}

impl FieldRequirement {
    /// Whether fields fulfil the requirement; an absent field counts as empty.
    pub fn matches(&self, fields: &StringMap) -> bool {
        let value = fields.get(&self.key).map_or("", String::as_str);
        (value == self.value) == self.equal
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.key, if self.equal { "=" } else { "!=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

/// Conditions that must all hold, in the order of their text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads a selector. The error is upstream's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((key, equal, value)) = split_term(term) else {
                return Err(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                ));
            };
            let value = unescape(value)?;
            // Upstream drops what requires no field to have no value.
            if !(key.is_empty() && value.is_empty()) {
                requirements.push(FieldRequirement {
                    key: key.to_owned(),
                    equal,
                    value,
                });
            }
        }
        Ok(Self { requirements })
    }

    /// The requirements.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether fields are selected; an absent field counts as empty.
    pub fn matches(&self, fields: &StringMap) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(fields))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            let separator = if i == 0 { "" } else { "," };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

/// Splits at the commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
    .collect()
}

/// Splits at the first operator: field, whether it must be equal, escaped value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let (key, value) = term.split_once('=')?;
    // A `!` right before the first `=` belongs to the operator.
    match key.strip_suffix('!') {
        Some(key) => Some((key, false, value)),
        None => Some((key, true, value.strip_prefix('=').unwrap_or(value))),
    }
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let escaped = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{escaped}"
                    ));
                }
            },
            ',' | '=' => {
                let code = u32::from(c);
                return Err(format!(
                    "invalid field selector: unescaped character in value: {code}"
                ));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_survive() {
        let selector = FieldSelector::parse(r"a=b\,c\=d\\").unwrap();
        assert_eq!(selector.requirements()[0].value, r"b,c=d\");
        assert_eq!(selector.to_string(), r"a=b\,c\=d\\");
    }

    #[test]
    fn absent_fields_are_empty() {
        let fields: StringMap = [("a".to_owned(), "b".to_owned())].into();
        for (selector, expected) in [
            ("a=b", true),
            ("a==b,c=", true),
            ("a!=b", false),
            ("c!=", false),
            ("", true),
        ] {
            let parsed = FieldSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches(&fields), expected, "{selector}");
        }
    }

    #[test]
    fn splits_at_the_first_operator() {
        for (text, canonical) in [
            ("a!==b", None),
            ("!=b", Some("!=b")),
            ("=", Some("")),
            ("a!b=c", Some("a!b=c")),
        ] {
            let selector = FieldSelector::parse(text)
                .ok()
                .map(|selector| selector.to_string());
            assert_eq!(selector.as_deref(), canonical, "{text}");
        }
    }
}
