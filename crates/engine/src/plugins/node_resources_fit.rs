//! NodeResourcesFit: a node must have room for what the pod requests, and how full it
//! would be makes its score.
//!
//! Filter: number of pods, cpu, memory, ephemeral storage and every scalar resource. A
//! request above what the node could ever give is unresolvable: no preemption helps.
//! Extended resources can be ignored by name or by group (`ignoredResources`,
//! `ignoredResourceGroups`).
//!
//! Score: one of three strategies over weighted resources, LeastAllocated (spread),
//! MostAllocated (pack) or RequestedToCapacityRatio (any broken line). CPU and memory
//! count with 100m and 200Mi where a container requests nothing; an extended resource
//! counts only if the pod requests it, and any resource only if the node has it.
//!
//! Sources: `plugins/noderesources/{fit,resource_allocation,least_allocated,most_allocated,
//! requested_to_capacity_ratio}.go`, Kubernetes 1.36.

use outrank_api::pod_resources::is_extended_resource_name;

use crate::alone::failure;
use crate::cluster::Cluster;
use crate::framework::{
    Code, DependsOn, FilterPlugin, MAX_NODE_SCORE, Plugin, Reason, Refusal, ScorePlugin,
};
use crate::ids::{NodeId, ResourceId};
use crate::pod_class::PodClass;
use crate::profile::{NodeResourcesFitArgs, ScoringStrategy, UtilizationShapePoint};
use crate::release::Release;
use crate::use_by_priority::Freed;

/// See the module.
pub struct NodeResourcesFit {
    release: Release,
    ignored_resources: Vec<String>,
    ignored_resource_groups: Vec<String>,
    strategy: ScoringStrategy,
    resources: Vec<WeightedResource>,
}

/// A resource that counts for a score.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightedResource {
    pub(crate) resource: ResourceId,
    pub(crate) weight: i64,
}

impl NodeResourcesFit {
    /// Name in configurations.
    pub const NAME: &'static str = "NodeResourcesFit";

    /// The plugin as of a release, with its arguments.
    pub fn new(release: Release, args: &NodeResourcesFitArgs, cluster: &mut Cluster) -> Self {
        let strategy = args.scoring_strategy.clone();
        let resources = strategy.resources().iter().map(|spec| WeightedResource {
            resource: cluster.resource(&spec.name),
            weight: spec.weight,
        });
        let resources = resources.collect();
        Self {
            release,
            ignored_resources: args.ignored_resources.clone(),
            ignored_resource_groups: args.ignored_resource_groups.clone(),
            strategy,
            resources,
        }
    }

    fn is_ignored(&self, name: &str) -> bool {
        if self.ignored_resources.is_empty() && self.ignored_resource_groups.is_empty() {
            return false;
        }
        let group = name.split('/').next().unwrap_or_default();
        is_extended_resource_name(name)
            && (self.ignored_resources.iter().any(|ignored| ignored == name)
                || self
                    .ignored_resource_groups
                    .iter()
                    .any(|ignored| ignored == group))
    }

    fn filter_with(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
        freed: &Freed,
    ) -> Result<(), Refusal> {
        let mut requests = class.requests.iter();
        let lacks = |request: &(_, _)| self.lacks(cluster, node, *request, freed);
        if has_room_for_one_more(cluster, node, freed) && !requests.any(lacks) {
            return Ok(());
        }
        Err(self.refuse(class, cluster, node, freed))
    }

    fn refuse(&self, class: &PodClass, cluster: &Cluster, node: NodeId, freed: &Freed) -> Refusal {
        let mut refusal = Refusal {
            plugin: Self::NAME,
            code: Code::Unschedulable,
            reasons: Vec::new(),
        };
        if !has_room_for_one_more(cluster, node, freed) {
            refusal.reasons.push(Reason::TooManyPods);
        }
        for &(resource, request) in &class.requests {
            if !self.lacks(cluster, node, (resource, request), freed) {
                continue;
            }
            refusal.reasons.push(Reason::Insufficient(resource));
            // 1.20 does not tell a node that is full from one that is too small.
            if self.release > Release::V1_20 && request > cluster.allocatable(node, resource) {
                refusal.code = Code::UnschedulableAndUnresolvable;
            }
        }
        refusal
    }

    fn lacks(
        &self,
        cluster: &Cluster,
        node: NodeId,
        (resource, request): (ResourceId, i64),
        freed: &Freed,
    ) -> bool {
        let allocatable = cluster.allocatable(node, resource);
        let requested = cluster.requested(node, resource);
        let free = allocatable.wrapping_sub(requested.wrapping_sub(freed.requested(resource)));
        request > free
            && !(resource.is_scalar() && self.is_ignored(cluster.resource_name(resource)))
    }
}

fn has_room_for_one_more(cluster: &Cluster, node: NodeId, freed: &Freed) -> bool {
    (cluster.pods(node).len() as i64) - freed.pods() < cluster.allowed_pods(node)
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for NodeResourcesFit {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        self.filter_with(class, cluster, node, &Freed::default())
    }

    fn filter_node_freed(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
        freed: &Freed,
    ) -> Option<Result<(), Refusal>> {
        Some(self.filter_with(class, cluster, node, freed))
    }

    fn filter_node_alone(&self, _: &PodClass, _: &Cluster, _: NodeId) -> Result<(), Refusal> {
        let text = "error reading \"PreFilterNodeResourcesFit\" from cycleState: not found";
        Err(failure(Self::NAME, text))
    }
}

impl ScorePlugin for NodeResourcesFit {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let mut score_sum = 0i64;
        let mut weight_sum = 0i64;
        for (weighted, &request) in self.resources.iter().zip(&class.fit_score_requests) {
            let resource = weighted.resource;
            if request == 0 && resource.is_scalar() {
                continue;
            }
            let allocatable = cluster.allocatable(node, resource);
            if allocatable == 0 {
                continue;
            }
            let used = match resource {
                ResourceId::CPU_MILLI => cluster.non_zero_cpu_milli(node),
                ResourceId::MEMORY_BYTES => cluster.non_zero_memory_bytes(node),
                _ => cluster.requested(node, resource),
            };
            let score = self.strategy.score(used.wrapping_add(request), allocatable);
            if score == 0 && matches!(self.strategy, ScoringStrategy::RequestedToCapacityRatio(..))
            {
                continue;
            }
            score_sum = score_sum.wrapping_add(score.wrapping_mul(weighted.weight));
            weight_sum = weight_sum.wrapping_add(weighted.weight);
        }
        if weight_sum == 0 {
            return 0;
        }
        match self.strategy {
            ScoringStrategy::RequestedToCapacityRatio(..) => {
                (score_sum as f64 / weight_sum as f64).round() as i64
            }
            _ => score_sum / weight_sum,
        }
    }
}

impl ScoringStrategy {
    /// The score, 0 to 100, of a resource of which `requested` of `allocatable` would be used.
    fn score(&self, requested: i64, allocatable: i64) -> i64 {
        match self {
            Self::LeastAllocated(_) if requested > allocatable => 0,
            Self::LeastAllocated(_) => (allocatable.wrapping_sub(requested))
                .wrapping_mul(MAX_NODE_SCORE)
                .wrapping_div(allocatable),
            Self::MostAllocated(_) => requested
                .min(allocatable)
                .wrapping_mul(MAX_NODE_SCORE)
                .wrapping_div(allocatable),
            Self::RequestedToCapacityRatio(_, shape) if requested > allocatable => {
                broken_line(shape, 100)
            }
            Self::RequestedToCapacityRatio(_, shape) => {
                broken_line(shape, requested.wrapping_mul(100).wrapping_div(allocatable))
            }
        }
    }
}

/// The value at `utilization` of the broken line through `shape`, whose points have
/// increasing utilization and scores from 0 to 10; the result is scaled to 0 to 100.
pub(crate) fn broken_line(shape: &[UtilizationShapePoint], utilization: i64) -> i64 {
    const SCALE: i64 = MAX_NODE_SCORE / 10;
    let Some(next) = shape
        .iter()
        .position(|point| utilization <= point.utilization)
    else {
        return shape.last().map_or(0, |point| point.score * SCALE);
    };
    let right = shape[next];
    if next == 0 {
        return right.score * SCALE;
    }
    let left = shape[next - 1];
    let rise = (right.score - left.score) * SCALE * (utilization - left.utilization);
    left.score * SCALE + rise / (right.utilization - left.utilization)
}
