//! Descriptions of types and fields, in our own words (`descriptions.txt`).

use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("descriptions.txt");

static DESCRIPTIONS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// What is said of a type.
pub(super) fn of_type(type_name: &str) -> Option<&'static str> {
    DESCRIPTIONS.get(type_name).copied()
}

/// What is said of a field of a type.
pub(super) fn of_field(type_name: &str, field: &str) -> Option<&'static str> {
    of_type(&format!("{type_name}.{field}"))
}

/// What is said of a field that all objects have, such as `kind`; empty for others.
pub(super) fn of_any_object(field: &str) -> &'static str {
    of_field("*", field).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use outrank_api::schema;

    use super::*;

    #[test]
    fn every_line_describes_something_that_there_is() {
        let mut seen = BTreeSet::new();
        for line in TABLE
            .lines()
            .filter(|it| !it.is_empty() && !it.starts_with('#'))
        {
            let (key, text) = line.split_once(' ').unwrap();
            assert!(seen.insert(key), "{key} twice");
            assert!(text.ends_with('.'), "{key}: {text}");
            let is_type = !schema::fields(key).is_empty();
            let is_field = key.rsplit_once('.').is_some_and(|(type_name, field)| {
                let fields = schema::fields(type_name);
                type_name == "*" || fields.iter().any(|(name, _)| *name == field)
            });
            assert!(is_type || is_field, "{key}");
        }
    }
}
