//! Whether a kubelet takes a pod that is bound to its node.
//!
//! The scheduler decided on what it knew, and pods can name their node without any scheduler;
//! so the kubelet looks once more, and it has the last word. What it refuses is `Failed` for
//! good: nobody places that pod again, its controller has to make another.
//!
//! It checks in this order, and reports the first that fails:
//!
//! 1. the *label* `kubernetes.io/os` of the pod, if it has one, is `linux`;
//! 2. `spec.os`, if set, is `linux`;
//! 3. `supplementalGroupsPolicy: Strict` only where the container runtime knows it;
//! 4. number of pods, cpu, memory, ephemeral storage and other resources fit beside the pods
//!    that are there, whatever their state short of ended;
//! 5. `nodeSelector` and required node affinity select the node, and `nodeName` is its name;
//! 6. the host ports are free;
//! 7. every NoExecute taint is tolerated, except by static pods, which may ignore them.
//!
//! If 4 to 7 fail, [`crate::preemption`] is asked, for critical pods. Requests for extended
//! resources that the node does not name are left out: some are counted for the cluster as a
//! whole. If node affinity is all that fails, the kubelet reads its node anew, in case the
//! labels were just changed.
//!
//! Sources: `pkg/kubelet/lifecycle/predicate.go` and `AdmissionCheck` in
//! `pkg/scheduler/eventhandlers.go`, Kubernetes 1.36. Devices given by dynamic resource
//! allocation in place of an extended resource are not looked at.

use std::borrow::Cow;
use std::fmt;

use outrank_api::node_selector::RequiredNodeAffinity;
use outrank_api::pod_resources::{incoming_requests, is_extended_resource_name};
use outrank_api::quantity::Quantity;
use outrank_api::taints::find_untolerated;
use outrank_api::types::{Node, Pod, StringMap};

use crate::active_pods::{ActivePods, PodNumber};
use crate::criticality::is_static_pod;
use crate::preemption::{Recovery, recover};

/// What a kubelet says to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod is taken, once these pods have been killed for it, one after the other.
    Admitted {
        /// Mostly none.
        victims: Vec<PodNumber>,
    },
    /// The pod is refused, and fails.
    Refused(Refusal),
}

/// Why a kubelet refuses a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One word, such as `OutOfcpu`.
    pub reason: Cow<'static, str>,
    /// The same for people, in upstream's words.
    pub message: String,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is not enough of a resource: cpu in thousandths, others in whole units.
    InsufficientResource {
        /// Its name.
        resource: String,
        /// What the pod requests.
        requested: i64,
        /// What the pods there request.
        used: i64,
        /// What the node has to give.
        capacity: i64,
    },
    /// Something else about the node does not fit.
    Predicate {
        /// Name of the scheduler's plugin that has the same rule.
        name: Cow<'static, str>,
        /// What is wrong, in upstream's words.
        description: Cow<'static, str>,
    },
}

impl Failure {
    /// The reason with which a pod is refused.
    pub fn reason(&self) -> Cow<'static, str> {
        match self {
            Failure::InsufficientResource { resource, .. } => format!("OutOf{resource}").into(),
            Failure::Predicate { name, .. } => name.clone(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::InsufficientResource {
                resource,
                requested,
                used,
                capacity,
            } => write!(
                f,
                "Node didn't have enough resource: {resource}, requested: {requested}, \
                 used: {used}, capacity: {capacity}"
            ),
            Failure::Predicate { name, description } => {
                write!(f, "Predicate {name} failed: {description}")
            }
        }
    }
}

/// What a kubelet says to a pod that is bound to its node. `node` is the node as the kubelet
/// last saw it; `read_node` reads it anew, and is called at most once.
pub fn admit<'n>(
    pod: &Pod,
    node: &'n Node,
    active_pods: &ActivePods,
    read_node: impl FnOnce() -> Option<&'n Node>,
) -> Verdict {
    let labels = labels_with_os(&node.metadata.labels);
    if let Some(refusal) = hopeless(pod, node) {
        return Verdict::Refused(refusal);
    }
    let mut failures = failures(pod, node, node, &labels, active_pods);
    let only_affinity = |failures: &[Failure]| failures == [NODE_AFFINITY];
    if only_affinity(&failures)
        && let Some(fresh) = read_node()
    {
        failures = self::failures(pod, node, fresh, &fresh.metadata.labels, active_pods);
    }
    if failures.is_empty() {
        return Verdict::Admitted {
            victims: Vec::new(),
        };
    }
    after_failures(pod, active_pods, failures)
}

const OS_LABEL: &str = "kubernetes.io/os";
const OS: &str = "linux";

/// The labels as the kubelet has them after its look at the system label: in its own copy of
/// a node that has labels, that one is always right.
fn labels_with_os(labels: &StringMap) -> Cow<'_, StringMap> {
    let mut labels = Cow::Borrowed(labels);
    if !labels.is_empty() && labels.get(OS_LABEL).is_none_or(|os| os != OS) {
        labels.to_mut().insert(OS_LABEL.to_owned(), OS.to_owned());
    }
    labels
}

/// What no eviction can mend, and is thus checked first.
fn hopeless(pod: &Pod, node: &Node) -> Option<Refusal> {
    let labelled_os = pod.metadata.labels.get(OS_LABEL);
    let os = pod.spec.os.as_ref();
    let security_context = pod.spec.security_context.as_ref();
    let groups_policy = security_context.and_then(|it| it.supplemental_groups_policy.as_deref());
    let features = node.status.features.unwrap_or_default();
    let (reason, message) = if labelled_os.is_some_and(|os| os != OS) {
        (
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    } else if os.is_some_and(|os| os.name != OS) {
        (
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        )
    } else if groups_policy == Some("Strict") && features.supplemental_groups_policy != Some(true) {
        (
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        )
    } else {
        return None;
    };
    Some(Refusal {
        reason: reason.into(),
        message: message.to_owned(),
    })
}

const NODE_AFFINITY: Failure = Failure::Predicate {
    name: Cow::Borrowed("NodeAffinity"),
    description: Cow::Borrowed("node(s) didn't match Pod's node affinity/selector"),
};
const NODE_NAME: Failure = Failure::Predicate {
    name: Cow::Borrowed("NodeName"),
    description: Cow::Borrowed("node(s) didn't match the requested node name"),
};
const NODE_PORTS: Failure = Failure::Predicate {
    name: Cow::Borrowed("NodePorts"),
    description: Cow::Borrowed("node(s) didn't have free ports for the requested pod ports"),
};
const TAINT_TOLERATION: Failure = Failure::Predicate {
    name: Cow::Borrowed("TaintToleration"),
    description: Cow::Borrowed("node(s) had taints that the pod didn't tolerate"),
};

/// All checks that fail, in order. Which extended resources the node has is what `cached`
/// says; all else is asked of `node`.
fn failures(
    pod: &Pod,
    cached: &Node,
    node: &Node,
    labels: &StringMap,
    active_pods: &ActivePods,
) -> Vec<Failure> {
    let mut failures = insufficient_resources(pod, cached, node, active_pods);
    let node_name = &node.metadata.name;
    let affinity = RequiredNodeAffinity::of(&pod.spec);
    if !affinity.matches(node_name, labels).unwrap_or(false) {
        failures.push(NODE_AFFINITY);
    }
    if !pod.spec.node_name.is_empty() && pod.spec.node_name != *node_name {
        failures.push(NODE_NAME);
    }
    if active_pods.has_taken_port_of(pod) {
        failures.push(NODE_PORTS);
    }
    let no_execute = |taint: &outrank_api::types::Taint| taint.effect == "NoExecute";
    let (taints, tolerations) = (&node.spec.taints, &pod.spec.tolerations);
    if !is_static_pod(pod) && find_untolerated(taints, tolerations, false, no_execute).is_some() {
        failures.push(TAINT_TOLERATION);
    }
    failures
}

fn insufficient_resources(
    pod: &Pod,
    cached: &Node,
    node: &Node,
    active_pods: &ActivePods,
) -> Vec<Failure> {
    let mut failures = Vec::new();
    let allocatable = &node.status.allocatable;
    let whole = |name: &str| allocatable.get(name).map_or(0, Quantity::value);
    let (used, capacity) = (active_pods.len() as i64, whole("pods"));
    if used >= capacity {
        failures.push(Failure::InsufficientResource {
            resource: "pods".to_owned(),
            requested: 1,
            used,
            capacity,
        });
    }
    let requests = incoming_requests(pod);
    let used = active_pods.requested();
    let cpu_milli = allocatable.get("cpu").map_or(0, Quantity::milli_value);
    let mut need = |resource: &str, requested: i64, used: i64, capacity: i64| {
        if requested > 0 && requested > capacity.wrapping_sub(used) {
            failures.push(Failure::InsufficientResource {
                resource: resource.to_owned(),
                requested,
                used,
                capacity,
            });
        }
    };
    need("cpu", requests.cpu_milli, used.cpu_milli, cpu_milli);
    let memory = whole("memory");
    need("memory", requests.memory_bytes, used.memory_bytes, memory);
    let storage = "ephemeral-storage";
    let (requested, used_bytes) = (
        requests.ephemeral_storage_bytes,
        used.ephemeral_storage_bytes,
    );
    need(storage, requested, used_bytes, whole(storage));
    for (name, &requested) in &requests.scalar {
        let is_missing =
            is_extended_resource_name(name) && !cached.status.allocatable.contains_key(name);
        let requested = if is_missing {
            // Only what containers request is left out.
            pod.spec.overhead.get(name).map_or(0, Quantity::value)
        } else {
            requested
        };
        let used = used.scalar.get(name).copied().unwrap_or(0);
        need(name, requested, used, whole(name));
    }
    failures
}

/// Makes room for a critical pod, or refuses.
fn after_failures(pod: &Pod, active_pods: &ActivePods, failures: Vec<Failure>) -> Verdict {
    let (numbers, pods): (Vec<PodNumber>, Vec<&Pod>) = active_pods
        .iter()
        .map(|(number, pod)| (number, &**pod))
        .unzip();
    match recover(pod, &pods, failures) {
        Ok(Recovery::Evict(places)) => Verdict::Admitted {
            victims: places.into_iter().map(|place| numbers[place]).collect(),
        },
        Ok(Recovery::Reject(failures)) => Verdict::Refused(match failures.first() {
            Some(first) => Refusal {
                reason: first.reason(),
                message: first.to_string(),
            },
            None => Refusal {
                reason: "UnknownReason".into(),
                message: "GeneralPredicates failed due to unknown reason, which is unexpected."
                    .to_owned(),
            },
        }),
        Err(error) => Verdict::Refused(Refusal {
            reason: "UnexpectedAdmissionError".into(),
            message: format!(
                "Unexpected error while attempting to recover from admission failure: {error}"
            ),
        }),
    }
}
