//! NodeLabel: nodes must have some labels and must not have others, whatever the values;
//! and the same as a preference.
//! Source: `plugins/nodelabel/node_label.go`, Kubernetes 1.20.

use crate::cluster::Cluster;
use crate::framework::{
    Code, DependsOn, FilterPlugin, MAX_NODE_SCORE, Plugin, Reason, Refusal, ScorePlugin,
};
use crate::ids::{NodeId, Symbol, Symbols};
use crate::pod_class::PodClass;
use crate::profile::NodeLabelArgs;

/// See the module.
pub struct NodeLabel {
    present: Box<[Symbol]>,
    absent: Box<[Symbol]>,
    preferred_present: Box<[Symbol]>,
    preferred_absent: Box<[Symbol]>,
}

impl NodeLabel {
    /// Name in configurations of 1.20.
    pub const NAME: &'static str = "NodeLabel";

    /// The plugin with its arguments.
    pub fn new(args: &NodeLabelArgs, symbols: &mut Symbols) -> Self {
        let mut compile = |labels: &[String]| {
            let symbols = labels.iter().map(|label| symbols.intern(label));
            symbols.collect()
        };
        Self {
            present: compile(&args.present_labels),
            absent: compile(&args.absent_labels),
            preferred_present: compile(&args.present_labels_preference),
            preferred_absent: compile(&args.absent_labels_preference),
        }
    }
}

impl Plugin for NodeLabel {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for NodeLabel {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn filter_node(&self, _: &PodClass, cluster: &Cluster, node: NodeId) -> Result<(), Refusal> {
        let has = |label: &Symbol| cluster.label(node, *label).is_some();
        if self.present.iter().all(has) && !self.absent.iter().any(has) {
            return Ok(());
        }
        let reason = Reason::Fixed("node(s) didn't have the requested labels");
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(Self::NAME, code, reason))
    }
}

impl ScorePlugin for NodeLabel {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn score_node(&self, _: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let has = |label: &&Symbol| cluster.label(node, **label).is_some();
        let met = self.preferred_present.iter().filter(has).count()
            + self.preferred_absent.iter().filter(|it| !has(it)).count();
        let all = self.preferred_present.len() + self.preferred_absent.len();
        // A profile that scores by no labels is refused when it is built.
        met as i64 * MAX_NODE_SCORE / all.max(1) as i64
    }
}
