//! The scheduler as one of the clients of an API server: changes of the cluster go in, writes
//! come out.
//!
//! The [engine](outrank_engine) decides and knows nothing of objects as they are stored; an API
//! server stores and decides nothing. Between them stands [`Scheduler`]. It tells the engine what
//! has changed, and says what a decision means for the objects: a pod is bound to its node, its
//! status tells why it waits, victims of preemption are marked and deleted, people are told by
//! events. It carries nothing out itself, reads no clock and has no threads: the same scheduler
//! runs under the virtual clock of a rehearsal, beside an API server in the same process, and
//! against a real cluster.
//!
//! ```text
//!   handle(change, now)   the cluster has changed
//!   next(now)             writes of one decision, or nothing to do
//!   done(work, outcomes)  what came of them
//!   next_time()           when to ask again if nothing changes
//! ```
//!
//! Sources, Kubernetes 1.36: `pkg/scheduler/schedule_one.go` (binding, what the status and events
//! say), `pkg/scheduler/eventhandlers.go` (what concerns the scheduler),
//! `pkg/scheduler/framework/preemption/executor.go` (victims),
//! `pkg/scheduler/framework/plugins/volumebinding/binder.go` (volumes before binding).
//!
//! ```
//! use std::sync::Arc;
//!
//! use outrank_controllers::{Change, Stored, Write};
//! use outrank_engine::EngineConfig;
//! use outrank_scheduler::Scheduler;
//! use serde_json::json;
//!
//! let mut scheduler = Scheduler::new(&EngineConfig::default(), Default::default())?;
//! let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
//!     "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
//! let pod = json!({"apiVersion": "v1", "kind": "Pod",
//!     "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
//!     "spec": {"containers": [{"name": "c", "image": "i"}]}});
//! for object in [node, pod] {
//!     scheduler.handle(&Change::Set(Arc::new(Stored::whole(object))), 0);
//! }
//! let work = scheduler.next(0).expect("a pod that waits");
//! let Write::Bind(bind) = &work.writes[0] else { panic!("not bound") };
//! assert_eq!(bind.node, "a");
//! # Ok::<(), String>(())
//! ```

mod changes;
mod pod_status;
mod scheduler;
mod volumes;
mod writes;

pub use scheduler::{Scheduler, Work};
