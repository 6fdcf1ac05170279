//! PrioritySort: the order of the queue.
//!
//! Higher priority first; among equals who has waited longer, where a refused pod starts to
//! wait anew. Pods that are equal in that too keep the order in which they came.
//! Source: `plugins/queuesort/priority_sort.go`, Kubernetes 1.36.

use std::cmp::Reverse;

use crate::queue::TimeNanos;

/// A pod's place in the queue: the greatest is tried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrioritySort {
    priority: i32,
    timestamp: Reverse<TimeNanos>,
    sequence: Reverse<u64>,
}

impl PrioritySort {
    /// Name in configurations.
    pub const NAME: &'static str = "PrioritySort";

    /// The place of a pod that came, or was last refused, at `timestamp`. `sequence` numbers
    /// pods in the order in which they came.
    pub fn new(priority: i32, timestamp: TimeNanos, sequence: u64) -> Self {
        Self {
            priority,
            timestamp: Reverse(timestamp),
            sequence: Reverse(sequence),
        }
    }

    /// The number that was given to the pod.
    pub fn sequence(&self) -> u64 {
        self.sequence.0
    }
}

#[cfg(test)]
mod tests {
    use super::PrioritySort;

    #[test]
    fn priority_then_arrival() {
        let first = PrioritySort::new(10, 5, 1);
        assert!(
            PrioritySort::new(11, 9, 2) > first,
            "a higher priority comes first"
        );
        assert!(PrioritySort::new(10, 6, 0) < first, "then who waits longer");
        assert!(PrioritySort::new(10, 5, 2) < first, "then who came first");
    }
}
