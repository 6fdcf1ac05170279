//! `outrank config`: the files that tell a scheduler how to decide, without a cluster.

mod check;
mod convert;
mod defaults;
mod schema;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use outrank_api::document::SyntaxError;
use outrank_config::policy::{self, Reading};
use outrank_config::{Configuration, ExtenderConfig};
use outrank_engine::EngineConfig;
use outrank_rehearse::input;
use serde_json::Value;

use crate::tell;

/// Check, show, describe and convert the files that tell a scheduler how to decide
#[derive(Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    Check(check::Check),
    Convert(convert::Convert),
    Defaults(defaults::Defaults),
    Schema(schema::Schema),
}

/// A format that is the same for people and programs.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum DocumentFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// How a legacy Policy is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyCompat {
    /// Exactly as kube-scheduler 1.20 reads it.
    #[value(name = "1.20")]
    V1_20,
}

pub(crate) fn main(arguments: &Config) -> Result<ExitCode> {
    match &arguments.command {
        ConfigCommand::Check(arguments) => check::main(arguments),
        ConfigCommand::Convert(arguments) => convert::main(arguments),
        ConfigCommand::Defaults(arguments) => defaults::main(arguments),
        ConfigCommand::Schema(arguments) => schema::main(arguments),
    }
}

/// Reads a configuration from a file, or from standard input (`-`). Warnings go to standard
/// error.
///
/// # Errors
/// Everything that is wrong with it, a line each.
pub(crate) fn read(path: &Path) -> Result<Configuration> {
    let documents = outrank_api::document::values(read_text(path)?.as_bytes());
    read_configuration(&path.display().to_string(), documents)
}

/// What a rehearsal takes of a configuration or a policy.
pub(crate) struct Decider {
    pub(crate) engine: EngineConfig,
    pub(crate) extenders: Vec<ExtenderConfig>,
    /// How many warnings were told.
    pub(crate) warnings: usize,
}

/// Reads a configuration, or a legacy Policy, as [`read`] does.
pub(crate) fn read_any(path: &Path, compat: Option<PolicyCompat>) -> Result<Decider> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    let documents = outrank_api::document::values(text.as_bytes());
    let is_policy = |documents: &Vec<Value>| documents.iter().any(policy::is_policy);
    if compat.is_none() && !documents.as_ref().is_ok_and(is_policy) {
        let config = read_configuration(&name, documents)?;
        return Ok(Decider {
            engine: config.engine,
            extenders: config.extenders,
            warnings: config.warnings.len(),
        });
    }
    let policy = read_policy(&name, &text, compat)?;
    Ok(Decider {
        extenders: policy.extenders,
        engine: policy.engine,
        warnings: policy.warnings.len(),
    })
}

fn read_configuration(
    name: &str,
    documents: Result<Vec<Value>, SyntaxError>,
) -> Result<Configuration> {
    let documents = documents.map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let document = match <[Value; 1]>::try_from(documents) {
        Ok([document]) => document,
        Err(documents) => bail!("{name}: expected one document, found {}", documents.len()),
    };
    let config = outrank_config::read(&document).map_err(|errors| {
        let errors: Vec<String> = errors
            .iter()
            .map(|error| format!("{name}: {error}"))
            .collect();
        anyhow::anyhow!("{}", errors.join("\n"))
    })?;
    for warning in &config.warnings {
        tell(&format!("warning: {name}: {warning}"));
    }
    Ok(config)
}

/// Reads a policy; what 1.20 would have refused goes to standard error as warnings.
fn read_policy(name: &str, text: &str, compat: Option<PolicyCompat>) -> Result<policy::Policy> {
    let reading = match compat {
        None => Reading::Lenient,
        Some(PolicyCompat::V1_20) => Reading::V1_20,
    };
    let policy = policy::read(text, reading).map_err(|error| {
        let problems = match reading {
            Reading::V1_20 => vec![error.text_of_1_20],
            Reading::Lenient => error.problems.iter().map(ToString::to_string).collect(),
        };
        let problems = problems.iter().map(|problem| format!("{name}: {problem}"));
        anyhow::anyhow!("{}", problems.collect::<Vec<_>>().join("\n"))
    })?;
    for warning in &policy.warnings {
        tell(&format!("{name}: warning: {warning}"));
    }
    Ok(policy)
}

/// The text of one file.
fn read_text(path: &Path) -> Result<String> {
    let files = input::read_inputs([path], &mut std::io::stdin().lock())?;
    let [file] = files.as_slice() else {
        anyhow::bail!(
            "{}: expected one file, found {}",
            path.display(),
            files.len()
        );
    };
    let text = outrank_api::document::text(&file.bytes);
    let text = text.with_context(|| file.name.clone())?;
    Ok(text.into_owned())
}
