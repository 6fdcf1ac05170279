//! Profiles: which plugins decide, in which order, with which weights and arguments.
//!
//! [`ProfileConfig`] is plain data; its default is kube-scheduler's default profile
//! (`apis/config/v1/default_plugins.go`, Kubernetes 1.36). [`Profile`] is the same with
//! plugins built and resources interned.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrank_api::types::{NodeAffinity as NodeAffinitySpec, TopologySpreadConstraint};

use crate::alone::{filter_alone, has_pre_filter};
use crate::cluster::Cluster;
use crate::cross::CrossPlan;
use crate::extensions::OwnPlugin;
use crate::framework::{
    ClusterFilterPlugin, FilterPlugin, FilterStage, IncomingPod, NodeFilter, Plugin, PreparedBy,
    ReadsVolumes, Refusal, ScorePlugin, ScoreStage, Stages,
};
use crate::ids::NodeId;
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
use crate::plugins::priority_share::{LimitedShare, PriorityShare};
use crate::plugins::scheduling_gates::SchedulingGates;
use crate::plugins::taint_toleration::TaintToleration;
use crate::plugins::volume_binding::VolumeBinding;
use crate::plugins::volume_restrictions::VolumeRestrictions;
use crate::plugins::volume_zone::VolumeZone;
use crate::pod_class::PodClass;
use crate::preemption::safety::{PreemptionSafety, PreemptionSafetyArgs};
use crate::release::Release;
use crate::storage::{Cloud, VolumeReservation};

/// The scheduler name of the default profile, and of pods that name none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// The name in configurations of the plugin that preempts ([`crate::preemption`]).
pub const DEFAULT_PREEMPTION: &str = "DefaultPreemption";

/// How many candidates end the search for more, once one of them violates no budget: the
/// larger of a share of the nodes that are tried and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinimumCandidates {
    /// `minCandidateNodesPercentage`, 0 to 100.
    pub percentage: u8,
    /// `minCandidateNodesAbsolute`.
    pub absolute: usize,
}

/// A plugin that is asked when no node takes a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostFilterPlugin {
    /// Has devices given back that the pod holds where it cannot be.
    DynamicResources,
    /// Has pods of lower priority go.
    DefaultPreemption,
}

impl PostFilterPlugin {
    fn find(name: &str) -> Option<Self> {
        match name {
            DynamicResources::NAME => Some(Self::DynamicResources),
            DEFAULT_PREEMPTION => Some(Self::DefaultPreemption),
            _ => None,
        }
    }
}

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
    /// Plugins of the PreFilter stage, in order; `None` is those of the Filter stage, and
    /// whoever reads what PreFilter leaves finds it.
    pub pre_filter: Option<Vec<String>>,
    /// Plugins of the Filter stage, in order.
    pub filter: Vec<String>,
    /// Plugins of the PostFilter stage, in order; those that are not built in have no say.
    pub post_filter: Vec<String>,
    /// Plugins of the PreScore stage, in order; `None` is those of the Score stage.
    pub pre_score: Option<Vec<String>>,
    /// Plugins of the Score stage, with weights from 1 on.
    pub score: Vec<(String, i64)>,
    /// Plugins of the Reserve stage; `None` is those of the Filter stage.
    pub reserve: Option<Vec<String>>,
    /// Arguments of NodeAffinity.
    pub added_affinity: Option<NodeAffinitySpec>,
    /// Arguments of DefaultPreemption: how many candidates end the search for more; `None`
    /// looks for all, which upstream's defaults (10 %, 100) do not, but at random.
    pub minimum_candidates: Option<MinimumCandidates>,
    /// What makes preemption safer than upstream's; `None` is nothing.
    pub preemption_safety: Option<PreemptionSafetyArgs>,
    /// Arguments of InterPodAffinity.
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// Constraints that PodTopologySpread gives to pods without any; `None` is the built-in
    /// ones.
    pub default_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Arguments of NodeResourcesFit.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// Resources of NodeResourcesBalancedAllocation; their weights do not matter.
    pub balanced_allocation_resources: Vec<String>,
    /// Limits of PriorityShare, which is not in the default profile.
    pub priority_shares: Vec<LimitedShare>,
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
            pre_filter: None,
            filter: filter.map(String::from).into(),
            post_filter: vec![DynamicResources::NAME.into(), DEFAULT_PREEMPTION.into()],
            pre_score: None,
            reserve: None,
            score: score.map(|(name, weight)| (name.to_owned(), weight)).into(),
            added_affinity: None,
            minimum_candidates: None,
            preemption_safety: None,
            inter_pod_affinity: InterPodAffinityArgs::default(),
            default_spread_constraints: None,
            node_resources_fit: NodeResourcesFitArgs::default(),
            balanced_allocation_resources: vec!["cpu".into(), "memory".into()],
            priority_shares: Vec::new(),
            release: Release::V1_36,
            legacy: LegacyArgs::default(),
            checks_all_filters: false,
            has_extenders: false,
        }
    }
}

impl ProfileConfig {
    /// Whether pods of lower priority may be killed for others.
    pub fn preempts(&self) -> bool {
        self.post_filter
            .iter()
            .any(|name| name == DEFAULT_PREEMPTION)
    }

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
    /// The PostFilter plugins, in order.
    pub post_filters: Vec<PostFilterPlugin>,
    /// As configured.
    pub minimum_candidates: Option<MinimumCandidates>,
    /// As configured.
    pub(crate) preemption_safety: Option<PreemptionSafety>,
    /// What goes wrong once a pod has its node: Reserve reads what PreFilter did not leave.
    pub reserve_error: Option<String>,
    /// Whether PreFilter may restrict pods to nodes that they name.
    pub restricts_to_listed_nodes: bool,
    /// The PreFilter plugin that holds pods to their shares, if it is enabled.
    pub(crate) priority_share: Option<PriorityShare>,
    /// Where they are not those of Filter.
    pre_filters: Option<Vec<FilterStage>>,
    filters: Vec<FilterStage>,
    /// Those that look at one node at a time; others cannot fail.
    pre_scores: Vec<Arc<dyn ScorePlugin>>,
    scores: Vec<Scoring>,
    /// Which plugins reserve, where that are not those of Filter.
    reserving: Option<Vec<String>>,
    /// Whether a stage lacks the one that prepares it. Verdicts know nothing of such.
    has_stages_alone: bool,
}

/// A Score stage of a profile.
pub struct Scoring {
    /// The stage.
    pub stage: ScoreStage,
    /// By what its scores are multiplied.
    pub weight: i64,
    /// Whether the stage that prepares it is not enabled.
    pub is_alone: bool,
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
        let safety = config.preemption_safety.as_ref();
        let preemption_safety =
            safety.map(|args| PreemptionSafety::new(args, &mut cluster.symbols));
        let mut builder = Builder {
            config,
            own,
            cluster,
        };
        let pre_filters = builder.pre_filters()?;
        let (filters, is_filter_alone) = builder.filters()?;
        let scores = builder.scores()?;
        let pre_scores = builder.pre_scores(&scores)?;
        let reserve_error = builder.reserve_error()?;
        let has_stages_alone = is_filter_alone || scores.iter().any(|scoring| scoring.is_alone);
        let priority_share = builder.priority_share();
        let mut profile = Self {
            release: config.release,
            checks_all_filters: config.checks_all_filters,
            score_without_plugins: i64::from(!config.has_extenders),
            scheduler_name: config.scheduler_name.clone(),
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            holds_gated_pods: config
                .pre_enqueue
                .iter()
                .any(|name| name == SchedulingGates::NAME),
            annotations: Vec::new(),
            fit_resources: config.scored_resources(),
            balanced_resources: config.balanced_allocation_resources.clone(),
            minimum_candidates: config.minimum_candidates,
            preemption_safety,
            post_filters: (config.post_filter.iter())
                .filter_map(|name| PostFilterPlugin::find(name))
                .collect(),
            reserve_error,
            restricts_to_listed_nodes: config.has_pre_filter(NodeAffinity::NAME),
            priority_share,
            pre_filters,
            filters,
            pre_scores,
            scores,
            reserving: config.reserve.clone(),
            has_stages_alone,
        };
        profile.keep_annotations(cluster);
        Ok(profile)
    }

    /// Has the cluster keep the annotations that plugins read.
    fn keep_annotations(&mut self, cluster: &mut Cluster) {
        let filters = self.filters.iter().chain(self.pre_filters.iter().flatten());
        let filtering = filters.map(FilterStage::plugin);
        let scoring = self.scores.iter().map(|scoring| scoring.stage.plugin());
        let pre_scores = self.pre_scores.iter();
        let preparing = pre_scores.map(|plugin| -> &dyn Plugin { plugin.as_ref() });
        let plugins = filtering.chain(scoring).chain(preparing);
        let mut annotations: Vec<&'static str> = plugins
            .flat_map(|plugin| plugin.annotations().iter().copied())
            .collect();
        annotations.sort_unstable();
        annotations.dedup();
        for key in &annotations {
            cluster.keep_annotation(key);
        }
        self.annotations = annotations;
    }

    /// Whether PreFilter of DynamicResources comes before that of `plugin`. Node lists that
    /// have no node in common, which no plugin is named for, are those of NodeAffinity.
    pub(crate) fn reaches_dynamic_resources(&self, plugin: &str) -> bool {
        let plugin = match plugin {
            "" => NodeAffinity::NAME,
            plugin => plugin,
        };
        let stages = self.pre_filters.as_ref().unwrap_or(&self.filters);
        let mut names = stages.iter().map(|stage| stage.plugin().name());
        let first = names.find(|name| [DynamicResources::NAME, plugin].contains(name));
        first == Some(DynamicResources::NAME)
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

    /// Whatever looks at the whole cluster and may have refused a pod.
    pub(crate) fn cluster_refusers(&self) -> impl Iterator<Item = &dyn ClusterFilterPlugin> {
        let pre_filters = self.pre_filters.iter().flatten();
        let pre_filters = pre_filters.filter_map(|stage| match stage {
            FilterStage::Node(_) => None,
            FilterStage::Cluster(plugin) => Some(plugin.as_ref()),
        });
        self.cluster_filters().chain(pre_filters)
    }

    /// What the Reserve stage takes beside the node. Plugins that Filter did not ask know of
    /// nothing to take.
    pub(crate) fn reserve(
        &self,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
        node: NodeId,
    ) -> Option<VolumeReservation> {
        let mut plugins = self.cluster_filters().filter(|plugin| {
            let reserving = self.reserving.as_ref();
            reserving.is_none_or(|names| names.iter().any(|name| name == plugin.name()))
        });
        plugins.find_map(|plugin| plugin.reserve(pod, cluster, node))
    }

    /// The Score stages in order.
    pub fn scores(&self) -> &[Scoring] {
        &self.scores
    }

    /// The Score stages that look at one node at a time, with their place in the order.
    pub fn node_scores(&self) -> impl Iterator<Item = (usize, &dyn ScorePlugin)> {
        self.scores
            .iter()
            .enumerate()
            .filter_map(|(order, scoring)| match &scoring.stage {
                ScoreStage::Node(plugin) => Some((order, plugin.as_ref())),
                ScoreStage::Cluster(_) => None,
            })
    }

    /// The refusal by a PreFilter stage for all nodes alike.
    pub fn pre_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Option<Refusal> {
        let stages = self.pre_filters.as_ref().unwrap_or(&self.filters);
        stages.iter().find_map(|stage| match stage {
            FilterStage::Node(plugin) => plugin.pre_filter(pod.class).err(),
            FilterStage::Cluster(plugin) => plugin.pre_filter(pod, cluster).err(),
        })
    }

    /// What the PreScore stage finds wrong with pods of a class. It is not reached if there
    /// is nobody to rate nodes.
    pub fn pre_score_error(&self, class: &PodClass) -> Option<String> {
        if self.scores.is_empty() && self.score_without_plugins != 0 {
            return None;
        }
        self.pre_scores.iter().find_map(|plugin| {
            let error = plugin.pre_score(class).err()?;
            Some(format!(
                "running PreScore plugin {:?}: {error}",
                plugin.name()
            ))
        })
    }

    /// What is to be counted of other nodes for a pod; `None` if counts do not tell all, so
    /// that every node must be evaluated.
    pub fn cross_plan(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Option<CrossPlan> {
        let has_volumes = pod.info.volumes != 0;
        if self.checks_all_filters || self.has_stages_alone || has_volumes && !self.knows_demands()
        {
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
        for scoring in &self.scores {
            if let ScoreStage::Cluster(plugin) = &scoring.stage
                && !plugin.lower_score(pod, cluster, scoring.weight, &mut plan)
            {
                return None;
            }
        }
        Some(plan)
    }

    /// Whether what a pod demands of storage says all that plugins read of its volumes.
    fn knows_demands(&self) -> bool {
        let filters = self.cluster_filters().map(|plugin| plugin.reads_volumes());
        let scores = self
            .scores
            .iter()
            .filter_map(|scoring| match &scoring.stage {
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
        let scoring = &self.scores[order];
        match &scoring.stage {
            ScoreStage::Node(plugin) => (plugin.as_ref(), scoring.weight),
            ScoreStage::Cluster(_) => unreachable!("a plan names node scores only"),
        }
    }
}

/// Builds the plugins of a profile.
struct Builder<'b> {
    config: &'b ProfileConfig,
    own: &'b [OwnPlugin],
    cluster: &'b mut Cluster,
}

impl Builder<'_> {
    fn stages(&mut self, name: &str) -> Result<Stages, String> {
        match self.own.iter().find(|plugin| plugin.name() == name) {
            Some(plugin) => Ok(plugin.stages().clone()),
            None => build(name, self.config, self.cluster),
        }
    }

    fn filter(&mut self, name: &str) -> Result<FilterStage, String> {
        let filter = self.stages(name)?.filter;
        filter.ok_or_else(|| format!("plugin {name:?} does not filter"))
    }

    fn score(&mut self, name: &str) -> Result<ScoreStage, String> {
        let score = self.stages(name)?.score;
        score.ok_or_else(|| format!("plugin {name:?} does not score"))
    }

    fn pre_filters(&mut self) -> Result<Option<Vec<FilterStage>>, String> {
        let config = self.config;
        let Some(names) = &config.pre_filter else {
            return Ok(None);
        };
        let stages = names.iter().map(|name| self.filter(name));
        stages.collect::<Result<_, _>>().map(Some)
    }

    /// The Filter stages, and whether one of them lacks its PreFilter stage.
    fn filters(&mut self) -> Result<(Vec<FilterStage>, bool), String> {
        let config = self.config;
        let mut is_any_alone = false;
        let mut filters = Vec::new();
        for name in &config.filter {
            let mut stage = self.filter(name)?;
            if has_pre_filter(&stage) && lacks(&config.pre_filter, name) {
                is_any_alone = true;
                stage = filter_alone(stage);
            }
            filters.push(stage);
        }
        Ok((filters, is_any_alone))
    }

    fn priority_share(&mut self) -> Option<PriorityShare> {
        let limited = &self.config.priority_shares;
        let is_enabled = self.config.has_pre_filter(PriorityShare::NAME);
        is_enabled.then(|| PriorityShare::new(limited, self.cluster))
    }

    fn scores(&mut self) -> Result<Vec<Scoring>, String> {
        let config = self.config;
        let mut scores = Vec::new();
        for (name, weight) in &config.score {
            let stage = self.score(name)?;
            let prepared_by = match &stage {
                ScoreStage::Node(plugin) => plugin.prepared_by(),
                ScoreStage::Cluster(_) => PreparedBy::PreScore,
            };
            let is_alone = match prepared_by {
                PreparedBy::Nothing => false,
                PreparedBy::PreFilter => lacks(&config.pre_filter, name),
                PreparedBy::PreScore => lacks(&config.pre_score, name),
            };
            scores.push(Scoring {
                stage,
                weight: *weight,
                is_alone,
            });
        }
        Ok(scores)
    }

    fn pre_scores(&mut self, scores: &[Scoring]) -> Result<Vec<Arc<dyn ScorePlugin>>, String> {
        let config = self.config;
        let stages = match &config.pre_score {
            None => scores.iter().map(|scoring| scoring.stage.clone()).collect(),
            Some(names) => {
                let stages = names.iter().map(|name| self.score(name));
                stages.collect::<Result<Vec<_>, _>>()?
            }
        };
        let node_scores = stages.into_iter().filter_map(|stage| match stage {
            ScoreStage::Node(plugin) => Some(plugin),
            ScoreStage::Cluster(_) => None,
        });
        Ok(node_scores.collect())
    }

    fn reserve_error(&mut self) -> Result<Option<String>, String> {
        let config = self.config;
        for name in config.reserve.iter().flatten() {
            let stages = self.stages(name)?;
            let plugin = stages.filter.as_ref().map(FilterStage::plugin);
            if let Some(text) = plugin.and_then(Plugin::reserve_error_alone)
                && lacks(&config.pre_filter, name)
            {
                return Ok(Some(format!("running Reserve plugin {name:?}: {text}")));
            }
        }
        Ok(None)
    }
}

/// Whether a stage with plugins of its own does not have one.
fn lacks(names: &Option<Vec<String>>, name: &str) -> bool {
    let names = names.as_ref();
    names.is_some_and(|names| names.iter().all(|other| other != name))
}

fn reads_demand(plugin: &(impl Plugin + ?Sized)) -> bool {
    plugin.reads_volumes() == ReadsVolumes::Demand
}

/// Whether the engine brings a plugin of that name.
pub(crate) fn is_built_in(name: &str) -> bool {
    build(name, &ProfileConfig::default(), &mut Cluster::new()).is_ok()
}

impl ProfileConfig {
    /// Whether a plugin is one of PreFilter.
    fn has_pre_filter(&self, plugin: &str) -> bool {
        let names = self.pre_filter.as_ref().unwrap_or(&self.filter);
        names.iter().any(|name| name == plugin)
    }

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
        PriorityShare::NAME => {
            let limited = &config.priority_shares;
            Stages::cluster_filter(PriorityShare::new(limited, cluster))
        }
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
