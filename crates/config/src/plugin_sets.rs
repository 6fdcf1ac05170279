//! `plugins` of a profile: which plugins run at which stage, in which order.
//!
//! A profile starts from the default plugins, which are enabled at every stage they have
//! (`multiPoint`). A stage can disable some or all (`*`) of them and enable others or the
//! same with other weights. Those named by a stage that are also default come first, in
//! the stage's order; then the other defaults; then the rest of the stage's.
//! Sources: `apis/config/v1/default_plugins.go` mergePluginSet and
//! `framework/runtime/framework.go` expandMultiPointPlugins, Kubernetes 1.36.

use outrank_engine::profile::ProfileConfig;
use serde_json::Value;

use crate::ConfigError;
use crate::fields::Fields;

/// The plugins of kube-scheduler 1.36's default profile, in order, with their weights.
const DEFAULT_PLUGINS: &[(&str, i64)] = &[
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
];

const STAGES: &[&str] = &[
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
    "multiPoint",
];

/// One stage's `enabled` and `disabled`.
#[derive(Default)]
struct PluginSet {
    enabled: Vec<(String, i64)>,
    disabled: Vec<String>,
}

/// Whether there is a plugin of that name.
pub(crate) fn is_known(name: &str) -> bool {
    DEFAULT_PLUGINS.iter().any(|(known, _)| *known == name)
}

/// Applies `plugins`, which is at `path`, to a profile.
pub(crate) fn apply(
    value: &Value,
    path: &str,
    profile: &mut ProfileConfig,
    errors: &mut Vec<ConfigError>,
) {
    let Some(mut fields) = Fields::of(value, path, errors) else {
        return;
    };
    let mut sets = Vec::new();
    for stage in STAGES {
        if let Some((path, value)) = fields.take(stage) {
            sets.push((*stage, read_set(value, &path, errors)));
        }
    }
    fields.finish(errors);
    let set = |stage: &str| {
        sets.iter()
            .find(|(name, _)| *name == stage)
            .map(|(_, set)| set)
    };
    let everywhere = merged_multi_point(set("multiPoint"));
    let names = |plugins: Vec<(String, i64)>| plugins.into_iter().map(|(name, _)| name).collect();
    profile.pre_enqueue = names(expand(&everywhere, set("preEnqueue"), &profile.pre_enqueue));
    profile.filter = names(expand(&everywhere, set("filter"), &profile.filter));
    let scoring: Vec<String> = profile.score.iter().map(|(name, _)| name.clone()).collect();
    profile.score = expand(&everywhere, set("score"), &scoring);
}

fn read_set(value: &Value, path: &str, errors: &mut Vec<ConfigError>) -> PluginSet {
    let mut set = PluginSet::default();
    let Some(mut fields) = Fields::of(value, path, errors) else {
        return set;
    };
    if let Some((path, list)) = fields.list("enabled", errors) {
        for (index, value) in list.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some((name, weight)) = read_plugin(value, &path, false, errors) else {
                continue;
            };
            if set.enabled.iter().any(|(other, _)| *other == name) {
                let message = format!("{name:?} is enabled twice");
                errors.push(ConfigError { path, message });
                continue;
            }
            set.enabled.push((name, weight));
        }
    }
    if let Some((path, list)) = fields.list("disabled", errors) {
        for (index, value) in list.iter().enumerate() {
            let plugin = read_plugin(value, &format!("{path}[{index}]"), true, errors);
            set.disabled.extend(plugin.map(|(name, _)| name));
        }
    }
    fields.finish(errors);
    set
}

fn read_plugin(
    value: &Value,
    path: &str,
    is_disabled: bool,
    errors: &mut Vec<ConfigError>,
) -> Option<(String, i64)> {
    let mut fields = Fields::of(value, path, errors)?;
    let name = fields.text("name", errors);
    let weight = match fields.integer("weight", errors) {
        None => 0,
        Some((_, weight)) if i32::try_from(weight).is_ok() => weight,
        Some((path, weight)) => {
            let message = format!(
                "{weight} is out of range, from {} to {}",
                i32::MIN,
                i32::MAX
            );
            errors.push(ConfigError { path, message });
            return None;
        }
    };
    let name_path = fields.path("name");
    fields.finish(errors);
    let name = name.map(|(_, name)| name.to_owned()).unwrap_or_default();
    if !is_known(&name) && !is_disabled {
        let message = format!("plugin {name:?} does not exist");
        errors.push(ConfigError {
            path: name_path,
            message,
        });
        return None;
    }
    Some((name, weight))
}

/// The plugins that are enabled at every stage they have.
fn merged_multi_point(set: Option<&PluginSet>) -> Vec<(String, i64)> {
    let defaults = DEFAULT_PLUGINS
        .iter()
        .map(|(name, weight)| ((*name).to_owned(), *weight));
    let Some(set) = set else {
        return defaults.collect();
    };
    let mut custom = set.enabled.clone();
    let mut merged = Vec::new();
    if !set.disabled.iter().any(|name| name == "*") {
        for (name, weight) in defaults.filter(|(name, _)| !set.disabled.contains(name)) {
            match custom.iter().position(|(other, _)| *other == name) {
                Some(replaced) => merged.push(custom.remove(replaced)),
                None => merged.push((name, weight)),
            }
        }
    }
    merged.extend(custom);
    merged
}

/// The plugins of one stage, in order. Only those in `served` have it.
fn expand(
    everywhere: &[(String, i64)],
    set: Option<&PluginSet>,
    served: &[String],
) -> Vec<(String, i64)> {
    let none = PluginSet::default();
    let set = set.unwrap_or(&none);
    let all_disabled = set.disabled.iter().any(|name| name == "*");
    let named = |name: &str| set.enabled.iter().any(|(other, _)| other == name);
    let is_default = |name: &str| everywhere.iter().any(|(other, _)| other == name);
    let is_on = |name: &String| !all_disabled && !set.disabled.contains(name);
    let overriding = |name: &String| is_on(name) && is_default(name);
    let first = set.enabled.iter().filter(|(name, _)| overriding(name));
    let then = everywhere
        .iter()
        .filter(|(name, _)| is_on(name) && !named(name));
    let last = set.enabled.iter().filter(|(name, _)| !overriding(name));
    let in_order = first
        .chain(then)
        .chain(last)
        .filter(|(name, _)| served.contains(name));
    // A weight that is not given counts as 1.
    in_order
        .map(|(name, weight)| (name.clone(), if *weight == 0 { 1 } else { *weight }))
        .collect()
}
