//! Scores by resources as 1.20 has them, each a plugin of its own:
//! NodeResourcesLeastAllocated (spread), NodeResourcesMostAllocated (pack),
//! RequestedToCapacityRatio (any broken line) and NodeResourcesBalancedAllocation (even).
//!
//! They differ from what became of them in what counts: containers without requests count
//! with 100m and 200Mi even for the balance, resources that a node lacks count, and the
//! overhead of the pod itself counts in whole units, so that 100m of it are one
//! thousandth of a cpu. A node that would be too full gets nothing from the most allocated,
//! and utilization is rounded up.
//! Sources: `plugins/noderesources/{resource_allocation,least_allocated,most_allocated,
//! requested_to_capacity_ratio,balanced_allocation}.go`, Kubernetes 1.20.

use std::collections::BTreeMap;

use outrank_api::pod_resources::{
    DEFAULT_CPU_MILLI_REQUEST, DEFAULT_MEMORY_BYTES_REQUEST, is_scalar_resource_name,
};
use outrank_api::quantity::Quantity;
use outrank_api::types::{Container, PodSpec};

use crate::cluster::Cluster;
use crate::framework::{DependsOn, MAX_NODE_SCORE, Plugin, ScorePlugin};
use crate::ids::{NodeId, ResourceId};
use crate::plugins::node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use crate::plugins::node_resources_fit::{WeightedResource, broken_line};
use crate::pod_class::PodClass;
use crate::profile::{ResourceSpec, UtilizationShapePoint};

/// One of the plugins.
pub struct NodeResourcesScore {
    kind: Kind,
    resources: Vec<ScoredResource>,
}

enum Kind {
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio(Vec<UtilizationShapePoint>),
    BalancedAllocation,
}

#[derive(Clone, Copy)]
struct ScoredResource {
    weighted: WeightedResource,
    /// Its place in [`PodClass::fit_score_requests`].
    place: usize,
}

impl NodeResourcesScore {
    /// Name of the plugin that spreads.
    pub const LEAST_ALLOCATED: &'static str = "NodeResourcesLeastAllocated";
    /// Name of the plugin that packs.
    pub const MOST_ALLOCATED: &'static str = "NodeResourcesMostAllocated";
    /// Name of the plugin with a broken line.
    pub const REQUESTED_TO_CAPACITY_RATIO: &'static str = "RequestedToCapacityRatio";
    /// Name of the plugin that balances.
    pub const BALANCED_ALLOCATION: &'static str = NodeResourcesBalancedAllocation::NAME;

    /// The plugin that spreads over cpu and memory.
    pub fn least_allocated(scored: &[String], cluster: &mut Cluster) -> Self {
        Self::new(Kind::LeastAllocated, &cpu_and_memory(), scored, cluster)
    }

    /// The plugin that packs cpu and memory.
    pub fn most_allocated(scored: &[String], cluster: &mut Cluster) -> Self {
        Self::new(Kind::MostAllocated, &cpu_and_memory(), scored, cluster)
    }

    /// The plugin that balances cpu and memory.
    pub fn balanced_allocation(scored: &[String], cluster: &mut Cluster) -> Self {
        Self::new(Kind::BalancedAllocation, &cpu_and_memory(), scored, cluster)
    }

    /// The plugin with a broken line, whose points have increasing utilization.
    pub fn requested_to_capacity_ratio(
        resources: &[ResourceSpec],
        shape: &[UtilizationShapePoint],
        scored: &[String],
        cluster: &mut Cluster,
    ) -> Self {
        let kind = Kind::RequestedToCapacityRatio(shape.to_vec());
        Self::new(kind, resources, scored, cluster)
    }

    /// `scored` are all resources that the profile scores, in the order of
    /// [`PodClass::fit_score_requests`].
    fn new(
        kind: Kind,
        resources: &[ResourceSpec],
        scored: &[String],
        cluster: &mut Cluster,
    ) -> Self {
        // Of a resource that is named twice the last weight counts.
        let weights = resources.iter().map(|spec| (&spec.name, spec.weight));
        let weights: BTreeMap<&String, i64> = weights.collect();
        let scored = scored.iter().enumerate().filter_map(|(place, name)| {
            let weighted = WeightedResource {
                resource: cluster.resource(name),
                weight: *weights.get(name)?,
            };
            Some(ScoredResource { weighted, place })
        });
        Self {
            kind,
            resources: scored.collect(),
        }
    }

    /// What would be used of a resource with the pod, and what there is.
    fn use_of(
        &self,
        resource: &ScoredResource,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> (i64, i64) {
        let id = resource.weighted.resource;
        let used = match id {
            ResourceId::CPU_MILLI => cluster.non_zero_cpu_milli(node),
            ResourceId::MEMORY_BYTES => cluster.non_zero_memory_bytes(node),
            _ => cluster.requested(node, id),
        };
        let request = class.fit_score_requests[resource.place];
        (used.wrapping_add(request), cluster.allocatable(node, id))
    }

    fn balance(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let fraction = |resource| match self.use_of(resource, class, cluster, node) {
            (_, 0) => 1.0,
            (requested, capacity) => requested as f64 / capacity as f64,
        };
        let fractions: Vec<f64> = self.resources.iter().map(fraction).collect();
        match fractions.as_slice() {
            [cpu, memory] if *cpu < 1.0 && *memory < 1.0 => {
                ((1.0 - (cpu - memory).abs()) * MAX_NODE_SCORE as f64) as i64
            }
            _ => 0,
        }
    }
}

fn cpu_and_memory() -> Vec<ResourceSpec> {
    crate::profile::default_resources()
}

/// A share of a capacity in percent, rounded down.
fn percent(amount: i64, capacity: i64) -> i64 {
    amount.wrapping_mul(MAX_NODE_SCORE).wrapping_div(capacity)
}

impl Plugin for NodeResourcesScore {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::LeastAllocated => Self::LEAST_ALLOCATED,
            Kind::MostAllocated => Self::MOST_ALLOCATED,
            Kind::RequestedToCapacityRatio(_) => Self::REQUESTED_TO_CAPACITY_RATIO,
            Kind::BalancedAllocation => Self::BALANCED_ALLOCATION,
        }
    }
}

impl ScorePlugin for NodeResourcesScore {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        if matches!(self.kind, Kind::BalancedAllocation) {
            return self.balance(class, cluster, node);
        }
        let (mut score_sum, mut weight_sum) = (0i64, 0i64);
        for resource in &self.resources {
            let (requested, capacity) = self.use_of(resource, class, cluster, node);
            let is_too_much = capacity == 0 || requested > capacity;
            let score = match &self.kind {
                Kind::RequestedToCapacityRatio(shape) => {
                    let free = match is_too_much {
                        true => 0,
                        false => percent(capacity.wrapping_sub(requested), capacity),
                    };
                    let score = broken_line(shape, 100 - free);
                    if score <= 0 {
                        // Neither it nor its weight counts.
                        continue;
                    }
                    score
                }
                _ if is_too_much => 0,
                Kind::MostAllocated => percent(requested, capacity),
                _ => percent(capacity.wrapping_sub(requested), capacity),
            };
            let weight = resource.weighted.weight;
            score_sum = score_sum.wrapping_add(score.wrapping_mul(weight));
            weight_sum = weight_sum.wrapping_add(weight);
        }
        match self.kind {
            _ if weight_sum == 0 => 0,
            Kind::RequestedToCapacityRatio(_) => {
                (score_sum as f64 / weight_sum as f64).round() as i64
            }
            _ => score_sum / weight_sum,
        }
    }
}

/// What a pod counts by each of these resources: cpu in thousandths, others in whole units.
pub(crate) fn score_requests(spec: &PodSpec, resource_names: &[String]) -> Box<[i64]> {
    let total = |name: &String| {
        let is_known = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            || is_scalar_resource_name(name);
        if !is_known {
            return 0;
        }
        let request = |container: &Container| container_request(container, name);
        let together: i64 = spec.containers.iter().map(request).sum();
        let before = spec.init_containers.iter().map(request).max();
        let overhead = spec.overhead.get(name).map_or(0, Quantity::value);
        together.max(before.unwrap_or(0)).wrapping_add(overhead)
    };
    resource_names.iter().map(total).collect()
}

fn container_request(container: &Container, name: &str) -> i64 {
    match (name, container.resources.requests.get(name)) {
        ("cpu", Some(amount)) => amount.milli_value(),
        ("cpu", None) => DEFAULT_CPU_MILLI_REQUEST,
        ("memory", None) => DEFAULT_MEMORY_BYTES_REQUEST,
        (_, Some(amount)) => amount.value(),
        (_, None) => 0,
    }
}
