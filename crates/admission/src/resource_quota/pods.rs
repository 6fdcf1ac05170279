//! What a pod uses of a quota.
//!
//! Requests and limits of the pod as a whole, and the pod itself. A pod that has ended uses
//! nothing any more, nor does one that is being deleted and should be gone by now: it would
//! keep others out for as long as its node is lost. As an object it is still there, so
//! `count/pods` counts it.
//!
//! Source: `pkg/quota/v1/evaluator/core/pods.go`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::pod_resources::{
    PodResourcesOptions, is_extended_resource_name, is_pod_level_resources_set, pod_limits,
    pod_requests,
};
use outrank_api::time::unix_nanos;
use outrank_api::types::{Container, Pod, ResourceList};

use super::amounts::count;

/// The name under which a quota counts pods as objects.
pub(super) const COUNT_NAME: &str = "count/pods";

/// Names that quotas have for what pods use, beside those with a prefix.
const RESOURCES: [&str; 11] = [
    COUNT_NAME,
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

/// What each container must state if a quota limits it; of no other resource was that ever
/// demanded.
const TO_BE_STATED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";
const HUGEPAGES: &str = "hugepages-";
/// Extended resources that stand for a class of devices.
pub(super) const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Whether the name is one of something that pods use.
pub(super) fn is_limited_by(name: &str) -> bool {
    let requested = name.strip_prefix(REQUESTS);
    RESOURCES.contains(&name)
        || name.starts_with(HUGEPAGES)
        || requested.is_some_and(|name| name.starts_with(HUGEPAGES))
        || is_extended_request(name)
}

/// Whether a quota's name is the request of an extended resource, such as
/// `requests.nvidia.com/gpu`. They cannot be overcommitted, so their limits have no name.
pub(super) fn is_extended_request(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    let requested = name.strip_prefix(REQUESTS);
    requested.is_some_and(|requested| !is_native || requested.starts_with(DEVICE_CLASS))
}

/// Whether containers may request the resource as an extended one.
pub(super) fn is_extended(name: &str) -> bool {
    is_extended_resource_name(name) || name.starts_with(DEVICE_CLASS)
}

/// The name that a quota has for the request of an extended resource.
pub(super) fn request_name(resource: &str) -> String {
    format!("{REQUESTS}{resource}")
}

/// What the pod uses of each resource, at a point in time.
pub(super) fn usage(pod: &Pod, now_unix_nanos: i64) -> ResourceList {
    let mut usage = ResourceList::from([(COUNT_NAME.to_owned(), count(1))]);
    if !is_charged(pod, now_unix_nanos) {
        return usage;
    }
    // Of a pod that is resized as a whole it is what is asked for that counts.
    let options = PodResourcesOptions {
        use_status_resources: true,
        ..PodResourcesOptions::default()
    };
    usage.insert("pods".to_owned(), count(1));
    let (requests, limits) = (pod_requests(pod, &options), pod_limits(pod, &options));
    usage.extend(named(&requests, &limits));
    usage
}

/// Whether the pod uses more than its place in the store.
pub fn is_charged(pod: &Pod, now_unix_nanos: i64) -> bool {
    if pod.is_finished() {
        return false;
    }
    let metadata = &pod.metadata;
    let deleted = metadata.deletion_timestamp.as_deref().and_then(unix_nanos);
    match (deleted, metadata.deletion_grace_period_seconds) {
        (Some(deleted), Some(grace_seconds)) => {
            let grace_nanos = grace_seconds.saturating_mul(1_000_000_000);
            now_unix_nanos <= deleted.saturating_add(grace_nanos)
        }
        _ => true,
    }
}

/// Requests and limits under the names that quotas have for them.
fn named(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut named = ResourceList::new();
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(resource) {
            named.insert(resource.to_owned(), request.clone());
            named.insert(request_name(resource), request.clone());
        }
        if let Some(limit) = limits.get(resource) {
            named.insert(format!("{LIMITS}{resource}"), limit.clone());
        }
    }
    for (resource, request) in requests {
        if resource.starts_with(HUGEPAGES) {
            named.insert(resource.clone(), request.clone());
            named.insert(request_name(resource), request.clone());
        }
        if is_extended(resource) {
            named.insert(request_name(resource), request.clone());
        }
    }
    named
}

/// Whether every container states what the quota limits of cpu and memory; if the pod as a
/// whole states something, no container must.
///
/// # Errors
/// Which containers do not state what.
pub(super) fn check_stated(pod: &Pod, limited: &ResourceList) -> Result<(), String> {
    if is_pod_level_resources_set(pod) {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    for container in containers {
        for name in not_stated(container, limited) {
            missing.entry(name).or_default().insert(&container.name);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.into_iter().map(|(name, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{name} for: {}", containers.join(","))
    });
    let missing: Vec<String> = missing.collect();
    Err(format!("must specify {}", missing.join("; ")))
}

fn not_stated<'n>(container: &Container, limited: &ResourceList) -> Vec<&'n str> {
    let resources = &container.resources;
    let stated = named(&resources.requests, &resources.limits);
    let mut missing = TO_BE_STATED.to_vec();
    missing.retain(|name| limited.contains_key(*name) && !stated.contains_key(*name));
    missing
}
