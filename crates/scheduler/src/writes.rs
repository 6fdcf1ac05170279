//! What decisions mean for objects.

use outrank_api::types::{Pod, PodStatus};
use outrank_controllers::write::{Bind, Event};
use outrank_controllers::{Stored, Write};

use crate::pod_status::{set_not_scheduled, set_preempted};

/// Binds a pod, and tells people.
pub(crate) fn bind(stored: &Stored, node: &str) -> [Write; 2] {
    let key = stored.key();
    let message = format!(
        "Successfully assigned {}/{} to {node}",
        key.namespace, key.name
    );
    let bind = Bind {
        uid: stored.metadata().uid.clone(),
        node: node.to_owned(),
        key,
    };
    [
        Write::Bind(bind),
        Write::Event(Event::normal(stored, "Scheduled", message)),
    ]
}

/// Says in the status of a pod why it has no node, and where it waits for room; tells people.
pub(crate) fn not_scheduled(
    stored: &Stored,
    reason: &str,
    message: String,
    nominated_node_name: &str,
    now: i64,
) -> Vec<Write> {
    let event = Event::warning(stored, "FailedScheduling", message.clone());
    let status = changed_status(stored, |status| {
        set_not_scheduled(status, generation_of(stored), reason, message, now);
        status.nominated_node_name = nominated_node_name.to_owned();
    });
    status.into_iter().chain([Write::Event(event)]).collect()
}

/// Says that a pod no longer waits for room on a node.
pub(crate) fn not_nominated(stored: &Stored) -> Option<Write> {
    changed_status(stored, |status| status.nominated_node_name.clear())
}

/// Has a victim go: says why in its status, deletes it with its own grace period, and tells
/// people. Nothing if it is on its way already.
pub(crate) fn evict(victim: &Stored, preemptor: &Stored, node: &str, now: i64) -> Vec<Write> {
    if victim.metadata().deletion_timestamp.is_some() {
        return Vec::new();
    }
    let scheduler_name = preemptor
        .get::<Pod>()
        .map_or("", |pod| pod.spec.scheduler_name.as_str());
    let generation = generation_of(victim);
    let marked = changed_status(victim, |status| {
        set_preempted(status, generation, scheduler_name, now);
    });
    let uid = &preemptor.metadata().uid;
    let message = format!("Preempted by pod {uid} on node {node}");
    let event = Event::normal(victim, "Preempted", message);
    let rest = [Write::delete(victim), Write::Event(event)];
    marked.into_iter().chain(rest).collect()
}

/// Which version of what a pod wants was looked at.
fn generation_of(stored: &Stored) -> i64 {
    stored.metadata().generation
}

fn changed_status(stored: &Stored, change: impl FnOnce(&mut PodStatus)) -> Option<Write> {
    let old = &stored.get::<Pod>()?.status;
    let mut new = old.clone();
    change(&mut new);
    Write::status(stored, old, &new)
}
