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
        let Some(rolling) = strategy.rolling_update.as_ref() else {
            return (0, 1);
        };
        let desired = self.sums.counts().desired;
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

    /// Makes new pods beside old ones; these go when the new ones are available.
    fn surge(&self, max_surge: usize) -> Changes<'w> {
        let surplus = [Stage::Unclear, Stage::BothBusy].map(|it| self.sums.count_at(it));
        let room = max_surge.saturating_sub(surplus.iter().sum());
        let down = self.sums.at(Stage::OldDown);
        let up = self.sums.at(Stage::OldUp).take(room);
        // A pod is only made where one may be.
        let may_run = |node: &&str| self.sums.verdict(node) == Some(Verdict::Run);
        let done = self.sums.at(Stage::BothDone);
        Changes {
            create: down.chain(up).filter(may_run).collect(),
            delete: done.filter_map(|node| self.old_pod(node)).collect(),
            ..Changes::default()
        }
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
