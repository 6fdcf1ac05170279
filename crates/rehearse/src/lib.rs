//! Rehearsal: what would happen to a cluster, worked out before it happens.
//!
//! A [`Scenario`] is a cluster with everything that wants to run on it, built from
//! manifests or dumps ([`input`], [`scenario`]) or from a [`trace`]. [`run()`] schedules all
//! of it at once and gives a [`report::Report`]; [`replay()`] lets the pods of a trace come
//! and go under a virtual clock and gives a [`replay::ReplayReport`].
//!
//! ```
//! use outrank_rehearse::{Changes, RunOptions, Scenario, run};
//!
//! let manifest = br#"
//! apiVersion: v1
//! kind: Node
//! metadata: {name: node-1}
//! status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
//! ---
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata: {name: web}
//! spec:
//!   replicas: 3
//!   selector: {matchLabels: {app: web}}
//!   template:
//!     metadata: {labels: {app: web}}
//!     spec:
//!       containers:
//!       - {name: web, image: nginx, resources: {requests: {cpu: "2"}}}
//! "#;
//! let loaded = outrank_api::decode::load([("cluster.yaml", manifest.as_slice())]);
//! assert!(loaded.errors.is_empty());
//! let scenario = Scenario::new(loaded.objects, Changes::default()).unwrap();
//! let report = run(&scenario, &RunOptions::default(), &mut |_, _| {}).unwrap();
//! assert_eq!((report.summary.placed, report.summary.unschedulable), (2, 1));
//! assert_eq!(report.pending[0].filter_message, "0/1 nodes are available: 1 Insufficient cpu.");
//! ```

pub mod input;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
pub mod simulation;
mod storage;
pub mod trace;
pub mod unmatched;

pub use replay::replay;
pub use run::{RunOptions, run};
pub use scenario::{Changes, Scenario};
