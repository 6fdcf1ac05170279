//! Profiles: which plugins decide, in which order, with which weights and arguments.
//!
//! [`ProfileConfig`] is plain data; its default is kube-scheduler's default profile
//! (`apis/config/v1/default_plugins.go`, Kubernetes 1.36). [`Profile`] is the same with
//! plugins built and resources interned.

use std::collections::BTreeSet;

use outrank_api::types::{NodeAffinity as NodeAffinitySpec, TopologySpreadConstraint};

use crate::cluster::Cluster;
use crate::cross::CrossPlan;
use crate::extensions::OwnPlugin;
use crate::framework::{
    ClusterFilterPlugin, FilterPlugin, FilterStage, IncomingPod, NodeFilter, Plugin, ReadsVolumes,
    Refusal, ScorePlugin, ScoreStage, Stages,
};
use crate::plugins::dynamic_resources::DynamicResources;
use crate::plugins::image_locality::ImageLocality;
use crate::plugins::inter_pod_affinity::InterPodAffinity;
use crate::plugins::legacy::node_conditions::NodeConditionPredicate;
use crate::plugins::legacy::node_label::NodeLabel;
use crate::plugins::legacy::node_prefer_avoid_pods::NodePreferAvoidPods;
use crate::plugins::legacy::node_resources::NodeResourcesScore;
use crate::plugins::legacy::pod_tolerates_node_no_execute_taints::PodToleratesNodeNoExecuteTaints;
use crate::plugins::legacy::service_affinity::ServiceAffinity;
use crate::plugins::legacy::volume_limits::VolumeLimits;
use crate::plugins::node_affinity::NodeAffinity;
use crate::plugins::node_declared_features::NodeDeclaredFeatures;
use crate::plugins::node_name::NodeName;
use crate::plugins::node_ports::NodePorts;
use crate::plugins::node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use crate::plugins::node_resources_fit::NodeResourcesFit;
use crate::plugins::node_unschedulable::NodeUnschedulable;
use crate::plugins::node_volume_limits::NodeVolumeLimits;
use crate::plugins::pod_topology_spread::PodTopologySpread;
use crate::plugins::scheduling_gates::SchedulingGates;
use crate::plugins::taint_toleration::TaintToleration;
use crate::plugins::volume_binding::VolumeBinding;
use crate::plugins::volume_restrictions::VolumeRestrictions;
use crate::plugins::volume_zone::VolumeZone;
use crate::release::Release;
use crate::storage::Cloud;

/// The scheduler name of the default profile, and of pods that name none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// A profile as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileConfig {
    /// Pods with this `spec.schedulerName` are placed by this profile.
    pub scheduler_name: String,
    /// The search for feasible nodes ends when so many percent of the nodes, 0 to 100, are
    /// found; 0 adapts to the size of the cluster. `None` considers every node, as 100 does.
    pub percentage_of_nodes_to_score: Option<u8>,
    /// Plugins of the PreEnqueue stage.
    pub pre_enqueue: Vec<String>,
    /// Plugins of the Filter stage (and PreFilter), in order.
    pub filter: Vec<String>,
    /// Plugins of the Score stage (and PreScore), with weights from 1 on.
    pub score: Vec<(String, i64)>,
    /// Arguments of NodeAffinity.
    pub added_affinity: Option<NodeAffinitySpec>,
    /// Arguments of InterPodAffinity.
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// Constraints that PodTopologySpread gives to pods without any; `None` is the built-in
    /// ones.
    pub default_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Arguments of NodeResourcesFit.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// Resources of NodeResourcesBalancedAllocation; their weights do not matter.
    pub balanced_allocation_resources: Vec<String>,
    /// Whose decisions the plugins make. Those of 1.20 score cpu and memory by plugins of
    /// their own instead of `node_resources_fit` and `balanced_allocation_resources`.
    pub release: Release,
    /// Arguments of plugins that only 1.20 has.
    pub legacy: LegacyArgs,
    /// Whether all filters are asked about each node, and all their reasons told, instead of
    /// those of the first that refuses it (`alwaysCheckAllPredicates`).
    pub checks_all_filters: bool,
    /// Whether there are extenders besides: without any Score plugin nodes then get 0
    /// instead of 1.
    pub has_extenders: bool,
}

/// Arguments of plugins that only 1.20 has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LegacyArgs {
    /// Arguments of NodeLabel.
    pub node_label: NodeLabelArgs,
    /// Arguments of ServiceAffinity.
    pub service_affinity: ServiceAffinityArgs,
    /// Resources of RequestedToCapacityRatio; without any all nodes get 0.
    pub ratio_resources: Vec<ResourceSpec>,
    /// Shape of RequestedToCapacityRatio: points by increasing utilization.
    pub ratio_shape: Vec<UtilizationShapePoint>,
}

/// Arguments of NodeLabel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLabelArgs {
    /// Labels that a node must have.
    pub present_labels: Vec<String>,
    /// Labels that a node must not have.
    pub absent_labels: Vec<String>,
    /// Labels that a node had better have.
    pub present_labels_preference: Vec<String>,
    /// Labels that a node had better not have.
    pub absent_labels_preference: Vec<String>,
}

/// Arguments of ServiceAffinity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAffinityArgs {
    /// Labels whose values are equal for the nodes of a service's pods.
    pub affinity_labels: Vec<String>,
    /// Labels over whose values the pods of a service are spread.
    pub anti_affinity_labels_preference: Vec<String>,
}

impl Default for ProfileConfig {
    fn default() -> Self {
        let filter = [
            NodeUnschedulable::NAME,
            NodeName::NAME,
            TaintToleration::NAME,
            NodeAffinity::NAME,
            NodePorts::NAME,
            NodeResourcesFit::NAME,
            VolumeRestrictions::NAME,
            NodeVolumeLimits::NAME,
            VolumeBinding::NAME,
            VolumeZone::NAME,
            PodTopologySpread::NAME,
            InterPodAffinity::NAME,
            DynamicResources::NAME,
            NodeDeclaredFeatures::NAME,
        ];
        let score = [
            (TaintToleration::NAME, 3),
            (NodeAffinity::NAME, 2),
            (NodeResourcesFit::NAME, 1),
            (VolumeBinding::NAME, 1),
            (PodTopologySpread::NAME, 2),
            (InterPodAffinity::NAME, 2),
            (DynamicResources::NAME, 2),
            (NodeResourcesBalancedAllocation::NAME, 1),
            (ImageLocality::NAME, 1),
        ];
        Self {
            scheduler_name: DEFAULT_SCHEDULER_NAME.into(),
            percentage_of_nodes_to_score: None,
            pre_enqueue: vec![SchedulingGates::NAME.into()],
            filter: filter.map(String::from).into(),
            score: score.map(|(name, weight)| (name.to_owned(), weight)).into(),
            added_affinity: None,
            inter_pod_affinity: InterPodAffinityArgs::default(),
            default_spread_constraints: None,
            node_resources_fit: NodeResourcesFitArgs::default(),
            balanced_allocation_resources: vec!["cpu".into(), "memory".into()],
            release: Release::V1_36,
            legacy: LegacyArgs::default(),
            checks_all_filters: false,
            has_extenders: false,
        }
    }
}

impl ProfileConfig {
    /// Whether there are nodes that may not be considered.
    pub fn samples_nodes(&self) -> bool {
        self.percentage_of_nodes_to_score
            .is_some_and(|percentage| percentage < 100)
    }
}

/// Arguments of NodeResourcesFit.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that the filter ignores.
    pub ignored_resources: Vec<String>,
    /// Groups (the part before the slash) of extended resources that the filter ignores.
    pub ignored_resource_groups: Vec<String>,
    /// How nodes are scored.
    pub scoring_strategy: ScoringStrategy,
}

impl Default for NodeResourcesFitArgs {
    fn default() -> Self {
        Self {
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
            scoring_strategy: ScoringStrategy::LeastAllocated(default_resources()),
        }
    }
}

/// Arguments of InterPodAffinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// What a required affinity term of a pod that is there counts, 0 to 100.
    pub hard_pod_affinity_weight: i64,
    /// Whether preferred terms of pods that are there count only for pods with some.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

/// CPU and memory with weight 1, the resources that strategies score by default.
pub fn default_resources() -> Vec<ResourceSpec> {
    ["cpu", "memory"]
        .map(|name| ResourceSpec {
            name: name.into(),
            weight: 1,
        })
        .into()
}

/// How NodeResourcesFit scores nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoringStrategy {
    /// The emptier the better.
    LeastAllocated(Vec<ResourceSpec>),
    /// The fuller the better.
    MostAllocated(Vec<ResourceSpec>),
    /// By a broken line over utilization; points by increasing utilization.
    RequestedToCapacityRatio(Vec<ResourceSpec>, Vec<UtilizationShapePoint>),
}

impl ScoringStrategy {
    /// The resources that count.
    pub fn resources(&self) -> &[ResourceSpec] {
        match self {
            Self::LeastAllocated(resources)
            | Self::MostAllocated(resources)
            | Self::RequestedToCapacityRatio(resources, _) => resources,
        }
    }
}

/// A resource and its weight in a score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSpec {
    /// Resource name.
    pub name: String,
    /// Weight, 1 to 100.
    pub weight: i64,
}

/// A point of the broken line of RequestedToCapacityRatio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtilizationShapePoint {
    /// Utilization in percent, 0 to 100.
    pub utilization: i64,
    /// Score, 0 to 10.
    pub score: i64,
}

/// A profile ready to decide.
pub struct Profile {
    /// Pods with this `spec.schedulerName` are placed by this profile.
    pub scheduler_name: String,
    /// As configured.
    pub percentage_of_nodes_to_score: Option<u8>,
    /// Whether SchedulingGates keeps gated pods out of the queue.
    pub holds_gated_pods: bool,
    /// Keys of the annotations of pods that plugins read, each once.
    pub annotations: Vec<&'static str>,
    /// Whose decisions the plugins make.
    pub release: Release,
    /// Whether all filters are asked about each node.
    pub checks_all_filters: bool,
    /// What every node gets if there is no Score plugin.
    pub score_without_plugins: i64,
    /// Names of the resources that NodeResourcesFit scores, in 1.20 its predecessors, in
    /// order.
    pub fit_resources: Vec<String>,
    /// Names of the resources that NodeResourcesBalancedAllocation scores, in order.
    pub balanced_resources: Vec<String>,
    filters: Vec<FilterStage>,
    scores: Vec<(ScoreStage, i64)>,
}

impl Profile {
    /// Builds the plugins of a configured profile; those that are not built in are found
    /// among `own`.
    ///
    /// # Errors
    /// Names a plugin that does not exist, has no such stage, or has bad arguments.
    pub fn new(
        config: &ProfileConfig,
        own: &[OwnPlugin],
        cluster: &mut Cluster,
    ) -> Result<Self, String> {
        if config.release == Release::V1_20 {
            cluster.keep_legacy();
        }
        let mut build = |name: &str| {
            let found = own.iter().find(|plugin| plugin.name() == name);
            match found {
                Some(plugin) => Ok(plugin.stages().clone()),
                None => build(name, config, cluster),
            }
        };
        let mut filters = Vec::new();
        for name in &config.filter {
            let filter = build(name)?.filter;
            filters.push(filter.ok_or_else(|| format!("plugin {name:?} does not filter"))?);
        }
        let mut scores = Vec::new();
        for (name, weight) in &config.score {
            let score = build(name)?.score;
            let score = score.ok_or_else(|| format!("plugin {name:?} does not score"))?;
            scores.push((score, *weight));
        }
        let filtering = filters.iter().map(FilterStage::plugin);
        let scoring = scores.iter().map(|(stage, _)| stage.plugin());
        let plugins = filtering.chain(scoring);
        let mut annotations: Vec<&'static str> = plugins
            .flat_map(|plugin| plugin.annotations().iter().copied())
            .collect();
        annotations.sort_unstable();
        annotations.dedup();
        for key in &annotations {
            cluster.keep_annotation(key);
        }
        Ok(Self {
            release: config.release,
            checks_all_filters: config.checks_all_filters,
            score_without_plugins: i64::from(!config.has_extenders),
            scheduler_name: config.scheduler_name.clone(),
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            holds_gated_pods: config
                .pre_enqueue
                .iter()
                .any(|name| name == SchedulingGates::NAME),
            annotations,
            fit_resources: config.scored_resources(),
            balanced_resources: config.balanced_allocation_resources.clone(),
            filters,
            scores,
        })
    }

    /// The Filter stages in order.
    pub fn filters(&self) -> &[FilterStage] {
        &self.filters
    }

    /// The Filter stages that look at one node at a time, with their place in the order.
    pub fn node_filters(&self) -> impl Iterator<Item = (usize, &dyn FilterPlugin)> {
        self.filters
            .iter()
            .enumerate()
            .filter_map(|(order, stage)| match stage {
                FilterStage::Node(plugin) => Some((order, plugin.as_ref())),
                FilterStage::Cluster(_) => None,
            })
    }

    /// The Filter stages that look at the whole cluster.
    pub fn cluster_filters(&self) -> impl Iterator<Item = &dyn ClusterFilterPlugin> {
        self.filters.iter().filter_map(|stage| match stage {
            FilterStage::Node(_) => None,
            FilterStage::Cluster(plugin) => Some(plugin.as_ref()),
        })
    }

    /// The Score stages in order, with their weights.
    pub fn scores(&self) -> &[(ScoreStage, i64)] {
        &self.scores
    }

    /// The Score stages that look at one node at a time, with their place in the order.
    pub fn node_scores(&self) -> impl Iterator<Item = (usize, &dyn ScorePlugin)> {
        self.scores
            .iter()
            .enumerate()
            .filter_map(|(order, (stage, _))| match stage {
                ScoreStage::Node(plugin) => Some((order, plugin.as_ref())),
                ScoreStage::Cluster(_) => None,
            })
    }

    /// The refusal by a PreFilter stage for all nodes alike.
    pub fn pre_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Option<Refusal> {
        self.filters.iter().find_map(|stage| match stage {
            FilterStage::Node(plugin) => plugin.pre_filter(pod.class).err(),
            FilterStage::Cluster(plugin) => plugin.pre_filter(pod, cluster).err(),
        })
    }

    /// What is to be counted of other nodes for a pod; `None` if counts do not tell all, so
    /// that every node must be evaluated.
    pub fn cross_plan(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Option<CrossPlan> {
        let has_volumes = pod.info.volumes != 0;
        if self.checks_all_filters || has_volumes && !self.knows_demands() {
            return None;
        }
        let mut plan = CrossPlan {
            release: self.release,
            ..CrossPlan::default()
        };
        for stage in &self.filters {
            match stage {
                // Counts are asked after all filters that look at one node: those that come
                // later in the profile must not have anything to say.
                FilterStage::Node(plugin) if plugin.applies(pod.class) => {
                    if !plan.filters.is_empty() {
                        return None;
                    }
                }
                FilterStage::Node(_) => {}
                // So must those that look at volumes, which are asked about one node too.
                FilterStage::Cluster(plugin) if reads_demand(plugin.as_ref()) => {
                    if has_volumes && !plan.filters.is_empty() {
                        return None;
                    }
                }
                FilterStage::Cluster(plugin) => {
                    if !plugin.lower_filter(pod, cluster, &mut plan) {
                        return None;
                    }
                }
            }
        }
        for (stage, weight) in &self.scores {
            if let ScoreStage::Cluster(plugin) = stage
                && !plugin.lower_score(pod, cluster, *weight, &mut plan)
            {
                return None;
            }
        }
        Some(plan)
    }

    /// Whether what a pod demands of storage says all that plugins read of its volumes.
    fn knows_demands(&self) -> bool {
        let filters = self.cluster_filters().map(|plugin| plugin.reads_volumes());
        let scores = self.scores.iter().filter_map(|(stage, _)| match stage {
            ScoreStage::Node(_) => None,
            ScoreStage::Cluster(plugin) => Some(plugin.reads_volumes()),
        });
        let mut all = filters.chain(scores);
        all.all(|reads| reads != ReadsVolumes::Anything)
    }

    /// The Filter stages that look at volumes, with their place in the order.
    pub(crate) fn volume_filters(&self) -> impl Iterator<Item = (usize, &dyn ClusterFilterPlugin)> {
        let stages = self.filters.iter().enumerate();
        stages.filter_map(|(order, stage)| match stage {
            FilterStage::Cluster(plugin) if reads_demand(plugin.as_ref()) => {
                Some((order, plugin.as_ref()))
            }
            _ => None,
        })
    }

    /// The same prepared for a pod, without those that have nothing to say about it.
    pub(crate) fn prepare_volume_filters<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Vec<(usize, Box<dyn NodeFilter + 'c>)> {
        let filters = self.volume_filters();
        let prepared = filters.filter_map(|(order, plugin)| {
            let prepared = plugin.prepare_filter(pod, cluster)?;
            Some((order, prepared))
        });
        prepared.collect()
    }

    /// The Score plugin at a place in the order, which is one of [`Profile::node_scores`],
    /// and its weight.
    pub(crate) fn node_score_at(&self, order: usize) -> (&dyn ScorePlugin, i64) {
        match &self.scores[order] {
            (ScoreStage::Node(plugin), weight) => (plugin.as_ref(), *weight),
            (ScoreStage::Cluster(_), _) => unreachable!("a plan names node scores only"),
        }
    }
}

fn reads_demand(plugin: &(impl Plugin + ?Sized)) -> bool {
    plugin.reads_volumes() == ReadsVolumes::Demand
}

/// Whether the engine brings a plugin of that name.
pub(crate) fn is_built_in(name: &str) -> bool {
    build(name, &ProfileConfig::default(), &mut Cluster::new()).is_ok()
}

impl ProfileConfig {
    /// Names of the resources that NodeResourcesFit scores, in 1.20 its predecessors, each
    /// once.
    fn scored_resources(&self) -> Vec<String> {
        let resources = match self.release {
            Release::V1_36 => self
                .node_resources_fit
                .scoring_strategy
                .resources()
                .to_vec(),
            Release::V1_20 => [default_resources(), self.legacy.ratio_resources.clone()].concat(),
        };
        let mut seen = BTreeSet::new();
        let names = resources.into_iter().map(|resource| resource.name);
        names
            .filter(|name| self.release == Release::V1_36 || seen.insert(name.clone()))
            .collect()
    }
}

fn build(name: &str, config: &ProfileConfig, cluster: &mut Cluster) -> Result<Stages, String> {
    let release = config.release;
    if release == Release::V1_20
        && let Some(stages) = build_legacy(name, config, cluster)
    {
        return Ok(stages);
    }
    let fit = &config.node_resources_fit;
    Ok(match name {
        NodeUnschedulable::NAME => Stages::filter(NodeUnschedulable::new()),
        NodeName::NAME => Stages::filter(NodeName::new(release)),
        TaintToleration::NAME => Stages::filter_and_score(TaintToleration::new(release)),
        NodeAffinity::NAME => {
            let added = config.added_affinity.as_ref();
            let plugin = NodeAffinity::new(release, added, &mut cluster.symbols)?;
            Stages::filter_and_score(plugin)
        }
        NodePorts::NAME => Stages::filter(NodePorts::new(&mut cluster.symbols)),
        NodeResourcesFit::NAME => {
            Stages::filter_and_score(NodeResourcesFit::new(release, fit, cluster))
        }
        PodTopologySpread::NAME => Stages::cluster(PodTopologySpread::new(
            release,
            config.default_spread_constraints.as_deref(),
            &mut cluster.symbols,
        )),
        InterPodAffinity::NAME => {
            let args = config.inter_pod_affinity;
            Stages::cluster(InterPodAffinity::new(
                release,
                args.hard_pod_affinity_weight,
                args.ignore_preferred_terms_of_existing_pods,
            ))
        }
        VolumeRestrictions::NAME => Stages::cluster_filter(VolumeRestrictions::new(release)),
        NodeVolumeLimits::NAME => Stages::cluster_filter(NodeVolumeLimits),
        VolumeBinding::NAME => Stages::cluster(VolumeBinding::new(release)),
        VolumeZone::NAME => Stages::cluster_filter(VolumeZone::new(release, &mut cluster.symbols)),
        NodeDeclaredFeatures::NAME => Stages::filter(NodeDeclaredFeatures),
        DynamicResources::NAME => Stages::filter_and_score(DynamicResources),
        NodeResourcesBalancedAllocation::NAME => Stages::score(
            NodeResourcesBalancedAllocation::new(&config.balanced_allocation_resources, cluster),
        ),
        ImageLocality::NAME => Stages::score(ImageLocality::new(release)),
        _ => return Err(format!("plugin {name:?} does not exist")),
    })
}

/// Builds a plugin that only 1.20 and older releases have, or had otherwise in all; `None` if
/// it is none of these.
fn build_legacy(name: &str, config: &ProfileConfig, cluster: &mut Cluster) -> Option<Stages> {
    let args = &config.legacy;
    let scored = config.scored_resources();
    Some(match name {
        NodeResourcesScore::LEAST_ALLOCATED => {
            Stages::score(NodeResourcesScore::least_allocated(&scored, cluster))
        }
        NodeResourcesScore::MOST_ALLOCATED => {
            Stages::score(NodeResourcesScore::most_allocated(&scored, cluster))
        }
        NodeResourcesScore::BALANCED_ALLOCATION => {
            Stages::score(NodeResourcesScore::balanced_allocation(&scored, cluster))
        }
        NodeResourcesScore::REQUESTED_TO_CAPACITY_RATIO => {
            let (resources, shape) = (&args.ratio_resources, &args.ratio_shape);
            let plugin =
                NodeResourcesScore::requested_to_capacity_ratio(resources, shape, &scored, cluster);
            Stages::score(plugin)
        }
        NodeLabel::NAME => {
            Stages::filter_and_score(NodeLabel::new(&args.node_label, &mut cluster.symbols))
        }
        ServiceAffinity::NAME => Stages::cluster(ServiceAffinity::new(
            &args.service_affinity,
            &mut cluster.symbols,
        )),
        NodePreferAvoidPods::NAME => Stages::score(NodePreferAvoidPods),
        VolumeLimits::EBS => Stages::cluster_filter(VolumeLimits::of_cloud(Cloud::Ebs, cluster)),
        VolumeLimits::GCE => Stages::cluster_filter(VolumeLimits::of_cloud(Cloud::Gce, cluster)),
        VolumeLimits::AZURE_DISK => {
            Stages::cluster_filter(VolumeLimits::of_cloud(Cloud::AzureDisk, cluster))
        }
        VolumeLimits::CINDER => {
            Stages::cluster_filter(VolumeLimits::of_cloud(Cloud::Cinder, cluster))
        }
        NodeVolumeLimits::NAME => Stages::cluster_filter(VolumeLimits::of_csi_drivers(cluster)),
        NodeConditionPredicate::CONDITION => Stages::filter(NodeConditionPredicate::Condition),
        NodeConditionPredicate::MEMORY_PRESSURE => {
            Stages::filter(NodeConditionPredicate::MemoryPressure)
        }
        NodeConditionPredicate::DISK_PRESSURE => {
            Stages::filter(NodeConditionPredicate::DiskPressure)
        }
        NodeConditionPredicate::PID_PRESSURE => Stages::filter(NodeConditionPredicate::PidPressure),
        PodToleratesNodeNoExecuteTaints::NAME => Stages::filter(PodToleratesNodeNoExecuteTaints),
        _ => return None,
    })
}
