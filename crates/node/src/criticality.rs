//! Which pods a node must run, and who may be evicted for whom.
//!
//! A kubelet starts *static* pods from files of its node, whether there is an API server or
//! not, and makes a *mirror* pod there so that people see them. These and the pods of the two
//! system classes (priority 2,000,000,000 and more) are critical: if they do not fit, others
//! go. Source: `pkg/kubelet/types/pod_update.go`, Kubernetes 1.36.

use outrank_api::types::Pod;

/// The priority of `system-cluster-critical`, from which on pods are critical.
pub const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Annotation that says where the kubelet has a pod from; `api` is the API server.
pub const CONFIG_SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";

/// Annotation of a mirror pod: the hash of the static pod that it shows.
pub const CONFIG_MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Whether the kubelet has the pod from elsewhere than the API server.
pub fn is_static_pod(pod: &Pod) -> bool {
    let source = pod.metadata.annotations.get(CONFIG_SOURCE_ANNOTATION);
    source.is_some_and(|source| source != "api")
}

/// Whether the pod shows a static pod in the API server.
pub fn is_mirror_pod(pod: &Pod) -> bool {
    let annotations = &pod.metadata.annotations;
    annotations.contains_key(CONFIG_MIRROR_ANNOTATION)
}

/// Whether others are evicted if the pod does not fit.
pub fn is_critical_pod(pod: &Pod) -> bool {
    let priority = pod.spec.priority;
    is_static_pod(pod)
        || is_mirror_pod(pod)
        || priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
}

/// Whether a pod may be evicted for another: if only the other is critical, or else if both
/// have a priority and the other's is higher.
pub fn may_preempt(preemptor: &Pod, victim: &Pod) -> bool {
    if is_critical_pod(preemptor) && !is_critical_pod(victim) {
        return true;
    }
    match (preemptor.spec.priority, victim.spec.priority) {
        (Some(preemptor), Some(victim)) => preemptor > victim,
        _ => false,
    }
}
