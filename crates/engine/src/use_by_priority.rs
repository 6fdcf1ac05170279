//! What the pods of one node take together, by their priority: running sums.
//!
//! Whoever preempts may have all pods below its priority go. What that frees at most is one look
//! at a sum, whatever the number of pods, so that nodes on which it is not enough are told apart
//! before any pod is taken away ([`FilterPlugin::filter_node_freed`]).
//!
//! [`FilterPlugin::filter_node_freed`]: crate::framework::FilterPlugin::filter_node_freed

use crate::cluster::PodUsage;
use crate::ids::ResourceId;

/// What is free on a node beside what is, once some of its pods go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    pods: i64,
    /// By resource; those that are missing are 0.
    requests: Vec<i64>,
}

impl Freed {
    /// How many pods go.
    pub fn pods(&self) -> i64 {
        self.pods
    }

    /// What they ask of a resource.
    pub fn requested(&self, resource: ResourceId) -> i64 {
        self.requests.get(resource.index()).copied().unwrap_or(0)
    }

    /// Has another pod go. O(resources of the pod).
    pub(crate) fn add(&mut self, usage: &PodUsage) {
        self.count(usage, 1, i64::wrapping_add);
    }

    fn count(&mut self, usage: &PodUsage, pods: i64, change: fn(i64, i64) -> i64) {
        self.pods += pods;
        for &(resource, amount) in &usage.requests {
            if self.requests.len() <= resource.index() {
                self.requests.resize(resource.index() + 1, 0);
            }
            let freed = &mut self.requests[resource.index()];
            *freed = change(*freed, amount);
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct UseByPriority {
    /// For each priority that pods have, from low to high: what those up to it take together.
    up_to: Vec<(i32, Freed)>,
}

impl UseByPriority {
    /// A pod comes. O(priorities × resources of the pod).
    pub(crate) fn add(&mut self, priority: i32, usage: &PodUsage) {
        let place = self.up_to.partition_point(|(other, _)| *other < priority);
        if self.up_to.get(place).is_none_or(|it| it.0 != priority) {
            let below = place
                .checked_sub(1)
                .map(|below| self.up_to[below].1.clone());
            let level = (priority, below.unwrap_or_default());
            self.up_to.insert(place, level);
        }
        for (_, sum) in &mut self.up_to[place..] {
            sum.count(usage, 1, i64::wrapping_add);
        }
    }

    /// A pod that came goes. O(priorities × resources of the pod).
    pub(crate) fn remove(&mut self, priority: i32, usage: &PodUsage) {
        let place = self.up_to.partition_point(|(other, _)| *other < priority);
        for (_, sum) in &mut self.up_to[place..] {
            sum.count(usage, -1, i64::wrapping_sub);
        }
        let pods_below = place
            .checked_sub(1)
            .map_or(0, |below| self.up_to[below].1.pods);
        if self
            .up_to
            .get(place)
            .is_some_and(|(_, sum)| sum.pods == pods_below)
        {
            self.up_to.remove(place);
        }
    }

    /// What goes with all pods below a priority; `None` if there are none. O(log priorities).
    pub(crate) fn below(&self, priority: i32) -> Option<&Freed> {
        let place = self.up_to.partition_point(|(other, _)| *other < priority);
        Some(&self.up_to[place.checked_sub(1)?].1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usage(cpu: i64, gpus: i64) -> PodUsage {
        let requests = [(0, cpu), (4, gpus)].map(|(id, amount)| (ResourceId(id), amount));
        PodUsage {
            requests: requests.into_iter().filter(|it| it.1 > 0).collect(),
            ..PodUsage::default()
        }
    }

    proptest! {
        /// Whatever pods came and went, the sums are those of the pods that are there.
        #[test]
        fn sums_are_those_of_the_pods(
            pods in prop::collection::vec((-3..3i32, 0..9i64, 0..3i64, any::<bool>()), 0..30),
            priority in -4..4i32,
        ) {
            let mut by_priority = UseByPriority::default();
            for (priority, cpu, gpus, _) in &pods {
                by_priority.add(*priority, &usage(*cpu, *gpus));
            }
            let (stay, go): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| pod.3);
            for (priority, cpu, gpus, _) in go {
                by_priority.remove(priority, &usage(cpu, gpus));
            }
            let lower: Vec<_> = stay.iter().filter(|pod| pod.0 < priority).collect();
            let found = by_priority.below(priority).cloned().unwrap_or_default();
            prop_assert_eq!(found.pods(), lower.len() as i64);
            let cpu: i64 = lower.iter().map(|pod| pod.1).sum();
            let gpus: i64 = lower.iter().map(|pod| pod.2).sum();
            prop_assert_eq!((found.requested(ResourceId(0)), found.requested(ResourceId(4))), (cpu, gpus));
            prop_assert_eq!(by_priority.below(priority).is_none(), lower.is_empty());
        }
    }
}
