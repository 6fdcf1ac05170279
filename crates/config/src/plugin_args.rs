//! `pluginConfig` of a profile: arguments of plugins, with upstream's defaults and checks
//! (`apis/config/validation/validation_pluginargs.go`, Kubernetes 1.36).

use outrank_api::names::label_key_errors;
use outrank_api::node_selector::{is_empty_term, parse_term};
use outrank_api::schema::findings_of_type;
use outrank_api::types::{NodeAffinity, TopologySpreadConstraint};
use outrank_engine::profile::{
    MinimumCandidates, NodeResourcesFitArgs, ProfileConfig, ResourceSpec, ScoringStrategy,
    UtilizationShapePoint, default_resources,
};
use serde_json::Value;

use crate::duration::{SignedDuration, duration};
use crate::fields::Fields;
use crate::known_plugins::{Catalog, REMOVED_PLUGINS};
use crate::{ApiVersion, ConfigError, ConfigWarning, preemption_safety, priority_share};

/// Reads `pluginConfig`.
pub(crate) struct Reader<'r> {
    pub(crate) catalog: Catalog<'r>,
    pub(crate) version: ApiVersion,
    pub(crate) errors: &'r mut Vec<ConfigError>,
    pub(crate) warnings: &'r mut Vec<ConfigWarning>,
}

impl Reader<'_> {
    /// Applies `pluginConfig`, which is at `path`, to a profile.
    pub(crate) fn apply(&mut self, list: &[Value], path: &str, profile: &mut ProfileConfig) {
        let mut seen: Vec<&str> = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(mut fields) = Fields::of(value, &path, self.errors) else {
                continue;
            };
            let name = fields.text("name", self.errors);
            let name = name.map_or("", |(_, name)| name);
            let args = fields.take("args").filter(|(_, args)| !args.is_null());
            fields.finish(self.errors);
            if seen.contains(&name) {
                let message = format!("arguments of {name:?} are given twice");
                let path = format!("{path}.name");
                self.errors.push(ConfigError { path, message });
                continue;
            }
            seen.push(name);
            if !HAVE_ARGUMENTS.contains(&name) {
                self.pass_over(name, path, args);
            } else if let Some((path, args)) = args {
                apply_one(name, args, &path, profile, self.errors);
            }
        }
    }

    /// Says what comes of an entry for a plugin that takes no arguments. Upstream passes over
    /// those of plugins that it does not have, and over arguments that nobody takes.
    fn pass_over(&mut self, name: &str, path: String, args: Option<(String, &Value)>) {
        let name_path = format!("{path}.name");
        if REMOVED_PLUGINS.contains(&name) && self.version == ApiVersion::V1 {
            let message = invalid_in_v1(name);
            self.errors.push(ConfigError { path, message });
        } else if self.catalog.own.iter().any(|own| own.name() == name) {
            if let Some((path, _)) = args {
                let message = format!("plugin {name:?} has no arguments");
                self.errors.push(ConfigError { path, message });
            }
        } else if !self.catalog.has(name) {
            let message = format!("there is no plugin {name:?}; this entry has no effect");
            let path = name_path;
            self.warnings.push(ConfigWarning { path, message });
        } else if let Some((path, _)) = args {
            let message = format!("plugin {name:?} takes no arguments; these have no effect");
            self.warnings.push(ConfigWarning { path, message });
        }
    }
}

/// What upstream gives DefaultPreemption without arguments.
const UPSTREAM_CANDIDATES: MinimumCandidates = MinimumCandidates {
    percentage: 10,
    absolute: 100,
};

/// Plugins that take arguments.
const HAVE_ARGUMENTS: [&str; 10] = [
    "DefaultPreemption",
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "PreemptionSafety",
    "PriorityShare",
    "VolumeBinding",
];

/// Whether `pluginConfig` has arguments of a plugin.
pub(crate) fn has_args(list: &[Value], plugin: &str) -> bool {
    let mut given = list.iter().filter(|entry| entry["name"] == plugin);
    given.any(|entry| !entry["args"].is_null())
}

/// What upstream says of a plugin that v1 no longer has.
pub(crate) fn invalid_in_v1(name: &str) -> String {
    let version = ApiVersion::V1.name();
    format!(
        "{name:?}: was invalid in version {version:?} (KubeSchedulerConfiguration is version \
         {version:?})"
    )
}

fn apply_one(
    name: &str,
    args: &Value,
    path: &str,
    profile: &mut ProfileConfig,
    errors: &mut Vec<ConfigError>,
) {
    let Some(mut fields) = Fields::of(args, path, errors) else {
        return;
    };
    check_type(&mut fields, name, errors);
    match name {
        "NodeAffinity" => profile.added_affinity = added_affinity(&mut fields, errors),
        "InterPodAffinity" => inter_pod_affinity(&mut fields, profile, errors),
        "PodTopologySpread" => pod_topology_spread(&mut fields, profile, errors),
        "VolumeBinding" => volume_binding(&mut fields, errors),
        "NodeResourcesFit" => profile.node_resources_fit = fit_args(&mut fields, errors),
        "NodeResourcesBalancedAllocation" => {
            if let Some(resources) = balanced_resources(&mut fields, errors) {
                profile.balanced_allocation_resources = resources;
            }
        }
        "PriorityShare" => profile.priority_shares = priority_share::read(&mut fields, errors),
        "PreemptionSafety" => {
            profile.preemption_safety = Some(preemption_safety::read(&mut fields, errors));
        }
        "DefaultPreemption" => {
            let asked = default_preemption(&mut fields, errors);
            // Upstream's own defaults, which configurations are written out with, do not ask
            // for a shorter search.
            profile.minimum_candidates = (asked != UPSTREAM_CANDIDATES).then_some(asked);
        }
        "DynamicResources" => dynamic_resources(&mut fields, errors),
        _ => {}
    }
    fields.finish(errors);
}

/// Refuses what a type of the API does not have.
fn check_fields(type_name: &str, value: &Value, path: &str, errors: &mut Vec<ConfigError>) {
    let findings = findings_of_type(type_name, value).into_iter();
    errors.extend(findings.map(|finding| ConfigError {
        path: match finding.path.to_string() {
            inner if inner.is_empty() => path.to_owned(),
            inner => format!("{path}.{inner}"),
        },
        message: finding.message,
    }));
}

/// Arguments may say what they are; the plugin's name says so already.
fn check_type(fields: &mut Fields<'_>, name: &str, errors: &mut Vec<ConfigError>) {
    let kind = format!("{name}Args");
    if let Some((path, found)) = fields.text("kind", errors)
        && found != kind
    {
        let message = format!("args for plugin {name} were not of type {kind}, got {found}");
        errors.push(ConfigError { path, message });
    }
    if let Some((path, found)) = fields.text("apiVersion", errors)
        && !matches!(
            found.strip_prefix("kubescheduler.config.k8s.io/"),
            Some("v1" | "v1beta3")
        )
    {
        let message = format!("expected \"kubescheduler.config.k8s.io/v1\", found {found:?}");
        errors.push(ConfigError { path, message });
    }
}

/// On how many nodes preemption is tried, at the least.
fn default_preemption(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> MinimumCandidates {
    let mut integer = |name, default| {
        let path = fields.path(name);
        let given = fields.integer(name, errors);
        given.unwrap_or((path, default))
    };
    let (percentage_path, percentage) = integer("minCandidateNodesPercentage", 10);
    let (absolute_path, absolute) = integer("minCandidateNodesAbsolute", 100);
    let mut refuse = |is_wrong: bool, path: &str, value: i64, message: &str| {
        if is_wrong {
            errors.push(ConfigError {
                path: path.to_owned(),
                message: format!("{value}: {message}"),
            });
        }
    };
    let in_range = (0..=100).contains(&percentage);
    refuse(
        !in_range,
        &percentage_path,
        percentage,
        "not in valid range [0, 100]",
    );
    refuse(
        absolute < 0,
        &absolute_path,
        absolute,
        "not in valid range [0, inf)",
    );
    refuse(
        absolute > i64::from(i32::MAX),
        &absolute_path,
        absolute,
        "does not fit into 32 bits",
    );
    let both_zero = percentage == 0 && absolute == 0;
    let message = "cannot be zero at the same time as minCandidateNodesAbsolute";
    refuse(both_zero, &percentage_path, percentage, message);
    let message = "cannot be zero at the same time as minCandidateNodesPercentage";
    refuse(both_zero, &absolute_path, absolute, message);
    MinimumCandidates {
        percentage: u8::try_from(percentage).unwrap_or(100),
        absolute: usize::try_from(absolute).unwrap_or(0),
    }
}

/// Limits on time have no effect on decisions here; they are checked all the same.
fn dynamic_resources(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) {
    let filter_timeout = duration(
        fields,
        "filterTimeout",
        SignedDuration::of_seconds(10),
        errors,
    );
    let binding_timeout = duration(
        fields,
        "bindingTimeout",
        SignedDuration::of_seconds(600),
        errors,
    );
    let mut refuse = |is_wrong: bool, name: &str, message: &str| {
        if is_wrong {
            errors.push(ConfigError {
                path: fields.path(name),
                message: message.to_owned(),
            });
        }
    };
    let zero = SignedDuration::of_seconds(0);
    refuse(
        filter_timeout < zero,
        "filterTimeout",
        "must be zero or positive",
    );
    refuse(
        binding_timeout < SignedDuration::of_seconds(1),
        "bindingTimeout",
        "must be at least 1 second",
    );
}

fn added_affinity(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> Option<NodeAffinity> {
    let (path, value) = fields.take("addedAffinity")?;
    check_fields("NodeAffinity", value, &path, errors);
    let affinity: Option<NodeAffinity> = match serde_json::from_value(value.clone()) {
        Ok(affinity) => affinity,
        Err(error) => {
            errors.push(ConfigError {
                path,
                message: error.to_string(),
            });
            return None;
        }
    };
    let affinity = affinity?;
    let required = affinity
        .required
        .iter()
        .flat_map(|required| &required.node_selector_terms);
    let required = required.enumerate().map(|(index, term)| {
        (
            term,
            format!("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]"),
        )
    });
    let preferred = affinity
        .preferred
        .iter()
        .enumerate()
        .map(|(index, preferred)| {
            let path = format!("preferredDuringSchedulingIgnoredDuringExecution[{index}]");
            (&preferred.preference, path)
        });
    for (term, term_path) in required.chain(preferred) {
        if is_empty_term(term) {
            continue;
        }
        for message in parse_term(term, "").err().unwrap_or_default() {
            errors.push(ConfigError {
                path: format!("{path}.{term_path}"),
                message,
            });
        }
    }
    Some(affinity)
}

fn inter_pod_affinity(
    fields: &mut Fields<'_>,
    profile: &mut ProfileConfig,
    errors: &mut Vec<ConfigError>,
) {
    let args = &mut profile.inter_pod_affinity;
    if let Some((path, weight)) = fields.integer("hardPodAffinityWeight", errors) {
        if !(0..=100).contains(&weight) {
            let message = format!("{weight}: not in valid range [0-100]");
            errors.push(ConfigError { path, message });
        }
        args.hard_pod_affinity_weight = weight;
    }
    if let Some(ignore) = fields.boolean("ignorePreferredTermsOfExistingPods", errors) {
        args.ignore_preferred_terms_of_existing_pods = ignore;
    }
}

/// How long binding may take has no effect on decisions; it is checked all the same.
fn volume_binding(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) {
    if let Some((path, seconds)) = fields.integer("bindTimeoutSeconds", errors)
        && seconds < 0
    {
        let message = format!("{seconds}: should not be a negative value");
        errors.push(ConfigError { path, message });
    }
    if let Some((path, value)) = fields.take("shape")
        && !value.is_null()
    {
        let message = "is for the feature gate StorageCapacityScoring, which is off; remove it";
        errors.push(ConfigError {
            path,
            message: message.into(),
        });
    }
}

fn pod_topology_spread(
    fields: &mut Fields<'_>,
    profile: &mut ProfileConfig,
    errors: &mut Vec<ConfigError>,
) {
    let constraints = fields.take("defaultConstraints");
    let defaulting = fields.text("defaultingType", errors);
    let (path, value) =
        constraints.unwrap_or_else(|| (fields.path("defaultConstraints"), &Value::Null));
    for (index, constraint) in value.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        check_fields("TopologySpreadConstraint", constraint, &path, errors);
    }
    let constraints: Option<Vec<TopologySpreadConstraint>> = serde_json::from_value(value.clone())
        .unwrap_or_else(|error| {
            errors.push(ConfigError {
                path: path.clone(),
                message: error.to_string(),
            });
            None
        });
    let constraints = constraints.unwrap_or_default();
    check_constraints(&constraints, &path, errors);
    match defaulting {
        None | Some((_, "" | "System")) if constraints.is_empty() => {
            profile.default_spread_constraints = None;
        }
        None | Some((_, "" | "System")) => {
            let path = fields.path("defaultingType");
            let message =
                "when .defaultingType is System, as it is by default, .defaultConstraints must be \
                 empty; write List"
                    .into();
            errors.push(ConfigError { path, message });
        }
        Some((_, "List")) => profile.default_spread_constraints = Some(constraints),
        Some((path, other)) => {
            let message = format!("{other:?} is not supported: it must be System or List");
            errors.push(ConfigError { path, message });
        }
    }
}

fn check_constraints(
    constraints: &[TopologySpreadConstraint],
    path: &str,
    errors: &mut Vec<ConfigError>,
) {
    for (index, constraint) in constraints.iter().enumerate() {
        let mut refuse = |field: &str, message: String| {
            errors.push(ConfigError {
                path: format!("{path}[{index}].{field}"),
                message,
            });
        };
        if constraint.max_skew <= 0 {
            refuse(
                "maxSkew",
                format!("{}: not in valid range (0, inf)", constraint.max_skew),
            );
        }
        if constraint.topology_key.is_empty() {
            refuse("topologyKey", "can not be empty".into());
        } else {
            for message in label_key_errors(&constraint.topology_key) {
                refuse("topologyKey", message);
            }
        }
        if !matches!(
            constraint.when_unsatisfiable.as_str(),
            "DoNotSchedule" | "ScheduleAnyway"
        ) {
            refuse(
                "whenUnsatisfiable",
                format!(
                    "{:?} is not supported: it must be DoNotSchedule or ScheduleAnyway",
                    constraint.when_unsatisfiable
                ),
            );
        }
        if constraint.label_selector.is_some() {
            let message = "constraint must not define a selector, as they deduced for each pod";
            refuse("labelSelector", message.into());
        }
        let is_same = |other: &&TopologySpreadConstraint| {
            other.topology_key == constraint.topology_key
                && other.when_unsatisfiable == constraint.when_unsatisfiable
        };
        if constraints[..index].iter().any(|other| is_same(&other)) {
            let pair = (&constraint.topology_key, &constraint.when_unsatisfiable);
            refuse("topologyKey", format!("{pair:?} is there already"));
        }
    }
}

fn fit_args(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> NodeResourcesFitArgs {
    let mut args = NodeResourcesFitArgs {
        ignored_resources: fields.texts("ignoredResources", errors),
        ignored_resource_groups: fields.texts("ignoredResourceGroups", errors),
        ..NodeResourcesFitArgs::default()
    };
    for (index, group) in args.ignored_resource_groups.iter().enumerate() {
        if group.contains('/') {
            errors.push(ConfigError {
                path: format!("{}[{index}]", fields.path("ignoredResourceGroups")),
                message: format!("{group:?}: resource group name can't contain '/'"),
            });
        }
    }
    for (name, list) in [
        ("ignoredResources", &args.ignored_resources),
        ("ignoredResourceGroups", &args.ignored_resource_groups),
    ] {
        for (index, text) in list.iter().enumerate() {
            let messages = label_key_errors(text).into_iter();
            errors.extend(messages.map(|message| ConfigError {
                path: format!("{}[{index}]", fields.path(name)),
                message: format!("{text:?}: {message}"),
            }));
        }
    }
    if let Some((path, value)) = fields.take("scoringStrategy")
        && let Some(strategy) = scoring_strategy(value, &path, errors)
    {
        args.scoring_strategy = strategy;
    }
    args
}

fn scoring_strategy(
    value: &Value,
    path: &str,
    errors: &mut Vec<ConfigError>,
) -> Option<ScoringStrategy> {
    let mut fields = Fields::of(value, path, errors)?;
    let kind = fields.text("type", errors).map_or("", |(_, kind)| kind);
    let resources = match fields.list("resources", errors) {
        Some((path, list)) if !list.is_empty() => resources(list, &path, errors),
        _ => default_resources(),
    };
    check_weights(&resources, path, errors);
    let shape = fields.take("requestedToCapacityRatio");
    fields.finish(errors);
    let shape = shape.filter(|(_, value)| !value.is_null());
    let shape = shape.map(|(path, value)| read_shape(value, &path, errors));
    let shape_path = format!("{path}.requestedToCapacityRatio");
    let mut refuse = |path: String, message: String| {
        errors.push(ConfigError { path, message });
        None
    };
    match (kind, shape) {
        ("LeastAllocated", None) => Some(ScoringStrategy::LeastAllocated(resources)),
        ("MostAllocated", None) => Some(ScoringStrategy::MostAllocated(resources)),
        ("RequestedToCapacityRatio", Some(shape)) => {
            Some(ScoringStrategy::RequestedToCapacityRatio(resources, shape?))
        }
        ("RequestedToCapacityRatio", None) => refuse(
            shape_path,
            "must be specified when type is RequestedToCapacityRatio".into(),
        ),
        ("LeastAllocated" | "MostAllocated", Some(_)) => refuse(
            shape_path,
            "is for type RequestedToCapacityRatio only".into(),
        ),
        (kind, _) => refuse(
            format!("{path}.type"),
            format!(
                "{kind:?} is not supported: it must be LeastAllocated, MostAllocated or \
                 RequestedToCapacityRatio"
            ),
        ),
    }
}

fn resources(list: &[Value], path: &str, errors: &mut Vec<ConfigError>) -> Vec<ResourceSpec> {
    let mut resources = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let Some(mut fields) = Fields::of(value, &format!("{path}[{index}]"), errors) else {
            continue;
        };
        let name = fields.text("name", errors).map(|(_, name)| name.to_owned());
        let weight = fields
            .integer("weight", errors)
            .map_or(0, |(_, weight)| weight);
        fields.finish(errors);
        // A weight that is not given counts as 1.
        let weight = if weight == 0 { 1 } else { weight };
        resources.push(ResourceSpec {
            name: name.unwrap_or_default(),
            weight,
        });
    }
    resources
}

fn check_weights(resources: &[ResourceSpec], path: &str, errors: &mut Vec<ConfigError>) {
    for (index, resource) in resources.iter().enumerate() {
        if !(1..=100).contains(&resource.weight) {
            errors.push(ConfigError {
                path: format!("{path}.resources[{index}].weight"),
                message: format!(
                    "resource weight of {} not in valid range (0, 100]: {}",
                    resource.name, resource.weight
                ),
            });
        }
    }
}

fn read_shape(
    value: &Value,
    path: &str,
    errors: &mut Vec<ConfigError>,
) -> Option<Vec<UtilizationShapePoint>> {
    let mut fields = Fields::of(value, path, errors)?;
    let list = fields.list("shape", errors);
    fields.finish(errors);
    let path = format!("{path}.shape");
    let list = list.map_or(&[][..], |(_, list)| list);
    if list.is_empty() {
        let message = "at least one point must be specified".to_owned();
        errors.push(ConfigError { path, message });
        return None;
    }
    let mut shape: Vec<UtilizationShapePoint> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let mut fields = Fields::of(value, &path, errors)?;
        let utilization = fields
            .integer("utilization", errors)
            .map_or(0, |(_, value)| value);
        let score = fields
            .integer("score", errors)
            .map_or(0, |(_, value)| value);
        fields.finish(errors);
        let mut check = |name: &str, is_right: bool, message: &str| {
            if !is_right {
                let path = format!("{path}.{name}");
                errors.push(ConfigError {
                    path,
                    message: message.to_owned(),
                });
            }
        };
        check(
            "utilization",
            (0..=100).contains(&utilization),
            "not in valid range [0, 100]",
        );
        check(
            "score",
            (0..=10).contains(&score),
            "not in valid range [0, 10]",
        );
        let increases = shape
            .last()
            .is_none_or(|last| last.utilization < utilization);
        check(
            "utilization",
            increases,
            "values must be sorted in increasing order",
        );
        shape.push(UtilizationShapePoint { utilization, score });
    }
    Some(shape)
}

fn balanced_resources(
    fields: &mut Fields<'_>,
    errors: &mut Vec<ConfigError>,
) -> Option<Vec<String>> {
    let (path, list) = fields.list("resources", errors)?;
    if list.is_empty() {
        return None;
    }
    let resources = resources(list, &path, errors);
    for (index, resource) in resources.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if resource.weight != 1 {
            let message = format!("{}: must be 1", resource.weight);
            errors.push(ConfigError {
                path: format!("{path}.weight"),
                message,
            });
        }
        if resources[..index]
            .iter()
            .any(|other| other.name == resource.name)
        {
            let message = format!("{:?} is named twice", resource.name);
            errors.push(ConfigError {
                path: format!("{path}.name"),
                message,
            });
        }
    }
    Some(
        resources
            .into_iter()
            .map(|resource| resource.name)
            .collect(),
    )
}
