//! A cluster that runs somewhere, by the kubeconfig that kubectl would use.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

/// Which cluster is meant.
#[derive(Args)]
#[command(next_help_heading = "The cluster, as kubectl finds it")]
pub(crate) struct ClusterArguments {
    /// The kubeconfig file. [default: $KUBECONFIG, or ~/.kube/config, or what outrank up writes if
    /// there is neither]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig. [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A connection to a cluster.
pub(crate) struct Live {
    client: Client,
}

impl ClusterArguments {
    /// Connects to the cluster; nothing is asked yet.
    pub(crate) async fn connect(&self) -> Result<Live> {
        let path = self.kubeconfig.clone().or_else(own_kubeconfig);
        let kubeconfig = match &path {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot use the kubeconfig {}", path.display()))?,
            None => Kubeconfig::read().context(
                "there is no kubeconfig to say which cluster is meant; name one: --kubeconfig FILE",
            )?,
        };
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .context("the kubeconfig does not say how to reach the cluster")?;
        let client = Client::try_from(config).context("the kubeconfig cannot be used")?;
        Ok(Live { client })
    }
}

/// The kubeconfig that `outrank up` writes, if it is there and kubectl has none.
fn own_kubeconfig() -> Option<PathBuf> {
    let home = std::env::home_dir()?;
    let is_named = std::env::var_os("KUBECONFIG").is_some_and(|it| !it.is_empty());
    let has_other = is_named || home.join(".kube").join("config").exists();
    let own = home.join(".outrank").join("kubeconfig");
    (!has_other && own.exists()).then_some(own)
}

/// What came of a request for something that may not be there, or not be shown.
pub(crate) enum Found {
    /// It is there.
    Value(Value),
    /// The cluster has nothing of the kind.
    Missing,
    /// It is not for this user.
    Forbidden(String),
}

impl Live {
    /// Reads a path.
    pub(crate) async fn find(&self, path: &str) -> Result<Found> {
        let request = Request::get(path).body(Vec::new()).context("not a path")?;
        match self.client.request::<Value>(request).await {
            Ok(value) => Ok(Found::Value(value)),
            Err(kube::Error::Api(status)) => match status.code {
                404 => Ok(Found::Missing),
                403 => Ok(Found::Forbidden(status.message.clone())),
                _ => bail!("the API server says: {}", status.message),
            },
            Err(error) => Err(error).context("the cluster cannot be asked"),
        }
    }

    /// Merges a patch into the object of a path.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        let request = Request::patch(path)
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(serde_json::to_vec(patch)?)
            .context("not a path")?;
        match self.client.request::<Value>(request).await {
            Ok(value) => Ok(value),
            Err(kube::Error::Api(status)) => bail!("the API server says: {}", status.message),
            Err(error) => Err(error).context("the cluster cannot be asked"),
        }
    }
}

/// Runs something that waits for the network.
pub(crate) fn block_on<T>(task: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(task)
}
