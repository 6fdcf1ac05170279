//! A plugin of one's own: pods prefer nodes that offer what they ask for in an annotation.
//!
//! A node says what it offers, a pod what it prefers:
//!
//! ```yaml
//! kind: Node
//! metadata: {annotations: {example.com/offers: "fast-disk, licence"}}
//! ---
//! kind: Pod
//! metadata: {annotations: {example.com/prefers: fast-disk}}
//! ```
//!
//! A node that offers it scores 100, another 0. To make a plugin of your own, copy this
//! folder, and change [`PreferredByAnnotation`]:
//!
//! * A plugin that refuses nodes implements `FilterPlugin`, one that rates them `ScorePlugin`,
//!   one that does both hands over `Stages::filter_and_score`.
//! * It reads what the engine has made of pods and nodes, `PodClass` and `Cluster`, and the
//!   annotations that it names. Pods for which all this is equal share their answers.
//! * Answers are kept until what they depend on changes. A plugin that reads the use of a
//!   node must say `DependsOn::NodeUsage`, or its answers will be out of date.
//! * It must be a function: no clock, no file, no random number. That is why a rehearsal says
//!   what will happen.

use outrank_engine::cluster::Cluster;
use outrank_engine::extensions::OwnPlugin;
use outrank_engine::framework::{DependsOn, MAX_NODE_SCORE, Plugin, ScorePlugin, Stages};
use outrank_engine::ids::NodeId;
use outrank_engine::pod_class::PodClass;

/// The annotation of a pod that says what it prefers.
pub const PREFERS: &str = "example.com/prefers";

/// The annotation of a node that says what it offers, separated by commas.
pub const OFFERS: &str = "example.com/offers";

/// See the crate.
pub struct PreferredByAnnotation;

impl PreferredByAnnotation {
    /// Name in configurations.
    pub const NAME: &'static str = "PreferredByAnnotation";

    /// The plugin, as an engine takes it.
    pub fn plugin() -> Option<OwnPlugin> {
        OwnPlugin::new(Stages::score(Self))
    }
}

impl Plugin for PreferredByAnnotation {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn annotations(&self) -> &[&'static str] {
        &[OFFERS, PREFERS]
    }
}

impl ScorePlugin for PreferredByAnnotation {
    fn depends_on(&self) -> DependsOn {
        // What runs on a node does not matter, what the node says does.
        DependsOn::NodeObject
    }

    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let Some(preferred) = class.annotation(PREFERS, cluster) else {
            return 0;
        };
        let offered = cluster.annotation(node, OFFERS).unwrap_or_default();
        let is_offered = offered.split(',').any(|it| it.trim() == preferred.trim());
        if is_offered { MAX_NODE_SCORE } else { 0 }
    }
}
