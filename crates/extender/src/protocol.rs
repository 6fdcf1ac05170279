//! What is said between scheduler and extender, as JSON.
//!
//! Requests have the field names of the Go types, answers are read as Go reads them: field
//! names in upper or lower case, `null` as nothing, whatever follows the first value left
//! out. Source: `kube-scheduler/extender/v1/types.go`, Kubernetes 1.36.

use std::collections::BTreeMap;

use outrank_api::types::{Node, Pod};
use outrank_engine::extender::{ExtenderFilterResult, MetaVictims, NodeVictims};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A pod and the nodes that are asked about: objects, or names for those who know the nodes.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ExtenderArgs<'a> {
    pod: &'a Pod,
    nodes: Option<NodeList<'a>>,
    node_names: Option<Vec<&'a str>>,
}

#[derive(Serialize)]
struct NodeList<'a> {
    metadata: Value,
    items: &'a [&'a Node],
}

impl<'a> ExtenderArgs<'a> {
    pub(crate) fn new(pod: &'a Pod, nodes: &'a [&'a Node], names_only: bool) -> Self {
        let names = nodes.iter().map(|node| &*node.metadata.name);
        Self {
            pod,
            nodes: (!names_only).then(|| NodeList {
                metadata: json!({}),
                items: nodes,
            }),
            node_names: names_only.then(|| names.collect()),
        }
    }
}

/// A pod and the node that it is to be bound to.
#[derive(Serialize)]
pub(crate) struct ExtenderBindingArgs<'a> {
    #[serde(rename = "PodName")]
    pub(crate) pod_name: &'a str,
    #[serde(rename = "PodNamespace")]
    pub(crate) pod_namespace: &'a str,
    #[serde(rename = "PodUID")]
    pub(crate) pod_uid: &'a str,
    #[serde(rename = "Node")]
    pub(crate) node: &'a str,
}

/// The pods that would have to go from a node.
#[derive(Serialize)]
struct Victims<'a> {
    #[serde(rename = "Pods")]
    pods: &'a [&'a Pod],
    #[serde(rename = "NumPDBViolations")]
    num_pdb_violations: i64,
}

/// A pod and the nodes on which room could be made for it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ExtenderPreemptionArgs<'a> {
    pod: &'a Pod,
    node_name_to_victims: Option<BTreeMap<&'a str, Victims<'a>>>,
    node_name_to_meta_victims: Option<BTreeMap<&'a str, Value>>,
}

impl<'a> ExtenderPreemptionArgs<'a> {
    pub(crate) fn new(
        pod: &'a Pod,
        victims: &'a BTreeMap<String, NodeVictims<'a>>,
        names_only: bool,
    ) -> Self {
        let in_full = victims.iter().map(|(node, victims)| {
            let shown = Victims {
                pods: &victims.pods,
                num_pdb_violations: victims.num_pdb_violations,
            };
            (&**node, shown)
        });
        let by_uid = victims.iter().map(|(node, victims)| {
            let pods = victims.pods.iter();
            let pods: Vec<Value> = pods.map(|pod| json!({"UID": pod.metadata.uid})).collect();
            let count = victims.num_pdb_violations;
            (&**node, json!({"Pods": pods, "NumPDBViolations": count}))
        });
        Self {
            pod,
            node_name_to_victims: (!names_only).then(|| in_full.collect()),
            node_name_to_meta_victims: names_only.then(|| by_uid.collect()),
        }
    }
}

/// The first JSON value of an answer.
pub(crate) fn first_value(bytes: &[u8]) -> Result<Value, String> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    match values.next() {
        None => Err("the answer is empty, JSON was expected".to_owned()),
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(format!("the answer is not JSON: {error}")),
    }
}

/// Reads the answer to a filter call. An error that the extender tells is an error.
pub(crate) fn filter_result(
    answer: &Value,
    names_only: bool,
) -> Result<ExtenderFilterResult, String> {
    let fields = Fields::of(answer, "ExtenderFilterResult")?;
    told_error(&fields)?;
    let names = fields.list("NodeNames")?;
    let nodes = match (names, fields.object("Nodes")?) {
        (Some(names), _) if names_only => names
            .iter()
            .map(|name| text(name, "NodeNames"))
            .collect::<Result<_, _>>()?,
        (_, Some(list)) => {
            let items = list.list("items")?.unwrap_or_default();
            items.iter().map(node_name).collect::<Result<_, _>>()?
        }
        _ => Vec::new(),
    };
    Ok(ExtenderFilterResult {
        nodes,
        failed: fields.texts("FailedNodes")?,
        failed_and_unresolvable: fields.texts("FailedAndUnresolvableNodes")?,
    })
}

fn node_name(node: &Value) -> Result<String, String> {
    let node = Fields::of(node, "Nodes.items")?;
    let Some(metadata) = node.object("metadata")? else {
        return Ok(String::new());
    };
    Ok(metadata.text("name")?.unwrap_or_default())
}

/// Reads the answer to a prioritize call: node names and their scores.
pub(crate) fn host_priorities(answer: &Value) -> Result<Vec<(String, i64)>, String> {
    let list = match answer {
        Value::Null => &[][..],
        Value::Array(list) => list,
        _ => return Err(unexpected("a list", answer, "HostPriorityList")),
    };
    let read = |value| {
        let fields = Fields::of(value, "HostPriority")?;
        let host = fields.text("Host")?.unwrap_or_default();
        Ok((host, fields.integer("Score")?))
    };
    list.iter().map(read).collect()
}

/// Reads the answer to a bind call.
pub(crate) fn binding_result(answer: &Value) -> Result<(), String> {
    told_error(&Fields::of(answer, "ExtenderBindingResult")?)
}

/// Reads the answer to a preempt call.
pub(crate) fn preemption_result(answer: &Value) -> Result<BTreeMap<String, MetaVictims>, String> {
    let fields = Fields::of(answer, "ExtenderPreemptionResult")?;
    let Some(nodes) = fields.object("NodeNameToMetaVictims")? else {
        return Ok(BTreeMap::new());
    };
    let read = |(node, value): (&String, &Value)| {
        let victims = Fields::of(value, "MetaVictims")?;
        let pods = victims.list("Pods")?.unwrap_or_default();
        let uid = |pod| {
            let pod = Fields::of(pod, "MetaPod")?;
            Ok(pod.text("UID")?.unwrap_or_default())
        };
        let victims = MetaVictims {
            pod_uids: pods.iter().map(uid).collect::<Result<_, String>>()?,
            num_pdb_violations: victims.integer("NumPDBViolations")?,
        };
        Ok((node.clone(), victims))
    };
    nodes.map.into_iter().flatten().map(read).collect()
}

fn told_error(fields: &Fields<'_>) -> Result<(), String> {
    match fields.text("Error")? {
        Some(error) if !error.is_empty() => Err(error),
        _ => Ok(()),
    }
}

/// The fields of an object, found as Go finds them.
struct Fields<'v> {
    /// `None` if it is `null`.
    map: Option<&'v Map<String, Value>>,
    what: &'static str,
}

impl<'v> Fields<'v> {
    fn of(value: &'v Value, what: &'static str) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self { map: None, what }),
            Value::Object(map) => Ok(Self {
                map: Some(map),
                what,
            }),
            _ => Err(unexpected("an object", value, what)),
        }
    }

    /// A field that is there and not `null`. An exact name comes before one in another case.
    fn find(&self, name: &str) -> Option<&'v Value> {
        let map = self.map?;
        let loosely = || {
            let mut fields = map.iter();
            fields.find(|(key, _)| key.eq_ignore_ascii_case(name))
        };
        let value = map.get(name).or_else(|| loosely().map(|(_, value)| value));
        value.filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        let value = self.find(name);
        value.map(|value| text(value, self.what)).transpose()
    }

    fn integer(&self, name: &str) -> Result<i64, String> {
        let Some(value) = self.find(name) else {
            return Ok(0);
        };
        let integer = value.as_i64();
        integer.ok_or_else(|| unexpected("an integer of 64 bits", value, self.what))
    }

    fn list(&self, name: &str) -> Result<Option<&'v [Value]>, String> {
        match self.find(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(value) => Err(unexpected("a list", value, self.what)),
        }
    }

    fn object(&self, name: &str) -> Result<Option<Fields<'v>>, String> {
        let value = self.find(name);
        value.map(|value| Fields::of(value, self.what)).transpose()
    }

    /// A map of texts.
    fn texts(&self, name: &str) -> Result<BTreeMap<String, String>, String> {
        let Some(object) = self.object(name)? else {
            return Ok(BTreeMap::new());
        };
        let fields = object.map.into_iter().flatten();
        let texts = fields.map(|(key, value)| {
            let value = if value.is_null() {
                String::new()
            } else {
                text(value, self.what)?
            };
            Ok((key.clone(), value))
        });
        texts.collect()
    }
}

fn text(value: &Value, what: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        _ => Err(unexpected("a string", value, what)),
    }
}

/// What was found is told in short: it may be anything.
fn unexpected(expected: &str, found: &Value, what: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let mut found = found.to_string();
    if let Some((end, _)) = found.char_indices().nth(SHOWN_CHARS) {
        found.truncate(end);
        found.push_str("...");
    }
    format!("the answer is not a {what}: expected {expected}, found {found}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_gos_names() {
        let (pod, node) = (Pod::default(), Node::default());
        let nodes = [&node];
        let names = |args: ExtenderArgs<'_>| {
            let args = serde_json::to_value(args).expect("JSON");
            let null = |name: &str| args[name].is_null();
            assert!(args["Pod"].is_object());
            (null("Nodes"), null("NodeNames"))
        };
        assert_eq!(names(ExtenderArgs::new(&pod, &nodes, false)), (false, true));
        assert_eq!(names(ExtenderArgs::new(&pod, &nodes, true)), (true, false));
    }

    #[test]
    fn answers_are_read_as_go_reads_them() {
        let answer = first_value(br#"{"nodenames": ["a"], "FAILEDNODES": {"b": null}} rest"#);
        let result = filter_result(&answer.expect("JSON"), true).expect("a result");
        assert_eq!(result.nodes, ["a"]);
        assert_eq!(result.failed["b"], "");
        // Who knows the nodes may answer with objects all the same.
        let answer = json!({"Nodes": {"items": [{"metadata": {"name": "a"}}, {}]}});
        for names_only in [true, false] {
            let result = filter_result(&answer, names_only).expect("a result");
            assert_eq!(result.nodes, ["a", ""]);
        }
        let nothing = filter_result(&Value::Null, true).expect("a result");
        assert_eq!(nothing, ExtenderFilterResult::default());
        assert_eq!(host_priorities(&Value::Null), Ok(Vec::new()));
        assert_eq!(
            host_priorities(&json!([{"host": "a", "score": 7}, {"Host": "b"}])),
            Ok(vec![("a".to_owned(), 7), ("b".to_owned(), 0)])
        );
    }

    #[test]
    fn wrong_answers_are_named() {
        for (answer, error) in [
            (json!([]), "expected an object, found []"),
            (json!({"NodeNames": "a"}), "expected a list, found \"a\""),
            (json!({"NodeNames": [1]}), "expected a string, found 1"),
            (json!({"Nodes": {"items": 1}}), "expected a list, found 1"),
            (
                json!({"FailedNodes": {"a": 1}}),
                "expected a string, found 1",
            ),
        ] {
            let told = filter_result(&answer, true).expect_err("wrong");
            let expected = "the answer is not a ";
            assert!(
                told.starts_with(expected) && told.ends_with(error),
                "{told}"
            );
        }
        let told = host_priorities(&json!([{"Score": 0.5}])).expect_err("wrong");
        assert_eq!(
            told,
            "the answer is not a HostPriority: expected an integer of 64 bits, found 0.5"
        );
        assert_eq!(
            filter_result(&json!({"Error": "no"}), true),
            Err("no".into())
        );
        assert!(first_value(b"").is_err());
        assert!(first_value(b"<html>").is_err());
        let long = host_priorities(&"x".repeat(1000).into()).expect_err("wrong");
        assert!(long.len() < 150, "{long}");
        // Deeper than the stack would allow.
        assert!(first_value("[".repeat(100_000).as_bytes()).is_err());
    }
}
