//! `outrank config`: scheduler configurations, without a cluster.

mod check;
mod defaults;
mod schema;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use outrank_config::Configuration;
use outrank_rehearse::input;
use serde_json::Value;

use crate::tell;

/// Check, show and describe scheduler configurations
#[derive(Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    Check(check::Check),
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

pub(crate) fn main(arguments: &Config) -> Result<ExitCode> {
    match &arguments.command {
        ConfigCommand::Check(arguments) => check::main(arguments),
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
    let name = path.display().to_string();
    let config = outrank_config::read(&read_document(path)?).map_err(|errors| {
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

/// The only document of a file.
fn read_document(path: &Path) -> Result<Value> {
    let files = input::read_inputs([path], &mut std::io::stdin().lock())?;
    let mut documents = Vec::new();
    for file in &files {
        documents.extend(
            outrank_api::document::values(&file.bytes)
                .map_err(|error| anyhow::anyhow!("{}: {error}", file.name))?,
        );
    }
    match <[Value; 1]>::try_from(documents) {
        Ok([document]) => Ok(document),
        Err(documents) => bail!(
            "{}: expected one document, found {}",
            path.display(),
            documents.len()
        ),
    }
}
