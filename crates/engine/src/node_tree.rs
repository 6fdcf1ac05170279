//! The order in which kube-scheduler goes through nodes: zones take turns.
//! Source: `internal/cache/node_tree.go`, Kubernetes 1.20.

use rustc_hash::FxHashMap;

use crate::ids::{NodeId, Symbol};

/// Region and zone of a node, as far as it tells them.
pub(crate) type ZoneKey = (Option<Symbol>, Option<Symbol>);

/// Nodes by zone; zones and the nodes of a zone in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTree {
    zones: Vec<(ZoneKey, Vec<NodeId>)>,
    zone_of: FxHashMap<NodeId, ZoneKey>,
}

impl NodeTree {
    /// Puts a node into its zone. One that is there already keeps its place.
    pub(crate) fn set(&mut self, node: NodeId, zone: ZoneKey) {
        if self.zone_of.get(&node) == Some(&zone) {
            return;
        }
        self.remove(node);
        self.zone_of.insert(node, zone);
        match self.zones.iter_mut().find(|(known, _)| *known == zone) {
            Some((_, nodes)) => nodes.push(node),
            None => self.zones.push((zone, vec![node])),
        }
    }

    /// Takes a node out, and its zone if it was the last there.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let Some(zone) = self.zone_of.remove(&node) else {
            return;
        };
        for (known, nodes) in &mut self.zones {
            if *known == zone {
                nodes.retain(|other| *other != node);
            }
        }
        self.zones.retain(|(_, nodes)| !nodes.is_empty());
    }

    /// All nodes: the first of each zone, then the second of each, and so on.
    pub(crate) fn in_turns(&self) -> Vec<NodeId> {
        let longest = self.zones.iter().map(|(_, nodes)| nodes.len()).max();
        let turns = 0..longest.unwrap_or(0);
        let nodes = turns.flat_map(|turn| {
            let zones = self.zones.iter();
            zones.filter_map(move |(_, nodes)| nodes.get(turn).copied())
        });
        nodes.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_take_turns_and_empty_ones_are_forgotten() {
        let (a, b) = ((None, Some(Symbol(1))), (None, Some(Symbol(2))));
        let mut tree = NodeTree::default();
        for (node, zone) in [(0, a), (1, a), (2, b), (3, a)] {
            tree.set(NodeId(node), zone);
        }
        let order = |tree: &NodeTree| tree.in_turns().iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(order(&tree), [0, 2, 1, 3]);
        tree.set(NodeId(0), a);
        assert_eq!(order(&tree), [0, 2, 1, 3], "nothing changed");
        tree.set(NodeId(0), b);
        assert_eq!(order(&tree), [1, 2, 3, 0]);
        tree.remove(NodeId(2));
        tree.remove(NodeId(0));
        tree.set(NodeId(4), b);
        assert_eq!(order(&tree), [1, 4, 3]);
    }
}
