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
//! assert_eq!(config.profiles[0].scheduler_name, "packer");
//! ```
//!
//! A field that does not exist, a plugin that does not exist, a value that upstream would
//! refuse: each is an error that names its path, and all are reported at once.

mod fields;
mod plugin_args;
mod plugin_sets;
pub mod policy;

use std::fmt;

use outrank_engine::profile::{DEFAULT_SCHEDULER_NAME, ProfileConfig};
use outrank_engine::{Backoff, EngineConfig};
use serde_json::Value;

use fields::Fields;

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

/// Reads a `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(document: &Value) -> Result<EngineConfig, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let config = read_into(document, &mut errors);
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(errors)
    }
}

fn read_into(document: &Value, errors: &mut Vec<ConfigError>) -> EngineConfig {
    let mut config = EngineConfig::default();
    let Some(mut fields) = Fields::of(document, "", errors) else {
        return config;
    };
    fields.constant("apiVersion", "kubescheduler.config.k8s.io/v1", errors);
    fields.constant("kind", "KubeSchedulerConfiguration", errors);
    config.backoff = read_backoff(&mut fields, errors);
    // Accepted, and of no effect here: nothing is sampled or run in parallel, and no
    // server is started.
    for known in [
        "clientConnection",
        "debuggingConfiguration",
        "delayCacheUntilActive",
        "enableContentionProfiling",
        "enableProfiling",
        "leaderElection",
        "parallelism",
    ] {
        fields.take(known);
    }
    for unserved in ["extenders", "percentageOfNodesToScore"] {
        if let Some((path, value)) = fields.take(unserved)
            && !matches!(value, Value::Null)
            && value != &Value::from(0)
            && value != &Value::from(100)
            && value != &Value::Array(Vec::new())
        {
            let message = "is not supported yet; remove it".to_owned();
            errors.push(ConfigError { path, message });
        }
    }
    if let Some((path, profiles)) = fields.list("profiles", errors)
        && !profiles.is_empty()
    {
        let numbered = profiles.iter().enumerate();
        config.profiles = numbered
            .map(|(index, profile)| read_profile(profile, &format!("{path}[{index}]"), errors))
            .collect();
        check_names(&config.profiles, &path, errors);
    }
    fields.finish(errors);
    config
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

fn read_profile(value: &Value, path: &str, errors: &mut Vec<ConfigError>) -> ProfileConfig {
    let mut profile = ProfileConfig::default();
    let Some(mut fields) = Fields::of(value, path, errors) else {
        return profile;
    };
    profile.scheduler_name = match fields.text("schedulerName", errors) {
        Some((_, name)) if !name.is_empty() => name.to_owned(),
        _ => DEFAULT_SCHEDULER_NAME.to_owned(),
    };
    if let Some((path, value)) = fields.take("plugins") {
        plugin_sets::apply(value, &path, &mut profile, errors);
    }
    if let Some((path, list)) = fields.list("pluginConfig", errors) {
        plugin_args::apply(list, &path, &mut profile, errors);
    }
    fields.finish(errors);
    profile
}

fn check_names(profiles: &[ProfileConfig], path: &str, errors: &mut Vec<ConfigError>) {
    for (index, profile) in profiles.iter().enumerate() {
        let before = &profiles[..index];
        if before
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
