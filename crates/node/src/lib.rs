//! A node: what its kubelet decides.
//!
//! The scheduler says on which node a pod runs; what happens there is up to the kubelet, the
//! agent on each node. It has the last word on whether the pod fits, evicts others for pods
//! that the cluster cannot do without, starts containers and starts them again, ends pods
//! when they are deleted or take too long, and tells the API server how things are. All that
//! is decided here for a node on which nothing really runs: the program in a pod does what
//! the pod's annotations say.
//!
//! Values go in and out, and time is an argument; no clock, no thread, no I/O. So a thousand
//! nodes can be played through under a virtual clock, or be run beside an API server, and the
//! same input gives the same writes.
//!
//! * [`mod@admit`]: whether a kubelet takes a pod that is bound to its node;
//! * [`preemption`]: whom it evicts for a critical pod that does not fit;
//! * [`criticality`]: which pods are critical, and who may be evicted for whom;
//! * [`active_pods`]: the pods that hold a place on the node;
//! * [`behaviour`]: what the programs in a pod do, by its annotations;
//! * [`pod_life`], [`container_life`], [`pod_status`]: the life of a pod, and what is said of it;
//! * [`mod@node_status`]: what is said of the node, and when;
//! * [`kubelet`]: all of it together; [`kubelets`]: those of many nodes; [`write`]: what it writes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use outrank_api::types::{Node, Pod};
//! use outrank_node::{Input, Kubelet, KubeletConfig, Write};
//!
//! let node: Node = serde_json::from_str(
//!     r#"{ "metadata": { "name": "n1" },
//!          "status": { "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "110" } } }"#,
//! )?;
//! let pod: Pod = serde_json::from_str(
//!     r#"{ "metadata": { "namespace": "default", "name": "job",
//!                        "annotations": { "node.outrank.dev/run-for": "90s" } },
//!          "spec": { "nodeName": "n1", "restartPolicy": "Never",
//!                    "containers": [{ "name": "main",
//!                                     "resources": { "requests": { "cpu": "500m" } } }] } }"#,
//! )?;
//!
//! let config = KubeletConfig { node_name: "n1".into(), ..KubeletConfig::default() };
//! let mut kubelet = Kubelet::new(config);
//! kubelet.handle(Input::NodeChanged(Arc::new(node)), 0);
//! kubelet.handle(Input::PodChanged(Arc::new(pod)), 0);
//! let phases = |writes: Vec<Write>| -> Vec<String> {
//!     let statuses = writes.into_iter().filter_map(|write| match write {
//!         Write::PodStatus { status, .. } => Some(status.phase),
//!         _ => None,
//!     });
//!     statuses.collect()
//! };
//! assert_eq!(phases(kubelet.advance(0)), ["Running"]);
//! assert_eq!(kubelet.next_time(), Some(90_000_000_000));
//! assert_eq!(phases(kubelet.advance(90_000_000_000)), ["Succeeded"]);
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod active_pods;
pub mod admit;
pub mod behaviour;
pub mod container_life;
pub mod criticality;
pub mod kubelet;
pub mod kubelets;
pub mod node_status;
mod pod_addresses;
pub mod pod_life;
pub mod pod_status;
pub mod preemption;
pub mod write;

pub use active_pods::{ActivePods, PodNumber};
pub use admit::{Refusal, Verdict, admit};
pub use kubelet::{Input, Kubelet, KubeletConfig, Outage};
pub use node_status::node_status;
pub use write::{Event, EventType, PodRef, Write};

/// A point in time, or a span of it, in nanoseconds; points count from 1970.
pub type TimeNanos = i64;
