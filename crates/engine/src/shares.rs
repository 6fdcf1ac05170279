//! Shares of a resource: what pods of some priority hold of it together, kept up to date.
//!
//! The plugin [PriorityShare](crate::plugins::priority_share) limits shares. What is counted
//! here is nobody's limit yet: profiles with different limits for the same pods count once.
//! Sums change as pods come to nodes and leave them, and as nodes come, change and go; they
//! are never added up anew. A pod says of which shares it is when it is compiled
//! ([`PodUsage::shares`]), so that pods of no share cost nothing.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::cluster::PodUsage;
use crate::ids::{ResourceId, ShareId};

/// Whose pods are of a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharePods {
    /// Those of the priority class of that name (`spec.priorityClassName`).
    PriorityClass(String),
    /// Those with a priority (`spec.priority`, 0 if there is none) from `least` to `most`.
    Priorities {
        /// The lowest priority.
        least: i32,
        /// The highest priority.
        most: i32,
    },
}

/// A share: some pods, and the resource of which they may use a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose pods.
    pub pods: SharePods,
    /// The namespace of the pods; `None` is all.
    pub namespace: Option<String>,
    /// The resource.
    pub resource: ResourceId,
}

impl Share {
    /// Whether a pod is of the share.
    pub(crate) fn has_pod(&self, namespace: &str, priority_class: &str, priority: i32) -> bool {
        let has_priority = match &self.pods {
            SharePods::PriorityClass(name) => name == priority_class,
            SharePods::Priorities { least, most } => (*least..=*most).contains(&priority),
        };
        let own = self.namespace.as_deref();
        has_priority && own.is_none_or(|own| own == namespace)
    }
}

/// All shares that profiles limit, and what their pods hold.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    shares: Vec<Share>,
    counts: Vec<Counts>,
    /// The counts when [`Shares::take_grown`] was last asked.
    seen: Vec<Counts>,
}

/// What is counted of a share. Sums of many amounts may exceed what fits an `i64`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// What its pods on nodes ask for.
    held: i128,
    /// What its nominated pods ask for, by their priority.
    nominated: BTreeMap<i32, i128>,
    /// What all nodes offer of the resource.
    offered: i128,
}

impl Counts {
    /// Whether some pod may find more room than it did before.
    fn may_have_grown(&self, before: &Self) -> bool {
        self.held < before.held
            || self.offered > before.offered
            || self.nominated != before.nominated
    }
}

impl Shares {
    /// The number of a share, a new one if it was not named before. To be called before
    /// there are nodes and pods.
    pub(crate) fn name(&mut self, share: Share) -> ShareId {
        let known = self.shares.iter().position(|known| *known == share);
        ShareId::from_index(known.unwrap_or_else(|| {
            self.shares.push(share);
            self.counts.push(Counts::default());
            self.seen.push(Counts::default());
            self.shares.len() - 1
        }))
    }

    /// All shares.
    pub fn iter(&self) -> impl Iterator<Item = (ShareId, &Share)> {
        let shares = self.shares.iter().enumerate();
        shares.map(|(index, share)| (ShareId::from_index(index), share))
    }

    /// A share.
    pub fn get(&self, share: ShareId) -> &Share {
        &self.shares[share.index()]
    }

    /// What the pods of a share that are on nodes ask for of its resource, in units of
    /// the resource.
    pub fn held(&self, share: ShareId) -> i128 {
        self.counts[share.index()].held
    }

    /// What all nodes together offer of the resource of a share, in units of the resource.
    pub fn offered(&self, share: ShareId) -> i128 {
        self.counts[share.index()].offered
    }

    /// What nominated pods of a share ask for whose priority is in the range from `lowest` on,
    /// in units of the resource. O(distinct priorities of nominated pods).
    pub fn nominated(&self, share: ShareId, lowest: Bound<i32>) -> i128 {
        let nominated = &self.counts[share.index()].nominated;
        let counting = nominated.range((lowest, Bound::Unbounded));
        counting.map(|(_, amount)| amount).sum()
    }

    /// Counts so much more of a share as held, or less if it is negative.
    pub(crate) fn hold(&mut self, share: ShareId, amount: i64) {
        self.counts[share.index()].held += i128::from(amount);
    }

    /// Counts what a nominated pod asks for, or does so no more if `by` is -1.
    pub(crate) fn nominate(&mut self, usage: &PodUsage, priority: i32, by: i128) {
        for (share, amount) in &usage.shares {
            let nominated = &mut self.counts[share.index()].nominated;
            let sum = nominated.entry(priority).or_default();
            *sum += by * i128::from(*amount);
            // Equal counts must look equal.
            if *sum == 0 {
                nominated.remove(&priority);
            }
        }
    }

    /// Counts what a node offers, or does so no more if `by` is -1. O(shares).
    pub(crate) fn offer(&mut self, allocatable: impl Fn(ResourceId) -> i64, by: i128) {
        for (share, counts) in self.shares.iter().zip(&mut self.counts) {
            counts.offered += by * i128::from(allocatable(share.resource));
        }
    }

    /// Shares in which some pod may find more room than when this was last asked. O(shares).
    pub(crate) fn take_grown(&mut self) -> Vec<ShareId> {
        let mut grown = Vec::new();
        let counts = self.counts.iter().zip(&mut self.seen).enumerate();
        for (index, (now, seen)) in counts {
            if now.may_have_grown(seen) {
                grown.push(ShareId::from_index(index));
            }
            if now != seen {
                seen.clone_from(now);
            }
        }
        grown
    }
}
