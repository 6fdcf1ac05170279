//! A cluster that runs: [`Cluster`].

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use outrank_admission::plugin_names::PluginFlags;
use outrank_admission::{AdmissionChain, ClassRules};
use outrank_api::types::LimitedResource;
use outrank_apiserver::clock::Clock;
use outrank_apiserver::front::Front;
use outrank_apiserver::http::{HttpServer, Limits, Stop};
use outrank_apiserver::server::{ApiServer, Settings};
use outrank_apiserver::stored_object::StoredObject;
use outrank_controllers::garbage_collection::GarbageCollector;
use outrank_controllers::node_lifecycle::NodeLifecycleOptions;
use outrank_controllers::node_ttl::NodeTtlController;
use outrank_controllers::{Controllers, cluster_controllers, workload_controllers};
use outrank_engine::EngineConfig;
use outrank_engine::extensions::Extensions;
use outrank_scheduler::Scheduler;
use outrank_store::{Options, Store};
use serde_json::Value;
use tokio::runtime::Handle;

use crate::client::Client;
use crate::events::{Recorder, Style};
use crate::informers::Informers;
use crate::{bootstrap, upkeep, workers};

/// What a cluster is made of.
pub struct ClusterConfig {
    /// Where it keeps its objects; in memory if absent.
    pub data: Option<PathBuf>,
    /// Where it listens; port 0 is any that is free.
    pub address: SocketAddr,
    /// Objects to begin with, as they are: of a dump, or nodes.
    pub objects: Vec<Given>,
    /// Who does not take part.
    pub without: BTreeSet<Part>,
    /// The admission plugins.
    pub admission: PluginFlags,
    /// What may not be used where no quota covers it.
    pub limited_resources: Vec<LimitedResource>,
    /// What the scheduler is told.
    pub scheduler: EngineConfig,
    /// Plugins of one's own, and extenders.
    pub extensions: Extensions,
    /// Limits of the server.
    pub limits: Limits,
    /// Names under which clients may call the server, beside its address.
    pub names: Vec<String>,
}

/// An object to begin with.
#[derive(Clone, Debug)]
pub struct Given {
    /// Where it is from, such as `dump.yaml:7`, for messages; may be empty.
    pub origin: String,
    /// The object.
    pub value: Value,
}

impl From<Value> for Given {
    fn from(value: Value) -> Self {
        let origin = String::new();
        Self { origin, value }
    }
}

/// Someone who takes part in a cluster, and may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The scheduler.
    Scheduler,
    /// The controllers.
    Controllers,
    /// The kubelets of the nodes.
    Kubelets,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scheduler, Self::Controllers, Self::Kubelets];

    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Controllers => "controllers",
            Self::Kubelets => "kubelets",
        }
    }
}

/// A cluster that runs until it is stopped.
pub struct Cluster {
    server: ApiServer,
    front: Arc<Front>,
    address: SocketAddr,
    informers: Informers,
    stop: Stop,
    serving: tokio::task::JoinHandle<()>,
    workers: Vec<JoinHandle<()>>,
}

impl Cluster {
    /// Starts a cluster. When this returns it can be asked.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration, the data or the address.
    pub async fn start(config: ClusterConfig) -> Result<Self> {
        let store = store_of(&config)?;
        let server = server_of(store, &config)?;
        let front = Front::new(server.clone(), config.data.as_deref(), &config.names)?;
        let front = Arc::new(front);
        bootstrap::make(&server, front.certificate_authority())
            .map_err(|status| anyhow!("the cluster cannot be set up: {}", status.message))?;
        let tls = front.tls()?;
        let bound = HttpServer::bind(config.address, tls, front.clone(), config.limits.clone());
        let (http, stop) = bound.await.with_context(|| {
            format!(
                "cannot listen at {}: is another server running there? --port 0 takes any free port",
                config.address
            )
        })?;
        let address = http.address()?;
        load(&server, &config.objects)?;
        let informers = Informers::new(server.clone());
        let workers = start_workers(&server, &informers, front.certificate_authority(), config)?;
        let serving = tokio::spawn(http.serve());
        front.set_ready(&address.to_string());
        Ok(Self {
            server,
            front,
            address,
            informers,
            stop,
            serving,
            workers,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its API server, for clients in the same process.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// What stands before the server: who may enter.
    pub fn front(&self) -> &Arc<Front> {
        &self.front
    }

    /// Ends the cluster, in order: nobody writes any more when this returns.
    pub async fn stop(self) {
        self.stop.stop();
        let _ = self.serving.await;
        self.informers.stop();
        for worker in self.workers {
            let _ = tokio::task::spawn_blocking(move || worker.join()).await;
        }
    }
}

fn store_of(config: &ClusterConfig) -> Result<Store<StoredObject>> {
    let options = Options::default();
    match &config.data {
        None => Ok(Store::in_memory(options)),
        Some(folder) => Store::open(folder, options)
            .with_context(|| format!("cannot use the data in {}", folder.display())),
    }
}

fn server_of(store: Store<StoredObject>, config: &ClusterConfig) -> Result<ApiServer> {
    let plugins = config.admission.plugins();
    let plugins = plugins.map_err(|errors| anyhow!(errors.join("\n")))?;
    let chain = AdmissionChain::default_plugins(&config.admission);
    let settings = Settings {
        chain: chain.map_err(|errors| anyhow!(errors.join("\n")))?,
        classes: ClassRules {
            non_preemptible: true,
        },
        has_quotas: plugins.contains(&"ResourceQuota"),
        limited_resources: config.limited_resources.clone(),
        clock: Clock::system(),
    };
    Ok(ApiServer::new(store, settings))
}

/// Stores objects as they are, with what the server writes if it is missing.
fn load(server: &ApiServer, objects: &[Given]) -> Result<()> {
    for Given { origin, value } in objects {
        server.load(value.clone()).map_err(|status| {
            let kind = value["kind"].as_str().unwrap_or("object");
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            let place = match origin.as_str() {
                "" => String::new(),
                origin => format!("{origin}: "),
            };
            anyhow!("{place}{kind} {name:?}: {}", status.message)
        })?;
    }
    Ok(())
}

fn start_workers(
    server: &ApiServer,
    informers: &Informers,
    certificate_authority: &str,
    config: ClusterConfig,
) -> Result<Vec<JoinHandle<()>>> {
    let has = |part: Part| !config.without.contains(&part);
    let for_controllers = has(Part::Controllers).then(|| informers.listen());
    let for_upkeep = informers.listen();
    let for_scheduler = has(Part::Scheduler).then(|| informers.listen());
    let for_kubelets = has(Part::Kubelets).then(|| informers.listen());
    informers.start(&Handle::current());
    let mut workers = Vec::new();
    if let Some(changes) = for_controllers {
        let recorder = Recorder::new(Style::Counted, "");
        let client = Client::new(server.clone(), "kube-controller-manager", recorder);
        let controllers = controllers(informers.clone());
        workers.push(workers::run_controllers(controllers, client, changes)?);
    }
    let client = Client::new(
        server.clone(),
        "kube-controller-manager",
        Recorder::new(Style::Counted, ""),
    );
    let certificate = certificate_authority.to_owned();
    let has_controllers = has(Part::Controllers);
    workers.push(upkeep::run(
        client,
        certificate,
        has_controllers,
        for_upkeep,
    )?);
    if let Some(changes) = for_scheduler {
        let name = "default-scheduler".to_owned();
        let scheduler = Scheduler::new(&config.scheduler, config.extensions);
        let scheduler = scheduler.map_err(|why| anyhow!(why))?;
        let recorder = Recorder::new(Style::Series, "outrank");
        let client = Client::new(server.clone(), "kube-scheduler", recorder);
        workers.push(workers::run_scheduler(scheduler, name, client, changes)?);
    }
    if let Some(changes) = for_kubelets {
        let recorder = Recorder::new(Style::Counted, "");
        let client = Client::new(server.clone(), "kubelet", recorder);
        workers.push(workers::run_kubelets(client, changes)?);
    }
    Ok(workers)
}

fn controllers(informers: Informers) -> Controllers {
    let collector = GarbageCollector::knowing(move |kind| informers.knows(kind));
    let mut all = workload_controllers();
    all.extend(cluster_controllers(
        NodeLifecycleOptions::default(),
        collector,
    ));
    all.push(Box::new(NodeTtlController::default()));
    Controllers::new(all)
}
