//! When a node was last heard of, and what its conditions are when it no longer is.

use outrank_api::time::{rfc3339, unix_nanos};
use outrank_api::types::{Node, NodeCondition};

/// The conditions that only the kubelet can know. Whether the network is there is said by others.
const OF_THE_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What is remembered of a node from round to round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    /// The round in which something new was heard of it; its creation if it never reported.
    pub(super) heard_at: i64,
    /// `lastHeartbeatTime` of its condition Ready; `None` if it has no such condition.
    heartbeat: Option<Option<String>>,
    /// `spec.renewTime` of its lease.
    lease_renewed: Option<i64>,
}

impl Health {
    /// What is known of a node in this round, given what was known before. A round hears of a
    /// node if its heartbeat is another one than before, or its lease was renewed.
    pub(super) fn heard(
        before: Option<&Health>,
        node: &Node,
        lease_renewed: Option<i64>,
        now: i64,
    ) -> Health {
        let heartbeat = ready(node).map(|ready| ready.last_heartbeat_time.clone());
        let renewed_before = before.and_then(|before| before.lease_renewed);
        let mut health = match before {
            Some(before) if before.heartbeat == heartbeat => before.clone(),
            None if heartbeat.is_none() => Health {
                heard_at: created_at(node).unwrap_or(now),
                heartbeat,
                lease_renewed: None,
            },
            // The lease is forgotten then, and the next round hears of it once more.
            _ => Health {
                heard_at: now,
                heartbeat,
                lease_renewed: None,
            },
        };
        if lease_renewed > renewed_before {
            health.lease_renewed = lease_renewed;
            health.heard_at = now;
        }
        health
    }

    /// Whether something was ever heard of the node.
    pub(super) fn is_silent(&self) -> bool {
        self.lease_renewed.is_none() && matches!(self.heartbeat, Some(None))
    }

    /// What the controller has written itself is nothing that was heard.
    pub(super) fn wrote(&mut self, node: &Node, lease_renewed: Option<i64>) {
        self.lease_renewed = lease_renewed;
        self.heartbeat = ready(node).map(|ready| ready.last_heartbeat_time.clone());
    }
}

/// The condition Ready of a node.
pub(super) fn ready(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node.status.conditions.iter();
    conditions.find(|condition| condition.type_ == "Ready")
}

/// Sets the conditions of a node that is no longer heard of to `Unknown`. Those that are so
/// already stay as they are.
pub(super) fn set_unknown(node: &mut Node, now: i64) {
    let created = node.metadata.creation_timestamp.clone();
    let conditions = &mut node.status.conditions;
    for type_ in OF_THE_KUBELET {
        let condition = conditions.iter_mut().find(|it| it.type_ == type_);
        let Some(condition) = condition else {
            conditions.push(NodeCondition {
                type_: type_.to_owned(),
                status: "Unknown".to_owned(),
                last_heartbeat_time: created.clone(),
                last_transition_time: Some(rfc3339(now)),
                reason: "NodeStatusNeverUpdated".to_owned(),
                message: "Kubelet never posted node status.".to_owned(),
            });
            continue;
        };
        if condition.status != "Unknown" {
            condition.status = "Unknown".to_owned();
            condition.reason = "NodeStatusUnknown".to_owned();
            condition.message = "Kubelet stopped posting node status.".to_owned();
            condition.last_transition_time = Some(rfc3339(now));
        }
    }
}

fn created_at(node: &Node) -> Option<i64> {
    unix_nanos(node.metadata.creation_timestamp.as_deref()?)
}
