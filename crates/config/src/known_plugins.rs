//! The plugins of kube-scheduler 1.36: where each has a say, and by how much by default; and
//! those that it does not have.
//!
//! Sources: `apis/config/v1/default_plugins.go` and the interfaces that the plugins in
//! `framework/plugins` implement, Kubernetes 1.36.

use outrank_engine::extensions::OwnPlugin;
use outrank_engine::framework::FilterStage;
use outrank_engine::plugins::priority_share::PriorityShare;

/// The points of a decision at which plugins have a say, in the order of the decision.
pub(crate) const EXTENSION_POINTS: &[&str] = &[
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placementGenerate",
    "placementScore",
];

/// All points at once.
pub(crate) const MULTI_POINT: &str = "multiPoint";

/// A plugin that is there without anybody bringing it.
pub(crate) struct KnownPlugin {
    pub(crate) name: &'static str,
    /// 0 if the default profile gives none.
    pub(crate) default_weight: i64,
    pub(crate) points: &'static [&'static str],
}

const fn known(
    name: &'static str,
    default_weight: i64,
    points: &'static [&'static str],
) -> KnownPlugin {
    KnownPlugin {
        name,
        default_weight,
        points,
    }
}

/// In the order of the default profile.
pub(crate) const PLUGINS: &[KnownPlugin] = &[
    known("SchedulingGates", 0, &["preEnqueue"]),
    known("PrioritySort", 0, &["queueSort"]),
    known("NodeUnschedulable", 0, &["filter"]),
    known("NodeName", 0, &["filter"]),
    known("TaintToleration", 3, &["filter", "preScore", "score"]),
    known("NodeAffinity", 2, FILTERS_AND_SCORES),
    known("NodePorts", 0, FILTERS),
    known("NodeResourcesFit", 1, FILTERS_AND_SCORES),
    known("VolumeRestrictions", 0, FILTERS),
    known("NodeVolumeLimits", 0, FILTERS),
    known(
        "VolumeBinding",
        0,
        &[
            "preFilter",
            "filter",
            "preScore",
            "score",
            "reserve",
            "preBind",
        ],
    ),
    known("VolumeZone", 0, FILTERS),
    known("PodTopologySpread", 2, FILTERS_AND_SCORES),
    known("InterPodAffinity", 2, FILTERS_AND_SCORES),
    known(
        "DynamicResources",
        2,
        &[
            "preEnqueue",
            "preFilter",
            "filter",
            "postFilter",
            "score",
            "reserve",
            "preBind",
        ],
    ),
    known("DefaultPreemption", 0, &["preEnqueue", "postFilter"]),
    known("NodeResourcesBalancedAllocation", 1, &["preScore", "score"]),
    known("ImageLocality", 1, &["score"]),
    known("DefaultBinder", 0, &["bind"]),
    known("NodeDeclaredFeatures", 0, FILTERS),
];

const FILTERS: &[&str] = &["preFilter", "filter"];
const FILTERS_AND_SCORES: &[&str] = &["preFilter", "filter", "preScore", "score"];

/// Plugins that kube-scheduler does not have, and that the default profile leaves out.
pub(crate) const ADDED_PLUGINS: &[KnownPlugin] = &[known(PriorityShare::NAME, 0, &["preFilter"])];

/// Plugins of `v1beta3` whose work NodeVolumeLimits has taken over.
pub(crate) const REMOVED_PLUGINS: &[&str] = &[
    "AzureDiskLimits",
    "CinderLimits",
    "EBSLimits",
    "GCEPDLimits",
];

/// Upstream's plugins, ours, and those of one's own.
#[derive(Clone, Copy)]
pub(crate) struct Catalog<'o> {
    pub(crate) own: &'o [OwnPlugin],
}

impl Catalog<'_> {
    /// The extension points of a plugin; `None` if there is no plugin of that name.
    pub(crate) fn points(&self, name: &str) -> Option<Vec<&'static str>> {
        let mut known = PLUGINS.iter().chain(ADDED_PLUGINS);
        if let Some(plugin) = known.find(|plugin| plugin.name == name) {
            return Some(plugin.points.to_vec());
        }
        let plugin = self.own.iter().find(|plugin| plugin.name() == name)?;
        let stages = plugin.stages();
        let filter = stages.filter.iter().flat_map(|stage| match stage {
            FilterStage::Node(_) => FILTERS,
            FilterStage::Cluster(_) => &["preFilter", "filter", "reserve"],
        });
        let score = stages
            .score
            .iter()
            .flat_map(|_| ["preScore", "score"].iter());
        Some(filter.chain(score).copied().collect())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.points(name).is_some()
    }
}
