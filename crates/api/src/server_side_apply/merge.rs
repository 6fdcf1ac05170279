//! An applied configuration merged into an object.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::managed_fields::shape::{Elements, Form, Shape, unknown};

/// Puts a configuration on top of a value. What has one owner is replaced, fields and elements
/// are merged one by one. `null` on top of fields or elements means nothing.
pub(super) fn merge(shape: Shape<'_>, live: &mut Value, applied: Value) {
    match shape.form(if applied.is_null() { live } else { &applied }) {
        Form::Fields(fields) => match (&mut *live, applied) {
            (Value::Object(live), Value::Object(applied)) => merge_fields(fields, live, applied),
            (Value::Object(live), Value::Null) if !live.is_empty() => {}
            (live, applied) => *live = applied,
        },
        Form::Elements(elements) => match (&mut *live, applied) {
            (Value::Array(live), Value::Array(applied)) => {
                *live = merge_elements(elements, std::mem::take(live), applied);
            }
            (Value::Array(live), Value::Null) if !live.is_empty() => {}
            (live, applied) => *live = applied,
        },
        Form::Scalar(_) | Form::Whole(_) => *live = applied,
    }
}

fn merge_fields(shape: Shape<'_>, live: &mut Map<String, Value>, applied: Map<String, Value>) {
    for (name, value) in applied {
        match live.get_mut(&name) {
            Some(before) => merge(shape.field(&name).unwrap_or_else(unknown), before, value),
            None => {
                live.insert(name, value);
            }
        }
    }
}

/// Merges lists of elements. Those of the configuration come in its order. Those that only the
/// object has keep their place: before the next element in the object's order that both have,
/// as long as the two orders agree.
fn merge_elements(elements: Elements<'_>, live: Vec<Value>, applied: Vec<Value>) -> Vec<Value> {
    let identity = |element: &Value| elements.identity(element).unwrap_or_default();
    let identified = |list: Vec<Value>| -> Vec<(String, Value)> {
        let list = list.into_iter();
        list.map(|element| (identity(&element), element)).collect()
    };
    let (live, applied) = (identified(live), identified(applied));
    let in_applied: HashSet<&str> = applied.iter().map(|(id, _)| id.as_str()).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (id, _) in &live {
        *counts.entry(id).or_default() += 1;
    }
    let shared = applied.iter().map(|(id, _)| id.as_str());
    let shared: Vec<&str> = shared.filter(|id| counts.contains_key(id)).collect();
    let by_identity: HashMap<&str, &Value> = live
        .iter()
        .map(|(id, element)| (id.as_str(), element))
        .collect();

    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let mut rest = live.iter().peekable();
    let mut shared = shared.into_iter().peekable();
    for (id, element) in &applied {
        while let Some((before, value)) = rest.peek() {
            if shared.peek() == Some(&before.as_str()) {
                break;
            }
            if !in_applied.contains(before.as_str()) {
                merged.push(value.clone());
            }
            rest.next();
        }
        // What stands twice in the object is not merged, but replaced.
        let before = by_identity
            .get(id.as_str())
            .filter(|_| counts.get(id.as_str()) == Some(&1));
        merged.push(match before {
            Some(before) => {
                let mut before = (*before).clone();
                merge(elements.element, &mut before, element.clone());
                before
            }
            None => element.clone(),
        });
        if shared.peek() == Some(&id.as_str()) {
            shared.next();
            rest.next_if(|(before, _)| before == id);
        }
    }
    let others = rest.filter(|(before, _)| !in_applied.contains(before.as_str()));
    merged.extend(others.map(|(_, value)| value.clone()));
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(live: Value, applied: Value) -> Value {
        let mut merged = live;
        merge(Shape::Object("PodSpec"), &mut merged, applied);
        merged
    }

    fn names(live: &[&str], applied: &[&str]) -> Vec<String> {
        let list = |names: &[&str]| -> Vec<Value> {
            names.iter().map(|name| json!({"name": name})).collect()
        };
        let merged = merged(
            json!({"containers": list(live)}),
            json!({"containers": list(applied)}),
        );
        let containers = merged["containers"].as_array().cloned().unwrap_or_default();
        let names = containers.iter().filter_map(|it| it["name"].as_str());
        names.map(str::to_owned).collect()
    }

    #[test]
    fn lists_keep_the_order_of_the_configuration_and_the_place_of_others() {
        for (live, applied, expected) in [
            (&["a", "b"][..], &["a", "b"][..], &["a", "b"][..]),
            (&["a", "b"], &["b", "a"], &["b", "a"]),
            (&["a", "x", "b"], &["a", "b"], &["a", "x", "b"]),
            (&["x", "a"], &["n", "a"], &["x", "n", "a"]),
            (&["a", "b", "x"], &["b", "a", "n"], &["b", "x", "a", "n"]),
            (&["x"], &["a", "b"], &["x", "a", "b"]),
            (&["x", "y"], &[], &["x", "y"]),
        ] {
            assert_eq!(names(live, applied), expected, "{live:?} {applied:?}");
        }
    }

    #[test]
    fn nothing_on_top_of_something_changes_nothing() {
        let live = json!({"containers": [{"name": "a"}], "securityContext": {"runAsUser": 1},
                          "hostname": "h", "nodeSelector": {"a": "b"}});
        let kept = merged(
            live.clone(),
            json!({"containers": null, "securityContext": {}, "overhead": {}}),
        );
        assert_eq!(kept["containers"], live["containers"]);
        assert_eq!(kept["securityContext"], live["securityContext"]);
        assert_eq!(kept["overhead"], json!({}));
        // One value, one owner.
        let replaced = merged(live, json!({"hostname": null, "nodeSelector": {"c": "d"}}));
        assert_eq!(replaced["hostname"], Value::Null);
        assert_eq!(replaced["nodeSelector"], json!({"c": "d"}));
    }
}
