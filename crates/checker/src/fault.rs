//! What is wrong with a preemption, as data and as text.

use std::fmt;

use crate::safety::KillBudget;
use crate::violation::Breach;

/// A preemption that may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongPreemption {
    /// The pod for which others are killed, as `namespace/name`.
    pub preemptor: String,
    /// The node that they leave.
    pub node: String,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a preemption. Pods are `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The preemptor or a victim is not there, or not any more.
    UnknownPod {
        /// The pod.
        pod: String,
    },
    /// There is no such node.
    UnknownNode,
    /// The preemptor is on a node already.
    PlacedAlready {
        /// The node.
        on: String,
    },
    /// Nobody is killed.
    NoVictims,
    /// A pod is a victim twice.
    VictimTwice {
        /// The pod.
        victim: String,
    },
    /// The preemptor's policy is that it preempts nobody.
    NeverPreempts,
    /// The preemptor fits on a node without anybody being killed.
    FitsAlready {
        /// The node.
        on: String,
    },
    /// The preemptor waits for what killing does not cure.
    WaitsForOther {
        /// What holds it back.
        breach: Breach,
    },
    /// A pod that was preempted is still going from the node that is promised to the preemptor.
    StillMakingRoom {
        /// That pod.
        going: String,
    },
    /// A victim is not on the node.
    Elsewhere {
        /// The victim.
        victim: String,
        /// Where it is; empty if it is nowhere.
        on: String,
    },
    /// A victim's priority is not lower.
    NotLower {
        /// The victim.
        victim: String,
        /// Its priority.
        victim_priority: i32,
        /// That of the preemptor.
        priority: i32,
    },
    /// A rule protects a victim.
    Protected {
        /// The victim.
        victim: String,
        /// The rule.
        rule: &'static str,
    },
    /// The preemptor does not fit even when the victims are gone.
    DoesNotFit {
        /// The first thing that it breaks.
        breach: Breach,
    },
    /// A victim could stay.
    NotNeeded {
        /// The victim.
        victim: String,
    },
    /// Every victim is needed, but others are to be spared before these.
    OtherVictims {
        /// Who is to go.
        rather: Vec<String>,
    },
    /// The victims that a PodDisruptionBudget does not allow to go are others than told.
    OtherViolations {
        /// Who they are.
        rather: Vec<String>,
    },
    /// On another node less is lost.
    Cheaper {
        /// The node.
        node: String,
        /// Who would have to go there.
        victims: Vec<String>,
        /// What differs first, and how, as `2 violations, not 3`.
        because: String,
    },
    /// Nobody may be killed.
    KillsAreOff,
    /// A victim is one that a PodDisruptionBudget does not allow to go, and these are strict.
    AgainstStrictBudget {
        /// The victim.
        victim: String,
    },
    /// There are more victims than a budget allows.
    OverBudget {
        /// The budget.
        budget: KillBudget,
        /// How many there are with this one.
        victims: usize,
        /// How many are allowed.
        allowed: usize,
        /// `decision` or `minute`.
        per: &'static str,
    },
}

impl fmt::Display for WrongPreemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            preemptor,
            node,
            fault,
        } = self;
        write!(f, "pod {preemptor} preempts on node {node}: {fault}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::UnknownPod { pod } => write!(f, "there is no pod {pod}"),
            Fault::UnknownNode => f.write_str("there is no such node"),
            Fault::PlacedAlready { on } => write!(f, "it is on node {on} already"),
            Fault::NoVictims => f.write_str("nobody is killed"),
            Fault::VictimTwice { victim } => write!(f, "{victim} is a victim twice"),
            Fault::NeverPreempts => f.write_str("its policy is to preempt nobody"),
            Fault::FitsAlready { on } => write!(f, "it fits on node {on} as things are"),
            Fault::WaitsForOther { breach } => write!(f, "no kill helps: it {breach}"),
            Fault::StillMakingRoom { going } => {
                write!(
                    f,
                    "{going} is still going from the node that is promised to it"
                )
            }
            Fault::Elsewhere { victim, on } if on.is_empty() => {
                write!(f, "{victim} is on no node")
            }
            Fault::Elsewhere { victim, on } => write!(f, "{victim} is on node {on}"),
            Fault::NotLower {
                victim,
                victim_priority,
                priority,
            } => write!(
                f,
                "{victim} has priority {victim_priority}, which is not below {priority}"
            ),
            Fault::Protected { victim, rule } => write!(f, "{victim} is protected by {rule}"),
            Fault::DoesNotFit { breach } => {
                write!(f, "does not fit when the victims are gone: {breach}")
            }
            Fault::NotNeeded { victim } => write!(f, "{victim} could stay"),
            Fault::OtherVictims { rather } => {
                write!(f, "the victims should be {}", rather.join(", "))
            }
            Fault::OtherViolations { rather } if rather.is_empty() => {
                f.write_str("no victim violates a budget")
            }
            Fault::OtherViolations { rather } => {
                write!(
                    f,
                    "the victims that violate a budget are {}",
                    rather.join(", ")
                )
            }
            Fault::Cheaper {
                node,
                victims,
                because,
            } => write!(
                f,
                "node {node} costs less, where {} would go: {because}",
                victims.join(", ")
            ),
            Fault::KillsAreOff => f.write_str("nobody may be killed"),
            Fault::AgainstStrictBudget { victim } => write!(
                f,
                "{victim} goes against a PodDisruptionBudget, which is strict"
            ),
            Fault::OverBudget {
                budget,
                victims,
                allowed,
                per,
            } => {
                write!(f, "{victims} victims")?;
                if let Some(class) = &budget.priority_class_name {
                    write!(f, " of priority class {class}")?;
                }
                if let Some(namespace) = &budget.namespace {
                    write!(f, " in namespace {namespace}")?;
                }
                write!(f, " in a {per}, {allowed} allowed")
            }
        }
    }
}
