//! `outrank config convert`: what a legacy Policy is today.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use outrank_config::policy;

use super::{DocumentFormat, PolicyCompat, read_policy, read_text};
use crate::{print_structured, tell};

/// Turn a legacy Policy into a KubeSchedulerConfiguration
///
/// Prints a KubeSchedulerConfiguration of today that decides as the policy does, as far as
/// there is an equal. What there is not is told on standard error.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  outrank config convert policy.json > scheduler.yaml
  outrank config convert policy.yaml --policy-compat 1.20 -o json

Exit codes:
  0  converted
  1  the policy is wrong
  2  the command line is wrong")]
pub(crate) struct Convert {
    /// The policy, JSON or YAML; - is standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,

    /// Read the policy as this release of kube-scheduler.
    #[arg(long, value_enum, value_name = "RELEASE")]
    policy_compat: Option<PolicyCompat>,

    /// Output format.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: DocumentFormat,
}

pub(crate) fn main(arguments: &Convert) -> Result<ExitCode> {
    let name = arguments.file.display().to_string();
    let text = read_text(&arguments.file)?;
    let policy = read_policy(&name, &text, arguments.policy_compat)?;
    let converted = policy::convert(&policy);
    for note in &converted.notes {
        tell(&format!("{name}: note: {note}"));
    }
    let is_yaml = arguments.output == DocumentFormat::Yaml;
    print_structured(&converted.configuration, is_yaml)?;
    Ok(ExitCode::SUCCESS)
}
