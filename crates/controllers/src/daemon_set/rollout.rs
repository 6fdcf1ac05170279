//! From one template of a DaemonSet to the next, node by node.

use outrank_api::types::Pod;

use super::sums::Stage;
use super::{Changes, Turn};
use crate::deployment::scaled;
use crate::pod_state::{is_going, is_ready};
use crate::workloads::Verdict;

impl<'w> Turn<'w> {
    /// On how many nodes there may be two pods, and on how many none, while pods are replaced.
    pub(super) fn leeway(&self) -> (usize, usize) {
        let strategy = &self.set.spec.update_strategy;
        let desired = self.sums.counts().desired;
        let one = usize::from(desired > 0);
        let Some(rolling) = strategy.rolling_update.as_ref() else {
            return (0, one);
        };
        let count = |number| usize::try_from(scaled(number, desired, true)).unwrap_or(0);
        let surge = count(rolling.max_surge.as_ref());
        match (surge, count(rolling.max_unavailable.as_ref())) {
            (0, 0) => (0, one),
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
        let unavailable = [
            Stage::NewDown,
            Stage::OldDown,
            Stage::BothDone,
            Stage::BothBusy,
            Stage::Unclear,
            Stage::Empty,
        ];
        let unavailable = unavailable.map(|it| self.sums.count_at(it));
        let room = max_unavailable.saturating_sub(unavailable.iter().sum());
        let down = self.sums.at(Stage::OldDown);
        let up = self.sums.at(Stage::OldUp).take(room);
        let mut changes = Changes::default();
        for node in down.chain(up) {
            changes.delete.extend(self.old_pod(node));
        }
        changes
    }

    /// Makes new pods beside old ones; these go when the new ones are available. Old pods on nodes
    /// that are to have none any more go when there are enough elsewhere.
    fn surge(&self, max_surge: usize) -> Changes<'w> {
        let surplus = [Stage::Unclear, Stage::BothBusy].map(|it| self.sums.count_at(it));
        let room = max_surge.saturating_sub(surplus.iter().sum());
        let may_run = |node: &&str| self.sums.verdict(node) == Some(Verdict::Run);
        // Of a node that is not there, nothing is known.
        let is_left = |node: &&str| self.sums.verdict(node) == Some(Verdict::Keep);
        let [down, up] = [Stage::OldDown, Stage::OldUp];
        let candidates = self.sums.at(up).filter(may_run).take(room);
        let left_up = self.sums.at(up).filter(is_left).take(self.surplus());
        let left_down = self.sums.at(down).filter(is_left);
        let over = self
            .sums
            .at(Stage::BothDone)
            .chain(left_down)
            .chain(left_up);
        Changes {
            create: self
                .sums
                .at(down)
                .filter(may_run)
                .chain(candidates)
                .collect(),
            delete: over.filter_map(|node| self.old_pod(node)).collect(),
            ..Changes::default()
        }
    }

    /// On how many more nodes than wanted a pod is available; of two on a node, the old one counts.
    fn surplus(&self) -> usize {
        let single = [Stage::NewUp, Stage::OldUp].map(|it| self.sums.count_at(it));
        let both = [Stage::BothDone, Stage::BothBusy].into_iter();
        let both = both.flat_map(|it| self.sums.at(it));
        let both = both.filter_map(|node| self.old_pod(node));
        let available =
            single.iter().sum::<usize>() + both.filter(|it| self.is_available(it)).count();
        let desired = usize::try_from(self.sums.counts().desired).unwrap_or(0);
        available.saturating_sub(desired)
    }

    /// The pod of an old template on a node where there is one that stays.
    fn old_pod(&self, node: &str) -> Option<&'w Pod> {
        let mut pods = self.sums.pods_on(node).into_iter();
        pods.find(|pod| !is_going(pod) && !self.sums.is_updated(pod))
    }

    /// Where new pods come beside old ones: keeps the oldest of each, and of these the old one
    /// only while it is needed.
    pub(super) fn keep_one_of_each(&self, running: Vec<&'w Pod>, changes: &mut Changes<'w>) {
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = running
            .into_iter()
            .partition(|pod| self.sums.is_updated(pod));
        changes.delete.extend(new.iter().skip(1));
        changes.delete.extend(old.iter().skip(1));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!is_ready(old) || self.is_available(new))
        {
            changes.delete.push(old);
        }
    }
}
