//! Looking at some nodes only: `percentageOfNodesToScore`.
//!
//! Without it every node is considered, which is the default here. With it the search for
//! feasible nodes ends when enough are found, and the next pod's search begins where this one
//! ended. What is done is what kube-scheduler does with `parallelism: 1`; with more, it
//! depends there on timing which nodes are looked at. Sources: `schedule_one.go`
//! numFeasibleNodesToFind and findNodesThatPassFilters, `backend/cache/node_tree.go`,
//! `component-helpers/node/topology/helpers.go` GetZoneKey, Kubernetes 1.36.

use std::borrow::Cow;

use outrank_api::types::Node;
use rustc_hash::FxHashMap;

use crate::ids::NodeId;

/// With fewer nodes than this all are looked at, and at least as many feasible ones are
/// searched for.
const FEASIBLE_NODES_MIN: usize = 100;

/// How many feasible nodes are enough, of `nodes`. A percentage of 0 adapts to the size of
/// the cluster: from 50 at few nodes down to 5 from 5,625 nodes on.
pub(crate) fn feasible_nodes_to_find(percentage: u8, nodes: usize) -> usize {
    if nodes < FEASIBLE_NODES_MIN {
        return nodes;
    }
    let percentage = match percentage {
        0 => 50_usize.saturating_sub(nodes / 125).max(5),
        percentage => percentage.into(),
    };
    (nodes * percentage / 100).max(FEASIBLE_NODES_MIN)
}

/// The part of the nodes that one pod is tried on.
#[derive(Clone, Copy)]
pub(crate) struct Sample<'o> {
    /// All nodes, in the order in which they are tried.
    pub(crate) order: &'o [NodeId],
    /// Where in the order the search begins.
    pub(crate) start: usize,
    /// Percentage of the nodes that are enough if feasible; 0 adapts.
    pub(crate) percentage: u8,
    /// Whether the first feasible node is taken, because nothing tells better from worse.
    pub(crate) first_is_enough: bool,
}

impl Sample<'_> {
    /// How many feasible nodes are enough, of `nodes`.
    pub(crate) fn limit(&self, nodes: usize) -> usize {
        if self.first_is_enough {
            return 1;
        }
        feasible_nodes_to_find(self.percentage, nodes)
    }
}

/// The order in which nodes are tried, and where the next search begins.
#[derive(Default)]
pub(crate) struct Rotation {
    /// Zones in the order in which they came, each with its nodes in theirs.
    zones: Vec<(String, Vec<NodeId>)>,
    zone_of: FxHashMap<NodeId, String>,
    order: Option<Vec<NodeId>>,
    next_start: usize,
}

impl Rotation {
    /// Takes in a node that is new or has changed. One that has moved to another zone goes
    /// to its end. O(nodes of the zone).
    pub(crate) fn set(&mut self, node: NodeId, object: &Node) {
        let zone = zone_key(object);
        if self.zone_of.get(&node) == Some(&zone) {
            return;
        }
        self.remove(node);
        match self.zones.iter_mut().find(|(name, _)| *name == zone) {
            Some((_, nodes)) => nodes.push(node),
            None => self.zones.push((zone.clone(), vec![node])),
        }
        self.zone_of.insert(node, zone);
        self.order = None;
    }

    /// Forgets a node. O(nodes of the zone).
    pub(crate) fn remove(&mut self, node: NodeId) {
        let Some(zone) = self.zone_of.remove(&node) else {
            return;
        };
        for (name, nodes) in &mut self.zones {
            if *name == zone {
                nodes.retain(|other| *other != node);
            }
        }
        self.zones.retain(|(_, nodes)| !nodes.is_empty());
        self.order = None;
    }

    /// Brings the order up to date: one node of each zone, then the next of each.
    pub(crate) fn refresh(&mut self) {
        if self.order.is_none() {
            self.order = Some(self.in_turns());
        }
    }

    /// The nodes in order. O(1) after [`Rotation::refresh`], else O(nodes).
    pub(crate) fn order(&self) -> Cow<'_, [NodeId]> {
        match &self.order {
            Some(order) => order.into(),
            None => self.in_turns().into(),
        }
    }

    fn in_turns(&self) -> Vec<NodeId> {
        let rounds = self.zones.iter().map(|(_, nodes)| nodes.len()).max();
        let rounds = 0..rounds.unwrap_or(0);
        let round = |at: usize| {
            self.zones
                .iter()
                .filter_map(move |(_, nodes)| nodes.get(at))
        };
        rounds.flat_map(round).copied().collect()
    }

    /// Where the next search begins.
    pub(crate) fn next_start(&self) -> usize {
        self.next_start
    }

    /// A search has looked at so many nodes.
    pub(crate) fn advance(&mut self, looked_at: usize) {
        let nodes = self.zone_of.len();
        if nodes > 0 {
            self.next_start = (self.next_start + looked_at) % nodes;
        }
    }
}

/// Region and zone of a node; the labels of before Kubernetes 1.17 come first.
fn zone_key(node: &Node) -> String {
    let label = |old: &str, new: &str| {
        let labels = &node.metadata.labels;
        let value = labels.get(old).or_else(|| labels.get(new));
        value.cloned().unwrap_or_default()
    };
    let zone = label(
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    );
    let region = label(
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    );
    format!("{region}\0{zone}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_enough() {
        // (percentage, nodes, enough)
        let cases = [
            (0, 10, 10),
            (1, 99, 99),
            (0, 100, 100),
            (10, 1000, 100),
            (40, 1000, 400),
            (0, 1000, 420),
            (0, 6000, 300),
            (1, 50_000, 500),
            (100, 50_000, 50_000),
        ];
        for (percentage, nodes, enough) in cases {
            assert_eq!(
                feasible_nodes_to_find(percentage, nodes),
                enough,
                "{percentage}% of {nodes}"
            );
        }
    }

    fn node(zone: &str) -> Node {
        let mut node = Node::default();
        let labels = &mut node.metadata.labels;
        labels.insert("topology.kubernetes.io/zone".into(), zone.into());
        node
    }

    #[test]
    fn zones_take_turns() {
        let mut rotation = Rotation::default();
        for (row, zone) in ["a", "a", "a", "b", "c", "b"].into_iter().enumerate() {
            rotation.set(NodeId::from_index(row), &node(zone));
        }
        let order = |rotation: &mut Rotation| {
            rotation.refresh();
            let order = rotation.order();
            order.iter().map(|node| node.index()).collect::<Vec<_>>()
        };
        assert_eq!(order(&mut rotation), [0, 3, 4, 1, 5, 2]);
        // The only node of its zone moves; the zone is gone.
        rotation.set(NodeId::from_index(4), &node("a"));
        assert_eq!(order(&mut rotation), [0, 3, 1, 5, 2, 4]);
        rotation.remove(NodeId::from_index(3));
        assert_eq!(order(&mut rotation), [0, 5, 1, 2, 4]);
        rotation.advance(7);
        assert_eq!(rotation.next_start(), 2);
    }

    #[test]
    fn old_zone_labels_come_first() {
        let mut both = node("new");
        let labels = &mut both.metadata.labels;
        labels.insert(
            "failure-domain.beta.kubernetes.io/zone".into(),
            "old".into(),
        );
        assert_eq!(zone_key(&both), zone_key(&node("old")));
    }
}
