//! What happens in a simulation, in the order in which it does.

use std::collections::BTreeMap;

use outrank_api::types::{Node, Pod};
use outrank_controllers::write::Event;
use outrank_controllers::{Change, Key};
use serde::Serialize;

const SECOND: i64 = 1_000_000_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When, in seconds since the beginning.
    pub at_seconds: f64,
    /// The object, such as `Pod shop/web-1`.
    pub object: String,
    /// One word: the reason of an event, or what became of a pod or node.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// Whether it is not as it should be.
    pub is_warning: bool,
}

/// All that happened, and what is known of pods and nodes.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    start: i64,
    entries: Vec<Entry>,
    /// Where each pod is and what it does.
    pods: BTreeMap<Key, PodLook>,
    ready_nodes: BTreeMap<Key, bool>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct PodLook {
    phase: String,
    is_terminating: bool,
    node: String,
}

impl Timeline {
    pub(super) fn new(start: i64) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }

    /// All that happened.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Seconds from the beginning to a time.
    pub(super) fn seconds_at(&self, now: i64) -> f64 {
        now.saturating_sub(self.start) as f64 / SECOND as f64
    }

    /// Notes an object that was refused to a person.
    pub(super) fn refused(&mut self, key: &Key, message: String, now: i64) {
        self.add(key, "Refused", message, true, now);
    }

    /// Notes a pod that is not evicted now.
    pub(super) fn refused_eviction(&mut self, key: &Key, message: String, now: i64) {
        self.add(key, "EvictionRefused", message, true, now);
    }

    /// Notes that what follows is of a change, if anything has happened before.
    pub(super) fn changed(&mut self, now: i64) {
        if self.entries.is_empty() {
            return;
        }
        self.entries.push(Entry {
            at_seconds: self.seconds_at(now),
            object: "Cluster".to_owned(),
            reason: "Changed".to_owned(),
            message: "has come to rest as it was given; now it is changed".to_owned(),
            is_warning: false,
        });
    }

    /// Notes what became of pods and nodes.
    pub(super) fn note(&mut self, change: &Change, now: i64) {
        match change {
            Change::Set(stored) => {
                if let Some(pod) = stored.get::<Pod>() {
                    self.note_pod(&stored.key(), pod, now);
                } else if let Some(node) = stored.get::<Node>() {
                    self.note_node(&stored.key(), node, now);
                }
            }
            Change::Gone { key, .. } => {
                if let Some(look) = self.pods.remove(key) {
                    let message = match &*look.node {
                        "" => String::new(),
                        node => format!("from {node}"),
                    };
                    self.add(key, "Gone", message, false, now);
                }
                if self.ready_nodes.remove(key).is_some() {
                    self.add(key, "Gone", String::new(), true, now);
                }
            }
        }
    }

    /// Takes events.
    pub(super) fn tell(&mut self, events: &mut Vec<(i64, Event)>) {
        for (time, event) in events.drain(..) {
            let Event {
                regarding,
                is_warning,
                reason,
                message,
                ..
            } = event;
            self.add(&regarding, &reason, message, is_warning, time);
        }
    }

    fn note_pod(&mut self, key: &Key, pod: &Pod, now: i64) {
        let look = PodLook {
            phase: pod.status.phase.clone(),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            node: pod.spec.node_name.clone(),
        };
        let before = self.pods.insert(key.clone(), look.clone());
        let Some(before) = before else {
            return;
        };
        if before.phase != look.phase && !look.is_terminating {
            let (reason, message) = (&pod.status.reason, &pod.status.message);
            let is_warning = look.phase == "Failed";
            let message = [reason.as_str(), message.as_str()];
            let message = message.iter().filter(|text| !text.is_empty());
            let message = message.copied().collect::<Vec<_>>().join(": ");
            self.add(key, &look.phase, message, is_warning, now);
        }
        if !before.is_terminating && look.is_terminating {
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
            let message = format!("has {grace} s to end");
            self.add(key, "Terminating", message, false, now);
        }
    }

    fn note_node(&mut self, key: &Key, node: &Node, now: i64) {
        let conditions = node.status.conditions.iter();
        let mut ready = conditions.filter(|it| it.type_ == "Ready");
        let is_ready = ready.next().is_none_or(|it| it.status == "True");
        let before = self.ready_nodes.insert(key.clone(), is_ready);
        if before.is_some_and(|before| before != is_ready) {
            let reason = if is_ready { "Ready" } else { "NotReady" };
            self.add(key, reason, String::new(), !is_ready, now);
        }
    }

    fn add(&mut self, key: &Key, reason: &str, message: String, is_warning: bool, now: i64) {
        self.entries.push(Entry {
            at_seconds: self.seconds_at(now),
            object: key.to_string(),
            reason: reason.to_owned(),
            message,
            is_warning,
        });
    }
}
