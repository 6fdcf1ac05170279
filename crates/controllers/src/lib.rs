//! Controllers: what they make of the objects that people write.
//!
//! Nobody writes a thousand pods; people write a Deployment with a thousand replicas and
//! a controller makes the pods. Before a scheduler can be rehearsed on such input, the
//! pods have to be made. The functions here decide which ones, and decide only: objects
//! come in as values, pods to create and to delete go out. They read no clock and no
//! random source, so the same input gives the same pods with the same names.
//!
//! * [`workloads`]: Deployment, ReplicaSet, ReplicationController, StatefulSet,
//!   DaemonSet, Job and CronJob become pods;
//! * [`volumes`]: claims become bound to volumes;
//! * [`disruption`]: how many pods PodDisruptionBudgets allow to go;
//! * [`taint_eviction`]: when NoExecute taints drive a pod off its node;
//! * [`node_lifecycle`]: which taints nodes get that are not well, or not heard of;
//! * [`garbage_collection`], [`pod_garbage_collection`], [`namespace_deletion`]: what goes along
//!   when owners, nodes and namespaces go;
//! * [`quota_status`]: what ResourceQuotas say is used.
//!
//! ```
//! use outrank_api::types::{Deployment, DeploymentSpec, ObjectMeta};
//! use outrank_controllers::{Workload, reconcile};
//!
//! let web = Deployment {
//!     metadata: ObjectMeta { name: "web".into(), namespace: "shop".into(), ..Default::default() },
//!     spec: DeploymentSpec { replicas: Some(3), ..Default::default() },
//! };
//! let pods = reconcile(&[Workload::Deployment(&web)], &[], &[]).unwrap().create;
//! assert_eq!(pods.len(), 3);
//! let owner = pods[0].metadata.controller().unwrap();
//! assert_eq!(owner.kind, "ReplicaSet");
//! assert!(owner.name.starts_with("web-"));
//! ```

mod claim;
pub mod controller;
pub mod controllers;
pub mod disruption;
pub mod garbage_collection;
mod generated_names;
pub mod namespace_deletion;
mod new_pod;
pub mod node_lifecycle;
pub mod pod_edit;
pub mod pod_garbage_collection;
mod pod_state;
pub mod quota_status;
pub mod replica_set;
pub mod taint_eviction;
pub mod virtual_cluster;
pub mod volumes;
pub mod workloads;
pub mod world;
pub mod write;

pub use controller::{Controller, Plan};
pub use controllers::{Controllers, Work};
pub use workloads::{Reconciled, TooManyPods, Workload, expand, reconcile, replacement};
pub use world::{Change, Key, Kind, Seen, Stored, World};
pub use write::{Outcome, Refusal, Write};
