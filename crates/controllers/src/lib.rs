//! Controllers: what they make of the objects that people write.
//!
//! Nobody writes a thousand pods; people write a Deployment with a thousand replicas and
//! a controller makes the pods. The controllers here decide only: what has changed comes in
//! as values, what to write goes out as values, and somebody else carries it out and says
//! what came of it. They read no clock and no random source, so the same input gives the
//! same writes.
//!
//! * [`controller`]: what a controller is; [`controllers`]: several of them at work;
//! * [`world`]: what they know; [`write`](mod@write): what they want written;
//! * [`deployment`], [`replica_set`], [`stateful_set`], [`daemon_set`], [`job`], [`cron_job`]:
//!   the controllers of workloads, together [`workload_controllers`];
//! * the others, together [`cluster_controllers`], are named below;
//! * [`virtual_cluster`]: a cluster in memory where they run under a virtual clock;
//! * [`volumes`]: claims become bound to volumes;
//! * [`disruption`]: how many pods PodDisruptionBudgets allow to go;
//! * [`eviction`]: deleting a pod only if its budget allows it;
//! * [`taint_eviction`]: when NoExecute taints drive a pod off its node;
//! * [`node_lifecycle`]: which taints nodes get that are not well, or not heard of;
//! * [`garbage_collection`], [`pod_garbage_collection`], [`namespace_deletion`]: what goes along
//!   when owners, nodes and namespaces go;
//! * [`quota_status`]: what ResourceQuotas say is used;
//! * [`lost_revisions`]: what a dump without ControllerRevisions means;
//! * [`workloads`]: the short way: which pods there are when all controllers have come to
//!   rest, without going through what lies between.
//!
//! An example of controllers at work is in [`virtual_cluster`]. The short way:
//!
//! ```
//! use outrank_api::types::{Deployment, DeploymentSpec, ObjectMeta};
//! use outrank_controllers::{Workload, reconcile};
//!
//! let web = Deployment {
//!     metadata: ObjectMeta { name: "web".into(), namespace: "shop".into(), ..Default::default() },
//!     spec: DeploymentSpec { replicas: Some(3), ..Default::default() },
//!     ..Default::default()
//! };
//! let pods = reconcile(&[Workload::Deployment(&web)], &[], &[]).unwrap().create;
//! assert_eq!(pods.len(), 3);
//! let owner = pods[0].metadata.controller().unwrap();
//! assert_eq!(owner.kind, "ReplicaSet");
//! assert!(owner.name.starts_with("web-"));
//! ```

mod claim;
mod conditions;
pub mod controller;
mod controller_revision;
pub mod controllers;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod disruption;
pub mod eviction;
pub mod garbage_collection;
mod generated_names;
pub mod job;
pub mod lost_revisions;
pub mod namespace_deletion;
mod new_pod;
pub mod node_lifecycle;
pub mod node_ttl;
pub mod pod_edit;
pub mod pod_garbage_collection;
mod pod_state;
pub mod quota_status;
pub mod replica_set;
mod roster;
mod share;
pub mod stateful_set;
pub mod taint_eviction;
pub mod virtual_cluster;
pub mod volumes;
pub mod workloads;
pub mod world;
pub mod write;

/// The controllers of all workloads.
pub fn workload_controllers() -> Vec<Box<dyn Controller + Send>> {
    vec![
        Box::new(deployment::DeploymentController),
        Box::new(replica_set::ReplicaSetController::new()),
        Box::new(replica_set::ReplicaSetController::of_replication_controllers()),
        Box::new(stateful_set::StatefulSetController::default()),
        Box::new(daemon_set::DaemonSetController::default()),
        Box::new(job::JobController::default()),
        Box::new(job::ttl::TtlAfterFinishedController),
        Box::new(cron_job::CronJobController::default()),
    ]
}

/// The controllers that keep a cluster in order: of taints and nodes, of what goes along when
/// other things go, and of the statuses of budgets and quotas. `garbage_collector` knows which kinds
/// are known in full.
pub fn cluster_controllers(
    nodes: node_lifecycle::NodeLifecycleOptions,
    garbage_collector: garbage_collection::GarbageCollector,
) -> Vec<Box<dyn Controller + Send>> {
    vec![
        Box::new(node_lifecycle::NodeLifecycleController::new(nodes)),
        Box::new(taint_eviction::TaintEvictionController::new()),
        Box::new(pod_garbage_collection::PodGarbageCollector::default()),
        Box::new(garbage_collector),
        Box::new(namespace_deletion::NamespaceController::new()),
        Box::new(disruption::DisruptionController::new()),
        Box::new(quota_status::QuotaStatusController::new()),
    ]
}

pub use controller::{Controller, Plan};
pub use controllers::{Controllers, Work};
pub use pod_state::set_condition;
pub use workloads::{Reconciled, TooManyPods, Workload, expand, reconcile, replacement};
pub use world::{Change, Key, Kind, Seen, Stored, World};
pub use write::{Outcome, Refusal, Write};
