//! Zones: how many of their nodes are ready, and how fast others lose their pods.

use std::collections::BTreeSet;

use outrank_api::types::Node;

use super::NodeLifecycleOptions;

/// Region and zone of a node; empty where its labels do not say.
pub(super) type ZoneName = (String, String);

/// The zone of a node: of its old labels, where it has them, or else of its new ones.
pub(super) fn zone_of(node: &Node) -> ZoneName {
    let label = |old: &str, new: &str| {
        let labels = &node.metadata.labels;
        labels.get(old).or(labels.get(new)).cloned()
    };
    let region = label(
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    );
    let zone = label(
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    );
    (region.unwrap_or_default(), zone.unwrap_or_default())
}

/// How a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Nobody has looked yet.
    Initial,
    /// Most nodes are ready.
    Normal,
    /// Many nodes are not ready: at least three, and at least the share that is configured.
    PartialDisruption,
    /// No node is ready.
    FullDisruption,
}

impl ZoneState {
    /// The state of a zone with so many nodes of each sort.
    pub fn of(ready: usize, not_ready: usize, unhealthy_zone_threshold: f32) -> Self {
        let share = not_ready as f32 / (ready + not_ready) as f32;
        if ready == 0 && not_ready > 0 {
            ZoneState::FullDisruption
        } else if not_ready > 2 && share >= unhealthy_zone_threshold {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }

    /// How many nodes may get the taint `NoExecute` in a second, in a zone of that many nodes.
    pub(super) fn rate(self, nodes: usize, options: &NodeLifecycleOptions) -> f64 {
        match self {
            ZoneState::PartialDisruption if nodes > options.large_cluster_size_threshold => {
                options.secondary_node_eviction_rate
            }
            ZoneState::PartialDisruption => 0.0,
            _ => options.node_eviction_rate,
        }
    }
}

/// A zone, and the nodes in it that wait for their taint.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    /// `None` if the last round found no node in it that counts; it is a new one if it has nodes
    /// again.
    pub(super) state: Option<ZoneState>,
    pub(super) limiter: RateLimiter,
    /// Since when they wait.
    pub(super) waiting: BTreeSet<(i64, String)>,
}

impl Zone {
    pub(super) fn new(rate: f64) -> Self {
        Zone {
            state: Some(ZoneState::Initial),
            limiter: RateLimiter::new(rate),
            waiting: BTreeSet::new(),
        }
    }

    pub(super) fn is_waiting(&self, node: &str) -> bool {
        self.waiting.iter().any(|(_, waiting)| waiting == node)
    }

    /// The node does not wait any more.
    pub(super) fn forget(&mut self, node: &str) {
        self.waiting.retain(|(_, waiting)| waiting != node);
    }
}

/// Allows something once in a while: the first time at once, then no faster than the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateLimiter {
    /// A second's worth; 0 for never.
    rate: f64,
    /// When it allows the next.
    free_at: i64,
}

impl RateLimiter {
    pub(super) fn new(rate: f64) -> Self {
        RateLimiter {
            rate,
            free_at: i64::MIN,
        }
    }

    /// When it allows the next; `None` for never.
    pub(super) fn free_at(&self) -> Option<i64> {
        (self.rate > 0.0).then_some(self.free_at)
    }

    /// Whether it allows one now, which then counts.
    pub(super) fn accept(&mut self, now: i64) -> bool {
        let accepts = self.free_at().is_some_and(|free_at| free_at <= now);
        if accepts {
            self.free_at = now.saturating_add((1e9 / self.rate) as i64);
        }
        accepts
    }

    /// Allows nothing any more.
    pub(super) fn stop(&mut self) {
        self.rate = 0.0;
    }

    /// Changes the rate. Who had to wait under the old rate has to under the new one too.
    pub(super) fn set_rate(&mut self, rate: f64, now: i64) {
        if self.rate == rate {
            return;
        }
        let had_to_wait = !self.accept(now);
        *self = RateLimiter::new(rate);
        if had_to_wait {
            self.accept(now);
        }
    }
}
