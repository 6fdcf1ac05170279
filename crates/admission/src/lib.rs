//! Admission: what the API server decides about an object before it stores it.
//!
//! Pure functions over the typed objects of [`outrank_api`]; they read no clock and
//! no store. Whoever admits passes in what plugins look things up in.
//!
//! * [`priority`]: the class name of a pod becomes a number that the scheduler can
//!   compare; [`priority_class`]: what a class may be;
//! * [`resource_quota`]: how much the objects of a namespace may use together;
//! * [`limit_ranger`]: how large pods, containers and claims may be;
//! * [`default_storage_class`], [`default_toleration_seconds`], [`namespace_lifecycle`],
//!   [`pod_topology_labels`], [`runtime_class`], [`service_account`],
//!   [`taint_nodes_by_condition`]: a plugin each;
//! * [`chain`], [`plugin_names`], [`configuration`]: the plugins in their order, which of them
//!   run, and how.
//! * [`write`](mod@write): what becomes of a request to write, from its body to the object that is
//!   to be stored.
//!
//! ```
//! use std::sync::Arc;
//!
//! use outrank_admission::PriorityResolver;
//! use outrank_api::types::{ObjectMeta, Pod, PodSpec, PriorityClass};
//!
//! let high = PriorityClass {
//!     metadata: ObjectMeta { name: "high".into(), ..Default::default() },
//!     value: 10_000,
//!     preemption_policy: Some("Never".into()),
//!     ..Default::default()
//! };
//! let resolver = PriorityResolver::new([&high]);
//!
//! let spec = PodSpec { priority_class_name: "high".into(), ..Default::default() };
//! let mut pod = Pod { spec: Arc::new(spec), ..Default::default() };
//! resolver.resolve(&mut pod).unwrap();
//! assert_eq!(pod.spec.priority, Some(10_000));
//! assert_eq!(pod.spec.preemption_policy.as_deref(), Some("Never"));
//! ```

pub mod chain;
pub mod configuration;
pub mod creation;
pub mod default_storage_class;
pub mod default_toleration_seconds;
pub mod limit_ranger;
pub mod namespace_lifecycle;
pub mod plugin_names;
pub mod pod_topology_labels;
pub mod priority;
pub mod priority_class;
pub mod resource_quota;
pub mod runtime_class;
pub mod service_account;
pub mod taint_nodes_by_condition;
pub mod write;

pub use chain::{AdmissionChain, AdmissionPlugin, Attributes, Cluster, Operation};
pub use plugin_names::PluginFlags;
pub use priority::{PriorityError, PriorityResolver};
pub use priority_class::ClassRules;
pub use write::{Writes, Written};
