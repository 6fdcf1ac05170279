//! Names of predicates and priorities, and what they become
//! (`framework/plugins/legacy_registry.go`, Kubernetes 1.20).

use std::collections::BTreeMap;

use outrank_engine::Release;
use outrank_engine::plugins::image_locality::ImageLocality;
use outrank_engine::plugins::inter_pod_affinity::InterPodAffinity;
use outrank_engine::plugins::legacy::node_conditions::NodeConditionPredicate;
use outrank_engine::plugins::legacy::node_label::NodeLabel;
use outrank_engine::plugins::legacy::node_prefer_avoid_pods::NodePreferAvoidPods;
use outrank_engine::plugins::legacy::node_resources::NodeResourcesScore;
use outrank_engine::plugins::legacy::pod_tolerates_node_no_execute_taints::PodToleratesNodeNoExecuteTaints;
use outrank_engine::plugins::legacy::service_affinity::ServiceAffinity;
use outrank_engine::plugins::legacy::volume_limits::VolumeLimits;
use outrank_engine::plugins::node_affinity::NodeAffinity;
use outrank_engine::plugins::node_name::NodeName;
use outrank_engine::plugins::node_ports::NodePorts;
use outrank_engine::plugins::node_resources_fit::NodeResourcesFit;
use outrank_engine::plugins::node_unschedulable::NodeUnschedulable;
use outrank_engine::plugins::node_volume_limits::NodeVolumeLimits;
use outrank_engine::plugins::pod_topology_spread::PodTopologySpread;
use outrank_engine::plugins::taint_toleration::TaintToleration;
use outrank_engine::plugins::volume_binding::VolumeBinding;
use outrank_engine::plugins::volume_restrictions::VolumeRestrictions;
use outrank_engine::plugins::volume_zone::VolumeZone;
use outrank_engine::profile::{LegacyArgs, ProfileConfig, ResourceSpec, UtilizationShapePoint};

use super::decode::{PolicyFile, Predicate, Priority, RatioArgument};
use super::{PolicyError, Reading, Stage, problem};
use crate::ConfigError;

/// A predicate and its plugins, in the order in which they run.
struct KnownPredicate {
    name: &'static str,
    plugins: &'static [&'static str],
    /// Whether 1.20 has it.
    is_in_1_20: bool,
    /// Whether it is on though nobody asks for it.
    is_mandatory: bool,
}

const fn predicate(name: &'static str, plugins: &'static [&'static str]) -> KnownPredicate {
    KnownPredicate {
        name,
        plugins,
        is_in_1_20: true,
        is_mandatory: false,
    }
}

const fn mandatory(name: &'static str, plugins: &'static [&'static str]) -> KnownPredicate {
    KnownPredicate {
        is_mandatory: true,
        ..predicate(name, plugins)
    }
}

const fn of_the_past(name: &'static str, plugins: &'static [&'static str]) -> KnownPredicate {
    KnownPredicate {
        is_in_1_20: false,
        ..predicate(name, plugins)
    }
}

const LABEL_PRESENCE: &str = "CheckNodeLabelPresence";
const SERVICE_AFFINITY: &str = "CheckServiceAffinity";

/// All predicates in the order in which they run. Those of 1.20 stand as there, those of
/// the past where they stood in 1.13 (`algorithm/predicates/predicates.go`
/// predicatesOrdering).
const PREDICATES: &[KnownPredicate] = &[
    of_the_past("CheckNodeCondition", &[NodeConditionPredicate::CONDITION]),
    mandatory("CheckNodeUnschedulable", &[NodeUnschedulable::NAME]),
    predicate(
        "GeneralPredicates",
        &[
            NodeResourcesFit::NAME,
            NodeName::NAME,
            NodePorts::NAME,
            NodeAffinity::NAME,
        ],
    ),
    predicate("HostName", &[NodeName::NAME]),
    predicate("PodFitsHostPorts", &[NodePorts::NAME]),
    predicate("MatchNodeSelector", &[NodeAffinity::NAME]),
    predicate("PodFitsResources", &[NodeResourcesFit::NAME]),
    predicate("NoDiskConflict", &[VolumeRestrictions::NAME]),
    mandatory("PodToleratesNodeTaints", &[TaintToleration::NAME]),
    of_the_past(
        "PodToleratesNodeNoExecuteTaints",
        &[PodToleratesNodeNoExecuteTaints::NAME],
    ),
    predicate(LABEL_PRESENCE, &[NodeLabel::NAME]),
    predicate(SERVICE_AFFINITY, &[ServiceAffinity::NAME]),
    predicate("MaxEBSVolumeCount", &[VolumeLimits::EBS]),
    predicate("MaxGCEPDVolumeCount", &[VolumeLimits::GCE]),
    predicate("MaxCSIVolumeCountPred", &[NodeVolumeLimits::NAME]),
    predicate("MaxAzureDiskVolumeCount", &[VolumeLimits::AZURE_DISK]),
    predicate("MaxCinderVolumeCount", &[VolumeLimits::CINDER]),
    predicate("CheckVolumeBinding", &[VolumeBinding::NAME]),
    predicate("NoVolumeZoneConflict", &[VolumeZone::NAME]),
    of_the_past(
        "CheckNodeMemoryPressure",
        &[NodeConditionPredicate::MEMORY_PRESSURE],
    ),
    of_the_past(
        "CheckNodePIDPressure",
        &[NodeConditionPredicate::PID_PRESSURE],
    ),
    of_the_past(
        "CheckNodeDiskPressure",
        &[NodeConditionPredicate::DISK_PRESSURE],
    ),
    predicate("EvenPodsSpread", &[PodTopologySpread::NAME]),
    predicate("MatchInterPodAffinity", &[InterPodAffinity::NAME]),
];

/// The predicates of a policy that names none.
const DEFAULT_PREDICATES: &[&str] = &[
    "NoVolumeZoneConflict",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxAzureDiskVolumeCount",
    "MaxCSIVolumeCountPred",
    "MatchInterPodAffinity",
    "NoDiskConflict",
    "GeneralPredicates",
    "CheckVolumeBinding",
    "EvenPodsSpread",
];

const EVEN_PODS_SPREAD: &str = "EvenPodsSpreadPriority";
const SELECTOR_SPREAD: &str = "SelectorSpreadPriority";
const INTER_POD_AFFINITY: &str = "InterPodAffinityPriority";
const RATIO: &str = NodeResourcesScore::REQUESTED_TO_CAPACITY_RATIO;

/// All priorities and their plugins. Those for arguments are called as the plugin.
const PRIORITIES: &[(&str, &str)] = &[
    (
        "BalancedResourceAllocation",
        NodeResourcesScore::BALANCED_ALLOCATION,
    ),
    (EVEN_PODS_SPREAD, PodTopologySpread::NAME),
    ("ImageLocalityPriority", ImageLocality::NAME),
    (INTER_POD_AFFINITY, InterPodAffinity::NAME),
    (
        "LeastRequestedPriority",
        NodeResourcesScore::LEAST_ALLOCATED,
    ),
    ("MostRequestedPriority", NodeResourcesScore::MOST_ALLOCATED),
    ("NodeAffinityPriority", NodeAffinity::NAME),
    (NodeLabel::NAME, NodeLabel::NAME),
    ("NodePreferAvoidPodsPriority", NodePreferAvoidPods::NAME),
    (RATIO, RATIO),
    (SELECTOR_SPREAD, PodTopologySpread::NAME),
    (ServiceAffinity::NAME, ServiceAffinity::NAME),
    ("TaintTolerationPriority", TaintToleration::NAME),
];

/// The priorities of a policy that names none.
const DEFAULT_PRIORITIES: &[(&str, i64)] = &[
    (SELECTOR_SPREAD, 1),
    (INTER_POD_AFFINITY, 1),
    ("LeastRequestedPriority", 1),
    ("BalancedResourceAllocation", 1),
    ("NodePreferAvoidPodsPriority", 10_000),
    ("NodeAffinityPriority", 1),
    ("TaintTolerationPriority", 1),
    ("ImageLocalityPriority", 1),
    (EVEN_PODS_SPREAD, 2),
];

/// The predicate that becomes a Filter plugin alone.
pub(super) fn predicate_of(plugin: &str) -> Option<&'static str> {
    let mut predicates = PREDICATES.iter();
    let found = predicates.find(|predicate| predicate.plugins == [plugin]);
    found.map(|predicate| predicate.name)
}

/// The priority that becomes a Score plugin.
pub(super) fn priority_of(plugin: &str) -> Option<&'static str> {
    let mut priorities = PRIORITIES.iter();
    let found = priorities.find(|(_, other)| *other == plugin);
    found.map(|(name, _)| *name)
}

/// What a policy becomes.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) profile: ProfileConfig,
    pub(super) warnings: Vec<ConfigError>,
}

/// Maps names and arguments to plugins.
pub(super) fn map(file: &PolicyFile, reading: Reading) -> Result<Mapped, PolicyError> {
    let mut mapping = Mapping {
        reading,
        args: LegacyArgs::default(),
        has_service_affinity_args: false,
        warnings: Vec::new(),
    };
    let predicates = mapping.predicates(file.predicates.as_deref())?;
    let priorities = mapping.priorities(file.priorities.as_deref())?;
    let names = |name: &str| priorities.contains_key(name);
    let mut profile = ProfileConfig {
        release: Release::V1_20,
        filter: filters(&predicates),
        score: mapping.scores(&priorities)?,
        legacy: mapping.args,
        checks_all_filters: file.always_check_all_predicates,
        has_extenders: !file.extenders.is_empty(),
        ..ProfileConfig::default()
    };
    if reading == Reading::V1_20 {
        profile.pre_enqueue = Vec::new();
    }
    if names(EVEN_PODS_SPREAD) && !names(SELECTOR_SPREAD) {
        profile.default_spread_constraints = Some(Vec::new());
    }
    let weight = file.hard_pod_affinity_symmetric_weight;
    if names(INTER_POD_AFFINITY) && weight != 0 {
        profile.inter_pod_affinity.hard_pod_affinity_weight = i64::from(weight);
    }
    let managed = file.extenders.iter().flat_map(|it| &it.managed_resources);
    let ignored = managed.filter(|resource| resource.ignored_by_scheduler);
    profile.node_resources_fit.ignored_resources =
        ignored.map(|resource| resource.name.clone()).collect();
    Ok(Mapped {
        profile,
        warnings: mapping.warnings,
    })
}

/// The plugins of predicates that are given by their places among [`PREDICATES`], in the
/// order of the policy: those with an order first, ties as upstream has them.
fn filters(predicates: &BTreeMap<usize, Option<i64>>) -> Vec<String> {
    let mut ordered: Vec<(bool, Option<i64>, usize)> = predicates
        .iter()
        .map(|(place, order)| (order.is_none(), *order, *place))
        .collect();
    ordered.sort_unstable();
    let mut plugins: Vec<String> = Vec::new();
    for (_, _, place) in ordered {
        for plugin in PREDICATES[place].plugins {
            if !plugins.iter().any(|other| other == plugin) {
                plugins.push((*plugin).to_owned());
            }
        }
    }
    plugins
}

struct Mapping {
    reading: Reading,
    args: LegacyArgs,
    /// Whether anything gave arguments to ServiceAffinity, be it an empty list.
    has_service_affinity_args: bool,
    warnings: Vec<ConfigError>,
}

impl Mapping {
    /// The predicates by their places among [`PREDICATES`], with the order that the policy
    /// gives them.
    fn predicates(
        &mut self,
        named: Option<&[Predicate]>,
    ) -> Result<BTreeMap<usize, Option<i64>>, PolicyError> {
        let known = PREDICATES.iter().enumerate();
        let mandatory = known.filter(|(_, predicate)| predicate.is_mandatory);
        let mut places: BTreeMap<usize, Option<i64>> =
            mandatory.map(|(place, _)| (place, None)).collect();
        let Some(named) = named else {
            let defaults = DEFAULT_PREDICATES.iter();
            places.extend(defaults.filter_map(|name| Some((place_of(name)?, None))));
            return Ok(places);
        };
        for (index, predicate) in named.iter().enumerate() {
            let path = format!("predicates[{index}]");
            let place = self.predicate(predicate, &path)?;
            let order = places.entry(place).or_default();
            // Of several orders the first to come counts.
            *order = match (*order, predicate.order) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        self.warn_of_order(named);
        Ok(places)
    }

    fn warn_of_order(&mut self, predicates: &[Predicate]) {
        let mut ordered = predicates.iter().enumerate();
        if let Some((index, _)) = ordered.find(|(_, predicate)| predicate.order.is_some()) {
            let others = ordered.filter(|(_, it)| it.order.is_some()).count();
            let others = match others {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            self.warnings.push(problem(
                &format!("predicates[{index}].order"),
                format!(
                    "predicates run in this order{others}; kube-scheduler 1.20 refuses a policy \
                     with such a field, and runs them in an order of its own"
                ),
            ));
        }
    }

    /// The place of a predicate among [`PREDICATES`]; its argument is taken in.
    fn predicate(&mut self, predicate: &Predicate, path: &str) -> Result<usize, PolicyError> {
        let name = predicate.name.as_str();
        if let Some(argument) = &predicate.argument {
            let count = usize::from(argument.service_affinity.is_some())
                + usize::from(argument.labels_presence.is_some());
            one_argument(count, "predicate", "Predicate", name, path)?;
        }
        if let Some(place) = self.known_predicate(name, path) {
            return Ok(place);
        }
        let argument = predicate.argument.as_ref();
        let mut custom = None;
        if let Some(labels) = argument.and_then(|it| it.service_affinity.as_ref()) {
            self.has_service_affinity_args = true;
            let all = &mut self.args.service_affinity.affinity_labels;
            all.extend(labels.iter().cloned());
            custom = place_of(SERVICE_AFFINITY);
        }
        if let Some((labels, is_present)) = argument.and_then(|it| it.labels_presence.as_ref()) {
            let args = &mut self.args.node_label;
            let all = match is_present {
                true => &mut args.present_labels,
                false => &mut args.absent_labels,
            };
            all.extend(labels.iter().cloned());
            custom = place_of(LABEL_PRESENCE);
        }
        custom.ok_or_else(|| not_found("Predicate", name, path))
    }

    fn known_predicate(&mut self, name: &str, path: &str) -> Option<usize> {
        let place = match (name, self.reading) {
            ("PodFitsPorts", _) => place_of("PodFitsHostPorts"),
            (POD_FITS_HOST, Reading::Lenient) => place_of("HostName"),
            (name, _) => place_of(name),
        }?;
        let is_in_1_20 = PREDICATES[place].is_in_1_20;
        if self.reading == Reading::V1_20 {
            return is_in_1_20.then_some(place);
        }
        let how = match name {
            POD_FITS_HOST => "counts as HostName",
            _ if !is_in_1_20 => "works as in the releases that had it",
            _ => return Some(place),
        };
        let message = format!("{name} {how}; kube-scheduler 1.20 knows no such predicate");
        self.warnings
            .push(problem(&format!("{path}.name"), message));
        Some(place)
    }

    /// Weights by priority; of a priority that is named twice the last one counts.
    fn priorities(
        &mut self,
        named: Option<&[Priority]>,
    ) -> Result<BTreeMap<&'static str, i64>, PolicyError> {
        let Some(named) = named else {
            return Ok(DEFAULT_PRIORITIES.iter().copied().collect());
        };
        let mut weights = BTreeMap::new();
        for (index, priority) in named.iter().enumerate() {
            // It rated all nodes alike.
            if priority.name == "EqualPriority" {
                continue;
            }
            let name = self.priority(priority, &format!("priorities[{index}]"))?;
            weights.insert(name, priority.weight);
        }
        Ok(weights)
    }

    /// The name of a priority among [`PRIORITIES`]; its argument is taken in.
    fn priority(&mut self, priority: &Priority, path: &str) -> Result<&'static str, PolicyError> {
        let name = priority.name.as_str();
        let argument = priority.argument.as_ref();
        if let Some(argument) = argument {
            let count = usize::from(argument.service_anti_affinity.is_some())
                + usize::from(argument.label_preference.is_some())
                + usize::from(argument.requested_to_capacity_ratio.is_some());
            one_argument(count, "priority", "Priority", name, path)?;
        }
        let known = match name {
            "ServiceSpreadingPriority" => Some(SELECTOR_SPREAD),
            name => {
                let mut names = PRIORITIES.iter().map(|(known, _)| *known);
                names.find(|known| *known == name)
            }
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let argument = argument.ok_or_else(|| not_found("Priority", name, path))?;
        if let Some(label) = &argument.service_anti_affinity {
            self.has_service_affinity_args = true;
            let args = &mut self.args.service_affinity;
            args.anti_affinity_labels_preference.push(label.clone());
            return Ok(ServiceAffinity::NAME);
        }
        if let Some((label, is_present)) = &argument.label_preference {
            let args = &mut self.args.node_label;
            let labels = match is_present {
                true => &mut args.present_labels_preference,
                false => &mut args.absent_labels_preference,
            };
            labels.push(label.clone());
            return Ok(NodeLabel::NAME);
        }
        if let Some(ratio) = &argument.requested_to_capacity_ratio {
            self.take_ratio(ratio);
        }
        Ok(RATIO)
    }

    fn take_ratio(&mut self, ratio: &RatioArgument) {
        let resources = ratio.resources.iter();
        let resources = resources.map(|(name, weight)| ResourceSpec {
            name: name.clone(),
            weight: *weight,
        });
        self.args.ratio_resources = resources.collect();
        let shape = ratio.shape.iter();
        let shape = shape.map(|(utilization, score)| UtilizationShapePoint {
            utilization: i64::from(*utilization),
            score: i64::from(*score),
        });
        self.args.ratio_shape = shape.collect();
    }

    /// The Score plugins of priorities, by the names of these, with their weights. Of two
    /// priorities with one plugin the first counts.
    fn scores(
        &self,
        priorities: &BTreeMap<&'static str, i64>,
    ) -> Result<Vec<(String, i64)>, PolicyError> {
        let mut scores: Vec<(String, i64)> = Vec::new();
        for (name, weight) in priorities {
            let of_name = PRIORITIES.iter().find(|(known, _)| known == name);
            let plugin = of_name.map_or(*name, |(_, plugin)| *plugin);
            if scores.iter().any(|(other, _)| other == plugin) {
                continue;
            }
            let label_count = self.label_count(name)?;
            // Upstream keeps 32 bits, and takes 0 for not given.
            let weight = (*weight as i32).wrapping_mul(label_count);
            let weight = if weight == 0 { 1 } else { i64::from(weight) };
            scores.push((plugin.to_owned(), weight));
        }
        Ok(scores)
    }

    /// By how many labels a priority rates: each counts with the weight. Those that are
    /// called as their plugins are without any if nothing gave them arguments; 1.20 crashes
    /// then.
    fn label_count(&self, priority: &str) -> Result<i32, PolicyError> {
        let label = &self.args.node_label;
        let service = &self.args.service_affinity;
        let (count, is_missing) = match priority {
            NodeLabel::NAME => {
                let count =
                    label.present_labels_preference.len() + label.absent_labels_preference.len();
                (count, count == 0)
            }
            ServiceAffinity::NAME => {
                let count = service.anti_affinity_labels_preference.len();
                (count, !self.has_service_affinity_args)
            }
            _ => (1, false),
        };
        if !is_missing {
            return Ok(i32::try_from(count).unwrap_or(i32::MAX));
        }
        let message = format!(
            "priority {priority:?} has no labels: an argument counts only under a name that is \
             not predefined; kube-scheduler 1.20 crashes here"
        );
        let text = format!("Invalid configuration: {message}");
        let stage = Stage::Map;
        Err(PolicyError::single(stage, "priorities", message, text))
    }
}

/// The old name of HostName.
const POD_FITS_HOST: &str = "PodFitsHost";

fn place_of(name: &str) -> Option<usize> {
    PREDICATES
        .iter()
        .position(|predicate| predicate.name == name)
}

fn not_found(what: &str, name: &str, path: &str) -> PolicyError {
    let message = format!("{what} type not found for {name:?}");
    let text = format!("Invalid configuration: {message}");
    PolicyError::single(Stage::Map, &format!("{path}.name"), message, text)
}

fn one_argument(
    count: usize,
    what: &str,
    title: &str,
    name: &str,
    path: &str,
) -> Result<(), PolicyError> {
    if count == 1 {
        return Ok(());
    }
    let message = format!("Exactly 1 {what} argument is required, numArgs: {count}");
    let text = format!("{message}, {title}: {name}");
    let path = format!("{path}.argument");
    Err(PolicyError::single(Stage::Map, &path, message, text))
}
