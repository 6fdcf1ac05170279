//! Scheduler configuration: what a cluster's `KubeSchedulerConfiguration` says, as the
//! engine takes it.
//!
//! ```
//! let text = r#"{
//!   "apiVersion": "kubescheduler.config.k8s.io/v1",
//!   "kind": "KubeSchedulerConfiguration",
//!   "profiles": [{
//!     "schedulerName": "packer",
//!     "pluginConfig": [{
//!       "name": "NodeResourcesFit",
//!       "args": {"scoringStrategy": {"type": "MostAllocated"}}
//!     }]
//!   }]
//! }"#;
//! let config = outrank_config::read(&serde_json::from_str(text).unwrap()).unwrap();
//! assert_eq!(config.engine.profiles[0].scheduler_name, "packer");
//! ```
//!
//! A field that does not exist, a plugin that does not exist, a value that upstream would
//! refuse: each is an error that names its path, and all are reported at once.

pub mod extender;

mod defaults;
mod duration;
mod fields;
mod known_plugins;
mod meaning;
mod plugin_args;
mod plugin_sets;
pub mod policy;
mod preemption_safety;
mod priority_share;
mod process;
mod schema;

use std::fmt;

use outrank_engine::extensions::OwnPlugin;
use outrank_engine::plugins::priority_share::PriorityShare;
use outrank_engine::profile::{DEFAULT_SCHEDULER_NAME, ProfileConfig};
use outrank_engine::{Backoff, EngineConfig};
use serde::Serialize;
use serde_json::Value;

pub use defaults::default_document;
pub use extender::ExtenderConfig;
use fields::Fields;
use known_plugins::Catalog;
pub use plugin_sets::{EnabledPlugin, ExtensionPoint};
use plugin_sets::{PluginSet, PluginSets};
pub use schema::json_schema;

/// A configuration that was read.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What the engine takes of it.
    pub engine: EngineConfig,
    /// Extenders in the order in which they are asked: those whose errors are passed over
    /// come last.
    pub extenders: Vec<ExtenderConfig>,
    /// What the profiles mean, in their order.
    pub profiles: Vec<ProfileMeaning>,
    /// Files that extenders name and that are needed to call them.
    pub files: Vec<NamedFile>,
    /// What is accepted, and may not be what was meant.
    pub warnings: Vec<ConfigWarning>,
}

/// A file that a configuration names. Nobody has looked whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Path of the field.
    pub path: String,
    /// The file.
    pub file: String,
}

/// What a profile means: all that upstream's defaults add is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileMeaning {
    /// Pods with this `spec.schedulerName` are placed by this profile.
    pub scheduler_name: String,
    /// The search for nodes ends when so many percent are found feasible; 0 adapts to the
    /// size of the cluster, `None` considers every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<u8>,
    /// Extension points that have plugins, in the order of a decision.
    pub extension_points: Vec<ExtensionPoint>,
    /// What the arguments of PreemptionSafety and PriorityShare mean, a sentence each; none if they
    /// have no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Path of the field, such as `profiles[0].plugins.score.enabled[1].name`.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

/// What is accepted in a configuration and may not be what was meant, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// Path of the field.
    pub path: String,
    /// What comes of it.
    pub message: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// A version of the configuration's format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiVersion {
    V1,
    /// Has the same fields; plugins that are gone are left out. Its defaults, had upstream
    /// kept it, would be those of v1: weights were the same in Kubernetes 1.25 to 1.28,
    /// which had both.
    V1Beta3,
}

impl ApiVersion {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1 => "kubescheduler.config.k8s.io/v1",
            Self::V1Beta3 => "kubescheduler.config.k8s.io/v1beta3",
        }
    }
}

/// Reads a `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1` or `v1beta3`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(document: &Value) -> Result<Configuration, Vec<ConfigError>> {
    read_with_plugins(document, &[])
}

/// The same where profiles may name plugins of one's own. Unlike the built-in ones these have
/// a say only if they are enabled; they take no arguments.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_with_plugins(
    document: &Value,
    own: &[OwnPlugin],
) -> Result<Configuration, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let config = read_into(document, Catalog { own }, &mut errors);
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(errors)
    }
}

fn read_into(
    document: &Value,
    catalog: Catalog<'_>,
    errors: &mut Vec<ConfigError>,
) -> Configuration {
    let mut config = Configuration {
        engine: EngineConfig::default(),
        extenders: Vec::new(),
        profiles: Vec::new(),
        files: Vec::new(),
        warnings: Vec::new(),
    };
    let Some(mut fields) = Fields::of(document, "", errors) else {
        return config;
    };
    let version = read_version(&mut fields, errors, &mut config.warnings);
    fields.constant("kind", "KubeSchedulerConfiguration", errors);
    config.engine.backoff = read_backoff(&mut fields, errors);
    process::check(&mut fields, errors);
    extender::read(&mut fields, &mut config, errors);
    let percentage = read_percentage(&mut fields, errors);
    let settings = ProfileSettings {
        catalog,
        version,
        percentage,
    };
    read_profiles(&mut fields, settings, &mut config, errors);
    fields.finish(errors);
    leave_to_extenders(&mut config);
    for profile in &mut config.engine.profiles {
        profile.has_extenders = !config.extenders.is_empty();
    }
    config.extenders.sort_by_key(|extender| extender.ignorable);
    config
}

fn read_version(
    fields: &mut Fields<'_>,
    errors: &mut Vec<ConfigError>,
    warnings: &mut Vec<ConfigWarning>,
) -> ApiVersion {
    let known = [ApiVersion::V1, ApiVersion::V1Beta3];
    let path = fields.path("apiVersion");
    let found = fields.take("apiVersion").map(|(_, value)| value);
    let name = found.and_then(Value::as_str);
    let Some(version) = known.into_iter().find(|it| Some(it.name()) == name) else {
        let expected = ApiVersion::V1.name();
        let found = found.map_or("nothing".to_owned(), Value::to_string);
        let message = format!("expected {expected:?}, found {found}");
        errors.push(ConfigError { path, message });
        return ApiVersion::V1;
    };
    if version == ApiVersion::V1Beta3 {
        let message = "kube-scheduler reads v1beta3 no more since Kubernetes 1.29; v1 has the \
                       same fields";
        warnings.push(ConfigWarning {
            path,
            message: message.into(),
        });
    }
    version
}

/// Reads `percentageOfNodesToScore`.
fn read_percentage(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> Option<u8> {
    let (path, percentage) = fields.integer("percentageOfNodesToScore", errors)?;
    let in_range = u8::try_from(percentage).ok().filter(|it| *it <= 100);
    if in_range.is_none() {
        let message = format!("{percentage}: not in valid range [0-100]");
        errors.push(ConfigError { path, message });
    }
    in_range
}

/// Resources that extenders look after are not looked at by NodeResourcesFit, whatever its
/// arguments are (`scheduler.go` buildExtenders, Kubernetes 1.36).
fn leave_to_extenders(config: &mut Configuration) {
    let managed = config.extenders.iter().flat_map(|it| &it.managed_resources);
    let ignored = managed.filter(|resource| resource.ignored_by_scheduler);
    let ignored: Vec<String> = ignored.map(|resource| resource.name.clone()).collect();
    if ignored.is_empty() {
        return;
    }
    for profile in &mut config.engine.profiles {
        profile
            .node_resources_fit
            .ignored_resources
            .clone_from(&ignored);
    }
}

fn read_backoff(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> Backoff {
    let default = Backoff::default();
    let mut seconds = |name, default| {
        let Some((path, value)) = fields.take(name) else {
            return default;
        };
        match value.as_u64() {
            Some(seconds) if seconds > 0 => seconds,
            _ if value.is_null() => default,
            _ => {
                let message = "must be a number of seconds greater than 0".to_owned();
                errors.push(ConfigError { path, message });
                default
            }
        }
    };
    let initial_seconds = seconds("podInitialBackoffSeconds", default.initial_seconds);
    let maximum_seconds = seconds("podMaxBackoffSeconds", default.maximum_seconds);
    if maximum_seconds < initial_seconds {
        errors.push(ConfigError {
            path: "podMaxBackoffSeconds".into(),
            message: format!(
                "{maximum_seconds} must not be below podInitialBackoffSeconds, which is \
                 {initial_seconds}"
            ),
        });
    }
    Backoff {
        initial_seconds,
        maximum_seconds,
    }
}

fn read_profiles(
    fields: &mut Fields<'_>,
    settings: ProfileSettings<'_>,
    config: &mut Configuration,
    errors: &mut Vec<ConfigError>,
) {
    let (path, given) = fields
        .list("profiles", errors)
        .unwrap_or_else(|| (fields.path("profiles"), &[]));
    let default = [Value::Null];
    let profiles = if given.is_empty() { &default } else { given };
    let mut queue_sorts: Vec<PluginSet> = Vec::new();
    config.engine.profiles.clear();
    for (index, value) in profiles.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let mut reader = ProfileReader {
            is_only: profiles.len() == 1,
            settings,
            errors,
            warnings: &mut config.warnings,
        };
        let (profile, sets) = reader.read(value, &path);
        let points = sets.expand(settings.catalog);
        plugin_sets::check_required(&points, &profile.scheduler_name, &path, errors);
        queue_sorts.push(sets.of("queueSort"));
        if queue_sorts[0] != queue_sorts[index] {
            errors.push(ConfigError {
                path: format!("{path}.plugins.queueSort"),
                message: "must be the same for all profiles".into(),
            });
        }
        let rules = meaning::rules(&profile, &points);
        config.profiles.push(ProfileMeaning {
            rules,
            scheduler_name: profile.scheduler_name.clone(),
            percentage_of_nodes_to_score: profile.percentage_of_nodes_to_score,
            extension_points: points
                .into_iter()
                .filter(|point| !point.plugins.is_empty())
                .collect(),
        });
        config.engine.profiles.push(profile);
    }
    check_names(&config.engine.profiles, &path, errors);
}

/// What holds for all profiles.
#[derive(Clone, Copy)]
struct ProfileSettings<'o> {
    catalog: Catalog<'o>,
    version: ApiVersion,
    /// The percentage of profiles that have none of their own.
    percentage: Option<u8>,
}

/// Reads one profile.
struct ProfileReader<'r> {
    is_only: bool,
    settings: ProfileSettings<'r>,
    errors: &'r mut Vec<ConfigError>,
    warnings: &'r mut Vec<ConfigWarning>,
}

impl ProfileReader<'_> {
    fn read(&mut self, value: &Value, path: &str) -> (ProfileConfig, PluginSets) {
        let mut profile = ProfileConfig::default();
        let mut sets = PluginSets::default();
        let catalog = self.settings.catalog;
        let Some(mut fields) = Fields::of(value, path, self.errors) else {
            return (profile, sets);
        };
        profile.scheduler_name = self.scheduler_name(&mut fields);
        let own = read_percentage(&mut fields, self.errors);
        profile.percentage_of_nodes_to_score = own.or(self.settings.percentage);
        if let Some((path, value)) = fields.take("plugins") {
            let version = self.settings.version;
            let (errors, warnings) = (&mut *self.errors, &mut *self.warnings);
            sets = PluginSets::read(value, &path, catalog, version, errors, warnings);
        }
        let arguments = fields.list("pluginConfig", self.errors);
        let list = arguments.as_ref().map_or(&[][..], |(_, list)| list);
        let has_shares = plugin_args::has_args(list, PriorityShare::NAME);
        if has_shares {
            sets.imply(PriorityShare::NAME);
        }
        let points = sets.expand(catalog);
        plugin_sets::apply(&points, catalog, &mut profile);
        self.check_shares(has_shares, &points, path);
        if let Some((path, list)) = arguments {
            let version = self.settings.version;
            let mut reader = plugin_args::Reader {
                catalog,
                version,
                errors: self.errors,
                warnings: self.warnings,
            };
            reader.apply(list, &path, &mut profile);
        }
        fields.finish(self.errors);
        (profile, sets)
    }

    /// Warns of PriorityShare without limits, and of limits that nobody looks at.
    fn check_shares(&mut self, has_shares: bool, points: &[ExtensionPoint], path: &str) {
        let name = PriorityShare::NAME;
        let mut enabled = points.iter().flat_map(|point| &point.plugins);
        let is_enabled = enabled.any(|plugin| plugin.name == name);
        let (field, message) = match (is_enabled, has_shares) {
            (true, false) => ("plugins", format!("{name} has no effect without arguments")),
            (false, true) => (
                "pluginConfig",
                format!("arguments of {name} have no effect, since it is disabled"),
            ),
            _ => return,
        };
        let path = format!("{path}.{field}");
        self.warnings.push(ConfigWarning { path, message });
    }

    fn scheduler_name(&mut self, fields: &mut Fields<'_>) -> String {
        match fields.text("schedulerName", self.errors) {
            Some((_, name)) if !name.is_empty() => name.to_owned(),
            None if self.is_only => DEFAULT_SCHEDULER_NAME.to_owned(),
            _ => {
                self.errors.push(ConfigError {
                    path: fields.path("schedulerName"),
                    message: "is required; only a single profile may leave it out".into(),
                });
                String::new()
            }
        }
    }
}

fn check_names(profiles: &[ProfileConfig], path: &str, errors: &mut Vec<ConfigError>) {
    for (index, profile) in profiles.iter().enumerate() {
        let before = &profiles[..index];
        let is_named = !profile.scheduler_name.is_empty();
        if is_named
            && before
                .iter()
                .any(|other| other.scheduler_name == profile.scheduler_name)
        {
            errors.push(ConfigError {
                path: format!("{path}[{index}].schedulerName"),
                message: format!(
                    "another profile is called {:?} already",
                    profile.scheduler_name
                ),
            });
        }
    }
}
