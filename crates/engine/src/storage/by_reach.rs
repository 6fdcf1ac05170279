//! Things that nodes reach or not, found by a node's labels.
//!
//! Most volumes and amounts of room are for one node or one zone: they ask for a label with
//! one of some values. Looking at all of them for every node would take nodes times things;
//! here only those come up whose label the node has, and those that ask for none.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::ids::Symbol;
use crate::node_match::{NodeRequirement, NodeTerm};
use crate::pod_match::{LabelMatch, LabelRequirement};

/// Things by the label and values that a node must have to reach them.
#[derive(Clone, Debug)]
pub struct ByReach<T> {
    /// Those that ask for no label, or not in this simple way.
    anywhere: BTreeSet<T>,
    by_label: BTreeMap<Symbol, FxHashMap<Symbol, BTreeSet<T>>>,
}

impl<T> Default for ByReach<T> {
    fn default() -> Self {
        Self {
            anywhere: BTreeSet::new(),
            by_label: BTreeMap::new(),
        }
    }
}

/// A label and the values of which a node must have one.
pub(crate) type RequiredLabel<'r> = Option<(Symbol, &'r [Symbol])>;

impl<T: Ord + Clone> ByReach<T> {
    /// Adds a thing. O(values, log things).
    pub(crate) fn insert(&mut self, thing: &T, required: RequiredLabel<'_>) {
        let Some((label, values)) = required else {
            self.anywhere.insert(thing.clone());
            return;
        };
        let by_value = self.by_label.entry(label).or_default();
        for value in values {
            by_value.entry(*value).or_default().insert(thing.clone());
        }
    }

    /// Takes out a thing that was added with the same label.
    pub(crate) fn remove(&mut self, thing: &T, required: RequiredLabel<'_>) {
        let Some((label, values)) = required else {
            self.anywhere.remove(thing);
            return;
        };
        let Some(by_value) = self.by_label.get_mut(&label) else {
            return;
        };
        for value in values {
            if let Some(things) = by_value.get_mut(value) {
                things.remove(thing);
                if things.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        if by_value.is_empty() {
            self.by_label.remove(&label);
        }
    }

    /// What a node with these labels, sorted by key, may reach: each set in order. Whether it
    /// does is for the things to say.
    pub fn sets<'r>(
        &'r self,
        labels: &'r [(Symbol, Symbol)],
    ) -> impl Iterator<Item = &'r BTreeSet<T>> {
        let by_label = self.by_label.iter().filter_map(|(label, by_value)| {
            let value = crate::pod_match::label_value(labels, *label)?;
            by_value.get(&value)
        });
        by_label.chain([&self.anywhere])
    }
}

/// The label that a node must have to be one of those selected, if there is one such.
pub(crate) fn required_by_terms(nodes: Option<&[NodeTerm]>) -> RequiredLabel<'_> {
    let [term] = nodes? else {
        return None;
    };
    term.0.iter().find_map(|requirement| match requirement {
        NodeRequirement::Label(requirement) => required_by(requirement),
        _ => None,
    })
}

/// The same for a label selector.
pub(crate) fn required_by_labels(nodes: &LabelMatch) -> RequiredLabel<'_> {
    nodes.requirements()?.iter().find_map(required_by)
}

fn required_by(requirement: &LabelRequirement) -> RequiredLabel<'_> {
    match requirement {
        LabelRequirement::In(label, values) => Some((*label, values)),
        _ => None,
    }
}
