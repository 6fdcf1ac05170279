//! `plugins` of a profile: which plugins run at which extension point, in which order.
//!
//! A profile starts from the default plugins, which are enabled at every point that they
//! have (`multiPoint`). A point can disable some or all (`*`) of them and enable others or
//! the same with other weights. Those named by a point that are also default come first, in
//! the point's order; then the other defaults; then the rest of the point's.
//! Sources: `apis/config/v1/default_plugins.go` mergePluginSet,
//! `apis/config/validation/validation.go` and `framework/runtime/framework.go`
//! NewFramework, Kubernetes 1.36.

use outrank_engine::profile::ProfileConfig;
use serde::Serialize;
use serde_json::Value;

use crate::fields::Fields;
use crate::known_plugins::{
    ADDED_PLUGINS, Catalog, EXTENSION_POINTS, MULTI_POINT, PLUGINS, REMOVED_PLUGINS,
};
use crate::plugin_args::invalid_in_v1;
use crate::{ApiVersion, ConfigError, ConfigWarning};

/// The plugins of a profile at one extension point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionPoint {
    /// Name, such as `filter`.
    pub name: &'static str,
    /// Its plugins, in the order in which they are asked.
    pub plugins: Vec<EnabledPlugin>,
}

/// A plugin at an extension point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnabledPlugin {
    /// Name, such as `NodeAffinity`.
    pub name: String,
    /// By what its scores are multiplied; at the point `score` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
}

/// One point's `enabled` and `disabled`.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct PluginSet {
    enabled: Vec<(String, i64)>,
    disabled: Vec<String>,
}

/// The sets of a profile, by extension point.
#[derive(Clone, Default)]
pub(crate) struct PluginSets {
    sets: Vec<(&'static str, PluginSet)>,
}

impl PluginSets {
    /// Reads `plugins`, which is at `path`.
    pub(crate) fn read(
        value: &Value,
        path: &str,
        catalog: Catalog<'_>,
        version: ApiVersion,
        errors: &mut Vec<ConfigError>,
        warnings: &mut Vec<ConfigWarning>,
    ) -> Self {
        let mut sets = Self::default();
        let Some(mut fields) = Fields::of(value, path, errors) else {
            return sets;
        };
        for &point in EXTENSION_POINTS.iter().chain([&MULTI_POINT]) {
            if let Some((path, value)) = fields.take(point) {
                let mut reader = SetReader {
                    point,
                    catalog,
                    version,
                    errors,
                    warnings,
                };
                sets.sets.push((point, reader.read(value, &path)));
            }
        }
        fields.finish(errors);
        sets
    }

    /// What was said of one point.
    pub(crate) fn of(&self, point: &str) -> PluginSet {
        let mut sets = self.sets.iter();
        let found = sets.find(|(name, _)| *name == point);
        found.map(|(_, set)| set.clone()).unwrap_or_default()
    }

    /// Enables a plugin at every point, as if `multiPoint` named it, unless some point does so
    /// already or `multiPoint` disables it.
    pub(crate) fn imply(&mut self, plugin: &str) {
        let mut enabled = self.sets.iter().flat_map(|(_, set)| &set.enabled);
        let is_enabled = enabled.any(|(name, _)| name == plugin);
        let mut everywhere = self.of(MULTI_POINT);
        if !is_enabled && everywhere.disabled.iter().all(|name| name != plugin) {
            everywhere.enabled.push((plugin.to_owned(), 0));
            self.sets.retain(|(point, _)| *point != MULTI_POINT);
            self.sets.push((MULTI_POINT, everywhere));
        }
    }

    /// The plugins of every point, in order.
    pub(crate) fn expand(&self, catalog: Catalog<'_>) -> Vec<ExtensionPoint> {
        let everywhere = merged_multi_point(&self.of(MULTI_POINT));
        let point = |name: &&'static str| ExtensionPoint {
            name,
            plugins: expand(&everywhere, &self.of(name), name, catalog),
        };
        EXTENSION_POINTS.iter().map(point).collect()
    }
}

/// Hands the plugins of a profile to the engine; those that it does not have decide nothing.
pub(crate) fn apply(points: &[ExtensionPoint], catalog: Catalog<'_>, profile: &mut ProfileConfig) {
    let filtering = profile.filter.clone();
    let scoring: Vec<String> = profile.score.iter().map(|(name, _)| name.clone()).collect();
    let is_own = |name: &str| catalog.own.iter().any(|plugin| plugin.name() == name);
    let plugins = |point: &str, served: &[String]| -> Vec<(String, i64)> {
        let point = points.iter().find(|it| it.name == point);
        let plugins = point.map_or(&[][..], |point| &point.plugins).iter();
        let served = plugins.filter(|it| served.contains(&it.name) || is_own(&it.name));
        served
            .map(|plugin| (plugin.name.clone(), plugin.weight.unwrap_or(1)))
            .collect()
    };
    let names = |point: &str, served: &[String]| -> Vec<String> {
        let plugins = plugins(point, served).into_iter();
        plugins.map(|(name, _)| name).collect()
    };
    profile.pre_enqueue = names("preEnqueue", &profile.pre_enqueue);
    profile.filter = names("filter", &filtering);
    profile.post_filter = names("postFilter", &profile.post_filter);
    profile.score = plugins("score", &scoring);
    let added = ADDED_PLUGINS.iter().map(|plugin| plugin.name.to_owned());
    let pre_filtering: Vec<String> = filtering.iter().cloned().chain(added).collect();
    let pre_filter = names("preFilter", &pre_filtering);
    let pre_score = names("preScore", &scoring);
    let reserve = names("reserve", &filtering);
    if !is_usual(profile, &pre_filter, &pre_score, &reserve, catalog) {
        profile.pre_filter = Some(pre_filter);
        profile.pre_score = Some(pre_score);
        profile.reserve = Some(reserve);
    }
}

/// Whether PreFilter and Reserve have the plugins of Filter that can be there, PreScore those
/// of Score, and no Score plugin misses what PreFilter leaves.
fn is_usual(
    profile: &ProfileConfig,
    pre_filter: &[String],
    pre_score: &[String],
    reserve: &[String],
    catalog: Catalog<'_>,
) -> bool {
    let at = |names: &[String], point: &str| -> Vec<String> {
        let can_be = |name: &&String| catalog.points(name).is_some_and(|it| it.contains(&point));
        names.iter().filter(can_be).cloned().collect()
    };
    let score: Vec<String> = profile.score.iter().map(|(name, _)| name.clone()).collect();
    let mut read_by_score = at(&score, "preFilter").into_iter();
    at(&profile.filter, "preFilter") == pre_filter
        && at(&profile.filter, "reserve") == reserve
        && at(&score, "preScore") == pre_score
        && read_by_score.all(|name| pre_filter.contains(&name))
}

/// Refuses profiles without the plugins that a scheduler cannot do without.
pub(crate) fn check_required(
    points: &[ExtensionPoint],
    scheduler_name: &str,
    path: &str,
    errors: &mut Vec<ConfigError>,
) {
    let mut refuse = |point: &str, message: String| {
        errors.push(ConfigError {
            path: format!("{path}.plugins.{point}"),
            message,
        });
    };
    for point in points {
        let found = point.plugins.len();
        match point.name {
            "queueSort" if found != 1 => refuse(
                point.name,
                format!(
                    "only one queue sort plugin required for profile with scheduler name \
                     {scheduler_name:?}, but got {found}"
                ),
            ),
            "bind" if found == 0 => refuse(
                point.name,
                format!(
                    "at least one bind plugin is needed for profile with scheduler name \
                     {scheduler_name:?}"
                ),
            ),
            _ => {}
        }
    }
}

/// Reads the set of one extension point.
struct SetReader<'r> {
    point: &'static str,
    catalog: Catalog<'r>,
    version: ApiVersion,
    errors: &'r mut Vec<ConfigError>,
    warnings: &'r mut Vec<ConfigWarning>,
}

impl SetReader<'_> {
    fn read(&mut self, value: &Value, path: &str) -> PluginSet {
        let mut set = PluginSet::default();
        let Some(mut fields) = Fields::of(value, path, self.errors) else {
            return set;
        };
        if let Some((path, list)) = fields.list("enabled", self.errors) {
            for (index, value) in list.iter().enumerate() {
                let path = format!("{path}[{index}]");
                if let Some(plugin) = self.read_plugin(value, &path) {
                    self.enable(plugin, path, &mut set);
                }
            }
        }
        if let Some((path, list)) = fields.list("disabled", self.errors) {
            for (index, value) in list.iter().enumerate() {
                let path = format!("{path}[{index}]");
                if let Some((name, _)) = self.read_plugin(value, &path) {
                    self.disable(name, path, &mut set);
                }
            }
        }
        fields.finish(self.errors);
        set
    }

    /// A name with its weight; no weight is 0.
    fn read_plugin(&mut self, value: &Value, path: &str) -> Option<(String, i64)> {
        let mut fields = Fields::of(value, path, self.errors)?;
        let name = fields.text("name", self.errors);
        let name = name.map(|(_, name)| name.to_owned()).unwrap_or_default();
        let weight = fields.integer("weight", self.errors);
        fields.finish(self.errors);
        let Some((path, weight)) = weight else {
            return Some((name, 0));
        };
        if i32::try_from(weight).is_err() {
            let (least, most) = (i32::MIN, i32::MAX);
            let message = format!("{weight} is out of range, from {least} to {most}");
            self.errors.push(ConfigError { path, message });
            return None;
        }
        self.warn_of_weight(weight, path);
        Some((name, weight))
    }

    fn warn_of_weight(&mut self, weight: i64, path: String) {
        let message = match weight {
            0 => "0 counts as 1; to leave the plugin out, put it into disabled",
            ..0 => "a negative weight prefers the nodes that the plugin rates low",
            _ if !matches!(self.point, "score" | MULTI_POINT) => "only scores are weighted",
            _ => return,
        };
        let message = message.to_owned();
        self.warnings.push(ConfigWarning { path, message });
    }

    fn enable(&mut self, (name, weight): (String, i64), path: String, set: &mut PluginSet) {
        let kind = interface(self.point);
        let Some(points) = self.catalog.points(&name) else {
            return self.refuse_unknown(&name, path);
        };
        if self.point != MULTI_POINT && !points.contains(&self.point) {
            let message = format!("plugin {name:?} does not extend {kind} plugin");
            return self.errors.push(ConfigError { path, message });
        }
        if set.enabled.iter().any(|(other, _)| *other == name) {
            let message = format!("plugin {name:?} already registered as {kind:?}");
            return self.errors.push(ConfigError { path, message });
        }
        set.enabled.push((name, weight));
    }

    fn refuse_unknown(&mut self, name: &str, path: String) {
        let path = format!("{path}.name");
        if !REMOVED_PLUGINS.contains(&name) {
            let message = format!("plugin {name:?} does not exist");
            return self.errors.push(ConfigError { path, message });
        }
        if self.version == ApiVersion::V1 {
            let message = invalid_in_v1(name);
            return self.errors.push(ConfigError { path, message });
        }
        let message = format!("{name} is part of NodeVolumeLimits now, left out");
        self.warnings.push(ConfigWarning { path, message });
    }

    fn disable(&mut self, name: String, path: String, set: &mut PluginSet) {
        let is_known = name == "*" || self.catalog.has(&name) || REMOVED_PLUGINS.contains(&&*name);
        if !is_known {
            let message = format!("there is no plugin {name:?} to disable");
            self.warnings.push(ConfigWarning { path, message });
        }
        set.disabled.push(name);
    }
}

/// Upstream's name of what a plugin must implement to be at the point.
fn interface(point: &str) -> String {
    let (first, rest) = point.split_at(1);
    format!("{}{rest}Plugin", first.to_ascii_uppercase())
}

/// The plugins that are enabled at every point they have.
fn merged_multi_point(set: &PluginSet) -> Vec<(String, i64)> {
    let defaults = PLUGINS
        .iter()
        .map(|plugin| (plugin.name.to_owned(), plugin.default_weight));
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

/// The plugins of one point, in order.
fn expand(
    everywhere: &[(String, i64)],
    set: &PluginSet,
    point: &str,
    catalog: Catalog<'_>,
) -> Vec<EnabledPlugin> {
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
    let has_point = |name: &str| catalog.points(name).is_some_and(|it| it.contains(&point));
    let in_order = first
        .chain(then)
        .chain(last)
        .filter(|(name, _)| has_point(name));
    let enabled = in_order.map(|(name, weight)| EnabledPlugin {
        name: name.clone(),
        // A weight that is not given counts as 1.
        weight: (point == "score").then_some(if *weight == 0 { 1 } else { *weight }),
    });
    enabled.collect()
}
