//! `outrank up`: a cluster in one process.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum, value_parser};
use outrank_apiserver::http::Limits;
use outrank_apiserver::kubeconfig::{self, Credentials, Current};
use outrank_cluster::{Cluster, ClusterConfig, Given, Part, nodes};
use outrank_engine::EngineConfig;
use outrank_engine::extensions::Extensions;
use outrank_extender::HttpExtender;
use outrank_rehearse::input::Input;
use serde_json::Value;

use crate::admission::AdmissionArguments;
use crate::{config, given, tell};

/// Run a cluster on this machine, which kubectl takes for a real one: an API server, admission,
/// controllers, the scheduler and simulated nodes, in one process.
///
/// Nothing really runs on the nodes: pods start, are ready and end as annotations of theirs say
/// (docs/simulated-nodes.md), and at once if these say nothing. The kubeconfig that is written
/// gives all rights in the cluster, and is readable by its owner alone. Ctrl-C ends the cluster.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  # A cluster of three nodes, and a look at it from another terminal
  outrank up
  export KUBECONFIG=~/.outrank/kubeconfig
  kubectl get nodes

  # Ten nodes with GPUs, and a directory in which the cluster lives on
  outrank up --nodes 10 --node-template gpu-node.yaml --data ./cluster

  # A copy of another cluster
  outrank snapshot --context prod > prod.yaml
  outrank up -f prod.yaml

  # Only the API server; scheduler and controllers are others'
  outrank up --without scheduler,controllers

  # A user who may read and nothing else
  outrank up --user viewer=readers
  kubectl create clusterrolebinding readers --clusterrole=view --group=readers

Exit codes:
  0  the cluster was ended
  1  it could not be started
  2  the command line is wrong")]
pub(crate) struct Up {
    /// Files or directories with objects to begin with: a dump of another cluster, or manifests;
    /// - is standard input.
    #[arg(short, long = "filename", value_name = "FILE|DIR|-")]
    filename: Vec<PathBuf>,

    /// How many nodes to make: node-1, node-2, ... Three, unless there are nodes already.
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u32).range(..=NODES_MAX))]
    nodes: Option<u32>,

    /// A Node that those of --nodes are like: its labels, taints and capacity.
    #[arg(long, value_name = "FILE")]
    node_template: Option<PathBuf>,

    /// A directory in which the cluster is kept. The next start with it goes on where this ends,
    /// however it ends. Without it, the cluster is gone when it ends.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// The address to listen at. Who listens at more than 127.0.0.1 lets others try to enter.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind_address: IpAddr,

    /// The port to listen at; 0 is any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    port: u16,

    /// Another name or address by which clients call the server; it is in its certificate.
    #[arg(long, value_name = "NAME")]
    tls_san: Vec<String>,

    /// Where to write the kubeconfig. [default: kubeconfig in --data, or ~/.outrank/kubeconfig]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Add the cluster to the kubeconfig that kubectl reads ($KUBECONFIG or ~/.kube/config), as the
    /// context outrank, and remove it when the cluster ends.
    #[arg(long)]
    merge_kubeconfig: bool,

    /// Another user, in these groups. His kubeconfig is written beside the other one, with his name
    /// at its end. What he may do is for Roles and bindings to say.
    #[arg(long, value_name = "NAME[=GROUP,...]", value_parser = user)]
    user: Vec<NewUser>,

    /// Who does not take part in the cluster, because others do their work.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART,...")]
    without: Vec<LeftOut>,

    /// A KubeSchedulerConfiguration file for the scheduler, or a legacy Policy.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    admission: AdmissionArguments,
}

/// A user and his groups.
#[derive(Clone, Debug)]
struct NewUser {
    name: String,
    groups: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LeftOut {
    /// No pod is placed, unless another scheduler does.
    Scheduler,
    /// Workloads have no pods, budgets and quotas are not counted, nothing is collected.
    Controllers,
    /// Pods do not run, and nodes are not heard of.
    Kubelets,
}

impl From<LeftOut> for Part {
    fn from(part: LeftOut) -> Self {
        match part {
            LeftOut::Scheduler => Self::Scheduler,
            LeftOut::Controllers => Self::Controllers,
            LeftOut::Kubelets => Self::Kubelets,
        }
    }
}

fn user(text: &str) -> Result<NewUser, String> {
    let (name, groups) = text.split_once('=').unwrap_or((text, ""));
    if name.is_empty() || name.contains('/') {
        return Err("a user is written NAME or NAME=GROUP,...".to_owned());
    }
    let groups = groups.split(',').filter(|it| !it.is_empty());
    Ok(NewUser {
        name: name.to_owned(),
        groups: groups.map(str::to_owned).collect(),
    })
}

/// Most nodes that are made: twice as many as the largest clusters are known to have.
const NODES_MAX: i64 = 100_000;

/// The name of cluster, user and context in kubeconfigs.
const NAME: &str = "outrank";

pub(crate) fn main(arguments: &Up) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(run(arguments))?;
    Ok(ExitCode::SUCCESS)
}

/// Tells once when the disk takes no more writes, and when it takes them again.
async fn tell_of_failures(cluster: &Cluster) {
    let mut told = None;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let failure = cluster.server().store().failure();
        match &failure {
            Some(error) if told.is_none() => tell(&format!("outrank: {error}")),
            None if told.is_some() => {
                tell("outrank: there is room on the disk again; writing goes on")
            }
            _ => {}
        }
        told = failure;
    }
}

async fn run(arguments: &Up) -> Result<()> {
    let cluster = Cluster::start(config_of(arguments)?).await?;
    let address = reachable(cluster.address());
    let server = format!("https://{address}");
    let written = write_kubeconfigs(arguments, &cluster, &server)?;
    let merged = match arguments.merge_kubeconfig {
        true => Some(merge_kubeconfig(&cluster, &server)?),
        false => None,
    };
    let context = match merged.as_ref().map(|it| it.name.as_str()) {
        None | Some(NAME) => String::new(),
        Some(name) => format!("\nIn the kubeconfig of kubectl its context is {name}.\n"),
    };
    tell(&format!(
        "The cluster listens at {server}. Ctrl-C ends it.\n\n  export KUBECONFIG={}\n  \
         kubectl get nodes\n{context}",
        written.display()
    ));
    tokio::select! {
        ended = wait_for_end() => ended?,
        () = tell_of_failures(&cluster) => {}
    }
    tell("Ending ...");
    cluster.stop().await;
    if let Some(merged) = merged {
        let back_to = merged.current_before.as_deref();
        kubeconfig::remove(&kubectls_file()?, &merged.name, back_to)?;
    }
    Ok(())
}

fn config_of(arguments: &Up) -> Result<ClusterConfig> {
    let mut warnings = 0;
    let options = arguments.admission.read(&mut warnings)?;
    let (scheduler, extensions) = scheduler_of(arguments)?;
    let (mut objects, namespaces) = given::read(&arguments.filename)?;
    if !namespaces.is_empty() {
        let names = namespaces.join(", ");
        tell(&format!(
            "Namespaces are made, as objects are in them: {names}"
        ));
    }
    objects.extend(nodes_of(arguments, &objects)?);
    let mut names = arguments.tls_san.clone();
    names.push(arguments.bind_address.to_string());
    Ok(ClusterConfig {
        data: arguments.data.clone(),
        address: SocketAddr::new(arguments.bind_address, arguments.port),
        objects,
        without: arguments
            .without
            .iter()
            .map(|it| Part::from(*it))
            .collect::<BTreeSet<_>>(),
        admission: arguments.admission.flags(),
        limited_resources: options.limited_resources,
        scheduler,
        extensions,
        limits: Limits::default(),
        names,
    })
}

fn scheduler_of(arguments: &Up) -> Result<(EngineConfig, Extensions)> {
    let mut extensions = Extensions::default();
    let Some(path) = &arguments.config else {
        return Ok((EngineConfig::default(), extensions));
    };
    let config = config::read_any(path, None)?;
    for extender in &config.extenders {
        let extender = HttpExtender::new(extender).map_err(anyhow::Error::msg)?;
        extensions.extenders.push(Arc::new(extender));
    }
    Ok((config.engine, extensions))
}

fn nodes_of(arguments: &Up, objects: &[Given]) -> Result<Vec<Given>> {
    let has_nodes = objects.iter().any(|it| it.value["kind"] == "Node");
    let is_kept = arguments.data.as_ref().is_some_and(|it| it.exists());
    let count = match arguments.nodes {
        Some(count) => count,
        None if has_nodes || is_kept => 0,
        None => 3,
    };
    let template = match &arguments.node_template {
        None => None,
        Some(path) => Some(read_template(path)?),
    };
    let named = nodes::names(count);
    Ok(named
        .map(|name| Given::from(nodes::node(&name, template.as_ref())))
        .collect())
}

fn read_template(path: &Path) -> Result<Value> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| name.clone())?;
    let objects = given::objects_of(&Input {
        name: name.clone(),
        bytes,
    })?;
    let mut values = objects.into_iter().map(|it| it.value);
    match values.find(|value| value["kind"] == "Node") {
        Some(node) => Ok(node),
        None => bail!("{name}: there is no Node in it; a template is a Node, as kubectl prints it"),
    }
}

/// Where clients on this machine reach a server that listens at an address.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip().is_unspecified() {
        true => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        false => address,
    }
}

/// Writes the kubeconfigs; where the first is.
fn write_kubeconfigs(arguments: &Up, cluster: &Cluster, server: &str) -> Result<PathBuf> {
    let path = kubeconfig_path(arguments)?;
    let path = std::path::absolute(&path).unwrap_or(path);
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    if let Some(other) = running_at(&path, NAME, server) {
        bail!(
            "{} leads to a cluster that runs at {other}; say where to write that of this one: \
             --kubeconfig FILE",
            path.display()
        );
    }
    for user in &arguments.user {
        let mut name = path.clone().into_os_string();
        name.push(format!(".{}", user.name));
        let access = access_of(cluster, NAME, server, &user.name, &user.groups)?;
        kubeconfig::write(Path::new(&name), &access)?;
    }
    // The last of all, so that who waits for it finds the others, too.
    kubeconfig::write(&path, &administrator(cluster, NAME, server)?)?;
    Ok(path)
}

/// The cluster in the kubeconfig that kubectl reads.
struct Merged {
    name: String,
    /// The context that was current there.
    current_before: Option<String>,
}

/// Adds the cluster to the kubeconfig that kubectl reads. Clusters that run keep their names.
fn merge_kubeconfig(cluster: &Cluster, server: &str) -> Result<Merged> {
    let path = kubectls_file()?;
    let mut name = NAME.to_owned();
    for number in 2.. {
        if running_at(&path, &name, server).is_none() {
            break;
        }
        name = format!("{NAME}-{number}");
    }
    let access = administrator(cluster, &name, server)?;
    let current_before = kubeconfig::merge(&path, &access, Current::Set)?;
    Ok(Merged {
        name,
        current_before,
    })
}

/// The server of another cluster that a kubeconfig has under a name, if anybody listens there.
fn running_at(path: &Path, name: &str, own: &str) -> Option<String> {
    const PATIENCE: Duration = Duration::from_millis(500);
    // What is wrong with a file is told when it is to be written.
    let server = kubeconfig::server_of(path, name).ok().flatten();
    server.filter(|server| {
        let address = server
            .strip_prefix("https://")
            .and_then(|it| it.parse().ok());
        let is_running = |it: SocketAddr| TcpStream::connect_timeout(&it, PATIENCE).is_ok();
        server != own && address.is_some_and(is_running)
    })
}

fn administrator(cluster: &Cluster, name: &str, server: &str) -> Result<kubeconfig::Cluster> {
    let groups = ["system:masters".to_owned()];
    access_of(cluster, name, server, "outrank-admin", &groups)
}

fn access_of(
    cluster: &Cluster,
    name: &str,
    server: &str,
    user: &str,
    groups: &[String],
) -> Result<kubeconfig::Cluster> {
    let front = cluster.front();
    Ok(kubeconfig::Cluster {
        name: name.to_owned(),
        server: server.to_owned(),
        ca_pem: front.certificate_authority().to_owned(),
        credentials: Credentials::Certificate(front.client_certificate(user, groups)?),
        namespace: None,
    })
}

fn kubeconfig_path(arguments: &Up) -> Result<PathBuf> {
    if let Some(path) = &arguments.kubeconfig {
        return Ok(path.clone());
    }
    if let Some(folder) = &arguments.data {
        return Ok(folder.join("kubeconfig"));
    }
    match std::env::home_dir() {
        Some(home) => Ok(home.join(".outrank").join("kubeconfig")),
        None => {
            bail!("there is no home directory to write a kubeconfig to; say where: --kubeconfig")
        }
    }
}

/// The file that kubectl reads.
fn kubectls_file() -> Result<PathBuf> {
    let named = std::env::var_os("KUBECONFIG");
    let home = std::env::home_dir();
    let paths = kubeconfig::default_paths(named.as_deref(), home.as_deref());
    match paths.into_iter().next() {
        Some(path) => Ok(path),
        None => bail!("there is no home directory, and KUBECONFIG names no file"),
    }
}

/// Waits until somebody wants the cluster to end.
async fn wait_for_end() -> Result<()> {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).context("cannot hear signals")?;
        tokio::select! {
            result = interrupt => result.context("cannot hear signals")?,
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    interrupt.await.context("cannot hear signals")?;
    Ok(())
}
