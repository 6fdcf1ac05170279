//! `outrank config check`: whether a configuration is right, and what it means.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use outrank_config::{ConfigWarning, Configuration, ExtenderConfig, ProfileMeaning};
use serde_json::{Value, json};

use super::DocumentFormat;
use crate::table::{align_right, table, text};
use crate::{print_structured, tell, write_out};

/// Check a KubeSchedulerConfiguration and say what it means
///
/// What kube-scheduler 1.36 refuses is refused, each mistake with the path of its field.
/// What is accepted is shown as it takes effect: every plugin of every profile, in the order
/// in which it is asked, with upstream's defaults filled in.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  outrank config check scheduler.yaml
  outrank config check scheduler.yaml -o json | jq '.profiles[].schedulerName'
  kubectl get configmap -n kube-system scheduler -o jsonpath='{.data.config}' |
    outrank config check -

Exit codes:
  0  accepted; there may be warnings on standard error
  1  refused
  2  the command line is wrong")]
pub(crate) struct Check {
    /// The configuration, YAML or JSON; - is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Output format.
    #[arg(short, long, value_enum)]
    output: Option<DocumentFormat>,
}

pub(crate) fn main(arguments: &Check) -> Result<ExitCode> {
    let mut config = super::read(&arguments.file)?;
    let missing = unreadable_files(&config);
    for warning in &missing {
        tell(&format!("warning: {}: {warning}", arguments.file.display()));
    }
    config.warnings.extend(missing);
    match arguments.output {
        None => write_out(&summary(&config)?)?,
        Some(format) => print_structured(&structured(&config), format == DocumentFormat::Yaml)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Files of extenders that cannot be read here. The scheduler may run elsewhere, so that this
/// refuses nothing.
fn unreadable_files(config: &Configuration) -> Vec<ConfigWarning> {
    let unreadable = config.files.iter().filter_map(|named| {
        let error = fs::read(&named.file).err()?;
        Some(ConfigWarning {
            path: named.path.clone(),
            message: format!(
                "cannot read {}: {error}; a scheduler that runs here does not start",
                named.file
            ),
        })
    });
    unreadable.collect()
}

fn structured(config: &Configuration) -> Value {
    let extenders = config.extenders.iter().map(|extender| {
        json!({
            "urlPrefix": extender.url_prefix,
            "calls": calls(extender),
            "httpTimeoutSeconds": extender.http_timeout.as_secs_f64(),
            "nodeCacheCapable": extender.node_cache_capable,
            "ignorable": extender.ignorable,
            "managedResources": managed_resources(extender),
        })
    });
    let warnings = config
        .warnings
        .iter()
        .map(|warning| json!({"path": warning.path, "message": warning.message}));
    let backoff = config.engine.backoff;
    json!({
        "profiles": config.profiles,
        "extenders": extenders.collect::<Vec<Value>>(),
        "podInitialBackoffSeconds": backoff.initial_seconds,
        "podMaxBackoffSeconds": backoff.maximum_seconds,
        "warnings": warnings.collect::<Vec<Value>>(),
    })
}

fn summary(config: &Configuration) -> Result<String> {
    let mut summary = String::new();
    for profile in &config.profiles {
        writeln!(summary, "{}\n", headline(profile))?;
        writeln!(summary, "{}\n", plugin_table(profile))?;
        for rule in &profile.rules {
            writeln!(summary, "{rule}")?;
        }
        if !profile.rules.is_empty() {
            writeln!(summary)?;
        }
    }
    if !config.extenders.is_empty() {
        let mut rows = table(&["EXTENDER", "CALLS", "PODS", "TIMEOUT", "IGNORABLE"]);
        for extender in &config.extenders {
            let pods = match managed_resources(extender) {
                resources if resources.is_empty() => "all".to_owned(),
                resources => format!("with {}", resources.join(", ")),
            };
            rows.add_row(vec![
                extender.url_prefix.clone(),
                calls(extender).join(", "),
                pods,
                format!("{:?}", extender.http_timeout),
                if extender.ignorable { "yes" } else { "no" }.to_owned(),
            ]);
        }
        writeln!(summary, "{}\n", text(&rows, ""))?;
    }
    let backoff = config.engine.backoff;
    writeln!(
        summary,
        "Refused pods wait for {} to {} seconds.",
        backoff.initial_seconds, backoff.maximum_seconds
    )?;
    Ok(summary)
}

fn headline(profile: &ProfileMeaning) -> String {
    let nodes = match profile.percentage_of_nodes_to_score {
        None | Some(100) => "every node is considered".to_owned(),
        Some(0) => "a part of the nodes is considered, 5% to 50% by their number".to_owned(),
        Some(percentage) => format!("{percentage}% of the nodes are considered, 100 at least"),
    };
    format!("Profile {}: {nodes}.", profile.scheduler_name)
}

fn plugin_table(profile: &ProfileMeaning) -> String {
    let mut rows = table(&["POINT", "PLUGIN", "WEIGHT"]);
    for point in &profile.extension_points {
        for (index, plugin) in point.plugins.iter().enumerate() {
            let weight = plugin.weight.map(|weight| weight.to_string());
            rows.add_row(vec![
                if index == 0 { point.name } else { "" }.to_owned(),
                plugin.name.clone(),
                weight.unwrap_or_default(),
            ]);
        }
    }
    align_right(&mut rows, 2);
    text(&rows, "")
}

/// What an extender is asked for.
fn calls(extender: &ExtenderConfig) -> Vec<String> {
    let weight = extender.weight;
    let calls = [
        (&extender.filter_verb, "filter".to_owned()),
        (&extender.preempt_verb, "preempt".to_owned()),
        (
            &extender.prioritize_verb,
            format!("prioritize (weight {weight})"),
        ),
        (&extender.bind_verb, "bind".to_owned()),
    ];
    let asked = calls.into_iter().filter(|(verb, _)| !verb.is_empty());
    asked.map(|(_, call)| call).collect()
}

fn managed_resources(extender: &ExtenderConfig) -> Vec<&str> {
    let resources = extender.managed_resources.iter();
    resources.map(|resource| &*resource.name).collect()
}
