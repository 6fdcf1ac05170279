//! `outrank config schema`: the format of configurations, for editors.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::DocumentFormat;
use crate::print_structured;

/// Print a JSON Schema of KubeSchedulerConfiguration
///
/// Editors complete and check a configuration by it. It knows fields, types and ranges;
/// outrank config check knows the rest.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  outrank config schema > kube-scheduler-configuration.schema.json

  # First line of a configuration, for editors with the YAML language server
  # yaml-language-server: $schema=kube-scheduler-configuration.schema.json")]
pub(crate) struct Schema {
    /// Output format.
    #[arg(short, long, value_enum, default_value = "json")]
    output: DocumentFormat,
}

pub(crate) fn main(arguments: &Schema) -> Result<ExitCode> {
    let is_yaml = arguments.output == DocumentFormat::Yaml;
    print_structured(&outrank_config::json_schema(), is_yaml)?;
    Ok(ExitCode::SUCCESS)
}
