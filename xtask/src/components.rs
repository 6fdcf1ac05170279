//! Recorded answers of Kubernetes' parts, held against ours; a file for each part.
//!
//! A record is `{"id", "op", "input", "expected"}`. For each operation the answer is
//! computed anew, in the recorded form, and compared field by field.

mod api;
mod kubelet;
mod priority;
mod protobuf;
mod quota;
mod taint_eviction;
mod validation;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Answers an operation of a topic, if it is one of its own.
type Part = fn(&str, &str, &Value) -> Option<Result<Value, String>>;

/// The parts. Each answers the operations of its topics.
const PARTS: &[Part] = &[
    api::answer,
    kubelet::answer,
    priority::answer,
    protobuf::answer,
    quota::answer,
    taint_eviction::answer,
    validation::answer,
];

/// Holds a record of a topic against our answer. `None` if the topic is not served here, or not
/// this operation; an error is the difference, for people.
pub(crate) fn check(topic: &str, record: &Value) -> Option<Result<(), String>> {
    let op = record["op"].as_str().unwrap_or_default();
    let mut answers = PARTS.iter();
    let answer = answers.find_map(|answer| answer(topic, op, &record["input"]))?;
    Some(answer.and_then(|answer| compare(&record["expected"], &answer)))
}

/// A field of the input, `null` if it is absent.
fn field<T: DeserializeOwned>(input: &Value, name: &str) -> Result<T, String> {
    let value = input.get(name).cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|error| format!("input `{name}`: {error}"))
}

/// Compares two objects field by field; `null`, an empty list or map, and no field at all
/// are the same.
fn compare(expected: &Value, answer: &Value) -> Result<(), String> {
    let empty = serde_json::Map::new();
    let expected = expected.as_object().unwrap_or(&empty);
    let answer = answer.as_object().unwrap_or(&empty);
    let mut names: Vec<&String> = expected.keys().chain(answer.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let present = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Value::Null,
        Some(Value::Array(list)) if list.is_empty() => Value::Null,
        Some(Value::Object(map)) if map.is_empty() => Value::Null,
        Some(value) => value.clone(),
    };
    let differences = names.into_iter().filter_map(|name| {
        let (expected, answer) = (present(expected.get(name)), present(answer.get(name)));
        (expected != answer).then(|| format!("{name}: expected {expected}, got {answer}"))
    });
    let differences: Vec<String> = differences.collect();
    if differences.is_empty() {
        Ok(())
    } else {
        Err(differences.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_difference_is_found() {
        let record = json!({
            "op": "tolerates",
            "input": { "taint": { "key": "a" }, "toleration": { "operator": "Exists" } },
            "expected": { "tolerates": false },
        });
        let difference = super::check("taints", &record).unwrap().unwrap_err();
        assert!(
            difference.contains("tolerates: expected false, got true"),
            "{difference}"
        );
        assert!(super::check("nonsense", &record).is_none());
    }
}
