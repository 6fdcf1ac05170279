//! Nodes, and what is said about running pods on them: leases, runtime classes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::BuiltIn;
use super::cell::{self, NONE, UNKNOWN, list, text};
use super::column::{AGE, NAME, text as texts};

pub(super) static NODES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts(
            "Status",
            "Whether the node is ready, and whether it takes new pods.",
        ),
        texts("Roles", "What the node is for, as its labels say."),
        AGE,
        texts("Version", "The version of the kubelet."),
        texts("Internal-IP", "The address of the node in the cluster.").wide(),
        texts("External-IP", "The address of the node from outside.").wide(),
        texts("OS-Image", "The operating system, as it calls itself.").wide(),
        texts(
            "Kernel-Version",
            "The version of the kernel, and the architecture.",
        )
        .wide(),
        texts(
            "Container-Runtime",
            "What runs containers, and its version.",
        )
        .wide(),
    ],
    node_cells,
);

pub(super) static LEASES: BuiltIn = BuiltIn::new(
    &[NAME, texts("Holder", "Who holds the lease."), AGE],
    lease_cells,
);

pub(super) static RUNTIME_CLASSES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts(
            "Handler",
            "How the container runtime calls the configuration.",
        ),
        AGE,
    ],
    runtime_class_cells,
);

fn node_cells(node: &Value, now_nanos: i64) -> Vec<Value> {
    let info = &node["status"]["nodeInfo"];
    let mut kernel = cell::text_or(&info["kernelVersion"], UNKNOWN).to_owned();
    let architecture = text(&info["architecture"]);
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    cells![
        cell::name(node),
        status(node),
        roles(node),
        cell::age(node, now_nanos),
        text(&info["kubeletVersion"]),
        address(node, "InternalIP"),
        address(node, "ExternalIP"),
        cell::text_or(&info["osImage"], UNKNOWN),
        kernel,
        cell::text_or(&info["containerRuntimeVersion"], UNKNOWN),
    ]
}

fn status(node: &Value) -> String {
    // If a condition is there twice, the last one counts.
    let mut conditions = list(&node["status"]["conditions"]).iter().rev();
    let ready = conditions.find(|condition| text(&condition["type"]) == "Ready");
    let status = match ready.map(|condition| text(&condition["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if cell::boolean(&node["spec"]["unschedulable"]) {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_owned()
    }
}

/// Roles by labels: `node-role.kubernetes.io/ROLE` with any value, and `kubernetes.io/role=ROLE`.
fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object();
    let role = |(key, value): (&'_ String, &'_ Value)| {
        let role = match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if key == "kubernetes.io/role" => text(value),
            None => "",
        };
        (!role.is_empty()).then(|| role.to_owned())
    };
    let roles: BTreeSet<String> = labels.into_iter().flatten().filter_map(role).collect();
    cell::or(&cell::joined(roles.iter().map(String::as_str)), NONE).to_owned()
}

/// The first address of a type.
fn address<'n>(node: &'n Value, type_: &str) -> &'n str {
    let mut addresses = list(&node["status"]["addresses"]).iter();
    let address = addresses.find(|address| text(&address["type"]) == type_);
    address.map_or(NONE, |address| text(&address["address"]))
}

fn lease_cells(lease: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(lease),
        text(&lease["spec"]["holderIdentity"]),
        cell::age(lease, now_nanos),
    ]
}

fn runtime_class_cells(class: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(class),
        text(&class["handler"]),
        cell::age(class, now_nanos),
    ]
}
