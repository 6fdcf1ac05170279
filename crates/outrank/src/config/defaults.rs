//! `outrank config defaults`: the configuration that is used if none is given.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::DocumentFormat;
use crate::print_structured;

/// Print the default KubeSchedulerConfiguration in full
///
/// It is kube-scheduler 1.36's but for percentageOfNodesToScore, which is left out so that
/// every node is considered; kube-scheduler's 0 looks at 5% to 50% of them.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  outrank config defaults > scheduler.yaml
  outrank config defaults | outrank config check -")]
pub(crate) struct Defaults {
    /// Output format.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: DocumentFormat,
}

pub(crate) fn main(arguments: &Defaults) -> Result<ExitCode> {
    let is_yaml = arguments.output == DocumentFormat::Yaml;
    print_structured(&outrank_config::default_document(), is_yaml)?;
    Ok(ExitCode::SUCCESS)
}
