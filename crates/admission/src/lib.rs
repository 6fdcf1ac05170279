//! Admission: what the API server decides about an object before it stores it.
//!
//! Pure functions over the typed objects of [`outrank_api`]; they read no clock and
//! no store. Whoever admits passes in what the plugin looks things up in.
//!
//! * [`priority`]: the class name of a pod becomes a number that the scheduler can
//!   compare; classes themselves are checked.
//! * [`resource_quota`]: how much the objects of a namespace may use together.
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

pub mod priority;
pub mod resource_quota;

pub use priority::{PriorityError, PriorityResolver, validate_class};
