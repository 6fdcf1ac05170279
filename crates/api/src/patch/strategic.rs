//! Strategic merge patch: a merge patch that knows which lists are sets of things with names.
//!
//! A patch that names one container changes that one and leaves the others. Which lists have a
//! merge key stands in `schema/rules.txt`. Further there are directives:
//!
//! * `$patch: replace` in a map takes the map as it is, in an element of a list the list;
//!   `$patch: delete` empties a map, or takes out the element;
//! * `$retainKeys` names the only keys that stay;
//! * `$deleteFromPrimitiveList/LIST` names elements to take out;
//! * `$setElementOrder/LIST` names the order of elements.
//!
//! Source: `k8s.io/apimachinery/pkg/util/strategicpatch/patch.go`, Kubernetes 1.36.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::convert::go_text;
use crate::schema::{self, Field, FieldType};
use crate::status::Status;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ORDER: &str = "$setElementOrder";

type Fields = Map<String, Value>;

/// The object with the patch merged into it.
///
/// # Errors
///
/// If a directive or a merged list is not of its form.
pub(super) fn merge(type_name: &str, live: &Value, patch: Fields) -> Result<Fields, Status> {
    let live = live.as_object().cloned().unwrap_or_default();
    merge_maps(Some(type_name), live, patch)
}

fn merge_maps(
    type_name: Option<&str>,
    mut live: Fields,
    mut patch: Fields,
) -> Result<Fields, Status> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(directive) if directive == "replace" => return Ok(patch),
        Some(directive) if directive == "delete" => return Ok(Fields::new()),
        Some(directive) => return Err(unknown_directive(&directive, &patch)),
    }
    retain_keys(&mut live, &mut patch)?;
    let mut orders = Vec::new();
    for (key, value) in patch {
        if let Some(list) = directive_target(&key, ORDER) {
            orders.push((list?.to_owned(), value));
        } else if let Some(list) = directive_target(&key, DELETE_FROM) {
            delete_from(&mut live, list?, &value)?;
        } else if value.is_null() {
            live.remove(&key);
        } else {
            let merged = match live.remove(&key) {
                Some(before) => merge_values(field_of(type_name, &key), before, value)?,
                None => without_directives(value),
            };
            live.extend(merged.map(|merged| (key, merged)));
        }
    }
    for (list, order) in orders {
        let key = field_of(type_name, &list).and_then(|field| field.merge_key);
        set_order(live.get_mut(&list), &order, key)?;
    }
    Ok(live)
}

fn field_of(type_name: Option<&str>, name: &str) -> Option<&'static Field> {
    schema::field(type_name?, name)
}

/// The list that a directive is about, if it is this directive.
fn directive_target<'k>(key: &'k str, directive: &str) -> Option<Result<&'k str, Status>> {
    let rest = key.strip_prefix(directive)?;
    Some(match rest.strip_prefix('/') {
        Some(list) => Ok(list),
        None if directive == ORDER => Err(Status::bad_request(
            "invalid patch format of setElementOrder list",
        )),
        None => Err(Status::bad_request(
            "invalid patch format of primitive list",
        )),
    })
}

fn merge_values(
    field: Option<&'static Field>,
    live: Value,
    patch: Value,
) -> Result<Option<Value>, Status> {
    let inner = field.and_then(|field| match &field.field_type {
        FieldType::List(element) => element.object(),
        other => other.object(),
    });
    match (live, patch) {
        (Value::Object(live), Value::Object(patch)) => {
            merge_maps(inner, live, patch).map(|merged| Some(Value::Object(merged)))
        }
        (Value::Array(live), Value::Array(patch)) => {
            let merges_scalars = field.is_some_and(|field| field.merges_scalars);
            match field.and_then(|field| field.merge_key) {
                Some(key) => merge_lists(inner, key, live, patch).map(Some),
                None if merges_scalars => Ok(Some(merge_scalars(live, patch))),
                None => Ok(Some(Value::Array(patch))),
            }
        }
        (_, patch) => Ok(without_directives(patch)),
    }
}

/// Keeps of the object what the patch retains.
fn retain_keys(live: &mut Fields, patch: &mut Fields) -> Result<(), Status> {
    let wrong = || Status::bad_request("invalid patch format of retainKeys");
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = keys.as_array().ok_or_else(wrong)?;
    let keeps = |key: &String| keys.iter().any(|kept| kept == key);
    let must_be_kept = |(key, value): (&String, &Value)| {
        !(value.is_null() || key.starts_with(DELETE_FROM) || key.starts_with(ORDER))
    };
    if patch
        .iter()
        .any(|entry| must_be_kept(entry) && !keeps(entry.0))
    {
        return Err(wrong());
    }
    live.retain(|key, _| keeps(key));
    Ok(())
}

fn delete_from(live: &mut Fields, list: &str, deleted: &Value) -> Result<(), Status> {
    let wrong = || Status::bad_request("invalid patch format of primitive list");
    let deleted = deleted.as_array().ok_or_else(wrong)?;
    let deleted: HashSet<String> = deleted.iter().map(Value::to_string).collect();
    if let Some(Value::Array(elements)) = live.get_mut(list) {
        elements.retain(|element| !deleted.contains(&element.to_string()));
    }
    Ok(())
}

/// A new value: nothing in it is `null` or a directive; `None` if it is a deletion.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            let kept = kept.filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(elements) => Some(
            elements
                .into_iter()
                .filter_map(without_directives)
                .collect(),
        ),
        other => Some(other),
    }
}

fn merge_scalars(live: Vec<Value>, patch: Vec<Value>) -> Value {
    let order = patch.clone();
    let mut merged = live.clone();
    let mut seen: HashSet<String> = live.iter().map(Value::to_string).collect();
    for element in patch {
        if seen.insert(element.to_string()) {
            merged.push(element);
        }
    }
    in_order(merged, &live, &order, None).into()
}

/// Merges lists of maps that are told apart by a key.
fn merge_lists(
    element: Option<&str>,
    key: &str,
    live: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Value, Status> {
    let mut merged = live.clone();
    let mut changes = Vec::new();
    let mut deleted = HashSet::new();
    let mut replaces = false;
    for change in patch {
        let Value::Object(mut fields) = change else {
            let message = format!("expected a map, but received a {}", go_text(&change));
            return Err(Status::unknown_error(message));
        };
        match fields.remove(DIRECTIVE) {
            None => changes.push(fields),
            Some(directive) if directive == "replace" => replaces = true,
            Some(directive) if directive == "delete" => {
                deleted.insert(key_of(&fields, key)?.to_string());
            }
            Some(directive) => return Err(unknown_directive(&directive, &fields)),
        }
    }
    if replaces {
        return Ok(changes.into_iter().map(Value::Object).collect());
    }
    merged.retain(|element| identity(element, Some(key)).is_none_or(|it| !deleted.contains(&it)));
    let order: Vec<Value> = changes.iter().cloned().map(Value::Object).collect();
    let mut places = places(&merged, Some(key));
    for change in changes {
        let identity = Some(key_of(&change, key)?.to_string());
        let found = places.get(&identity).and_then(|at| merged.get_mut(*at));
        match found {
            Some(Value::Object(before)) => {
                *before = merge_maps(element, std::mem::take(before), change)?;
            }
            _ => {
                if let Some(new) = without_directives(Value::Object(change)) {
                    places.entry(identity).or_insert(merged.len());
                    merged.push(new);
                }
            }
        }
    }
    Ok(in_order(merged, &live, &order, Some(key)).into())
}

fn key_of(fields: &Fields, key: &str) -> Result<Value, Status> {
    fields.get(key).cloned().ok_or_else(|| {
        let map = go_text(&Value::Object(fields.clone()));
        Status::unknown_error(format!(
            "map: {map} does not contain declared merge key: {key}"
        ))
    })
}

fn set_order(list: Option<&mut Value>, order: &Value, key: Option<&str>) -> Result<(), Status> {
    let wrong = || Status::bad_request("invalid patch format of setElementOrder list");
    let order = order.as_array().ok_or_else(wrong)?;
    if let Some(Value::Array(elements)) = list {
        let before = std::mem::take(elements);
        *elements = in_order(before.clone(), &before, order, key);
    }
    Ok(())
}

/// Elements that the patch names come in its order; others keep theirs, and go before one of
/// the patch only if they stood before it.
fn in_order(merged: Vec<Value>, live: &[Value], order: &[Value], key: Option<&str>) -> Vec<Value> {
    let of_order = places(order, key);
    let of_live = places(live, key);
    let placed = merged.into_iter().map(|element| {
        let identity = identity(&element, key);
        let places = (of_order.get(&identity), of_live.get(&identity));
        (places.0.copied(), places.1.copied(), element)
    });
    // Place in the patch, place in the object as it was, and the element.
    type Placed = (Option<usize>, Option<usize>, Value);
    let (mut named, others): (Vec<Placed>, Vec<Placed>) = placed.partition(|it| it.0.is_some());
    named.sort_by_key(|it| it.0);
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let takes_other = match (others.peek(), named.peek()) {
            (None, None) => return sorted,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(named)) => {
                matches!((other.1, named.1), (Some(a), Some(b)) if a < b)
            }
        };
        let next = if takes_other {
            others.next()
        } else {
            named.next()
        };
        sorted.extend(next.map(|it| it.2));
    }
}

/// By what an element is known: its key, or itself; `None` if it has no key.
fn identity(element: &Value, key: Option<&str>) -> Option<String> {
    match key {
        Some(key) => element.get(key).map(Value::to_string),
        None => Some(element.to_string()),
    }
}

/// Where elements stand first.
fn places(list: &[Value], key: Option<&str>) -> HashMap<Option<String>, usize> {
    let mut places = HashMap::with_capacity(list.len());
    for (index, element) in list.iter().enumerate() {
        places.entry(identity(element, key)).or_insert(index);
    }
    places
}

fn unknown_directive(directive: &Value, map: &Fields) -> Status {
    let mut map = map.clone();
    map.insert(DIRECTIVE.to_owned(), directive.clone());
    Status::unknown_error(format!(
        "unknown patch type: {} in map: {}",
        go_text(directive),
        go_text(&Value::Object(map))
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(live: Value, patch: Value) -> Value {
        let patch = patch.as_object().cloned().expect("a map");
        Value::Object(merge("PodSpec", &live, patch).expect("merged"))
    }

    fn names(spec: &Value) -> Vec<&str> {
        let list = spec["containers"].as_array().expect("a list").iter();
        list.filter_map(|it| it["name"].as_str()).collect()
    }

    fn spec() -> Value {
        json!({"containers": [
            {"name": "a", "image": "i"},
            {"name": "b", "image": "i", "ports": [{"containerPort": 80}]},
        ], "nodeSelector": {"x": "1", "y": "1"}})
    }

    #[test]
    fn lists_are_merged_by_key() {
        let spec = merged(
            spec(),
            json!({"containers": [{"name": "c", "image": null}, {"name": "b", "image": "j"}]}),
        );
        assert_eq!(names(&spec), ["c", "a", "b"]);
        assert_eq!(spec["containers"][0], json!({"name": "c"}));
        assert_eq!(spec["containers"][2]["image"], "j");
        assert_eq!(spec["containers"][2]["ports"][0]["containerPort"], 80);
    }

    #[test]
    fn long_lists_take_no_more_than_their_time() {
        let list = |from: usize| -> Vec<Value> {
            let numbers = from..from + 100_000;
            numbers
                .map(|it| json!({"name": format!("c{it}")}))
                .collect()
        };
        // Compared each with each, they would take minutes.
        let spec = merged(
            json!({"containers": list(0)}),
            json!({"containers": list(50_000), "$setElementOrder/containers": list(50_000)}),
        );
        assert_eq!(names(&spec).len(), 150_000);
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let deleted = merged(
            spec(),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
        );
        assert_eq!(names(&deleted), ["b"]);
        let replaced = merged(
            spec(),
            json!({"containers": [{"name": "z"}, {"$patch": "replace"}],
                   "nodeSelector": {"$patch": "replace", "z": "1"}}),
        );
        assert_eq!(names(&replaced), ["z"]);
        assert_eq!(replaced["nodeSelector"], json!({"z": "1"}));
        let ordered = merged(
            spec(),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        );
        assert_eq!(names(&ordered), ["b", "a"]);
        let retained = merged(
            spec(),
            json!({"nodeSelector": {"$retainKeys": ["x", "z"], "z": "2"}}),
        );
        assert_eq!(retained["nodeSelector"], json!({"x": "1", "z": "2"}));
    }

    #[test]
    fn a_directive_that_does_not_exist_is_an_error() {
        let patch = json!({"$patch": "burn"});
        let patch = patch.as_object().cloned().expect("a map");
        let refused = merge("PodSpec", &spec(), patch).expect_err("refused");
        assert_eq!(
            refused.message,
            "unknown patch type: burn in map: map[$patch:burn]"
        );
    }
}
