//! Filter and Score stages whose plugin is not enabled at the stage that prepares them.
//!
//! PreFilter and PreScore leave behind what Filter and Score read, but a profile may enable
//! each without the other. Some plugins then find out by themselves what they need, others
//! fail, and with them the pod's cycle: each says so in `filter_node_alone` and its like.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, Code, DependsOn, FilterPlugin, FilterStage, IncomingPod,
    NodeFilter, NodeScore, Plugin, Reason, Refusal,
};
use crate::ids::NodeId;
use crate::pod_class::PodClass;
use crate::storage::VolumeReservation;

/// A plugin's Filter stage without its PreFilter stage.
struct Alone<P: ?Sized>(Arc<P>);

/// Whether the plugin of a Filter stage has a PreFilter stage at all.
pub(crate) fn has_pre_filter(stage: &FilterStage) -> bool {
    match stage {
        FilterStage::Node(plugin) => plugin.has_pre_filter(),
        FilterStage::Cluster(_) => true,
    }
}

/// The Filter stage as it is without the PreFilter stage.
pub(crate) fn filter_alone(stage: FilterStage) -> FilterStage {
    match stage {
        FilterStage::Node(plugin) => FilterStage::Node(Arc::new(Alone(plugin))),
        FilterStage::Cluster(plugin) => FilterStage::Cluster(Arc::new(Alone(plugin))),
    }
}

impl<P: Plugin + ?Sized> Plugin for Alone<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn annotations(&self) -> &[&'static str] {
        self.0.annotations()
    }
}

impl FilterPlugin for Alone<dyn FilterPlugin> {
    fn depends_on(&self) -> DependsOn {
        self.0.depends_on()
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        self.0.filter_node_alone(class, cluster, node)
    }
}

impl ClusterFilterPlugin for Alone<dyn ClusterFilterPlugin> {
    fn reserve(
        &self,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
        node: NodeId,
    ) -> Option<VolumeReservation> {
        self.0.reserve(pod, cluster, node)
    }

    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        self.0.prepare_filter_alone(pod, cluster)
    }

    fn may_help(&self, pod: &IncomingPod<'_>, event: &ClusterEvent<'_>, cluster: &Cluster) -> bool {
        self.0.may_help(pod, event, cluster)
    }
}

/// Refuses all nodes for one reason.
pub(crate) struct RefusesAll(pub(crate) Refusal);

impl RefusesAll {
    /// A filter that fails, in upstream's words, since it reads what PreFilter did not leave.
    pub(crate) fn failing<'c>(
        plugin: &'static str,
        text: &'static str,
    ) -> Box<dyn NodeFilter + 'c> {
        Box::new(Self(failure(plugin, text)))
    }
}

impl NodeFilter for RefusesAll {
    fn filter_node(&self, _: NodeId) -> Result<(), Refusal> {
        Err(self.0.clone())
    }
}

/// What a Filter stage says, in upstream's words, that reads what PreFilter did not leave.
pub(crate) fn failure(plugin: &'static str, text: &'static str) -> Refusal {
    Refusal::new(plugin, Code::Error, Reason::Fixed(text))
}

/// Rates all nodes 0.
pub(crate) struct RatesNone;

impl NodeScore for RatesNone {
    fn score_node(&self, _: NodeId) -> i64 {
        0
    }

    fn normalize(&self, _: &[NodeId], _: &mut [i64]) {}
}
