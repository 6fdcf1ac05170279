//! What a kubelet does about a pod that does not fit: for a critical pod it makes room.
//!
//! The kubelet knows no budgets and asks nobody. It looks for pods that the critical one may
//! evict, and counts what they *request*, not what they use. BestEffort pods go before
//! Burstable, and those before Guaranteed ones: of the Guaranteed it takes only what is
//! lacking if all others went, of the Burstable what is then lacking if all BestEffort went.
//!
//! Within a class, it takes the pod that is nearest to what lacks, again and again. The
//! distance is the sum of the squared shares of each resource that a pod leaves lacking. Of
//! two pods equally near, the one that requests less memory, then less cpu, goes; of two
//! equal ones, the later.
//!
//! Source: `pkg/kubelet/preemption/preemption.go`, Kubernetes 1.36.

use std::fmt::Write as _;

use outrank_api::pod_resources::{PodResourcesOptions, is_pod_level_resources_set, pod_requests};
use outrank_api::qos::{QosClass, qos_class};
use outrank_api::quantity::Quantity;
use outrank_api::types::{Pod, PodCondition, PodStatus};

use crate::admit::Failure;
use crate::criticality::{is_critical_pod, may_preempt};

/// Reason of victims, in their status and event.
pub const PREEMPTING: &str = "Preempting";

/// Message of victims, in their status and event.
pub const PREEMPTING_MESSAGE: &str = "Preempted in order to admit critical pod";

/// What comes of a pod that failed admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The pod is admitted once these pods are killed, one after the other: places in the
    /// list of active pods.
    Evict(Vec<usize>),
    /// The pod is rejected for these reasons.
    Reject(Vec<Failure>),
}

/// What to do about a pod that failed admission.
///
/// # Errors
/// If the pod is critical and all that may be evicted would not make enough room; in
/// upstream's words.
pub fn recover(
    pod: &Pod,
    active_pods: &[&Pod],
    failures: Vec<Failure>,
) -> Result<Recovery, String> {
    if !is_critical_pod(pod) {
        return Ok(Recovery::Reject(failures));
    }
    let mut lacking = Vec::new();
    let mut others = Vec::new();
    for failure in failures {
        match failure {
            Failure::InsufficientResource {
                resource,
                requested,
                used,
                capacity,
            } => lacking.push((
                resource,
                requested.wrapping_sub(capacity.wrapping_sub(used)),
            )),
            other @ Failure::Predicate { .. } => others.push(other),
        }
    }
    if !others.is_empty() {
        return Ok(Recovery::Reject(others));
    }
    choose(pod, active_pods, &lacking)
        .map(Recovery::Evict)
        .map_err(|error| format!("preemption: error finding a set of pods to preempt: {error}"))
}

/// Marks the status of a victim as upstream does. `now` is the time, RFC 3339.
pub fn mark_preempted(status: &mut PodStatus, now: Option<String>) {
    status.phase = "Failed".to_owned();
    status.reason = PREEMPTING.to_owned();
    status.message = PREEMPTING_MESSAGE.to_owned();
    let condition = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: "TerminationByKubelet".to_owned(),
        message: "Pod was preempted by Kubelet to accommodate a critical pod.".to_owned(),
        last_transition_time: now,
        ..PodCondition::default()
    };
    status.conditions.retain(|it| it.type_ != condition.type_);
    status.conditions.push(condition);
}

/// How much of a resource the kubelet frees by evicting a pod: cpu in thousandths, others in
/// whole units. If the pod has resources as a whole, those of its containers do not count at
/// all, and overhead counts only where something is requested.
pub fn freed(pod: &Pod, resource: &str) -> i64 {
    if resource == "pods" {
        return 1;
    }
    let options = PodResourcesOptions {
        skip_container_level_resources: is_pod_level_resources_set(pod),
        exclude_overhead: true,
        ..PodResourcesOptions::default()
    };
    let mut amount = pod_requests(pod, &options)
        .remove(resource)
        .unwrap_or_default();
    if let Some(overhead) = pod.spec.overhead.get(resource)
        && !amount.is_zero()
    {
        amount += overhead;
    }
    if resource == "cpu" {
        amount.milli_value()
    } else {
        Quantity::value(&amount)
    }
}

/// A pod that may be evicted.
struct Candidate {
    /// Place in the list of active pods.
    place: usize,
    /// What its end frees of each resource that lacks, in their order.
    freed: Vec<i64>,
    memory_bytes: i64,
    cpu_milli: i64,
}

/// What still lacks: by number of the resource, the amount, always above 0 once reduced.
type Lack = Vec<(usize, i64)>;

fn choose(
    pod: &Pod,
    active_pods: &[&Pod],
    lacking: &[(String, i64)],
) -> Result<Vec<usize>, String> {
    let mut classes: [Vec<Candidate>; 3] = Default::default();
    for (place, &active) in active_pods.iter().enumerate() {
        if may_preempt(pod, active) {
            let class = match qos_class(active) {
                QosClass::BestEffort => 0,
                QosClass::Burstable => 1,
                QosClass::Guaranteed => 2,
            };
            classes[class].push(Candidate {
                place,
                freed: lacking
                    .iter()
                    .map(|(name, _)| freed(active, name))
                    .collect(),
                memory_bytes: freed(active, "memory"),
                cpu_milli: freed(active, "cpu"),
            });
        }
    }
    let all: Lack = lacking.iter().map(|(_, lack)| *lack).enumerate().collect();
    let [best_effort, burstable, guaranteed] = &classes;
    let everyone = best_effort.iter().chain(burstable).chain(guaranteed);
    let never_met = reduced(&all, everyone);
    if !never_met.is_empty() {
        return Err(out_of_reach(&never_met, lacking));
    }
    let without_guaranteed = reduced(&all, best_effort.iter().chain(burstable));
    let guaranteed = nearest(guaranteed, without_guaranteed);
    let without_burstable = reduced(&all, best_effort.iter().chain(guaranteed.iter().copied()));
    let burstable = nearest(burstable, without_burstable);
    let chosen = burstable.iter().chain(&guaranteed).copied();
    let best_effort = nearest(best_effort, reduced(&all, chosen));
    let victims = best_effort.into_iter().chain(burstable).chain(guaranteed);
    Ok(victims.map(|candidate| candidate.place).collect())
}

fn out_of_reach(lack: &Lack, names: &[(String, i64)]) -> String {
    let mut text = "no set of running pods found to reclaim resources: [".to_owned();
    for (number, amount) in lack {
        // Writing to a string cannot fail.
        let _ = write!(text, "(res: {}, q: {amount}), ", names[*number].0);
    }
    text + "]"
}

/// What lacks when these pods are gone.
fn reduced<'c>(lack: &Lack, gone: impl Iterator<Item = &'c Candidate> + Clone) -> Lack {
    let remaining = lack.iter().map(|&(number, amount)| {
        let mut amount = amount;
        for candidate in gone.clone() {
            amount = amount.wrapping_sub(candidate.freed[number]);
            if amount <= 0 {
                break;
            }
        }
        (number, amount)
    });
    remaining.filter(|(_, amount)| *amount > 0).collect()
}

/// The pods of one class that must go, nearest first. They suffice, as was seen before.
fn nearest(candidates: &[Candidate], mut lack: Lack) -> Vec<&Candidate> {
    let mut left: Vec<&Candidate> = candidates.iter().collect();
    let mut chosen = Vec::new();
    while !lack.is_empty() && !left.is_empty() {
        let mut best = 0;
        let mut best_distance = lack.len() as f64 + 1.0;
        for (number, candidate) in left.iter().enumerate() {
            let distance = distance(candidate, &lack);
            let nearer = distance < best_distance;
            if nearer || (distance == best_distance && !is_larger(candidate, left[best])) {
                best = number;
                best_distance = distance;
            }
        }
        // The last one takes the place of the one that goes, which decides later ties.
        let victim = left.swap_remove(best);
        lack = reduced(&lack, std::iter::once(victim));
        chosen.push(victim);
    }
    chosen
}

fn distance(candidate: &Candidate, lack: &Lack) -> f64 {
    let shares = lack.iter().map(|&(number, amount)| {
        let left = amount.wrapping_sub(candidate.freed[number]).max(0) as f64;
        left / amount as f64
    });
    shares.map(|share| share * share).sum()
}

fn is_larger(candidate: &Candidate, than: &Candidate) -> bool {
    let size = |candidate: &Candidate| (candidate.memory_bytes, candidate.cpu_milli);
    size(candidate) > size(than)
}
