//! What a kubelet says of its node, and when.
//!
//! A kubelet tells that it is alive in two ways. It renews a *lease* every 10 s: a tiny
//! object, since thousands of nodes do it. And it writes the node's *status* when something
//! in it changed, and every 5 minutes if nothing did. When neither comes for 50 s the node
//! lifecycle controller (not here) makes the conditions Unknown and taints the node.
//!
//! What pods may use (*allocatable*) is what the machine has (*capacity*) without what is
//! reserved for the system, and for memory without huge pages.
//!
//! Sources: `pkg/kubelet/nodestatus/setters.go`, `pkg/kubelet/kubelet_node_status.go` and the
//! defaults of `KubeletConfiguration`; Kubernetes 1.36.

use outrank_api::quantity::Quantity;
use outrank_api::time::rfc3339;
use outrank_api::types::{
    Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo, ResourceList,
};

use crate::TimeNanos;
use crate::pod_addresses::host_ip;

/// Time between two renewals of the lease.
pub const LEASE_RENEWAL: TimeNanos = 10_000_000_000;

/// How long the lease holds after a renewal, in seconds.
pub const LEASE_DURATION_SECONDS: i32 = 40;

/// Time between two reports of the status if nothing changes.
pub const STATUS_REPORT: TimeNanos = 300_000_000_000;

/// What pods may use of a machine.
pub fn allocatable(capacity: &ResourceList, reserved: &ResourceList) -> ResourceList {
    let mut allocatable = capacity.clone();
    for (name, amount) in &mut allocatable {
        if let Some(reserved) = reserved.get(name) {
            *amount -= reserved;
        }
        at_least_zero(amount);
    }
    if let Some(memory) = allocatable.get_mut("memory") {
        for (name, pages) in capacity {
            if name.starts_with("hugepages-") {
                *memory -= pages;
                at_least_zero(memory);
            }
        }
    }
    allocatable
}

/// The status of a node that is well. What is not the kubelet's to say stays.
pub fn node_status(node: &Node, now: TimeNanos) -> NodeStatus {
    let mut status = node.status.clone();
    for (type_, holds, reason, message) in CONDITIONS {
        set_condition(&mut status, type_, holds, reason, message, now);
    }
    let internal = |it: &NodeAddress| it.type_ == "InternalIP";
    if !status.addresses.iter().any(internal) {
        for (type_, address) in [
            ("InternalIP", host_ip(node)),
            ("Hostname", node.metadata.name.clone()),
        ] {
            status.addresses.push(NodeAddress {
                type_: type_.to_owned(),
                address,
            });
        }
    }
    // An object in full has the field, with nothing in it.
    let info = status.node_info.as_ref();
    if info.is_none_or(|it| it.kubelet_version.is_empty()) {
        status.node_info = Some(Box::new(simulated_system()));
    }
    status
}

/// The conditions that the kubelet owns, of a node that is well.
const CONDITIONS: [(&str, bool, &str, &str); 4] = [
    (
        "MemoryPressure",
        false,
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        false,
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        false,
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    (
        "Ready",
        true,
        "KubeletReady",
        "kubelet is posting ready status",
    ),
];

fn set_condition(
    status: &mut NodeStatus,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: TimeNanos,
) {
    let mut condition = NodeCondition {
        type_: type_.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_heartbeat_time: Some(rfc3339(now)),
        last_transition_time: Some(rfc3339(now)),
    };
    let mut conditions = status.conditions.iter_mut();
    match conditions.find(|it| it.type_ == type_) {
        Some(before) => {
            if before.status == condition.status && before.last_transition_time.is_some() {
                condition.last_transition_time = before.last_transition_time.take();
            }
            *before = condition;
        }
        None => status.conditions.push(condition),
    }
}

fn simulated_system() -> NodeSystemInfo {
    NodeSystemInfo {
        os_image: "simulated".to_owned(),
        kernel_version: "simulated".to_owned(),
        container_runtime_version: "simulated://1.0".to_owned(),
        kubelet_version: "v1.36.2".to_owned(),
        operating_system: "linux".to_owned(),
        architecture: "amd64".to_owned(),
        ..NodeSystemInfo::default()
    }
}

fn at_least_zero(amount: &mut Quantity) {
    if amount.sign() < 0 {
        *amount = Quantity::from_value(0, amount.format());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(amounts: serde_json::Value) -> ResourceList {
        serde_json::from_value(amounts).unwrap()
    }

    #[test]
    fn what_is_reserved_is_not_allocatable() {
        let capacity = list(serde_json::json!({
            "cpu": "4", "memory": "8Gi", "hugepages-2Mi": "1Gi", "pods": "110",
        }));
        let reserved = list(serde_json::json!({ "cpu": "500m", "memory": "1Gi", "pods": "200" }));
        let expected = list(serde_json::json!({
            "cpu": "3500m", "memory": "6Gi", "hugepages-2Mi": "1Gi", "pods": "0",
        }));
        assert_eq!(allocatable(&capacity, &reserved), expected);
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut node = Node::default();
        let second = 1_000_000_000;
        node.status = node_status(&node, 0);
        node.status = node_status(&node, 300 * second);
        let ready = |node: &Node| node.status.conditions.last().unwrap().clone();
        assert_eq!(ready(&node).type_, "Ready");
        assert_eq!(
            ready(&node).last_transition_time.as_deref(),
            Some("1970-01-01T00:00:00Z")
        );
        assert_eq!(
            ready(&node).last_heartbeat_time.as_deref(),
            Some("1970-01-01T00:05:00Z")
        );
        node.status.conditions.last_mut().unwrap().status = "Unknown".to_owned();
        node.status = node_status(&node, 600 * second);
        assert_eq!(ready(&node).status, "True");
        assert_eq!(
            ready(&node).last_transition_time.as_deref(),
            Some("1970-01-01T00:10:00Z")
        );
    }
}
