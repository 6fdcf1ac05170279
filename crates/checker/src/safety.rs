//! Rules that hold preemption back, which kube-scheduler does not have: who may not be
//! killed, and how many may be.
//!
//! * The pods of a priority class may be **protected**: for ever (`NonPreemptible`, as the
//!   policy of the pod or of the class, or as an annotation of the class), or for a time
//!   after they got their node from pods below a priority (the annotations of
//!   PreemptionToleration in scheduler-plugins).
//! * [`PreemptionRules`] are the arguments of PreemptionSafety.
//!
//! Pods of the exempt priority or above are held back by none of this.

use std::collections::BTreeMap;

use outrank_api::time::unix_nanos;
use outrank_api::types::{Pod, PriorityClass};

use crate::fault::{Fault, WrongPreemption};

const NON_PREEMPTIBLE: &str = "NonPreemptible";
const POLICY: &str = "scheduling.outrank.dev/preemption-policy";
const PREEMPTS_LOWER_PRIORITY: &str = "scheduling.outrank.dev/preempts-lower-priority";
const MINIMUM_PREEMPTABLE_PRIORITY: &str =
    "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority";
const TOLERATION_SECONDS: &str = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds";
const LAST_CHECKPOINT: &str = "scheduling.outrank.dev/last-checkpoint";

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// The arguments of PreemptionSafety; by default none of them holds anybody back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionRules {
    /// Whether nobody is killed at all: modes `Off` and `DryRun`.
    pub kills_nobody: bool,
    /// Pods of at least this priority are held back by no rule.
    pub exempt_priority: i32,
    /// How many victims there may be.
    pub budgets: Vec<KillBudget>,
    /// How long a pod must have run before it may be killed.
    pub minimum_run_seconds: u64,
    /// Whether victims of the same highest priority are weighed by the work that they lose.
    pub prefers_least_lost_work: bool,
    /// Whether a PodDisruptionBudget is never violated, with kills counted that its status
    /// does not count yet.
    pub strict_pdb: bool,
}

impl Default for PreemptionRules {
    fn default() -> Self {
        Self {
            kills_nobody: false,
            // That of system-node-critical.
            exempt_priority: 2_000_001_000,
            budgets: Vec::new(),
            minimum_run_seconds: 0,
            prefers_least_lost_work: false,
            strict_pdb: false,
        }
    }
}

/// How many victims there may be: of a priority class, in a namespace, of both, or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillBudget {
    /// Only victims of this class count.
    pub priority_class_name: Option<String>,
    /// Only victims in this namespace count.
    pub namespace: Option<String>,
    /// So many in any 60 seconds.
    pub victims_per_minute: Option<usize>,
    /// So many at once.
    pub victims_per_decision: Option<usize>,
}

impl KillBudget {
    fn covers(&self, pod: &Pod) -> bool {
        let class = self.priority_class_name.as_ref();
        let namespace = self.namespace.as_ref();
        class.is_none_or(|class| *class == pod.spec.priority_class_name)
            && namespace.is_none_or(|namespace| *namespace == pod.metadata.namespace)
    }
}

/// A pod that was killed so that another had a place. Pods that were on their way already
/// are not killed.
#[derive(Clone, Debug)]
pub struct Kill {
    /// When, in nanoseconds since 1970.
    pub at_nanos: u64,
    /// The pod, as it was, on its node.
    pub victim: Pod,
    /// For whom, as `namespace/name`.
    pub preemptor: String,
    /// The priority of that pod.
    pub preemptor_priority: i32,
    /// Victims of the same decision have the same number here, others another.
    pub decision: usize,
}

/// Every kill that may not be, in the order of `kills`, which is that in which they happened;
/// none if all is well. Takes time proportional to the square of the kills.
pub fn check_kills(
    kills: &[Kill],
    priority_classes: &[PriorityClass],
    rules: &PreemptionRules,
) -> Vec<WrongPreemption> {
    let protections = Protections::new(priority_classes, rules);
    let mut wrong = Vec::new();
    for (index, kill) in kills.iter().enumerate() {
        let mut report = |fault| {
            wrong.push(WrongPreemption {
                preemptor: kill.preemptor.clone(),
                node: kill.victim.spec.node_name.clone(),
                fault,
            });
        };
        let priority = kill.preemptor_priority;
        faults_of_victim(&kill.victim, priority, kill.at_nanos, &protections)
            .into_iter()
            .for_each(&mut report);
        // All of a decision go at once, so they are counted at the last of them.
        let next = kills.get(index + 1);
        if next.is_none_or(|next| next.decision != kill.decision) {
            let until_now = &kills[..=index];
            let is_of_it = |other: &&Kill| other.decision == kill.decision;
            let first = index + 1 - until_now.iter().rev().take_while(is_of_it).count();
            let (earlier, of_it) = until_now.split_at(first);
            let victims: Vec<&Pod> = of_it.iter().map(|kill| &kill.victim).collect();
            faults_of_number(&victims, priority, kill.at_nanos, earlier, rules)
                .into_iter()
                .for_each(&mut report);
        }
    }
    wrong
}

/// What is wrong with killing a pod for one of a priority.
pub(crate) fn faults_of_victim(
    victim: &Pod,
    priority: i32,
    now_nanos: u64,
    protections: &Protections<'_>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    if priority_of(victim) >= priority {
        faults.push(Fault::NotLower {
            victim: victim.key(),
            victim_priority: priority_of(victim),
            priority,
        });
    }
    if let Some(rule) = protections.protect(victim, priority, now_nanos) {
        faults.push(Fault::Protected {
            victim: victim.key(),
            rule,
        });
    }
    faults
}

/// What is wrong with killing so many at once, after the kills before it.
pub(crate) fn faults_of_number(
    victims: &[&Pod],
    priority: i32,
    now_nanos: u64,
    earlier: &[Kill],
    rules: &PreemptionRules,
) -> Vec<Fault> {
    if priority >= rules.exempt_priority || victims.is_empty() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if rules.kills_nobody {
        faults.push(Fault::KillsAreOff);
    }
    for budget in &rules.budgets {
        let covered = victims
            .iter()
            .filter(|victim| budget.covers(victim))
            .count();
        let recent = earlier.iter().filter(|kill| {
            let age = i128::from(now_nanos) - i128::from(kill.at_nanos);
            age < 60 * NANOS_PER_SECOND && budget.covers(&kill.victim)
        });
        let within_a_minute = recent.count() + covered;
        let mut refuse = |victims: usize, allowed: usize, per: &'static str| {
            faults.push(Fault::OverBudget {
                budget: budget.clone(),
                victims,
                allowed,
                per,
            });
        };
        if let Some(allowed) = budget.victims_per_decision
            && covered > allowed
        {
            refuse(covered, allowed, "decision");
        }
        if let Some(allowed) = budget.victims_per_minute
            && covered > 0
            && within_a_minute > allowed
        {
            refuse(within_a_minute, allowed, "minute");
        }
    }
    faults
}

/// What protects pods from being killed.
pub(crate) struct Protections<'a> {
    classes: BTreeMap<&'a str, &'a PriorityClass>,
    rules: &'a PreemptionRules,
}

impl<'a> Protections<'a> {
    pub(crate) fn new(classes: &'a [PriorityClass], rules: &'a PreemptionRules) -> Self {
        let classes = classes.iter();
        Self {
            classes: classes
                .map(|class| (class.metadata.name.as_str(), class))
                .collect(),
            rules,
        }
    }

    fn class(&self, pod: &Pod) -> Option<&'a PriorityClass> {
        let class = self.classes.get(pod.spec.priority_class_name.as_str());
        class.copied()
    }

    /// Whether a pod may have others killed, as far as its policy goes.
    pub(crate) fn preempts(&self, pod: &Pod) -> bool {
        match pod.spec.preemption_policy.as_deref() {
            Some("Never") => false,
            Some(NON_PREEMPTIBLE) => {
                let class = self.class(pod);
                class
                    .is_some_and(|class| annotation(class, PREEMPTS_LOWER_PRIORITY) == Some("true"))
            }
            _ => true,
        }
    }

    /// The rule that protects a pod from one of a priority.
    pub(crate) fn protect(&self, pod: &Pod, priority: i32, now_nanos: u64) -> Option<&'static str> {
        if priority >= self.rules.exempt_priority {
            return None;
        }
        let class = self.class(pod);
        let is_non_preemptible = pod.spec.preemption_policy.as_deref() == Some(NON_PREEMPTIBLE)
            || class.is_some_and(|class| {
                class.preemption_policy.as_deref() == Some(NON_PREEMPTIBLE)
                    || annotation(class, POLICY) == Some(NON_PREEMPTIBLE)
            });
        if is_non_preemptible {
            return Some(NON_PREEMPTIBLE);
        }
        if class.is_some_and(|class| tolerates_preemption(pod, class, priority, now_nanos)) {
            return Some("toleration of preemption");
        }
        let minimum = i128::from(self.rules.minimum_run_seconds) * NANOS_PER_SECOND;
        // Who has not started has not run at all.
        let has_run = started_nanos(pod).map_or(0, |started| i128::from(now_nanos) - started);
        (minimum > 0 && has_run < minimum).then_some("minimum run time")
    }
}

/// Whether a pod need not go yet for one of a priority because its class says so.
fn tolerates_preemption(pod: &Pod, class: &PriorityClass, priority: i32, now_nanos: u64) -> bool {
    let number = |key: &str| annotation(class, key)?.parse::<i64>().ok();
    // Without a minimum, all pods of a higher priority than the class may.
    let minimum = number(MINIMUM_PREEMPTABLE_PRIORITY).unwrap_or(i64::from(class.value) + 1);
    let seconds = number(TOLERATION_SECONDS).unwrap_or(0);
    if i64::from(priority) >= minimum || seconds == 0 {
        return false;
    }
    let mut conditions = pod.status.conditions.iter();
    let scheduled = conditions.find(|it| it.type_ == "PodScheduled" && it.status == "True");
    let scheduled = scheduled.and_then(|it| unix_nanos(it.last_transition_time.as_deref()?));
    match scheduled {
        _ if seconds < 0 => true,
        // A pod that does not say when it got its node got it just now.
        None => true,
        Some(at) => i128::from(now_nanos) < i128::from(at) + i128::from(seconds) * NANOS_PER_SECOND,
    }
}

/// When the kubelet took a pod, in nanoseconds since 1970.
pub(crate) fn started_nanos(pod: &Pod) -> Option<i128> {
    let started = pod.status.start_time.as_deref();
    started.and_then(unix_nanos).map(i128::from)
}

/// The work that a pod loses when it goes: GPUs, at least one, times the whole seconds since it
/// started or last saved its work.
pub(crate) fn lost_work(pod: &Pod, now_nanos: u64) -> i128 {
    let Some(started) = started_nanos(pod) else {
        return 0;
    };
    let saved = pod.metadata.annotations.get(LAST_CHECKPOINT);
    let saved = saved.and_then(|text| unix_nanos(text)).map(i128::from);
    let since = started.max(saved.unwrap_or(started));
    let seconds = (i128::from(now_nanos) - since).max(0) / NANOS_PER_SECOND;
    seconds * i128::from(outrank_api::pod_resources::gpus(pod).max(1))
}

pub(crate) fn priority_of(pod: &Pod) -> i32 {
    pod.spec.priority.unwrap_or_default()
}

fn annotation<'a>(class: &'a PriorityClass, key: &str) -> Option<&'a str> {
    class.metadata.annotations.get(key).map(String::as_str)
}
