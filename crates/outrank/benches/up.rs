//! How fast a cluster of `outrank up` is there, and what it holds.
//!
//! ```text
//! cargo bench -p outrank --bench up             start, and 5,000 nodes with 50,000 pods
//! cargo bench -p outrank --bench up -- start    start alone
//! cargo bench -p outrank --bench up -- fill     the large cluster alone
//! ```
//!
//! What is measured is the program itself, over HTTP and TLS, as a client sees it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

/// How often the start is measured.
const STARTS: usize = 21;

/// From the start of the process to the first answer, without kubectl's own time.
const START_TARGET: Duration = Duration::from_millis(100);

const NODES: usize = 5_000;
const PODS: usize = 50_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wants = |name: &str| {
        let named = arguments.iter().filter(|it| !it.starts_with('-'));
        let named: Vec<&String> = named.collect();
        named.is_empty() || named.iter().any(|it| *it == name)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        if wants("start") {
            measure_start().await?;
        }
        if wants("fill") {
            measure_fill().await?;
        }
        Ok(())
    })
}

async fn measure_start() -> Result<()> {
    let mut took = Vec::new();
    for _ in 0..STARTS {
        let folder = tempfile::tempdir()?;
        let begun = Instant::now();
        let cluster = Running::start(folder.path(), &[])?;
        let client = cluster.client().await?;
        let nodes = get(&client, "/api/v1/nodes").await?;
        took.push(begun.elapsed());
        let count = nodes["items"].as_array().map_or(0, Vec::len);
        if count != 3 {
            bail!("{count} nodes instead of 3");
        }
    }
    took.sort_unstable();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    println!(
        "start to first answer: median {median:.1?} of {STARTS} ({:.2} of the target {START_TARGET:?}), worst {worst:.1?}",
        median.as_secs_f64() / START_TARGET.as_secs_f64(),
    );
    Ok(())
}

async fn measure_fill() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let begun = Instant::now();
    let nodes = NODES.to_string();
    let cluster = Running::start(folder.path(), &["--nodes", &nodes])?;
    let client = cluster.client().await?;
    println!(
        "{NODES} nodes: there after {:.1?}, {} MiB",
        begun.elapsed(),
        cluster.memory_mib()?
    );
    let begun = Instant::now();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": PODS, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}}},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&deployment)?)?;
    client.request::<Value>(request).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let deployment = get(&client, &format!("{path}/web")).await?;
        let ready = deployment["status"]["readyReplicas"].as_u64().unwrap_or(0);
        if ready as usize == PODS {
            break;
        }
        if begun.elapsed() > Duration::from_secs(1_800) {
            bail!("only {ready} of {PODS} pods run after half an hour");
        }
    }
    let took = begun.elapsed();
    println!(
        "{PODS} pods of a Deployment: all ready after {took:.1?} ({:.0} pods/s), {} MiB",
        PODS as f64 / took.as_secs_f64(),
        cluster.memory_mib()?
    );
    let begun = Instant::now();
    let request = Request::get("/api/v1/pods").body(Vec::new())?;
    let list = client.request_text(request).await?;
    println!(
        "one list of all of them: {:.1?}, {} MiB of JSON",
        begun.elapsed(),
        list.len() >> 20
    );
    Ok(())
}

async fn get(client: &Client, path: &str) -> Result<Value> {
    let request = Request::get(path).body(Vec::new())?;
    Ok(client.request::<Value>(request).await?)
}

/// A cluster that runs until this is dropped.
struct Running {
    process: Child,
    kubeconfig: PathBuf,
}

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Result<Self> {
        let kubeconfig = folder.join("kubeconfig");
        let process = Command::new(env!("CARGO_BIN_EXE_outrank"))
            .args(["up", "--port", "0", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .context("the program cannot be started")?;
        Ok(Self {
            process,
            kubeconfig,
        })
    }

    /// A client, as soon as the cluster says that it is there.
    async fn client(&self) -> Result<Client> {
        let begun = Instant::now();
        while !self.kubeconfig.exists() {
            if begun.elapsed() > Duration::from_secs(120) {
                bail!("the cluster does not start");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Client::try_from(config)?)
    }

    fn memory_mib(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(kib.context("the system does not say how much memory is used")? / 1024)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
