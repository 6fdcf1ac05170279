//! The legacy scheduler Policy: predicates and priorities by name, in JSON or YAML.
//!
//! kube-scheduler took such a file until 1.22 (`--policy-config-file`). A *predicate* says
//! where a pod can go and becomes a Filter plugin, a *priority* says where it had better go
//! and becomes a Score plugin; both readings of a file decide with the plugins of 1.20.
//!
//! * [`Reading::V1_20`] is kube-scheduler 1.20.5: predicates run in a fixed order, and what it
//!   refused is refused with its words. Where it crashed there is an error instead.
//! * [`Reading::Lenient`] takes what people have besides: predicates may have an `order`,
//!   `PodFitsHost` is HostName, and the predicates that looked at conditions of nodes, which
//!   taints have replaced, work as in the releases that had them. Warnings say what 1.20
//!   would have refused.
//!
//! Reading a file has stages, as upstream: the text is decoded ([`Stage::Decode`]),
//! validated, its names are mapped to plugins, extenders and plugins check their arguments.
//! Sources: `cmd/kube-scheduler`, `pkg/scheduler/{scheduler,factory}.go`,
//! `apis/config/validation/validation.go`, `framework/plugins/legacy_registry.go`,
//! Kubernetes 1.20.5.

mod convert;
mod decode;
mod extender;
mod plugin_args;
mod registry;
mod validate;

use std::fmt;

use outrank_engine::EngineConfig;
use serde_json::Value;

use crate::{ConfigError, ExtenderConfig};

pub use convert::{Converted, convert};

/// How a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// With what older releases had, and `order`.
    #[default]
    Lenient,
    /// As kube-scheduler 1.20.5.
    V1_20,
}

/// A policy that was read.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What it becomes: one profile.
    pub engine: EngineConfig,
    /// Its extenders.
    pub extenders: Vec<ExtenderConfig>,
    /// What 1.20 would have refused.
    pub warnings: Vec<ConfigError>,
}

/// When a policy was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The text cannot be read, or is no policy.
    Decode,
    /// A value is out of range or contradicts another.
    Validate,
    /// There is no predicate or priority of that name, or its argument is of the wrong kind.
    Map,
    /// An extender cannot be made.
    Extenders,
    /// A plugin refuses its arguments.
    Plugins,
}

/// Why a policy was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// When.
    pub stage: Stage,
    /// All that is wrong, with its places.
    pub problems: Vec<ConfigError>,
    /// What kube-scheduler 1.20.5 says. Where it quotes the text or crashes, we say it in
    /// our own words.
    pub text_of_1_20: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        f.write_str(&problems.join("; "))
    }
}

impl std::error::Error for PolicyError {}

/// Whether a document is a policy: it says so, or says nothing and has what policies have.
pub fn is_policy(document: &Value) -> bool {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let has_part = ["predicates", "priorities"]
        .iter()
        .any(|part| !document[*part].is_null());
    text("kind") == "Policy" || text("kind").is_empty() && (has_part || text("apiVersion") == "v1")
}

/// Reads a policy.
///
/// ```
/// use outrank_config::policy::{Reading, read};
///
/// let text = r#"{"kind": "Policy", "apiVersion": "v1",
///     "predicates": [{"name": "PodFitsResources", "order": 2}, {"name": "PodFitsHost", "order": 1}],
///     "priorities": [{"name": "LeastRequestedPriority", "weight": 1}]}"#;
/// let policy = read(text, Reading::Lenient).unwrap();
/// let filter = &policy.engine.profiles[0].filter;
/// assert_eq!(filter[..2], ["NodeName", "NodeResourcesFit"]);
/// assert_eq!(policy.warnings.len(), 2);
/// assert!(read(text, Reading::V1_20).is_err());
/// ```
///
/// # Errors
/// What is wrong with it, at the first stage at which something is.
pub fn read(text: &str, reading: Reading) -> Result<Policy, PolicyError> {
    let file = decode::decode(text, reading)?;
    validate::validate(&file)?;
    let mapped = registry::map(&file, reading)?;
    extender::check(&file.extenders)?;
    plugin_args::check(&mapped.profile)?;
    let engine = EngineConfig {
        profiles: vec![mapped.profile],
        ..EngineConfig::default()
    };
    Ok(Policy {
        engine,
        extenders: file.extenders,
        warnings: mapped.warnings,
    })
}

impl PolicyError {
    /// A refusal for one reason.
    fn single(stage: Stage, path: &str, message: String, text_of_1_20: String) -> Self {
        Self {
            stage,
            problems: vec![problem(path, message)],
            text_of_1_20,
        }
    }
}

fn problem(path: &str, message: String) -> ConfigError {
    ConfigError {
        path: path.to_owned(),
        message,
    }
}

/// What 1.20 says before what the scheduler cannot be made of.
const NOT_CREATED: &str = "couldn't create scheduler from policy: ";
