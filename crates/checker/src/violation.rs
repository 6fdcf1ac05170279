//! What the checker finds, as data and as text.

use std::fmt;

use outrank_api::quantity::{Format, Quantity};
use outrank_api::taints::taint_string;
use outrank_api::types::Taint;

/// A placement that may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// The node it is on; empty if it is on none.
    pub node: String,
    /// Which rule it breaks, and how.
    pub breach: Breach,
}

/// A broken rule, with what it takes to see that it is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// There is no such node.
    UnknownNode,
    /// The pod is listed more than once.
    ListedTwice,
    /// The pod was on another node before the scheduler began.
    Moved {
        /// That node.
        from: String,
    },
    /// The pod belongs to another scheduler.
    OtherScheduler {
        /// Its name.
        scheduler: String,
    },
    /// The pod has scheduling gates.
    Gated {
        /// Their names.
        gates: Vec<String>,
    },
    /// The node is cordoned and the pod does not tolerate it.
    Cordoned,
    /// The pod does not tolerate a taint.
    Untolerated {
        /// The first such taint.
        taint: Taint,
    },
    /// A label that the pod's `nodeSelector` wants is not there or has another value.
    NodeSelector {
        /// The label's key.
        key: String,
        /// The value that is wanted.
        wanted: String,
        /// The value that the node has, if any.
        found: Option<String>,
    },
    /// No term of the required node affinity selects the node.
    NodeAffinity {
        /// How many terms there are.
        terms: usize,
    },
    /// A host port is taken by another pod.
    HostPort {
        /// Protocol, address and port that the pod wants, as `TCP 0.0.0.0:80`.
        wanted: String,
        /// The other pod, as `namespace/name`.
        other: String,
        /// What it has.
        taken: String,
    },
    /// The pod and the others do not fit together. Amounts are in thousandths for `cpu`,
    /// else in whole units; pods are counted as the resource `pods`.
    Insufficient {
        /// The resource.
        resource: String,
        /// What the pod asks for.
        asked: i128,
        /// What the other pods on the node hold.
        held_by_others: i128,
        /// What there is.
        allocatable: i128,
    },
    /// The pods of a share use more than they may. Amounts are as for `Insufficient`.
    OverShare {
        /// Whose pods.
        share: String,
        /// The resource.
        resource: String,
        /// What the pod asks for.
        asked: i128,
        /// What other pods of the share use, or what is promised to them.
        used_by_others: i128,
        /// What they may use together.
        allowed: i128,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, node, breach } = self;
        if node.is_empty() {
            write!(f, "pod {pod}: {breach}")
        } else {
            write!(f, "pod {pod} on node {node}: {breach}")
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::UnknownNode => f.write_str("there is no such node"),
            Breach::ListedTwice => f.write_str("the pod is there twice"),
            Breach::Moved { from } => write!(f, "was on node {from:?} before and may not move"),
            Breach::OtherScheduler { scheduler } => {
                write!(f, "belongs to the scheduler {scheduler:?}")
            }
            Breach::Gated { gates } => {
                write!(f, "is held by the scheduling gates {}", gates.join(", "))
            }
            Breach::Cordoned => f.write_str("the node is cordoned"),
            Breach::Untolerated { taint } => {
                write!(f, "does not tolerate the taint {}", taint_string(taint))
            }
            Breach::NodeSelector { key, wanted, found } => {
                write!(f, "wants the node label {key}={wanted}, ")?;
                match found {
                    Some(found) => write!(f, "which is {found:?}"),
                    None => f.write_str("which is not there"),
                }
            }
            Breach::NodeAffinity { terms } => {
                write!(
                    f,
                    "none of its {terms} required node affinity terms selects the node"
                )
            }
            Breach::HostPort {
                wanted,
                other,
                taken,
            } => {
                write!(f, "wants host port {wanted}, but pod {other} has {taken}")
            }
            Breach::Insufficient {
                resource,
                asked,
                held_by_others,
                allocatable,
            } => {
                let [asked, held, allocatable] =
                    [asked, held_by_others, allocatable].map(|amount| text(resource, *amount));
                write!(
                    f,
                    "requests {asked} {resource}, but the others hold {held} of {allocatable}"
                )
            }
            Breach::OverShare {
                share,
                resource,
                asked,
                used_by_others,
                allowed,
            } => {
                let [asked, used, allowed] =
                    [asked, used_by_others, allowed].map(|amount| text(resource, *amount));
                write!(
                    f,
                    "requests {asked} {resource}, but the others of {share} use {used} of {allowed}"
                )
            }
        }
    }
}

/// A pod that waits although there is room for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WronglyPending {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// The first node that it could go to.
    pub node: String,
    /// How many such nodes there are.
    pub feasible_nodes: usize,
}

impl fmt::Display for WronglyPending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pod,
            node,
            feasible_nodes,
        } = self;
        match feasible_nodes {
            1 => write!(f, "pod {pod} waits although it fits on node {node}"),
            _ => write!(
                f,
                "pod {pod} waits although it fits on {feasible_nodes} nodes, the first of which \
                 is {node}"
            ),
        }
    }
}

/// An amount as people write it.
fn text(resource: &str, amount: i128) -> String {
    let Ok(amount) = i64::try_from(amount) else {
        return amount.to_string();
    };
    let binary =
        matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    match resource {
        "cpu" => Quantity::from_milli(amount, Format::DecimalSi).to_string(),
        _ if binary => Quantity::from_value(amount, Format::BinarySi).to_string(),
        _ => amount.to_string(),
    }
}
