//! Draining nodes as kubectl does: pods are evicted, and those whose budget does not allow it are
//! tried again every five seconds.

use outrank_api::decode::ObjectKind;
use outrank_api::types::Pod;
use outrank_controllers::virtual_cluster::VirtualCluster;
use outrank_controllers::{Key, Kind, Outcome};

use super::Timeline;

/// How long kubectl waits before it tries again.
const RETRY_NANOS: i64 = 5_000_000_000;

/// The annotation of mirrors of static pods, which stay.
const MIRROR: &str = "kubernetes.io/config.mirror";

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
            drain.next_time = now + RETRY_NANOS;
            drain.pods.retain(|(pod, uid)| {
                let stored = cluster.stored(pod);
                if stored.is_none_or(|it| it.metadata().uid != *uid) {
                    return false;
                }
                let Outcome::Refused(refusal) = cluster.evict(pod) else {
                    return false;
                };
                timeline.refused_eviction(pod, refusal.message, now);
                true
            });
        }
        self.drains.retain(|drain| !drain.pods.is_empty());
        was_due
    }
}

fn pods_to_evict(node: &str, cluster: &VirtualCluster) -> Vec<(Key, String)> {
    let is_pod = |key: &Key| key.kind == Kind::Known(ObjectKind::Pod);
    let pods = cluster.objects().filter(|(key, _)| is_pod(key));
    let evicted = pods.filter(|(_, stored)| {
        stored.get::<Pod>().is_some_and(|pod| {
            let controller = pod.metadata.controller();
            pod.spec.node_name == node
                && pod.metadata.deletion_timestamp.is_none()
                && !pod.metadata.annotations.contains_key(MIRROR)
                && controller.is_none_or(|it| it.kind != "DaemonSet")
        })
    });
    let identified = evicted.map(|(key, it)| (key.clone(), it.metadata().uid.clone()));
    identified.collect()
}
