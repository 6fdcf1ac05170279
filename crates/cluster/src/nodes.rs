//! Nodes that are made when a cluster begins.

use serde_json::{Value, json};

/// What a simulated node has if nobody says.
const CAPACITY: [(&str, &str); 4] = [
    ("cpu", "8"),
    ("memory", "32Gi"),
    ("ephemeral-storage", "100Gi"),
    ("pods", "110"),
];

/// A node for which its kubelet speaks from now on. `template` is a Node whose metadata, spec and
/// status it takes over; what it leaves out a kubelet would say, or is [`CAPACITY`].
pub fn node(name: &str, template: Option<&Value>) -> Value {
    let mut node = template.cloned().unwrap_or_else(|| json!({}));
    node["apiVersion"] = json!("v1");
    node["kind"] = json!("Node");
    for part in ["metadata", "spec", "status"] {
        if !node[part].is_object() {
            node[part] = json!({});
        }
    }
    node["metadata"]["name"] = name.into();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ] {
        if let Value::Object(metadata) = &mut node["metadata"] {
            metadata.remove(field);
        }
    }
    let labels = &mut node["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    labels["kubernetes.io/hostname"] = name.into();
    for (label, value) in [
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ] {
        if labels[label].is_null() {
            labels[label] = value.into();
        }
    }
    let status = &mut node["status"];
    if !status["capacity"].is_object() {
        status["capacity"] = match status["allocatable"].is_object() {
            true => status["allocatable"].clone(),
            false => json!({}),
        };
    }
    for (resource, amount) in CAPACITY {
        if status["capacity"][resource].is_null() {
            status["capacity"][resource] = amount.into();
        }
    }
    if !status["allocatable"].is_object() {
        status["allocatable"] = status["capacity"].clone();
    }
    for (resource, _) in CAPACITY {
        if status["allocatable"][resource].is_null() {
            status["allocatable"][resource] = status["capacity"][resource].clone();
        }
    }
    node
}

/// Names `node-1`, `node-2`, ...
pub fn names(count: u32) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("node-{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_completed() {
        let template = json!({"metadata": {"name": "x", "labels": {"gpu": "yes"}},
            "status": {"capacity": {"cpu": "64", "nvidia.com/gpu": "8"}}});
        let node = node("node-1", Some(&template));
        assert_eq!(node["metadata"]["name"], "node-1");
        assert_eq!(node["metadata"]["labels"]["gpu"], "yes");
        assert_eq!(
            node["metadata"]["labels"]["kubernetes.io/hostname"],
            "node-1"
        );
        assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "8");
        assert_eq!(node["status"]["allocatable"]["memory"], "32Gi");
    }
}
