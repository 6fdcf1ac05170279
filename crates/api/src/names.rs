//! The rules for names: label keys and values, DNS labels and subdomains.
//!
//! Each check returns every rule that is broken, in upstream's words; an empty list
//! means that the value is valid. Lengths count bytes. Source:
//! `k8s.io/apimachinery/pkg/api/validate/content`, Kubernetes 1.36.

/// Longest name part of a label key, in bytes.
pub const LABEL_KEY_NAME_MAX_LEN: usize = 63;

/// Longest label value, in bytes.
pub const LABEL_VALUE_MAX_LEN: usize = 63;

/// Longest DNS label, in bytes.
pub const DNS1123_LABEL_MAX_LEN: usize = 63;

/// Longest DNS subdomain, in bytes.
pub const DNS1123_SUBDOMAIN_MAX_LEN: usize = 253;

/// What is wrong with a label key, which is also what upstream calls a qualified name:
/// a name of alphanumerics, `-`, `_` and `.`, after an optional DNS subdomain and `/`.
pub fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((prefix, name)) => (Some(prefix), name),
    };
    if name.contains('/') {
        let message = format!(
            "a valid label key {} with an optional DNS subdomain prefix and '/' \
             (e.g. 'example.com/MyName')",
            label_key_pattern_error()
        );
        return vec![message];
    }
    match prefix {
        None => {}
        Some("") => errors.push(format!("prefix part {EMPTY}")),
        Some(prefix) => errors.extend(
            dns1123_subdomain_errors(prefix)
                .into_iter()
                .map(|error| format!("prefix part {error}")),
        ),
    }
    if name.is_empty() {
        errors.push(format!("name part {EMPTY}"));
    } else if name.len() > LABEL_KEY_NAME_MAX_LEN {
        errors.push(format!(
            "name part {}",
            too_long(LABEL_KEY_NAME_MAX_LEN, "bytes")
        ));
    }
    if !is_label_text(name) {
        errors.push(format!("name part {}", label_key_pattern_error()));
    }
    errors
}

/// What is wrong with a label value: empty, or as the name of a label key.
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_VALUE_MAX_LEN {
        errors.push(too_long(LABEL_VALUE_MAX_LEN, "bytes"));
    }
    if !value.is_empty() && !is_label_text(value) {
        errors.push(pattern_error(
            "a valid label must be an empty string or consist of alphanumeric characters, \
             '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({LABEL_PATTERN})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// What is wrong with a DNS label (RFC 1123), as namespaces and containers are named.
pub fn dns1123_label_errors(name: &str) -> Vec<String> {
    label_errors(name, "bytes")
}

/// What is wrong with a DNS subdomain (RFC 1123), as pods and nodes are named.
pub fn dns1123_subdomain_errors(name: &str) -> Vec<String> {
    subdomain_errors(name, "bytes")
}

/// What is wrong with a DNS label as RFC 1035 has it, which begins with a letter: so services
/// and names of custom resources are named.
pub fn dns1035_label_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > DNS1123_LABEL_MAX_LEN {
        errors.push(too_long(DNS1123_LABEL_MAX_LEN, "characters"));
    }
    if !is_dns1123_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(pattern_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// What is wrong with the name of a port.
pub(crate) fn port_name_errors(name: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut errors = Vec::new();
    if name.len() > 15 {
        errors.push(too_long(15, "characters"));
    }
    if name.is_empty() || !name.bytes().all(|byte| fits(byte) || byte == b'-') {
        errors.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// What is wrong with a share in percent.
pub(crate) fn percent_errors(share: &str) -> Vec<String> {
    let digits = share.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    vec![pattern_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// What is wrong with the name of an environment variable: all of ASCII that can be printed is
/// allowed, but for `=`.
pub(crate) fn env_name_errors(name: &str) -> Vec<String> {
    let is_printable = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    match name {
        "" => vec![format!("environment variable name {EMPTY}")],
        name if name.bytes().all(is_printable) => Vec::new(),
        _ => vec![
            "a valid environment variable name must consist only of printable ASCII characters \
             other than '='"
                .to_owned(),
        ],
    }
}

/// What is wrong with a key of a ConfigMap or a Secret.
pub(crate) fn config_key_errors(key: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let mut errors = Vec::new();
    if key.len() > DNS1123_SUBDOMAIN_MAX_LEN {
        errors.push(too_long(DNS1123_SUBDOMAIN_MAX_LEN, "characters"));
    }
    if key.is_empty() || !key.bytes().all(fits) {
        errors.push(pattern_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if key == "." {
        errors.push("must not be '.'".to_owned());
    } else if key == ".." {
        errors.push("must not be '..'".to_owned());
    } else if key.starts_with("..") {
        errors.push("must not start with '..'".to_owned());
    }
    errors
}

/// What is wrong with the name of a header of HTTP.
pub(crate) fn header_name_errors(name: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match !name.is_empty() && name.bytes().all(fits) {
        true => Vec::new(),
        false => vec![pattern_error(
            "a valid HTTP header must consist of alphanumeric characters or '-'",
            "[-A-Za-z0-9]+",
            &["X-Header-Name"],
        )],
    }
}

/// How objects of some kind are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// As a DNS label: namespaces.
    DnsLabel,
    /// As a DNS label that begins with a letter: services.
    Dns1035Label,
    /// As a DNS subdomain: most kinds.
    DnsSubdomain,
    /// As anything that fits between two slashes of a URL.
    PathSegment,
}

impl NameRule {
    /// What is wrong with the name of an object, in the words of the API server, which in this
    /// place counts bytes and calls them characters
    /// (`k8s.io/apimachinery/pkg/util/validation/validation.go`).
    pub fn errors(self, name: &str) -> Vec<String> {
        match self {
            Self::DnsLabel => label_errors(name, "characters"),
            Self::Dns1035Label => dns1035_label_errors(name),
            Self::DnsSubdomain => subdomain_errors(name, "characters"),
            Self::PathSegment => path_segment_errors(name),
        }
    }

    /// What is wrong with the beginning of a name, to which something will be added: a dash at
    /// its end is no mistake.
    pub fn prefix_errors(self, prefix: &str) -> Vec<String> {
        let kept = prefix.strip_suffix('-').filter(|kept| !kept.is_empty());
        match (self, kept) {
            (Self::PathSegment, _) => forbidden_in_path(prefix),
            (_, None) => self.errors(prefix),
            // Upstream replaces the dash and what stands before it with one letter.
            (_, Some(kept)) => {
                let before = kept.char_indices().next_back().map_or(0, |(at, _)| at);
                self.errors(&format!("{}a", kept.get(..before).unwrap_or_default()))
            }
        }
    }
}

fn path_segment_errors(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => forbidden_in_path(name),
    }
}

fn forbidden_in_path(text: &str) -> Vec<String> {
    let found = ["/", "%"].into_iter().filter(|part| text.contains(part));
    found
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

fn label_errors(name: &str, unit: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > DNS1123_LABEL_MAX_LEN {
        errors.push(too_long(DNS1123_LABEL_MAX_LEN, unit));
    }
    if is_dns1123_label(name) {
        return errors;
    }
    if is_dns1123_subdomain(name) {
        errors.push("must not contain dots".to_owned());
    } else {
        errors.push(pattern_error(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
             or '-', and must start and end with an alphanumeric character",
            DNS1123_LABEL_PATTERN,
            &["my-name", "123-abc"],
        ));
    }
    errors
}

fn subdomain_errors(name: &str, unit: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > DNS1123_SUBDOMAIN_MAX_LEN {
        errors.push(too_long(DNS1123_SUBDOMAIN_MAX_LEN, unit));
    }
    if !is_dns1123_subdomain(name) {
        errors.push(pattern_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
             characters, '-' or '.', and must start and end with an alphanumeric character",
            &format!("{DNS1123_LABEL_PATTERN}(\\.{DNS1123_LABEL_PATTERN})*"),
            &["example.com"],
        ));
    }
    errors
}

/// A bad value as upstream shows it: in double quotes, with Go's escapes (`%q`).
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_ascii() || is_printable(c) => quoted.push(c),
            c if u32::from(c) <= 0xffff => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// Bad values as upstream shows a list of strings: JSON, with `null` for an empty list
/// (which is how an absent list arrives) and Go's extra escapes for HTML.
pub(crate) fn quoted_list(values: &[String]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    let values: Vec<String> = values.iter().map(|value| quoted_json(value)).collect();
    format!("[{}]", values.join(","))
}

/// A bad value as upstream shows the word of an enumeration: as a JSON string.
pub(crate) fn quoted_json(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// Several errors as upstream shows them together: each once, in brackets if there are
/// two or more (`k8s.io/apimachinery/pkg/util/errors`).
pub fn joined_errors(errors: &[String]) -> String {
    let mut unique: Vec<&str> = Vec::with_capacity(errors.len());
    let mut seen = std::collections::HashSet::new();
    unique.extend(
        errors
            .iter()
            .map(String::as_str)
            .filter(|error| seen.insert(*error)),
    );
    match unique.as_slice() {
        [error] => (*error).to_owned(),
        errors => format!("[{}]", errors.join(", ")),
    }
}

const EMPTY: &str = "must be non-empty";
const LABEL_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const DNS1123_LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

fn is_label_text(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    is_enclosed(text, |byte| byte.is_ascii_alphanumeric(), inner)
}

fn is_dns1123_label(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_enclosed(text, outer, |byte| outer(byte) || byte == b'-')
}

fn is_dns1123_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns1123_label)
}

/// Whether the text is not empty, starts and ends with `outer` and has `inner` between.
fn is_enclosed(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&byte| outer(byte))
        && bytes.last().is_some_and(|&byte| outer(byte))
        && bytes.iter().all(|&byte| inner(byte))
}

fn label_key_pattern_error() -> String {
    pattern_error(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
         with an alphanumeric character",
        LABEL_PATTERN,
        &["MyName", "my.name", "123-abc"],
    )
}

fn too_long(max_len: usize, unit: &str) -> String {
    format!("must be no more than {max_len} {unit}")
}

fn pattern_error(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples
        .iter()
        .map(|example| format!("'{example}', "))
        .collect();
    format!(
        "{rule} (e.g. {}regex used for validation is '{pattern}')",
        examples.join(" or ")
    )
}

/// Whether Go prints a character as it is. Rust's debug form of a character that is not
/// the first of its string escapes just what cannot be printed.
pub fn is_printable(c: char) -> bool {
    let text: String = ['a', c].iter().collect();
    text.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys() {
        for key in ["a", "A.b_c-d", "example.com/a", &"a".repeat(63)] {
            assert!(label_key_errors(key).is_empty(), "{key}");
        }
        for (key, count) in [("", 2), ("/a", 1), ("a/", 2), ("-a", 1), ("A.com/é", 2)] {
            assert_eq!(label_key_errors(key).len(), count, "{key}");
        }
        assert_eq!(label_key_errors("a/b/c").len(), 1);
        let long = "a".repeat(64);
        assert_eq!(
            label_key_errors(&long),
            ["name part must be no more than 63 bytes"]
        );
    }

    #[test]
    fn label_values() {
        for value in ["", "1", "my_value", &"a".repeat(63)] {
            assert!(label_value_errors(value).is_empty(), "{value}");
        }
        assert_eq!(label_value_errors(&"-".repeat(64)).len(), 2);
    }

    #[test]
    fn dns_names() {
        assert!(dns1123_label_errors("my-name").is_empty());
        assert_eq!(dns1123_label_errors("a.b"), ["must not contain dots"]);
        for name in ["", "A", "a-", "-", "a..b", "."] {
            assert_eq!(dns1123_label_errors(name).len(), 1, "{name}");
            assert_eq!(dns1123_subdomain_errors(name).len(), 1, "{name}");
        }
        assert!(dns1123_subdomain_errors("a.b-c.1").is_empty());
    }

    #[test]
    fn names_of_objects() {
        let long = "a".repeat(254);
        assert_eq!(
            NameRule::DnsSubdomain.errors(&long),
            ["must be no more than 253 characters"]
        );
        assert!(NameRule::DnsSubdomain.prefix_errors("web-").is_empty());
        assert_eq!(NameRule::DnsSubdomain.prefix_errors("-").len(), 1);
        assert_eq!(NameRule::DnsSubdomain.prefix_errors("Web-").len(), 1);
        assert_eq!(NameRule::PathSegment.errors(".."), ["may not be '..'"]);
        assert_eq!(
            NameRule::PathSegment.errors("a/b%"),
            ["may not contain '/'", "may not contain '%'"]
        );
    }

    #[test]
    fn quotes_as_go_does() {
        for (text, expected) in [
            ("é", r#""é""#),
            ("a\"\\\n\x00\x7f", r#""a\"\\\n\x00\x7f""#),
            ("\u{200b}\u{a0}", r#""\u200b\u00a0""#),
            ("e\u{301}😀'", "\"e\u{301}😀'\""),
            ("\u{10ffff}", r#""\U0010ffff""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
        assert_eq!(quoted_list(&["<\"&".to_owned()]), r#"["\u003c\"\u0026"]"#);
    }

    #[test]
    fn joins_each_error_once() {
        let errors = |errors: &[&str]| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(joined_errors(&errors(&["a", "a"])), "a");
        assert_eq!(joined_errors(&errors(&["a", "b", "a"])), "[a, b]");
    }
}
