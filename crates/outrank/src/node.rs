//! `outrank node`: nodes of a cluster of `outrank up` go away and come back.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use outrank_node::kubelets::OUTAGE;
use serde_json::json;

use crate::live::{ClusterArguments, Found, Live, block_on};
use crate::write_out;

/// Stop and start nodes of a cluster that outrank up runs.
#[derive(Args)]
pub(crate) struct Node {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Stop(Stop),
    Start(Start),
}

/// Stop a node, as if its power was cut. Nobody is told: as in a real cluster it is noticed when
/// nothing was heard of the node for 50 s, and its pods are evicted when their tolerations end.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # Cut the power of a node, and watch what becomes of its pods
  outrank node stop node-1
  kubectl get pods -o wide -w

  # Pull its cable instead: its pods run on, and are there when it is back
  outrank node stop node-1 --how unreachable
  outrank node start node-1")]
struct Stop {
    /// The names of the nodes.
    #[arg(required = true, value_name = "NODE")]
    names: Vec<String>,

    /// What happens to the node.
    #[arg(long, value_enum, default_value_t = How::PoweredOff)]
    how: How,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Start a node that was stopped.
#[derive(Args)]
struct Start {
    /// The names of the nodes.
    #[arg(required = true, value_name = "NODE")]
    names: Vec<String>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// Its power is cut: what its pods did is lost.
    PoweredOff,
    /// Its network is cut: its pods run on, unheard.
    Unreachable,
}

pub(crate) fn main(arguments: &Node) -> Result<ExitCode> {
    let (names, cluster, outage, done) = match &arguments.command {
        Command::Stop(stop) => {
            let outage = match stop.how {
                How::PoweredOff => "PoweredOff",
                How::Unreachable => "Unreachable",
            };
            (&stop.names, &stop.cluster, json!(outage), "stopped")
        }
        Command::Start(start) => (&start.names, &start.cluster, json!(null), "started"),
    };
    block_on(async {
        let live = cluster.connect().await?;
        refuse_other_clusters(&live).await?;
        for name in names {
            let patch = json!({"metadata": {"annotations": {OUTAGE: outage}}});
            live.merge(&format!("/api/v1/nodes/{name}"), &patch).await?;
            write_out(&format!("node/{name} {done}\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Nodes of other clusters do not heed our annotation.
async fn refuse_other_clusters(live: &Live) -> Result<()> {
    let version = match live.find("/version").await? {
        Found::Value(version) => version,
        _ => bail!("the cluster does not say what it is"),
    };
    let version = version["gitVersion"].as_str().unwrap_or_default();
    if !version.contains("outrank") {
        bail!(
            "this cluster ({version}) is not one of `outrank up`: its nodes cannot be stopped from \
             here; which cluster is meant is said by --kubeconfig and --context"
        );
    }
    Ok(())
}
