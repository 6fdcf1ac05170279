//! A whole cluster in one process: API server, controllers, scheduler, kubelets.
//!
//! Those who decide are elsewhere and know neither clock nor network. Here they get both: each has
//! a thread, hears of changes from [`informers`], and writes through a [`client`] by the requests
//! that a client outside would send. So an external scheduler or controller manager can take the
//! place of ours ([`Part`]).
//!
//! ```no_run
//! # async fn example(config: outrank_cluster::ClusterConfig) -> anyhow::Result<()> {
//! let cluster = outrank_cluster::Cluster::start(config).await?;
//! println!("listening at {}", cluster.address());
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```

pub mod bootstrap;
mod claims;
pub mod client;
mod cluster;
mod endpoints;
pub mod events;
pub mod informers;
pub mod nodes;
mod upkeep;
mod workers;

pub use cluster::{Cluster, ClusterConfig, Given, Part};
