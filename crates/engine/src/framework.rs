//! The scheduling framework: what a plugin is, and how verdicts and scores are told.
//!
//! A decision runs through stages. *PreEnqueue* plugins may keep a pod out of the queue;
//! *PreFilter* may restrict the nodes; each *Filter* plugin may refuse a node, the first
//! refusal counts; *Score* plugins rate the nodes that are left, ratings are normalized
//! over them, weighted and summed; the best node is *reserved* and bound. Names, order and
//! meaning are those of kube-scheduler's framework (`kube-scheduler/framework/interface.go`,
//! Kubernetes 1.36).
//!
//! What differs is that a plugin states on what its answer depends ([`DependsOn`]), so
//! that answers can be kept until that changes.

use std::sync::Arc;

use outrank_api::decode::ObjectKind;

use crate::alone::RatesNone;
use crate::cluster::{Cluster, OwnerKey, PodInfo};
use crate::cross::CrossPlan;
use crate::ids::{NodeId, PodId, ResourceId, Symbol};
use crate::plugins::priority_share::OverShare;
use crate::pod_class::PodClass;
use crate::pod_match::label_value;
use crate::release::Release;
use crate::storage::VolumeReservation;
use crate::use_by_priority::Freed;

/// The best score of a node by one plugin, before weights.
pub const MAX_NODE_SCORE: i64 = 100;

/// A part of the scheduler that has a say at one or more stages.
pub trait Plugin: Send + Sync {
    /// Name, as in `KubeSchedulerConfiguration`.
    fn name(&self) -> &'static str;

    /// Keys of the annotations that the plugin reads, of pods
    /// ([`PodClass::annotation`](crate::pod_class::PodClass::annotation)) and of nodes
    /// ([`Cluster::annotation`]). No others are kept: pods that differ in annotations that
    /// nobody reads are the same to the scheduler.
    fn annotations(&self) -> &[&'static str] {
        &[]
    }

    /// What the Reserve stage says where PreFilter is not enabled, if it reads what that
    /// leaves.
    fn reserve_error_alone(&self) -> Option<&'static str> {
        None
    }

    /// What of a pod's volumes ([`IncomingPod::info`]) the plugin reads where it looks at
    /// the whole cluster. If it is anything at all, pods with volumes are decided by looking
    /// at every node.
    fn reads_volumes(&self) -> ReadsVolumes {
        ReadsVolumes::Anything
    }
}

/// What a plugin reads of a pod's volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadsVolumes {
    /// Nothing.
    Nothing,
    /// What the pod demands of storage: all pods with the same demand get the same answer of
    /// a node, and those without volumes none. Of nodes it reads what is logged for them.
    Demand,
    /// Maybe anything.
    Anything,
}

/// The stages at which one plugin has a say.
#[derive(Clone, Default)]
pub struct Stages {
    /// Its Filter stage.
    pub filter: Option<FilterStage>,
    /// Its Score stage.
    pub score: Option<ScoreStage>,
}

/// A Filter stage.
#[derive(Clone)]
pub enum FilterStage {
    /// Looks at one node at a time.
    Node(Arc<dyn FilterPlugin>),
    /// Looks at the whole cluster.
    Cluster(Arc<dyn ClusterFilterPlugin>),
}

/// A Score stage.
#[derive(Clone)]
pub enum ScoreStage {
    /// Looks at one node at a time.
    Node(Arc<dyn ScorePlugin>),
    /// Looks at the whole cluster.
    Cluster(Arc<dyn ClusterScorePlugin>),
}

impl Stages {
    /// A plugin that filters.
    pub fn filter(plugin: impl FilterPlugin + 'static) -> Self {
        Self {
            filter: Some(FilterStage::Node(Arc::new(plugin))),
            score: None,
        }
    }

    /// A plugin that scores.
    pub fn score(plugin: impl ScorePlugin + 'static) -> Self {
        Self {
            filter: None,
            score: Some(ScoreStage::Node(Arc::new(plugin))),
        }
    }

    /// A plugin that does both.
    pub fn filter_and_score(plugin: impl FilterPlugin + ScorePlugin + 'static) -> Self {
        let plugin = Arc::new(plugin);
        let filter = FilterStage::Node(plugin.clone());
        Self {
            filter: Some(filter),
            score: Some(ScoreStage::Node(plugin)),
        }
    }

    /// A plugin that looks at the whole cluster and filters.
    pub fn cluster_filter(plugin: impl ClusterFilterPlugin + 'static) -> Self {
        Self {
            filter: Some(FilterStage::Cluster(Arc::new(plugin))),
            score: None,
        }
    }

    /// A plugin that looks at the whole cluster, and filters and scores.
    pub fn cluster(plugin: impl ClusterFilterPlugin + ClusterScorePlugin + 'static) -> Self {
        let plugin = Arc::new(plugin);
        let filter = FilterStage::Cluster(plugin.clone());
        Self {
            filter: Some(filter),
            score: Some(ScoreStage::Cluster(plugin)),
        }
    }
}

/// On what the answer about a node depends, besides the pod's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependsOn {
    /// On the node object: labels, taints, capacity, name.
    NodeObject,
    /// On the node object and on the pods of that node.
    NodeUsage,
}

/// Refuses nodes.
pub trait FilterPlugin: Plugin {
    /// On what [`FilterPlugin::filter_node`] depends.
    fn depends_on(&self) -> DependsOn;

    /// Whether the plugin has anything to say about pods of this class; if not it is
    /// skipped, as when PreFilter says Skip.
    fn applies(&self, class: &PodClass) -> bool {
        let _ = class;
        true
    }

    /// The PreFilter stage: refuses the pod for all nodes alike.
    ///
    /// # Errors
    /// Why the pod is refused.
    fn pre_filter(&self, class: &PodClass) -> Result<(), Refusal> {
        let _ = class;
        Ok(())
    }

    /// Whether there is a PreFilter stage at all.
    fn has_pre_filter(&self) -> bool {
        true
    }

    /// Whether a node may take the pod.
    ///
    /// # Errors
    /// Why it may not.
    fn filter_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId)
    -> Result<(), Refusal>;

    /// The same where the PreFilter stage is not enabled, so that nobody was skipped either.
    ///
    /// # Errors
    /// Why it may not; an error if the plugin reads what PreFilter leaves.
    fn filter_node_alone(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        if !self.applies(class) {
            return Ok(());
        }
        self.filter_node(class, cluster, node)
    }

    /// What [`FilterPlugin::filter_node`] would say if pods went that take `freed` together;
    /// `None` if that depends on which pods these are. It saves trying what sums can tell.
    fn filter_node_freed(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
        freed: &Freed,
    ) -> Option<Result<(), Refusal>> {
        let _ = freed;
        let is_about_object = self.depends_on() == DependsOn::NodeObject;
        is_about_object.then(|| self.filter_node(class, cluster, node))
    }
}

/// The stage that leaves behind what Score reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreparedBy {
    /// Score reads nothing.
    Nothing,
    /// PreFilter.
    PreFilter,
    /// PreScore.
    PreScore,
}

/// Rates nodes.
pub trait ScorePlugin: Plugin {
    /// On what [`ScorePlugin::score_node`] depends.
    fn depends_on(&self) -> DependsOn;

    /// How scores are normalized over the feasible nodes.
    fn normalize(&self) -> Normalize {
        Normalize::None
    }

    /// The PreScore stage: whether the plugin rates pods of this class at all.
    ///
    /// # Errors
    /// What is wrong with the pod; its cycle then ends with an error.
    fn pre_score(&self, class: &PodClass) -> Result<bool, String> {
        let _ = class;
        Ok(true)
    }

    /// The stage without which [`ScorePlugin::score_node_alone`] is asked.
    fn prepared_by(&self) -> PreparedBy {
        PreparedBy::PreScore
    }

    /// The score, before normalizing and weights. Not negative if the score is normalized.
    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64;

    /// The same where the stage that prepares it is not enabled, so that nobody was skipped
    /// either.
    ///
    /// # Errors
    /// What is wrong with the pod, or that the plugin reads what that stage leaves.
    fn score_node_alone(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<i64, String> {
        match self.pre_score(class)? {
            true => Ok(self.score_node(class, cluster, node)),
            false => Ok(0),
        }
    }

    /// A number that grows whenever scores may have changed for another reason than a
    /// change of the node they are about.
    fn epoch(&self, class: &PodClass, cluster: &Cluster) -> u64 {
        let _ = (class, cluster);
        0
    }
}

/// The pod that is being decided.
#[derive(Clone, Copy)]
pub struct IncomingPod<'c> {
    /// Its name, without the namespace.
    pub name: Symbol,
    /// What its spec says.
    pub class: &'c PodClass,
    /// What other pods can see of it.
    pub info: PodInfo,
    /// The workload that controls it.
    pub owner: Option<OwnerKey>,
    /// Its priority.
    pub priority: i32,
    /// Whether preemption makes room for it on some node.
    pub is_nominated: bool,
}

/// Refuses nodes by what runs on other nodes.
pub trait ClusterFilterPlugin: Plugin {
    /// The PreFilter stage: refuses the pod for all nodes alike.
    ///
    /// # Errors
    /// Why the pod is refused.
    fn pre_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Result<(), Refusal> {
        let _ = (pod, cluster);
        Ok(())
    }

    /// The Reserve stage: what else is taken once the pod goes to the node.
    fn reserve(
        &self,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
        node: NodeId,
    ) -> Option<VolumeReservation> {
        let _ = (pod, cluster, node);
        None
    }

    /// The PreFilter stage: looks at the whole cluster once; `None` if the plugin has
    /// nothing to say about the pod (Skip).
    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>>;

    /// The same where the PreFilter stage is not enabled: the plugin prepares itself, or
    /// refuses nodes with an error if it reads what PreFilter leaves.
    fn prepare_filter_alone<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        self.prepare_filter(pod, cluster)
    }

    /// States the filter as counts, so that it is kept up to date instead of prepared
    /// for each pod. Returns whether that can be done.
    fn lower_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster, plan: &mut CrossPlan) -> bool {
        let _ = plan;
        self.prepare_filter(pod, cluster).is_none()
    }

    /// Whether a pod that this plugin refused may fit after an event, whose outcome is in
    /// `cluster` already. Upstream calls it the plugin's queueing hint.
    fn may_help(&self, pod: &IncomingPod<'_>, event: &ClusterEvent<'_>, cluster: &Cluster) -> bool;
}

/// What changed in the cluster beside what the nodes themselves have and take.
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'c> {
    /// A pod came to a node.
    PodCame(PodInfo),
    /// A pod left a node.
    PodLeft(PodInfo),
    /// A node is new or gone, or its labels or taints have changed.
    Node {
        /// Its labels; none if it is new.
        labels_before: &'c [(Symbol, Symbol)],
        /// Its labels; none if it is gone.
        labels_after: &'c [(Symbol, Symbol)],
    },
    /// Something that storage is made of is new or has changed, or is gone.
    Storage {
        /// Its kind.
        kind: ObjectKind,
        /// Its namespace, empty if it has none, and name.
        key: (Symbol, Symbol),
    },
    /// The labels of a namespace.
    Namespace,
    /// Which pods a service or workload selects.
    Selection,
}

impl ClusterEvent<'_> {
    /// Whether a node came to another value of the label, or left its value.
    pub fn moves_node(&self, label: Symbol) -> bool {
        let Self::Node {
            labels_before,
            labels_after,
        } = self
        else {
            return false;
        };
        label_value(labels_before, label) != label_value(labels_after, label)
    }
}

/// A filter that knows the cluster as it is now.
pub trait NodeFilter {
    /// Whether a node may take the pod.
    ///
    /// # Errors
    /// Why it may not.
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal>;

    /// Has the filter count a pod more (`by` is 1) or less (-1) on a node than there were when
    /// it was prepared. Upstream calls it AddPod and RemovePod (PreFilterExtensions).
    fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        let _ = (pod, node, by);
    }
}

/// Pods that are counted on a node, or not, other than when a filter was prepared.
#[derive(Clone, Debug, Default)]
pub(crate) struct MovedPods {
    came: Vec<(NodeId, PodId)>,
    left: Vec<(NodeId, PodId)>,
}

impl MovedPods {
    /// Takes in what [`NodeFilter::count_pod`] is told.
    pub(crate) fn count(&mut self, pod: PodId, node: NodeId, by: i64) {
        let (undone, done) = match by > 0 {
            true => (&mut self.left, &mut self.came),
            false => (&mut self.came, &mut self.left),
        };
        match undone.iter().position(|moved| *moved == (node, pod)) {
            Some(place) => _ = undone.swap_remove(place),
            None => done.push((node, pod)),
        }
    }

    /// Whether any pod of the node moved.
    pub(crate) fn concern(&self, node: NodeId) -> bool {
        let mut moved = self.came.iter().chain(&self.left);
        moved.any(|(other, _)| *other == node)
    }

    /// The pods that are on a node now.
    pub(crate) fn pods<'p>(
        &'p self,
        cluster: &'p Cluster,
        node: NodeId,
    ) -> impl Iterator<Item = PodId> + 'p {
        let stayed = cluster.pods(node).iter().copied();
        let stayed = stayed.filter(move |pod| !self.left.contains(&(node, *pod)));
        let came = self.came.iter().filter(move |(other, _)| *other == node);
        stayed.chain(came.map(|(_, pod)| *pod))
    }
}

/// Rates nodes by what runs on other nodes.
pub trait ClusterScorePlugin: Plugin {
    /// The PreScore stage: looks at the whole cluster once; `None` if the plugin does not
    /// rate nodes for the pod (Skip).
    fn prepare_score<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
        feasible: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>>;

    /// The same where the PreScore stage is not enabled, so that nobody was skipped either.
    ///
    /// # Errors
    /// That the plugin reads what PreScore leaves.
    fn prepare_score_alone<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
        feasible: &[NodeId],
    ) -> Result<Box<dyn NodeScore + 'c>, String> {
        let prepared = self.prepare_score(pod, cluster, feasible);
        Ok(prepared.unwrap_or_else(|| Box::new(RatesNone)))
    }

    /// States the rating as counts, as [`ClusterFilterPlugin::lower_filter`] does.
    fn lower_score(
        &self,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
        weight: i64,
        plan: &mut CrossPlan,
    ) -> bool {
        let _ = (weight, plan);
        self.prepare_score(pod, cluster, &[]).is_none()
    }
}

/// A rating that knows the cluster as it is now.
pub trait NodeScore {
    /// The score, before normalizing and weights.
    fn score_node(&self, node: NodeId) -> i64;

    /// Normalizes the scores of the feasible nodes to 0 .. [`MAX_NODE_SCORE`].
    fn normalize(&self, feasible: &[NodeId], scores: &mut [i64]);
}

/// How raw scores become scores from 0 to [`MAX_NODE_SCORE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalize {
    /// They are that already.
    None,
    /// In proportion to the highest one among the feasible nodes.
    ByMaximum,
    /// The same, highest and lowest exchanged.
    ByMaximumReversed,
}

impl Normalize {
    /// Normalizes a raw score, given the highest raw score among the feasible nodes.
    pub fn apply(self, raw: i64, maximum: i64) -> i64 {
        match self {
            Self::None => raw,
            Self::ByMaximum if maximum == 0 => raw,
            Self::ByMaximum => MAX_NODE_SCORE * raw / maximum,
            Self::ByMaximumReversed if maximum == 0 => MAX_NODE_SCORE,
            Self::ByMaximumReversed => MAX_NODE_SCORE - MAX_NODE_SCORE * raw / maximum,
        }
    }
}

/// What kind of no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// The pod could fit if other pods went away.
    Unschedulable,
    /// The pod could not fit even if other pods went away.
    UnschedulableAndUnresolvable,
    /// Something is wrong; the pod's cycle ends with an error, whatever other nodes say.
    Error,
}

impl Code {
    /// Upstream's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Self::Error => "Error",
        }
    }
}

/// Why a plugin refused a node, or a pod for all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The plugin.
    pub plugin: &'static str,
    /// What kind of no.
    pub code: Code,
    /// Reasons, at least one; an extender need not give any.
    pub reasons: Vec<Reason>,
}

impl Refusal {
    /// A refusal for a single reason.
    pub fn new(plugin: &'static str, code: Code, reason: Reason) -> Self {
        Self {
            plugin,
            code,
            reasons: vec![reason],
        }
    }

    /// The text of a release if PreFilter ended with an error for the pod of that name.
    pub(crate) fn pre_filter_error(
        &self,
        release: Release,
        pod: Symbol,
        cluster: &Cluster,
    ) -> String {
        let (plugin, texts) = (self.plugin, self.texts(cluster));
        let pod = cluster.symbols.text(pod);
        match release {
            Release::V1_36 => format!("running PreFilter plugin {plugin:?}: {texts}"),
            Release::V1_20 => {
                format!("error while running {plugin:?} prefilter plugin for pod {pod:?}: {texts}")
            }
        }
    }

    /// The text of a release if Filter ended with an error for the pod of that name.
    pub(crate) fn filter_error(&self, release: Release, pod: Symbol, cluster: &Cluster) -> String {
        let (plugin, texts) = (self.plugin, self.texts(cluster));
        let pod = cluster.symbols.text(pod);
        match release {
            Release::V1_36 => format!("running {plugin:?} filter plugin: {texts}"),
            Release::V1_20 => format!("running {plugin:?} filter plugin for pod {pod:?}: {texts}"),
        }
    }

    fn texts(&self, cluster: &Cluster) -> String {
        let texts: Vec<String> = self
            .reasons
            .iter()
            .map(|reason| reason.text(cluster))
            .collect();
        texts.join(", ")
    }
}

/// A reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned and the pod does not tolerate that.
    NodeUnschedulable,
    /// The pod names another node.
    NodeNameMismatch,
    /// A taint of the node is not tolerated.
    UntoleratedTaint,
    /// Node selector or required node affinity does not match.
    NodeAffinityMismatch,
    /// The affinity that the scheduler's configuration adds does not match.
    EnforcedNodeAffinityMismatch,
    /// The terms of the pod's node affinity contradict each other.
    NodeAffinityConflict,
    /// A port of the node is taken.
    PortsTaken,
    /// A topology spread constraint would be broken.
    SpreadConstraintsMismatch,
    /// The node lacks the label over which pods are to be spread.
    SpreadLabelMissing,
    /// The pods that must be near are not.
    PodAffinityMismatch,
    /// Pods that must not be near are.
    PodAntiAffinityMismatch,
    /// A pod there does not want this one near.
    ExistingPodsAntiAffinityMismatch,
    /// The node takes no more pods.
    TooManyPods,
    /// Too little of a resource is left.
    Insufficient(ResourceId),
    /// A pod there has a disk that cannot be shared.
    DiskConflict,
    /// Another pod uses a claim that only one may use.
    ReadWriteOncePodConflict,
    /// A CSI driver can attach no more volumes there.
    MaxVolumeCountExceeded,
    /// A volume of the pod cannot be reached from there.
    VolumeNodeAffinityConflict,
    /// No volume fits a claim there, and none can be made.
    NoVolumeToBind,
    /// A volume for a claim would be too large for what is left there.
    NotEnoughStorage,
    /// A claim is bound to a volume that does not exist.
    VolumeMissing,
    /// A volume of the pod is in another zone or region.
    VolumeZoneConflict,
    /// The node does not declare a feature that the pod needs.
    DeclaredFeaturesMismatch,
    /// The pods of its priority use all that they may of a resource.
    OverShare(Box<OverShare>),
    /// A reason in words that are always the same.
    Fixed(&'static str),
    /// A reason in words.
    Text(Box<str>),
}

impl Reason {
    /// Upstream's text of the reason.
    pub fn text(&self, cluster: &Cluster) -> String {
        match self {
            Self::NodeUnschedulable => "node(s) were unschedulable".into(),
            Self::NodeNameMismatch => "node(s) didn't match the requested node name".into(),
            Self::UntoleratedTaint => "node(s) had untolerated taint(s)".into(),
            Self::NodeAffinityMismatch => {
                "node(s) didn't match Pod's node affinity/selector".into()
            }
            Self::EnforcedNodeAffinityMismatch => {
                "node(s) didn't match scheduler-enforced node affinity".into()
            }
            Self::NodeAffinityConflict => "pod affinity terms conflict".into(),
            Self::PortsTaken => "node(s) didn't have free ports for the requested pod ports".into(),
            Self::SpreadConstraintsMismatch => {
                "node(s) didn't match pod topology spread constraints".into()
            }
            Self::SpreadLabelMissing => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
                    .into()
            }
            Self::PodAffinityMismatch => "node(s) didn't match pod affinity rules".into(),
            Self::PodAntiAffinityMismatch => "node(s) didn't match pod anti-affinity rules".into(),
            Self::ExistingPodsAntiAffinityMismatch => {
                "node(s) didn't satisfy existing pods anti-affinity rules".into()
            }
            Self::TooManyPods => "Too many pods".into(),
            Self::Insufficient(resource) => {
                format!("Insufficient {}", cluster.resource_name(*resource))
            }
            Self::DiskConflict => "node(s) had no available disk".into(),
            Self::ReadWriteOncePodConflict => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                 mode already in-use by another pod"
                    .into()
            }
            Self::MaxVolumeCountExceeded => "node(s) exceed max volume count".into(),
            Self::VolumeNodeAffinityConflict => {
                "node(s) didn't match PersistentVolume's node affinity".into()
            }
            Self::NoVolumeToBind => {
                "node(s) didn't find available persistent volumes to bind".into()
            }
            Self::NotEnoughStorage => "node(s) did not have enough free storage".into(),
            Self::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)".into()
            }
            Self::VolumeZoneConflict => "node(s) had no available volume zone".into(),
            Self::DeclaredFeaturesMismatch => "node(s) didn't match Pod's required features".into(),
            Self::OverShare(over) => over.text(cluster),
            Self::Fixed(text) => (*text).to_owned(),
            Self::Text(text) => text.to_string(),
        }
    }
}
