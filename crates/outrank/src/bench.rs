//! `outrank bench`: how fast decisions are.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use outrank_bench::measure::{Limits, Measured, measure};
use outrank_bench::workload::{TestCase, Workload, read_from_disk};
use outrank_engine::EngineConfig;

use crate::config;
use crate::table::{align_right, amount, table, text};

/// Measure decisions per second, beside a full evaluation of every node in the same run
///
/// Reads workload files in the shape of upstream's scheduler_perf. Decisions are timed one
/// by one on one core; all nodes are considered.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  outrank bench benchmarks/basic.yaml
  outrank bench benchmarks/*.yaml --label performance
  outrank bench benchmarks/curve.yaml -o json")]
pub(crate) struct Bench {
    /// Workload files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Only workloads whose CASE/WORKLOAD contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Only workloads with this label.
    #[arg(long)]
    label: Option<String>,

    /// For how long full evaluations are measured, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    full_seconds: f64,

    /// Output format.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// All that was measured, as JSON.
    Json,
}

pub(crate) fn main(arguments: &Bench) -> Result<ExitCode> {
    let Ok(full_evaluation) = Duration::try_from_secs_f64(arguments.full_seconds) else {
        crate::refuse(
            "bench",
            "--full-seconds: expected a number of seconds from 0 on",
        );
    };
    let limits = Limits { full_evaluation };
    let mut measured = Vec::new();
    for path in &arguments.files {
        let file = read_from_disk(path).map_err(|error| anyhow::anyhow!("{error}"))?;
        file.warnings
            .iter()
            .for_each(|warning| crate::tell(&warning.to_string()));
        for case in file.test_cases {
            let config_path = case.scheduler_config_path.clone();
            let workloads = selected(arguments, case)?;
            let is_asked_for = !workloads.is_empty();
            let config = match config_path.filter(|_| is_asked_for) {
                Some(path) => engine_config(&path)?,
                None => EngineConfig::default(),
            };
            for workload in workloads {
                if std::io::stderr().is_terminal() {
                    crate::tell(&format!("{} ...", workload.name));
                }
                measured.push(measure(&workload, &config, &limits).map_err(anyhow::Error::msg)?);
            }
        }
    }
    if measured.is_empty() {
        bail!("no workload was selected");
    }
    report(arguments, &measured)?;
    let differs = measured
        .iter()
        .any(|m| m.same_placements != m.full_evaluation_decisions);
    if differs {
        bail!("decisions differ from full evaluations; please report this");
    }
    Ok(ExitCode::SUCCESS)
}

/// How the engine decides by the configuration of a test case.
fn engine_config(path: &Path) -> Result<EngineConfig> {
    let config = config::read_any(path, None)?;
    if !config.extenders.is_empty() {
        bail!(
            "{}: extenders are not called in a benchmark",
            path.display()
        );
    }
    Ok(config.engine)
}

/// The workloads of a test case that are asked for, named `CASE/WORKLOAD`. A case that
/// cannot be run is an error only if it may be asked for.
fn selected(arguments: &Bench, case: TestCase) -> Result<Vec<Workload>> {
    let only = arguments.only.as_deref();
    let is_other = only.is_some_and(|only| !only.starts_with(case.name.as_str()));
    let mut workloads = match case.workloads {
        Ok(workloads) => workloads,
        Err(_) if is_other => return Ok(Vec::new()),
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            bail!("{}", errors.join("\n"));
        }
    };
    for workload in &mut workloads {
        workload.name = format!("{}/{}", case.name, workload.name);
    }
    let label = arguments.label.as_ref();
    workloads.retain(|workload| {
        only.is_none_or(|only| workload.name.contains(only))
            && label.is_none_or(|label| workload.labels.contains(label))
    });
    Ok(workloads)
}

fn report(arguments: &Bench, measured: &[Measured]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if let Some(Output::Json) = arguments.output {
        serde_json::to_writer_pretty(&mut out, measured)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut rows = table(&[
        "WORKLOAD",
        "NODES",
        "PODS",
        "PLACED",
        "DECISIONS/S",
        "P50",
        "P99",
        "MAX",
        "FULL EVALUATION/S",
        "RATIO",
        "PEAK MEMORY",
    ]);
    for measured in measured {
        let latency = measured.latency_nanos;
        rows.add_row(vec![
            measured.workload.clone(),
            measured.nodes.to_string(),
            measured.decisions.to_string(),
            measured.scheduled.to_string(),
            format!("{:.0}", measured.decisions_per_second),
            micros(latency.p50),
            micros(latency.p99),
            micros(latency.max),
            format!("{:.1}", measured.full_evaluations_per_second),
            format!("{:.0}", measured.ratio),
            measured
                .peak_memory_bytes
                .map_or("-".to_owned(), |bytes| amount("memory", bytes as i64)),
        ]);
    }
    align_right(&mut rows, 1);
    writeln!(out, "{}", text(&rows, ""))?;
    Ok(())
}

fn micros(nanos: u64) -> String {
    format!("{:.1}us", nanos as f64 / 1000.0)
}
