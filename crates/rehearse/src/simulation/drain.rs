//! Draining nodes as kubectl does: pods are evicted, and those whose budget does not allow it are
//! tried again every five seconds.

use std::collections::BTreeMap;

use outrank_api::decode::ObjectKind;
use outrank_api::types::Pod;
use outrank_controllers::virtual_cluster::VirtualCluster;
use outrank_controllers::{Key, Kind, Outcome};

/// How long kubectl waits before it tries again.
const RETRY_NANOS: i64 = 5_000_000_000;

/// The annotation of mirrors of static pods, which stay.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Nodes that are being drained, and when they are tried next.
#[derive(Default)]
pub(super) struct Drains {
    nodes: BTreeMap<String, i64>,
}

impl Drains {
    /// Begins to drain a node, which is cordoned already.
    pub(super) fn begin(&mut self, node: &str, now: i64) {
        self.nodes.insert(node.to_owned(), now);
    }

    pub(super) fn next_time(&self) -> Option<i64> {
        self.nodes.values().copied().min()
    }

    /// Evicts what can be evicted by now; whether anything was tried.
    pub(super) fn step(&mut self, cluster: &mut VirtualCluster) -> bool {
        let now = cluster.now();
        let due = self.nodes.iter().filter(|(_, time)| **time <= now);
        let due: Vec<String> = due.map(|(node, _)| node.clone()).collect();
        for node in &due {
            let mut has_failed = false;
            for pod in pods_to_evict(node, cluster) {
                has_failed |= matches!(cluster.evict(&pod), Outcome::Refused(_));
            }
            match has_failed {
                true => self.nodes.insert(node.clone(), now + RETRY_NANOS),
                false => self.nodes.remove(node),
            };
        }
        !due.is_empty()
    }
}

fn pods_to_evict(node: &str, cluster: &VirtualCluster) -> Vec<Key> {
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
    evicted.map(|(key, _)| key.clone()).collect()
}
