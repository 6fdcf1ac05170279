//! From a policy to a KubeSchedulerConfiguration of today, as far as there is an equal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outrank_api::names::label_key_errors;
use outrank_engine::plugins::inter_pod_affinity::InterPodAffinity;
use outrank_engine::plugins::legacy::node_conditions::NodeConditionPredicate;
use outrank_engine::plugins::legacy::node_label::NodeLabel;
use outrank_engine::plugins::legacy::node_prefer_avoid_pods::NodePreferAvoidPods;
use outrank_engine::plugins::legacy::node_resources::NodeResourcesScore;
use outrank_engine::plugins::legacy::pod_tolerates_node_no_execute_taints::PodToleratesNodeNoExecuteTaints;
use outrank_engine::plugins::legacy::service_affinity::ServiceAffinity;
use outrank_engine::plugins::legacy::volume_limits::VolumeLimits;
use outrank_engine::plugins::node_affinity::NodeAffinity;
use outrank_engine::plugins::node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use outrank_engine::plugins::node_resources_fit::NodeResourcesFit;
use outrank_engine::plugins::node_volume_limits::NodeVolumeLimits;
use outrank_engine::plugins::pod_topology_spread::PodTopologySpread;
use outrank_engine::plugins::taint_toleration::TaintToleration;
use outrank_engine::profile::{LegacyArgs, NodeLabelArgs, ProfileConfig, ResourceSpec};
use serde_json::{Map, Value, json};

use super::{Policy, registry};
use crate::ExtenderConfig;

/// What a policy becomes today.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// A KubeSchedulerConfiguration of `kubescheduler.config.k8s.io/v1`.
    pub configuration: Value,
    /// What has no equal, or not quite, and what to do about it; in the words of the policy.
    pub notes: Vec<String>,
}

/// Converts a policy. Plugins that no policy can name because they came later stay on.
pub fn convert(policy: &Policy) -> Converted {
    let mut conversion = Conversion::default();
    for profile in &policy.engine.profiles {
        conversion.convert(profile);
    }
    let mut configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{
            "plugins": conversion.plugins(),
            "pluginConfig": conversion.plugin_config(),
        }],
    });
    let (called, silent): (Vec<_>, Vec<_>) = policy.extenders.iter().partition(|it| it.is_called());
    if !called.is_empty() {
        configuration["extenders"] = called.into_iter().map(extender).collect();
    }
    for extender in silent {
        conversion.notes.push(format!(
            "extender {:?}: it has no verb, so that nobody asks it, and is left out",
            extender.url_prefix
        ));
    }
    Converted {
        configuration,
        notes: conversion.notes,
    }
}

/// Plugins that every profile needs, or that serve what came after policies.
const ALWAYS_ON: [&str; 6] = [
    "SchedulingGates",
    "PrioritySort",
    "DynamicResources",
    "DefaultPreemption",
    "DefaultBinder",
    "NodeDeclaredFeatures",
];

/// Plugins of today that both filter and score, of those that policies name.
const FILTER_AND_SCORE: [&str; 5] = [
    TaintToleration::NAME,
    NodeAffinity::NAME,
    NodeResourcesFit::NAME,
    PodTopologySpread::NAME,
    InterPodAffinity::NAME,
];

#[derive(Default)]
struct Conversion {
    filters: Vec<&'static str>,
    scores: Vec<(&'static str, i64)>,
    args: Vec<(&'static str, Value)>,
    notes: Vec<String>,
}

impl Conversion {
    fn convert(&mut self, profile: &ProfileConfig) {
        for name in &profile.filter {
            self.convert_filter(name, profile);
        }
        let strategy = self.choose_strategy(profile);
        for (name, weight) in &profile.score {
            self.convert_score(name, *weight, strategy.as_deref(), &profile.legacy);
        }
        if profile.default_spread_constraints.is_some() {
            let args = json!({"defaultingType": "List", "defaultConstraints": []});
            self.args.push((PodTopologySpread::NAME, args));
        }
        let weight = profile.inter_pod_affinity.hard_pod_affinity_weight;
        if weight != 1 {
            let args = json!({"hardPodAffinityWeight": weight});
            self.args.push((InterPodAffinity::NAME, args));
        }
        if profile.checks_all_filters {
            self.note("alwaysCheckAllPredicates: the first plugin that refuses a node is told");
        }
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn filter(&mut self, name: &'static str) {
        if !self.filters.contains(&name) {
            self.filters.push(name);
        }
    }

    fn convert_filter(&mut self, name: &str, profile: &ProfileConfig) {
        let predicate = registry::predicate_of(name).unwrap_or(name);
        match name {
            VolumeLimits::EBS
            | VolumeLimits::GCE
            | VolumeLimits::AZURE_DISK
            | VolumeLimits::CINDER => {
                self.filter(NodeVolumeLimits::NAME);
                self.notes.push(format!(
                    "{predicate}: these disks are attached by CSI drivers now, whose volumes \
                     {} counts",
                    NodeVolumeLimits::NAME
                ));
            }
            NodeConditionPredicate::CONDITION
            | NodeConditionPredicate::MEMORY_PRESSURE
            | NodeConditionPredicate::DISK_PRESSURE
            | NodeConditionPredicate::PID_PRESSURE
            | PodToleratesNodeNoExecuteTaints::NAME => {
                self.filter(TaintToleration::NAME);
                self.notes.push(format!(
                    "{predicate}: Kubernetes taints such nodes itself, {} does the rest",
                    TaintToleration::NAME
                ));
            }
            NodeLabel::NAME => self.convert_node_label(&profile.legacy.node_label, profile),
            ServiceAffinity::NAME => self.note(
                "CheckServiceAffinity and serviceAffinity: no equal; give the pods affinity to \
                 each other over these labels",
            ),
            name => match TODAY.iter().find(|today| **today == name) {
                Some(today) => self.filter(today),
                None => self.notes.push(format!("{predicate}: no equal")),
            },
        }
    }

    /// Labels that nodes must have are affinity that every pod gets.
    fn convert_node_label(&mut self, args: &NodeLabelArgs, profile: &ProfileConfig) {
        let present = args.present_labels.iter().map(|label| (label, "Exists"));
        let absent = args.absent_labels.iter();
        let absent = absent.map(|label| (label, "DoesNotExist"));
        let mut expressions = Vec::new();
        for (label, operator) in present.chain(absent) {
            if label_key_errors(label).is_empty() {
                expressions.push(json!({"key": label, "operator": operator}));
            } else {
                let admits = if operator == "Exists" {
                    ", though the policy admits no node because of it"
                } else {
                    ""
                };
                self.notes.push(format!(
                    "labelsPresence: {label:?} cannot be a label and is left out{admits}"
                ));
            }
        }
        if expressions.is_empty() {
            return;
        }
        let terms = json!([{"matchExpressions": expressions}]);
        let required = json!({"nodeSelectorTerms": terms});
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
        self.args
            .push((NodeAffinity::NAME, json!({"addedAffinity": affinity})));
        if !profile.filter.iter().any(|name| name == NodeAffinity::NAME) {
            self.note(
                "labelsPresence: NodeAffinity does this, and it looks at what pods themselves \
                 ask for, too, which the policy does not",
            );
        }
        self.filter(NodeAffinity::NAME);
    }

    /// Which of the scores by allocation is kept: NodeResourcesFit has one strategy.
    fn choose_strategy(&mut self, profile: &ProfileConfig) -> Option<String> {
        let has_resources = !profile.legacy.ratio_resources.is_empty();
        let is_strategy = |name: &str| {
            name == NodeResourcesScore::LEAST_ALLOCATED
                || name == NodeResourcesScore::MOST_ALLOCATED
                || (name == NodeResourcesScore::REQUESTED_TO_CAPACITY_RATIO && has_resources)
        };
        let strategies = profile.score.iter().filter(|(name, _)| is_strategy(name));
        let heaviest = strategies.clone().max_by_key(|(_, weight)| *weight);
        let (chosen, _) = heaviest?;
        for (name, _) in strategies.filter(|(name, _)| name != chosen) {
            let priority = |plugin| registry::priority_of(plugin).unwrap_or(plugin);
            self.notes.push(format!(
                "{}: NodeResourcesFit has one scoring strategy, that of {} is kept",
                priority(name),
                priority(chosen)
            ));
        }
        Some(chosen.clone())
    }

    fn convert_score(
        &mut self,
        name: &str,
        weight: i64,
        strategy: Option<&str>,
        args: &LegacyArgs,
    ) {
        match name {
            name if Some(name) == strategy => {
                self.scores.push((NodeResourcesFit::NAME, weight));
                if name == NodeResourcesScore::REQUESTED_TO_CAPACITY_RATIO {
                    self.note_weights(&args.ratio_resources);
                }
                let strategy = json!({"scoringStrategy": scoring_strategy(name, args)});
                self.args.push((NodeResourcesFit::NAME, strategy));
            }
            NodeResourcesScore::LEAST_ALLOCATED | NodeResourcesScore::MOST_ALLOCATED => {}
            NodeResourcesScore::REQUESTED_TO_CAPACITY_RATIO => {
                if args.ratio_resources.is_empty() {
                    self.note(
                        "requestedToCapacityRatioArguments: without resources it rates all \
                         nodes alike and is left out",
                    );
                }
            }
            NodeLabel::NAME => self.note(
                "labelPreference: no equal; addedAffinity of NodeAffinity can prefer labels, \
                 together with what pods prefer themselves",
            ),
            ServiceAffinity::NAME => self.note(
                "serviceAntiAffinity: no equal; give PodTopologySpread default constraints over \
                 these labels",
            ),
            NodePreferAvoidPods::NAME => self.note(
                "NodePreferAvoidPodsPriority: no equal; taint nodes that pods had better avoid \
                 with PreferNoSchedule",
            ),
            name => match TODAY.iter().find(|today| **today == name) {
                Some(today) => {
                    self.scores.push((*today, weight));
                    if *today == NodeResourcesBalancedAllocation::NAME {
                        self.note(
                            "BalancedResourceAllocation: NodeResourcesBalancedAllocation counts \
                             otherwise since, so that scores differ",
                        );
                    }
                }
                None => self.notes.push(format!("{name}: no equal")),
            },
        }
    }

    /// Says where weights of resources lose some of their ratio.
    fn note_weights(&mut self, resources: &[ResourceSpec]) {
        let scaled = scaled_weights(resources);
        let mut pairs = scaled.iter().zip(resources);
        let ratio = |(scaled, resource): (&i64, &ResourceSpec)| {
            (i128::from(*scaled), i128::from(resource.weight))
        };
        let Some((first_scaled, first)) = pairs.next().map(ratio) else {
            return;
        };
        let is_exact = pairs
            .map(ratio)
            .all(|(scaled, weight)| scaled * first == first_scaled * weight);
        if !is_exact {
            self.note(
                "requestedToCapacityRatioArguments: weights of resources are 1 to 100 now, these \
                 are scaled down and rounded",
            );
        }
    }

    /// `plugins` of the profile: all off but these, those with a stage too many without it.
    fn plugins(&self) -> Value {
        let score = |name: &str| self.scores.iter().find(|(other, _)| *other == name);
        let plugin = |name: &str| match score(name) {
            Some((_, weight)) => json!({"name": name, "weight": weight}),
            None => json!({"name": name}),
        };
        let only_score = self.scores.iter().map(|(name, _)| *name);
        let only_score: Vec<&str> = only_score
            .filter(|name| !self.filters.contains(name))
            .collect();
        let later = ALWAYS_ON.iter().copied();
        let names = self.filters.iter().chain(&only_score).copied().chain(later);
        let enabled: Vec<Value> = names.map(plugin).collect();
        let mut plugins = json!({
            "multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]},
        });
        let has_both = |name: &&str| FILTER_AND_SCORE.contains(name);
        let without_filter = only_score.iter().copied().filter(has_both);
        let without_score = self.filters.iter().copied();
        let without_score = without_score.filter(|name| has_both(name) && score(name).is_none());
        for (stages, names) in [
            (["preFilter", "filter"], without_filter.collect::<Vec<_>>()),
            (["preScore", "score"], without_score.collect()),
        ] {
            for stage in stages {
                let disabled = names.iter().map(|name| json!({"name": name}));
                if !names.is_empty() {
                    plugins[stage] = json!({"disabled": disabled.collect::<Value>()});
                }
            }
        }
        plugins
    }

    fn plugin_config(&self) -> Value {
        let args = self.args.iter();
        args.map(|(name, args)| json!({"name": name, "args": args}))
            .collect()
    }
}

/// Plugins that a policy becomes and that are still there.
const TODAY: [&str; 14] = [
    "NodeUnschedulable",
    "NodeName",
    TaintToleration::NAME,
    NodeAffinity::NAME,
    "NodePorts",
    NodeResourcesFit::NAME,
    "VolumeRestrictions",
    NodeVolumeLimits::NAME,
    "VolumeBinding",
    "VolumeZone",
    PodTopologySpread::NAME,
    InterPodAffinity::NAME,
    NodeResourcesScore::BALANCED_ALLOCATION,
    "ImageLocality",
];

fn scoring_strategy(name: &str, args: &LegacyArgs) -> Value {
    match name {
        NodeResourcesScore::LEAST_ALLOCATED => json!({"type": "LeastAllocated"}),
        NodeResourcesScore::MOST_ALLOCATED => json!({"type": "MostAllocated"}),
        _ => {
            let shape = args.ratio_shape.iter();
            let shape =
                shape.map(|point| json!({"utilization": point.utilization, "score": point.score}));
            let resources = args.ratio_resources.iter();
            let resources = resources.zip(scaled_weights(&args.ratio_resources));
            let resources = resources
                .map(|(resource, weight)| json!({"name": resource.name, "weight": weight}));
            json!({
                "type": "RequestedToCapacityRatio",
                "resources": resources.collect::<Value>(),
                "requestedToCapacityRatio": {"shape": shape.collect::<Value>()},
            })
        }
    }
}

/// The most that a resource weighs today.
const RESOURCE_WEIGHT_MAX: i64 = 100;

/// Weights of resources, scaled down if one is too high: only their ratios count.
fn scaled_weights(resources: &[ResourceSpec]) -> Vec<i64> {
    let weights = resources.iter().map(|resource| resource.weight);
    let highest = weights.clone().max().unwrap_or(1);
    if highest <= RESOURCE_WEIGHT_MAX {
        return weights.collect();
    }
    let divisor = weights.clone().fold(0, greatest_common_divisor);
    let highest = i128::from(highest / divisor);
    let most = i128::from(RESOURCE_WEIGHT_MAX).min(highest);
    let scale = |weight: i64| {
        let rounded = (i128::from(weight / divisor) * most + highest / 2) / highest;
        // Each counts for something: none becomes 0, none is above the highest.
        i64::try_from(rounded).map_or(RESOURCE_WEIGHT_MAX, |weight| weight.max(1))
    };
    weights.map(scale).collect()
}

fn greatest_common_divisor(one: i64, other: i64) -> i64 {
    match other {
        0 => one,
        other => greatest_common_divisor(other, one % other),
    }
}

/// An extender, what is not set left out.
fn extender(extender: &ExtenderConfig) -> Value {
    let tls = extender.tls.as_ref().map(|tls| {
        without_empty(json!({
            "insecure": tls.insecure,
            "serverName": tls.server_name,
            "certFile": tls.cert_file,
            "keyFile": tls.key_file,
            "caFile": tls.ca_file,
            "certData": STANDARD.encode(&tls.cert_data),
            "keyData": STANDARD.encode(&tls.key_data),
            "caData": STANDARD.encode(&tls.ca_data),
        }))
    });
    let tls = tls.filter(|tls| *tls != json!({}));
    let managed = extender.managed_resources.iter().map(|resource| {
        without_empty(json!({
            "name": resource.name,
            "ignoredByScheduler": resource.ignored_by_scheduler,
        }))
    });
    let timeout = match extender.http_timeout.as_nanos() {
        nanos if nanos % 1_000_000_000 == 0 => format!("{}s", nanos / 1_000_000_000),
        nanos => format!("{nanos}ns"),
    };
    without_empty(json!({
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "weight": extender.weight,
        "bindVerb": extender.bind_verb,
        "enableHTTPS": extender.tls.is_some(),
        "tlsConfig": tls,
        "httpTimeout": timeout,
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": managed.collect::<Value>(),
        "ignorable": extender.ignorable,
    }))
}

fn without_empty(object: Value) -> Value {
    let Value::Object(fields) = object else {
        return object;
    };
    let is_set = |value: &Value| {
        !matches!(value, Value::Null | Value::Bool(false))
            && *value != json!("")
            && *value != json!(0)
            && *value != json!([])
    };
    let set: Map<String, Value> = fields.into_iter().filter(|(_, it)| is_set(it)).collect();
    set.into()
}
