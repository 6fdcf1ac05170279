//! Nodes by the values of a few labels: those by which storage says where it can be reached.

use std::collections::BTreeSet;

use crate::ids::{NodeId, Symbol};
use crate::pod_match::label_value;

/// How many labels are kept at most. Clusters have two or three such.
const MAXIMUM_KEYS: usize = 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeLabels {
    keys: BTreeSet<Symbol>,
    /// Label, value and node, of the nodes that are there.
    nodes: BTreeSet<(Symbol, Symbol, NodeId)>,
}

impl NodeLabels {
    /// Notes the labels, sorted by key, of a node, or that it has them no more.
    pub(crate) fn set(&mut self, node: NodeId, labels: &[(Symbol, Symbol)], is_there: bool) {
        for &key in &self.keys {
            let Some(value) = label_value(labels, key) else {
                continue;
            };
            match is_there {
                true => self.nodes.insert((key, value, node)),
                false => self.nodes.remove(&(key, value, node)),
            };
        }
    }

    /// Whether nodes are found by that label.
    pub(crate) fn knows(&self, key: Symbol) -> bool {
        self.keys.contains(&key)
    }

    /// Keeps a label from now on, if there are not too many; the nodes that are there are
    /// to be told then. Returns whether it does.
    pub(crate) fn keep(&mut self, key: Symbol) -> bool {
        self.keys.len() < MAXIMUM_KEYS && self.keys.insert(key)
    }

    /// The nodes with one of some values of a label.
    pub(crate) fn with(&self, key: Symbol, values: &[Symbol]) -> impl Iterator<Item = NodeId> {
        values.iter().flat_map(move |value| {
            let (first, last) = ((key, *value, NodeId(0)), (key, *value, NodeId(u32::MAX)));
            self.nodes.range(first..=last).map(|(_, _, node)| *node)
        })
    }
}
