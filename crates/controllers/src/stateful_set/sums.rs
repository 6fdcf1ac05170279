//! What a StatefulSet keeps of its pods, so that it need not look at all of them each time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use outrank_api::types::{ClaimRetentionPolicy, Pod};

use super::{Member, has_identity};
use crate::pod_state::{Availability, is_going, is_ready};
use crate::roster::Sums;
use crate::workloads::{is_member_of, ordinal_in};
use crate::world::{Key, Stored};

/// What the sums depend on beside the pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Basis {
    /// The name of the set.
    pub(super) name: String,
    pub(super) min_ready_seconds: i32,
    /// Whether its pods have claims.
    pub(super) has_claims: bool,
}

/// What decides who owns the claims of a set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Keeping {
    pub(super) policy: Option<ClaimRetentionPolicy>,
    /// The ordinals that there should be.
    pub(super) wanted: Range<i64>,
}

/// Sums over the pods of a set whose names are its.
#[derive(Clone, Debug)]
pub(super) struct SetSums {
    basis: Basis,
    members: BTreeMap<i64, Arc<Stored>>,
    /// Running and ready.
    ready: usize,
    /// Of the ready ones, those that are not known to be available, by the time when they are.
    available_at: BTreeSet<(i64, i64)>,
    /// Those that are not available, are going, or lack the label with their name.
    unsettled: BTreeSet<i64>,
    /// Those that something may have to be done about, even if they are not to be waited for: they
    /// have ended, or lack the label with their name.
    needy: BTreeSet<i64>,
    /// Those whose claims are to be looked at: something has changed about the pod or a claim.
    unkept: BTreeSet<i64>,
    /// What decides beside that who owns claims.
    keeping: Option<Keeping>,
    /// By revision, those that are not going; and how many have it in all.
    revisions: BTreeMap<Option<String>, (BTreeSet<i64>, usize)>,
}

impl SetSums {
    /// Takes note of the time.
    pub(super) fn settle(&mut self, now: i64) {
        while let Some((time, ordinal)) = self.available_at.first().copied()
            && time <= now
        {
            self.available_at.pop_first();
            let member = self.members.get(&ordinal).and_then(|it| it.get::<Pod>());
            if member.is_some_and(is_settled_once_available) {
                self.unsettled.remove(&ordinal);
            }
        }
    }

    /// Takes note of what decides who owns claims. If that is new, all are to be looked at.
    pub(super) fn keep_by(&mut self, keeping: Keeping) {
        if self.basis.has_claims && self.keeping.as_ref() != Some(&keeping) {
            self.keeping = Some(keeping);
            self.unkept = self.members.keys().copied().collect();
        }
    }

    /// Takes note that a claim of the pod of this name has changed.
    pub(super) fn note_claim(&mut self, pod: &str) {
        let number = pod.rsplit_once('-').and_then(|(_, it)| it.parse().ok());
        let ordinal = number.filter(|it| self.members.contains_key(it));
        self.unkept.extend(ordinal);
    }

    /// The pods whose claims are to be looked at, by ordinal.
    pub(super) fn unkept(&self) -> impl Iterator<Item = (i64, Member<'_>)> {
        let unkept = self.unkept.iter();
        unkept.filter_map(|ordinal| Some((*ordinal, self.member(*ordinal)?)))
    }

    /// The claims of these pods are as they should be.
    pub(super) fn note_kept(&mut self, ordinals: &[i64]) {
        ordinals.iter().for_each(|it| {
            self.unkept.remove(it);
        });
    }

    /// When the next pod becomes available.
    pub(super) fn next_time(&self) -> Option<i64> {
        self.available_at.first().map(|(time, _)| *time)
    }

    /// How many pods there are, how many are ready, and how many available.
    pub(super) fn counts(&self) -> [usize; 3] {
        let available = self.ready.saturating_sub(self.available_at.len());
        [self.members.len(), self.ready, available]
    }

    /// How many pods of a revision there are that are not going.
    pub(super) fn of_revision(&self, name: &str) -> usize {
        let found = self.revisions.get(&Some(name.to_owned()));
        found.map_or(0, |(staying, _)| staying.len())
    }

    /// Whether any pod is of a revision.
    pub(super) fn has_revision(&self, name: &str) -> bool {
        self.revisions.contains_key(&Some(name.to_owned()))
    }

    /// The pod with this ordinal.
    pub(super) fn member(&self, ordinal: i64) -> Option<Member<'_>> {
        member(self.members.get(&ordinal)?)
    }

    /// The pods with ordinals in this range, by ordinal.
    pub(super) fn within(
        &self,
        ordinals: Range<i64>,
    ) -> impl DoubleEndedIterator<Item = (i64, Member<'_>)> {
        let ordinals = ordinals.start..ordinals.end.max(ordinals.start);
        let members = self.members.range(ordinals);
        members.filter_map(|(ordinal, stored)| Some((*ordinal, member(stored)?)))
    }

    /// The pods in this range that something may have to be done about, by ordinal.
    pub(super) fn needy(&self, ordinals: Range<i64>) -> impl Iterator<Item = (i64, Member<'_>)> {
        let ordinals = ordinals.start..ordinals.end.max(ordinals.start);
        let needy = self.needy.range(ordinals);
        needy.filter_map(|ordinal| Some((*ordinal, self.member(*ordinal)?)))
    }

    /// The pods in this range that something may have to be done about, or that are to be waited
    /// for: by ordinal.
    pub(super) fn unsettled(
        &self,
        ordinals: Range<i64>,
    ) -> impl Iterator<Item = (i64, Member<'_>)> {
        let ordinals = ordinals.start..ordinals.end.max(ordinals.start);
        let unsettled = self.unsettled.range(ordinals);
        unsettled.filter_map(|ordinal| Some((*ordinal, self.member(*ordinal)?)))
    }

    /// The pods in this range that are not of a revision and not going: the last `count` of them,
    /// the highest first.
    pub(super) fn outdated(&self, revision: &str, ordinals: Range<i64>, count: usize) -> Vec<i64> {
        let ordinals = ordinals.start..ordinals.end.max(ordinals.start);
        let others = self.revisions.iter();
        let others = others.filter(|(name, _)| name.as_deref() != Some(revision));
        let mut last: Vec<i64> = others
            .flat_map(|(_, (staying, _))| staying.range(ordinals.clone()).rev().take(count))
            .copied()
            .collect();
        last.sort_unstable_by(|a, b| b.cmp(a));
        last.truncate(count);
        last
    }

    /// How many ordinals in this range no pod has. O(pods beside the range).
    pub(super) fn missing(&self, ordinals: &Range<i64>) -> i64 {
        let end = ordinals.end.max(ordinals.start);
        let beside =
            self.members.range(..ordinals.start).count() + self.members.range(end..).count();
        let there = i64::try_from(self.members.len() - beside).unwrap_or(i64::MAX);
        end.saturating_sub(ordinals.start).saturating_sub(there)
    }

    /// The ordinals in this range that no pod has, in order.
    pub(super) fn gaps(&self, ordinals: Range<i64>) -> impl Iterator<Item = i64> {
        // A range without gaps need not be walked through.
        let range = match self.missing(&ordinals) > 0 {
            true => ordinals,
            false => 0..0,
        };
        range.filter(|ordinal| !self.members.contains_key(ordinal))
    }

    fn availability(&self, pod: &Pod) -> Availability {
        match pod.status.phase == "Running" {
            true => Availability::of(pod, self.basis.min_ready_seconds, i64::MIN),
            false => Availability::NotReady,
        }
    }
}

impl Sums for SetSums {
    type Basis = Basis;

    fn fits(&self, pod: &Pod) -> bool {
        is_member_of(&self.basis.name, pod)
    }

    fn of(basis: &Basis) -> Self {
        Self {
            basis: basis.clone(),
            members: BTreeMap::new(),
            ready: 0,
            available_at: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            needy: BTreeSet::new(),
            unkept: BTreeSet::new(),
            keeping: None,
            revisions: BTreeMap::new(),
        }
    }

    fn add(&mut self, _: &Key, stored: &Arc<Stored>, pod: &Pod) {
        let Some(ordinal) = ordinal_in(&self.basis.name, pod) else {
            return;
        };
        self.members.insert(ordinal, stored.clone());
        self.ready += usize::from(pod.status.phase == "Running" && is_ready(pod));
        let availability = self.availability(pod);
        if let Availability::At(time) = availability {
            self.available_at.insert((time, ordinal));
        }
        if availability != Availability::Now || !is_settled_once_available(pod) {
            self.unsettled.insert(ordinal);
        }
        if pod.is_finished() || !has_identity(pod) {
            self.needy.insert(ordinal);
        }
        if self.basis.has_claims {
            self.unkept.insert(ordinal);
        }
        let revision = member_revision(pod).cloned();
        let (staying, count) = self.revisions.entry(revision).or_default();
        *count += 1;
        if !is_going(pod) {
            staying.insert(ordinal);
        }
    }

    fn take(&mut self, _: &Key, _: &Arc<Stored>, pod: &Pod) {
        let Some(ordinal) = ordinal_in(&self.basis.name, pod) else {
            return;
        };
        self.members.remove(&ordinal);
        self.ready -= usize::from(pod.status.phase == "Running" && is_ready(pod));
        if let Availability::At(time) = self.availability(pod) {
            self.available_at.remove(&(time, ordinal));
        }
        self.unsettled.remove(&ordinal);
        self.needy.remove(&ordinal);
        self.unkept.remove(&ordinal);
        let revision = member_revision(pod).cloned();
        if let Some((staying, count)) = self.revisions.get_mut(&revision) {
            staying.remove(&ordinal);
            *count -= 1;
            if *count == 0 {
                self.revisions.remove(&revision);
            }
        }
    }
}

fn member(stored: &Arc<Stored>) -> Option<Member<'_>> {
    let pod = stored.get::<Pod>()?;
    Some(Member { stored, pod })
}

fn member_revision(pod: &Pod) -> Option<&String> {
    pod.metadata.labels.get(super::REVISION_LABEL)
}

/// Whether there is nothing to do about a pod that is available.
fn is_settled_once_available(pod: &Pod) -> bool {
    !is_going(pod) && has_identity(pod)
}
