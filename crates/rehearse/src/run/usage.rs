//! How full nodes were before, to tell it beside how full they are after.

use std::collections::{BTreeMap, HashMap};

use outrank_engine::cluster::Cluster;
use outrank_engine::ids::NodeId;

use crate::report::{NodeReport, PlacedPod, ResourceUse};

/// What pods requested of each node: resources by number, and the number of pods.
pub(super) struct Usage {
    nodes: HashMap<NodeId, (Vec<i64>, i64)>,
}

impl Usage {
    /// As it is now.
    pub(super) fn of(cluster: &Cluster) -> Self {
        let used = |node| {
            let requested = cluster
                .resources()
                .map(|resource| cluster.requested(node, resource));
            (requested.collect(), cluster.pods(node).len() as i64)
        };
        Self {
            nodes: cluster.nodes().map(|node| (node, used(node))).collect(),
        }
    }

    /// Use over all nodes, then and now, of the resources that there are or are asked for.
    pub(super) fn totals(&self, cluster: &Cluster) -> BTreeMap<String, ResourceUse> {
        let mut totals: BTreeMap<String, ResourceUse> = BTreeMap::new();
        for node in cluster.nodes() {
            for (name, used) in self.of_node(cluster, node) {
                let total = totals.entry(name).or_default();
                total.allocatable = total.allocatable.saturating_add(used.allocatable);
                total.before = total.before.saturating_add(used.before);
                total.after = total.after.saturating_add(used.after);
            }
        }
        totals
    }

    /// Every node by name.
    pub(super) fn nodes(&self, cluster: &Cluster, placed: &[PlacedPod]) -> Vec<NodeReport> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for pod in placed {
            *counts.entry(&pod.node).or_default() += 1;
        }
        let report = |node| NodeReport {
            name: cluster.name(node).to_owned(),
            placed: counts.get(cluster.name(node)).copied().unwrap_or(0),
            resources: self.of_node(cluster, node).collect(),
        };
        let mut nodes: Vec<NodeReport> = cluster.nodes().map(report).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        nodes
    }

    fn of_node<'c>(
        &'c self,
        cluster: &'c Cluster,
        node: NodeId,
    ) -> impl Iterator<Item = (String, ResourceUse)> + 'c {
        let before = self.nodes.get(&node);
        let resources = cluster.resources().map(move |resource| {
            let before = before.and_then(|(used, _)| used.get(resource.index()).copied());
            let used = ResourceUse {
                allocatable: cluster.allocatable(node, resource),
                before: before.unwrap_or(0),
                after: cluster.requested(node, resource),
            };
            (cluster.resource_name(resource), used)
        });
        let pods = ResourceUse {
            allocatable: cluster.allowed_pods(node),
            before: before.map_or(0, |(_, pods)| *pods),
            after: cluster.pods(node).len() as i64,
        };
        let is_there = |used: &ResourceUse| *used != ResourceUse::default();
        let used = resources
            .chain([("pods", pods)])
            .filter(move |(_, used)| is_there(used));
        used.map(|(name, used)| (name.to_owned(), used))
    }
}
