//! Draining nodes as kubectl does: pods are evicted, and those whose budget does not allow it are
//! tried again every five seconds.

use outrank_api::types::Pod;
use outrank_controllers::virtual_cluster::VirtualCluster;
use outrank_controllers::{Key, Outcome};

use super::Timeline;
use crate::scenario::commands::is_drained;

/// How long kubectl waits before it tries again.
const RETRY_NANOS: i64 = 5_000_000_000;

/// Pods that are being evicted from nodes: those that were there when draining began.
#[derive(Default)]
pub(super) struct Drains {
    drains: Vec<Drain>,
}

struct Drain {
    /// Pods that have yet to be evicted, and their identifiers.
    pods: Vec<(Key, String)>,
    next_time: i64,
}

impl Drains {
    /// Begins to drain a node, which is cordoned already.
    pub(super) fn begin(&mut self, node: &str, cluster: &VirtualCluster) {
        self.drains.push(Drain {
            pods: pods_to_evict(node, cluster),
            next_time: cluster.now(),
        });
    }

    pub(super) fn next_time(&self) -> Option<i64> {
        self.drains.iter().map(|drain| drain.next_time).min()
    }

    /// Evicts what can be evicted by now; whether anything was tried. The timeline is told whom a
    /// budget keeps.
    pub(super) fn step(&mut self, cluster: &mut VirtualCluster, timeline: &mut Timeline) -> bool {
        let now = cluster.now();
        let due = self.drains.iter_mut().filter(|it| it.next_time <= now);
        let mut was_due = false;
        for drain in due {
            was_due = true;
            drain.next_time = now.saturating_add(RETRY_NANOS);
            drain.pods.retain(|(pod, uid)| {
                let stored = cluster.stored(pod);
                if stored.is_none_or(|it| it.metadata().uid != *uid) {
                    return false;
                }
                let Outcome::Refused(refusal) = cluster.evict(pod) else {
                    return false;
                };
                timeline.refused_eviction(pod, refusal.in_full(), now);
                true
            });
        }
        self.drains.retain(|drain| !drain.pods.is_empty());
        was_due
    }
}

fn pods_to_evict(node: &str, cluster: &VirtualCluster) -> Vec<(Key, String)> {
    let evicted = cluster.all::<Pod>().filter(|pod| {
        pod.spec.node_name == node && pod.metadata.deletion_timestamp.is_none() && is_drained(pod)
    });
    let identified = evicted.map(|pod| (Key::of::<Pod>(&pod.metadata), pod.metadata.uid.clone()));
    identified.collect()
}
