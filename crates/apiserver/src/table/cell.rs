//! What is read of objects, whatever they are, and how it is written into a cell.
//!
//! A field that is absent or of another type than it should be reads as Go's zero of its type:
//! nothing here fails. Fields are reached by indexing, which gives null for what is not there.

use outrank_api::labels::Selector;
use outrank_api::quantity::Quantity;
use outrank_api::types::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::age;

/// What stands for nothing in most columns.
pub(super) const NONE: &str = "<none>";
/// What stands for nothing in columns of settings.
pub(super) const UNSET: &str = "<unset>";
/// What stands for something that nobody knows.
pub(super) const UNKNOWN: &str = "<unknown>";

/// A text; empty if there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text, or what stands for an absent or empty one.
pub(super) fn text_or<'v>(value: &'v Value, otherwise: &'v str) -> &'v str {
    or(text(value), otherwise)
}

/// A text, or what stands for an absent one; the empty text is one.
pub(super) fn present_or<'v>(value: &'v Value, otherwise: &'v str) -> &'v str {
    value.as_str().unwrap_or(otherwise)
}

/// A text, or what stands for an empty one.
pub(super) fn or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

/// An integer; 0 if there is none.
pub(super) fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// A boolean; false if there is none.
pub(super) fn boolean(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

/// A list; empty if there is none.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The number of elements of a list or fields of an object; 0 if it is neither.
pub(super) fn count(value: &Value) -> i64 {
    let count = match value {
        Value::Array(list) => list.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// How long ago an object was created.
pub(super) fn age(object: &Value, now_nanos: i64) -> String {
    age::since(&object["metadata"]["creationTimestamp"], now_nanos)
}

/// Whether somebody has asked for an object to be deleted.
pub(super) fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether an annotation of an object says `true`.
pub(super) fn has_true_annotation(object: &Value, annotation: &str) -> bool {
    text(&object["metadata"]["annotations"][annotation]) == "true"
}

/// The first condition of a type in a list of conditions.
pub(super) fn condition<'v>(conditions: &'v Value, type_: &str) -> Option<&'v Value> {
    let mut all = list(conditions).iter();
    all.find(|condition| text(&condition["type"]) == type_)
}

/// Whether the first condition of a type is true.
pub(super) fn is_true(conditions: &Value, type_: &str) -> bool {
    condition(conditions, type_).is_some_and(|it| text(&it["status"]) == "True")
}

/// A quantity in its canonical form; `0` if there is none.
pub(super) fn quantity(value: &Value) -> String {
    match Quantity::deserialize(value) {
        Ok(quantity) => quantity.to_string(),
        Err(_) => text_or(value, "0").to_owned(),
    }
}

/// Labels as `-l` takes them, `<none>` if there are none.
pub(super) fn labels(value: &Value) -> String {
    let labels = value.as_object().into_iter().flatten();
    let mut labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    // Upstream orders the pairs, not the keys (`labels.Set.String`).
    labels.sort_unstable();
    or(&labels.join(","), NONE).to_owned()
}

/// A label selector as `-l` takes it; empty if it selects all or nothing; `None` if it is none.
pub(super) fn selector_text(value: &Value) -> Option<String> {
    let selector = Option::<LabelSelector>::deserialize(value).ok()?;
    let selector = Selector::from_label_selector(selector.as_ref()).ok()?;
    Some(selector.to_string())
}

/// A label selector as most columns show it.
pub(super) fn selector(value: &Value) -> String {
    match selector_text(value) {
        Some(text) => or(&text, NONE).to_owned(),
        None => "<error>".to_owned(),
    }
}

/// The names of the containers of a pod's spec.
pub(super) fn container_names(pod_spec: &Value) -> String {
    joined(
        list(&pod_spec["containers"])
            .iter()
            .map(|it| text(&it["name"])),
    )
}

/// The images of the containers of a pod's spec.
pub(super) fn container_images(pod_spec: &Value) -> String {
    joined(
        list(&pod_spec["containers"])
            .iter()
            .map(|it| text(&it["image"])),
    )
}

/// All elements with commas.
pub(super) fn joined<'t>(elements: impl Iterator<Item = &'t str>) -> String {
    elements.collect::<Vec<_>>().join(",")
}

/// The first elements of `count` with commas, and how many more there are. Looks at no more of
/// them than it shows.
pub(super) fn first_of<T: AsRef<str>>(
    max: usize,
    count: usize,
    elements: impl Iterator<Item = T>,
) -> String {
    let mut text = String::new();
    for (i, element) in elements.take(max).enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(element.as_ref());
    }
    match count.saturating_sub(max) {
        0 => text,
        more => format!("{text} + {more} more..."),
    }
}
