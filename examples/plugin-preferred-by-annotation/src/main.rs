//! A rehearsal with the plugin: who lands where, who waits and why.
//!
//! ```console
//! $ cargo run -p plugin-preferred-by-annotation -- CONFIG.yaml CLUSTER.yaml...
//! ```

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use outrank_api::{decode, document};
use outrank_engine::extensions::Extensions;
use outrank_rehearse::{Changes, RunOptions, Scenario, input, run};
use plugin_preferred_by_annotation::PreferredByAnnotation;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [config, cluster @ ..] = arguments.as_slice() else {
        bail!("usage: plugin-preferred-by-annotation CONFIG.yaml CLUSTER.yaml...");
    };
    let options = read_options(config)?;
    let scenario = read_scenario(cluster)?;
    let report = run(&scenario, &options, &mut |_, _| {}).map_err(anyhow::Error::msg)?;
    let mut out = std::io::stdout().lock();
    for pod in &report.placed {
        writeln!(out, "{}/{} {}", pod.namespace, pod.name, pod.node)?;
    }
    for pod in &report.pending {
        writeln!(out, "{}/{} - {}", pod.namespace, pod.name, pod.message)?;
    }
    Ok(())
}

/// The scheduler's configuration, in which profiles may name the plugin.
fn read_options(path: &str) -> Result<RunOptions> {
    let plugins: Vec<_> = PreferredByAnnotation::plugin().into_iter().collect();
    let files = input::read_inputs([Path::new(path)], &mut std::io::stdin().lock())?;
    let bytes = &files.first().context("no configuration")?.bytes;
    let documents = document::values(bytes).map_err(|error| anyhow::anyhow!("{error}"))?;
    let document = documents.first().context("no configuration")?;
    let config = outrank_config::read_with_plugins(document, &plugins).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{path}: {}", errors.join("\n"))
    })?;
    Ok(RunOptions {
        engine: config.engine,
        extensions: Extensions {
            plugins,
            ..Extensions::default()
        },
        ..RunOptions::default()
    })
}

/// The cluster and the workloads on it.
fn read_scenario(paths: &[String]) -> Result<Scenario> {
    let paths = paths.iter().map(Path::new);
    let files = input::read_inputs(paths, &mut std::io::stdin().lock())?;
    let inputs = files.iter().map(|file| (&*file.name, &*file.bytes));
    let loaded = decode::load(inputs);
    if let Some(error) = loaded.errors.first() {
        bail!("{error}");
    }
    Scenario::new(loaded.objects, Changes::default()).map_err(anyhow::Error::msg)
}
