//! `outrank config`: the files that tell a scheduler how to decide.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use outrank_config::policy::{self, Reading};
use outrank_rehearse::input;

use crate::{printable, tell};

/// Work on the files that tell a scheduler how to decide
#[derive(Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Convert(Convert),
}

pub(crate) fn main(arguments: &Config) -> Result<ExitCode> {
    match &arguments.command {
        Command::Convert(arguments) => convert(arguments),
    }
}

/// How a legacy Policy is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyCompat {
    /// Exactly as kube-scheduler 1.20 reads it.
    #[value(name = "1.20")]
    V1_20,
}

/// Reads a policy; what 1.20 would have refused goes to standard error as warnings.
pub(crate) fn read_policy(
    name: &str,
    text: &str,
    compat: Option<PolicyCompat>,
) -> Result<policy::Policy> {
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
struct Convert {
    /// The policy, JSON or YAML; - is standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,

    /// Read the policy as this release of kube-scheduler.
    #[arg(long, value_enum, value_name = "RELEASE")]
    policy_compat: Option<PolicyCompat>,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

fn convert(arguments: &Convert) -> Result<ExitCode> {
    let name = arguments.file.display().to_string();
    let text = read_text(&arguments.file)?;
    let policy = read_policy(&name, &text, arguments.policy_compat)?;
    let converted = policy::convert(&policy);
    for note in &converted.notes {
        tell(&format!("{name}: note: {note}"));
    }
    let text = match arguments.output {
        Format::Yaml => serde_saphyr::to_string(&converted.configuration)?,
        Format::Json => serde_json::to_string_pretty(&converted.configuration)? + "\n",
    };
    let mut out = std::io::stdout().lock();
    out.write_all(printable(&text).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The text of one file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
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
