//! Accepts or refuses an outcome: are all pods where they may be, does every pod that waits
//! have to, and did everybody who was killed?
//!
//! The checker is written apart from the engine and shares none of its code, so that the
//! two do not make the same mistake. It is slow and meant to be obviously right: it knows
//! nothing of how an outcome came about and asks the same rules of each pod and node. Every
//! test that ends in placements runs it.
//!
//! * [`check`]: each pod that was placed obeys every rule on its node;
//! * [`wrongly_pending`]: each pod that still waits breaks some rule on every node;
//! * [`check_preemption`]: who is killed for a pod is of lower priority, protected by nothing,
//!   needed, and the least that could be lost on any node;
//! * [`missed_preemption`]: if nobody is killed for a pod, nobody could rightly be;
//! * [`check_kills`]: of many kills, none was of a protected pod, and no budget was exceeded.
//!
//! The first two look at the state when everything has been decided, the next two at the state
//! before one decision, the last at a list of what happened. Nodes and pods must be as the API
//! server stores them ([`outrank_api::defaults`]).
//!
//! Pods that were on a node before the scheduler began ([`Options::placed_before`]) need
//! not obey the rules: someone else put them there, and nodes change. But what they use
//! is used, and they must not have moved.
//!
//! What the rules do not cover yet: affinity between pods, topology spread, volumes and
//! claims to devices. Placements are accepted whatever these say, and pods that such
//! constraints may hold back are not judged by [`wrongly_pending`]. Of preemptions that they may
//! matter to, [`check_preemption`] does not say whether others should have been killed.
//!
//! ```
//! use outrank_api::types::{Node, Pod};
//! use outrank_checker::{Options, check, wrongly_pending};
//!
//! let node: Node = serde_json::from_value(serde_json::json!({
//!     "metadata": { "name": "n1" },
//!     "status": { "allocatable": { "cpu": "1", "pods": "110" } },
//! }))?;
//! let pod = |name: &str, node: &str| -> Result<Pod, serde_json::Error> {
//!     serde_json::from_value(serde_json::json!({
//!         "metadata": { "name": name, "namespace": "default" },
//!         "spec": {
//!             "nodeName": node,
//!             "containers": [{ "name": "c", "resources": { "requests": { "cpu": "600m" } } }],
//!         },
//!     }))
//! };
//! let nodes = [node];
//! let options = Options::default();
//!
//! let overcommitted = [pod("a", "n1")?, pod("b", "n1")?];
//! let violations = check(&nodes, &overcommitted, &options);
//! assert_eq!(
//!     violations[0].to_string(),
//!     "pod default/a on node n1: requests 600m cpu, but the others hold 600m of 1"
//! );
//!
//! let idle = [pod("a", "n1")?, pod("b", "")?];
//! assert!(wrongly_pending(&nodes, &idle, &options).is_empty());
//! let idle = [pod("b", "")?];
//! assert_eq!(wrongly_pending(&nodes, &idle, &options)[0].node, "n1");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod fault;
mod outcome;
mod preemption;
mod requests;
mod rules;
mod safety;
mod shares;
mod violation;

pub use fault::{Fault, WrongPreemption};
pub use outcome::{EnoughCandidates, Options, check, wrongly_pending};
pub use preemption::{Before, Preemption, check_preemption, missed_preemption};
pub use safety::{Kill, KillBudget, PreemptionRules, check_kills};
pub use shares::{Share, ShareLimit, SharePods};
pub use violation::{Breach, Violation, WronglyPending};
