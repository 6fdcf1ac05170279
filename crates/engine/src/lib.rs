//! Pure scheduling decisions: which pod goes to which node, or why to none.
//!
//! The engine is a synchronous state machine. [`Event`]s go in (nodes and pods that are
//! new, changed or gone), [`Engine::next`] decides one pod and says what came of it. It
//! reads no clock, file, socket, random source or environment variable; time and seeds
//! are arguments, so the same calls always give the same decisions (and, if there are
//! extenders, the same answers of theirs). Decisions are those of kube-scheduler 1.36 or,
//! for legacy policies, 1.20 ([`Release`]).
//!
//! ```
//! use outrank_api::types::{Node, Pod};
//! use outrank_engine::{Engine, EngineConfig, Event};
//!
//! let mut node = Node::default();
//! node.metadata.name = "node-1".into();
//! node.status.allocatable.insert("cpu".into(), "4".parse().unwrap());
//! node.status.allocatable.insert("memory".into(), "8Gi".parse().unwrap());
//! node.status.allocatable.insert("pods".into(), "110".parse().unwrap());
//! let mut pod = Pod::default();
//! pod.metadata.namespace = "default".into();
//! pod.metadata.name = "web".into();
//!
//! let mut engine = Engine::new(&EngineConfig::default()).unwrap();
//! engine.handle(Event::NodeChanged(node), 0);
//! engine.handle(Event::PodChanged(pod), 0);
//! let decision = engine.next(0).unwrap();
//! let binding = engine.binding(&decision).expect("the pod fits");
//! assert_eq!((binding.name, binding.node_name), ("web", "node-1"));
//! ```
//!
//! Where to start reading: [`framework`] says what a plugin is, [`plugins`] has one file
//! each, [`evaluation`] is a decision by definition (every node, from scratch),
//! [`verdicts`] the same decision kept up to date, [`engine`] ties them together. Plugins and
//! extenders of your own come in through [`extensions`].

mod alone;
pub mod cluster;
pub mod cross;
pub mod diagnosis;
pub mod engine;
pub mod evaluation;
pub mod extender;
pub mod extensions;
pub mod framework;
pub mod ids;
mod ingest;
mod node_labels;
pub mod node_match;
mod node_tree;
pub mod plugins;
pub mod pod_class;
pub mod pod_match;
mod pod_row;
pub mod preemption;
pub mod profile;
mod queue;
pub mod release;
mod sampling;
pub mod shares;
pub mod storage;
mod tie_order;
pub mod use_by_priority;
mod verdicts;

pub use engine::{Decision, Engine, EngineConfig, Event, Outcome, PodState};
pub use queue::{Backoff, TimeNanos};
pub use release::Release;
