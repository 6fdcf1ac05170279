//! From one template of a DaemonSet to the next, node by node.

use outrank_api::types::Pod;

use super::{Changes, Turn};
use crate::deployment::scaled;
use crate::pod_state::{is_going, is_ready};
use crate::workloads::Verdict;

/// The pods on a node that stay.
enum OnNode<'w> {
    /// None, or more than one of a template.
    Unclear,
    New(&'w Pod),
    Old(&'w Pod),
    /// The new one, and the old one.
    Both(&'w Pod, &'w Pod),
}

impl<'w> Turn<'w> {
    /// On how many nodes there may be two pods, and on how many none, while pods are replaced.
    pub(super) fn leeway(&self) -> (usize, usize) {
        let strategy = &self.set.spec.update_strategy;
        let Some(rolling) = strategy.rolling_update.as_ref() else {
            return (0, 1);
        };
        let desired = self
            .nodes
            .values()
            .filter(|it| **it == Verdict::Run)
            .count();
        let desired = i32::try_from(desired).unwrap_or(i32::MAX);
        let count = |number| usize::try_from(scaled(number, desired, true)).unwrap_or(0);
        let surge = count(rolling.max_surge.as_ref());
        match (surge, count(rolling.max_unavailable.as_ref())) {
            (0, 0) => (0, 1),
            both => both,
        }
    }

    /// The next nodes where pods are replaced.
    pub(super) fn roll(&self) -> Changes<'w> {
        if self.set.spec.update_strategy.type_ == "OnDelete" {
            return Changes::default();
        }
        match self.leeway() {
            (0, unavailable) => self.replace(unavailable),
            (surge, _) => self.surge(surge),
        }
    }

    /// Deletes old pods; the new ones follow. Those that are not available anyway go at once.
    fn replace(&self, max_unavailable: usize) -> Changes<'w> {
        let mut unavailable = 0;
        let mut candidates = Vec::new();
        let mut changes = Changes::default();
        for pods in self.on_node.values() {
            match self.look(pods) {
                OnNode::New(pod) if self.is_available(pod) => {}
                OnNode::Old(pod) if self.is_available(pod) => candidates.push(pod),
                OnNode::Old(pod) => {
                    unavailable += 1;
                    changes.delete.push(pod);
                }
                OnNode::Unclear | OnNode::New(_) | OnNode::Both(..) => unavailable += 1,
            }
        }
        let room = max_unavailable.saturating_sub(unavailable);
        changes.delete.extend(candidates.into_iter().take(room));
        changes
    }

    /// Makes new pods beside old ones; these go when the new ones are available.
    fn surge(&self, max_surge: usize) -> Changes<'w> {
        let mut surplus = 0;
        let mut candidates = Vec::new();
        let mut changes = Changes::default();
        for (node, pods) in &self.on_node {
            match self.look(pods) {
                OnNode::Unclear if pods.iter().any(|pod| !is_going(pod)) => surplus += 1,
                OnNode::Unclear | OnNode::New(_) => {}
                OnNode::Old(pod) if self.is_available(pod) => candidates.push(*node),
                OnNode::Old(_) => changes.create.push(node),
                OnNode::Both(new, old) => match self.is_available(new) || !self.is_available(old) {
                    true => changes.delete.push(old),
                    false => surplus += 1,
                },
            }
        }
        let room = max_surge.saturating_sub(surplus);
        changes.create.extend(candidates.into_iter().take(room));
        // A pod is only made where one may be.
        let may_run = |node: &&str| self.nodes.get(node) == Some(&Verdict::Run);
        changes.create.retain(may_run);
        changes
    }

    /// Where new pods come beside old ones: keeps the oldest of each, and of these the old one
    /// only while it is needed.
    pub(super) fn keep_one_of_each(&self, running: Vec<&'w Pod>, changes: &mut Changes<'w>) {
        let (new, old): (Vec<&Pod>, Vec<&Pod>) =
            running.into_iter().partition(|pod| self.is_updated(pod));
        changes.delete.extend(new.iter().skip(1));
        changes.delete.extend(old.iter().skip(1));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!is_ready(old) || self.is_available(new))
        {
            changes.delete.push(old);
        }
    }

    fn look(&self, pods: &[&'w Pod]) -> OnNode<'w> {
        let staying = pods.iter().copied().filter(|pod| !is_going(pod));
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = staying.partition(|pod| self.is_updated(pod));
        match (new.as_slice(), old.as_slice()) {
            ([new], []) => OnNode::New(new),
            ([], [old]) => OnNode::Old(old),
            ([new], [old]) => OnNode::Both(new, old),
            _ => OnNode::Unclear,
        }
    }
}
