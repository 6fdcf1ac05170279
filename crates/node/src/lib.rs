//! A node: what its kubelet decides.
//!
//! Pure functions and values over the typed objects of [`outrank_api`].
//!
//! * [`admit`]: whether a kubelet takes a pod that is bound to its node;
//! * [`preemption`]: whom it evicts for a critical pod that does not fit;
//! * [`criticality`]: which pods are critical, and who may be evicted for whom;
//! * [`active_pods`]: the pods that hold a place on the node.

pub mod active_pods;
pub mod admit;
pub mod criticality;
pub mod preemption;

pub use active_pods::{ActivePods, PodNumber};
pub use admit::{Refusal, Verdict, admit};
