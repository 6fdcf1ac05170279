//! What a pod requests as a whole.
//!
//! The containers of a pod run side by side, so their requests add up. Init containers
//! run before, one after the other, each beside the sidecars (init containers with
//! `restartPolicy: Always`) that started earlier: the pod needs the largest of these
//! stages. Resources of the pod as a whole (`spec.resources`: cpu, memory, hugepages)
//! replace the sum, and the overhead of its runtime class comes on top.
//!
//! While a running pod is resized in place, the amounts in force and those granted by
//! the node count as well, whichever is larger.
//!
//! Sources: `k8s.io/component-helpers/resource` and, for what the scheduler makes of it,
//! `pkg/scheduler/framework` with `plugins/noderesources`; Kubernetes 1.36.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use crate::names;
use crate::quantity::{Format, Quantity};
use crate::types::{Container, ContainerStatus, Pod, ResourceList, ResourceRequirements};

/// What a container without a cpu request counts as when nodes are scored, in milli cpus.
pub const DEFAULT_CPU_MILLI_REQUEST: i64 = 100;

/// What a container without a memory request counts as when nodes are scored, in bytes.
pub const DEFAULT_MEMORY_BYTES_REQUEST: i64 = 200 * 1024 * 1024;

/// What to consider of a pod. The default: its spec alone, with pod-level resources and
/// overhead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResourcesOptions {
    /// Whether the amounts in the status of containers and sidecars count, as while they
    /// are resized in place (gate InPlacePodVerticalScaling).
    pub use_status_resources: bool,
    /// With `use_status_resources`, whether those in the pod's own status count too (gate
    /// InPlacePodLevelResourcesVerticalScaling).
    pub in_place_pod_level_resize: bool,
    /// Whether the overhead is left out.
    pub exclude_overhead: bool,
    /// Whether pod-level resources are ignored.
    pub skip_pod_level_resources: bool,
    /// Requests that count for each container that has none of that resource.
    pub non_missing_container_requests: ResourceList,
}

/// The requests of a pod.
pub fn pod_requests(pod: &Pod, options: &PodResourcesOptions) -> ResourceList {
    let mut requests = containers_total(pod, options, Side::Requests);
    if !options.skip_pod_level_resources
        && is_pod_level_requests_set(pod)
        && let Some(resources) = &pod.spec.resources
    {
        let effective = pod_level_status(pod, options).map(|status| {
            effective_requests(
                pod,
                &resources.requests,
                status,
                &pod.status.allocated_resources,
            )
        });
        set_pod_level(&mut requests, &resources.requests, effective.as_ref());
    }
    if !options.exclude_overhead {
        add(&mut requests, &pod.spec.overhead);
    }
    requests
}

/// The limits of a pod. The overhead is added to those that are there and not zero.
pub fn pod_limits(pod: &Pod, options: &PodResourcesOptions) -> ResourceList {
    let mut limits = containers_total(pod, options, Side::Limits);
    if !options.skip_pod_level_resources
        && let Some(resources) = &pod.spec.resources
    {
        let effective = pod_level_status(pod, options)
            .map(|status| effective_limits(pod, &resources.limits, status));
        set_pod_level(&mut limits, &resources.limits, effective.as_ref());
    }
    if !options.exclude_overhead {
        for (name, amount) in &pod.spec.overhead {
            if let Some(limit) = limits.get_mut(name).filter(|limit| !limit.is_zero()) {
                *limit += amount;
            }
        }
    }
    limits
}

/// Whether the pod as a whole requests something that may be requested so.
pub fn is_pod_level_requests_set(pod: &Pod) -> bool {
    let resources = pod.spec.resources.as_ref();
    resources.is_some_and(|resources| resources.requests.keys().any(|name| is_pod_level(name)))
}

/// Whether the pod as a whole requests something that may be requested so, or is limited in
/// it.
pub fn is_pod_level_resources_set(pod: &Pod) -> bool {
    let resources = pod.spec.resources.as_ref();
    is_pod_level_requests_set(pod)
        || resources.is_some_and(|it| it.limits.keys().any(|name| is_pod_level(name)))
}

/// Whether the scheduler keeps a count of the resource besides cpu, memory and ephemeral
/// storage: extended resources, hugepages, attachable volumes, and names with the prefix
/// `kubernetes.io/`.
pub fn is_scalar_resource_name(name: &str) -> bool {
    is_extended_resource_name(name)
        || name.starts_with(HUGEPAGES_PREFIX)
        || name.contains(NATIVE_PREFIX)
        || name.starts_with("attachable-volumes-")
}

/// Whether the resource is extended: a qualified name with a prefix that is not
/// Kubernetes' own, such as `nvidia.com/gpu`.
pub fn is_extended_resource_name(name: &str) -> bool {
    name.contains('/')
        && !name.contains(NATIVE_PREFIX)
        && !name.starts_with(QUOTA_PREFIX)
        // Quotas must be able to name the resource, too.
        && names::label_key_errors(&format!("{QUOTA_PREFIX}{name}")).is_empty()
}

/// What the scheduler counts for a pod on a node (upstream's `PodInfo.CalculateResource`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerResources {
    /// Requested cpu, in thousandths.
    pub cpu_milli: i64,
    /// Requested memory, in bytes.
    pub memory_bytes: i64,
    /// Requested ephemeral storage, in bytes.
    pub ephemeral_storage_bytes: i64,
    /// Other requests by name, in whole units; see [`is_scalar_resource_name`].
    pub scalar: BTreeMap<String, i64>,
    /// As `cpu_milli`, with [`DEFAULT_CPU_MILLI_REQUEST`] for containers without a request.
    pub non_zero_cpu_milli: i64,
    /// As `memory_bytes`, with [`DEFAULT_MEMORY_BYTES_REQUEST`] likewise.
    pub non_zero_memory_bytes: i64,
}

/// What the scheduler counts for a pod on a node, with Kubernetes 1.36's default gates:
/// the status counts, of the containers and of the pod.
pub fn scheduler_resources(pod: &Pod) -> SchedulerResources {
    let mut options = PodResourcesOptions {
        use_status_resources: true,
        in_place_pod_level_resize: true,
        ..PodResourcesOptions::default()
    };
    let requests = pod_requests(pod, &options);
    let mut missing = DEFAULT_REQUESTS.clone();
    if is_pod_level_requests_set(pod) {
        missing.retain(|name, _| !requests.contains_key(name));
    }
    options.non_missing_container_requests = missing;
    let non_zero = if options.non_missing_container_requests.is_empty() {
        Cow::Borrowed(&requests)
    } else {
        Cow::Owned(pod_requests(pod, &options))
    };
    let IncomingRequests {
        cpu_milli,
        memory_bytes,
        ephemeral_storage_bytes,
        scalar,
    } = IncomingRequests::of(&requests);
    SchedulerResources {
        cpu_milli,
        memory_bytes,
        ephemeral_storage_bytes,
        scalar,
        non_zero_cpu_milli: non_zero.get(CPU).map_or(0, Quantity::milli_value),
        non_zero_memory_bytes: non_zero.get(MEMORY).map_or(0, Quantity::value),
    }
}

/// What the plugin NodeResourcesFit asks of a node for a pod that is to be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncomingRequests {
    /// Requested cpu, in thousandths.
    pub cpu_milli: i64,
    /// Requested memory, in bytes.
    pub memory_bytes: i64,
    /// Requested ephemeral storage, in bytes.
    pub ephemeral_storage_bytes: i64,
    /// Other requests by name, in whole units; see [`is_scalar_resource_name`].
    pub scalar: BTreeMap<String, i64>,
}

impl IncomingRequests {
    fn of(requests: &ResourceList) -> Self {
        let value = |name| requests.get(name).map_or(0, Quantity::value);
        let scalar = requests
            .iter()
            .filter(|(name, _)| is_scalar_resource_name(name))
            .map(|(name, amount)| (name.clone(), amount.value()));
        Self {
            cpu_milli: requests.get(CPU).map_or(0, Quantity::milli_value),
            memory_bytes: value(MEMORY),
            ephemeral_storage_bytes: value("ephemeral-storage"),
            scalar: scalar.collect(),
        }
    }
}

/// What NodeResourcesFit asks of a node for a pod that is to be placed: its spec alone,
/// as it does not run yet (upstream's `computePodResourceRequest`).
pub fn incoming_requests(pod: &Pod) -> IncomingRequests {
    let mut requests = IncomingRequests::of(&pod_requests(pod, &PodResourcesOptions::default()));
    let scalar = requests.scalar.values_mut();
    let known = [
        &mut requests.cpu_milli,
        &mut requests.memory_bytes,
        &mut requests.ephemeral_storage_bytes,
    ];
    for amount in known.into_iter().chain(scalar) {
        *amount = (*amount).max(0);
    }
    requests
}

/// What a pod that is to be placed counts when nodes are scored by these resources: cpu
/// in thousandths, others in whole units (upstream's `calculatePodResourceRequestList`).
///
/// `use_requested` is what NodeResourcesBalancedAllocation does: the pod's requests as
/// they are. Without it, as NodeResourcesFit does, containers without cpu or memory
/// requests count as having the defaults, and neither pod-level resources nor the status
/// count: upstream builds that scorer without passing it the gates.
pub fn score_requests(pod: &Pod, resource_names: &[String], use_requested: bool) -> Vec<i64> {
    let options = if use_requested {
        PodResourcesOptions {
            use_status_resources: true,
            in_place_pod_level_resize: true,
            ..PodResourcesOptions::default()
        }
    } else {
        PodResourcesOptions {
            skip_pod_level_resources: true,
            non_missing_container_requests: DEFAULT_REQUESTS.clone(),
            ..PodResourcesOptions::default()
        }
    };
    let requests = pod_requests(pod, &options);
    let amount = |name: &String| match requests.get(name) {
        None => 0,
        Some(amount) if name == CPU => amount.milli_value(),
        Some(amount) => amount.value(),
    };
    resource_names.iter().map(amount).collect()
}

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const HUGEPAGES_PREFIX: &str = "hugepages-";
const NATIVE_PREFIX: &str = "kubernetes.io/";
const QUOTA_PREFIX: &str = "requests.";

static DEFAULT_REQUESTS: LazyLock<ResourceList> = LazyLock::new(|| {
    let cpu = Quantity::from_milli(DEFAULT_CPU_MILLI_REQUEST, Format::DecimalSi);
    let memory = Quantity::from_value(DEFAULT_MEMORY_BYTES_REQUEST, Format::DecimalSi);
    ResourceList::from([(CPU.to_owned(), cpu), (MEMORY.to_owned(), memory)])
});

/// Whether pod-level resources may name the resource.
fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGEPAGES_PREFIX)
}

/// Which amounts of a container to total.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Requests,
    Limits,
}

/// The largest stage of a pod's life: containers beside sidecars, or an init container
/// beside the sidecars before it.
fn containers_total(pod: &Pod, options: &PodResourcesOptions, side: Side) -> ResourceList {
    let statuses = container_statuses(pod, options);
    let amounts = |container, resizable: bool| {
        let status = if resizable {
            &statuses
        } else {
            &HashMap::new()
        };
        container_amounts(pod, container, status, options, side)
    };
    let mut total = ResourceList::new();
    for container in &pod.spec.containers {
        add(&mut total, &amounts(container, true));
    }
    let mut sidecars = ResourceList::new();
    let mut largest_init = ResourceList::new();
    for container in &pod.spec.init_containers {
        let own = amounts(container, container.is_sidecar());
        if container.is_sidecar() {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut largest_init, &sidecars);
        } else {
            let mut stage = own.into_owned();
            add(&mut stage, &sidecars);
            raise(&mut largest_init, &stage);
        }
    }
    raise(&mut total, &largest_init);
    total
}

/// The statuses by container name, if they are to be considered.
fn container_statuses<'a>(
    pod: &'a Pod,
    options: &PodResourcesOptions,
) -> HashMap<&'a str, &'a ContainerStatus> {
    if !options.use_status_resources {
        return HashMap::new();
    }
    let status = &pod.status;
    let statuses = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses);
    statuses
        .map(|status| (status.name.as_str(), status))
        .collect()
}

/// What a container requests, or its limits, in view of its status.
fn container_amounts<'a>(
    pod: &Pod,
    container: &'a Container,
    statuses: &HashMap<&str, &ContainerStatus>,
    options: &PodResourcesOptions,
    side: Side,
) -> Cow<'a, ResourceList> {
    let status = statuses.get(container.name.as_str());
    let status = status.and_then(|status| Some((*status, status.resources.as_ref()?)));
    let spec = &container.resources;
    if side == Side::Limits {
        return match status {
            Some((_, in_force)) => Cow::Owned(effective_limits(pod, &spec.limits, in_force)),
            None => Cow::Borrowed(&spec.limits),
        };
    }
    let mut requests = match status {
        Some((status, in_force)) => {
            let granted = &status.allocated_resources;
            Cow::Owned(effective_requests(pod, &spec.requests, in_force, granted))
        }
        None => Cow::Borrowed(&spec.requests),
    };
    for (name, amount) in &options.non_missing_container_requests {
        if !requests.contains_key(name) {
            requests.to_mut().insert(name.clone(), amount.clone());
        }
    }
    requests
}

/// The pod-level amounts in force, if they are to be considered.
fn pod_level_status<'a>(
    pod: &'a Pod,
    options: &PodResourcesOptions,
) -> Option<&'a ResourceRequirements> {
    let considered = options.in_place_pod_level_resize && options.use_status_resources;
    pod.status.resources.as_ref().filter(|_| considered)
}

/// Replaces the totals that are set for the pod as a whole.
fn set_pod_level(total: &mut ResourceList, spec: &ResourceList, effective: Option<&ResourceList>) {
    for (name, amount) in spec.iter().filter(|(name, _)| is_pod_level(name)) {
        let amount = match effective {
            Some(effective) => effective.get(name).cloned().unwrap_or_default(),
            None => amount.clone(),
        };
        total.insert(name.clone(), amount);
    }
}

/// The requests that hold while a resize may be under way: the largest of those asked
/// for (unless the node can never grant them), in force, and granted.
fn effective_requests(
    pod: &Pod,
    spec: &ResourceList,
    in_force: &ResourceRequirements,
    granted: &ResourceList,
) -> ResourceList {
    let mut effective = in_force.requests.clone();
    raise(&mut effective, granted);
    if !is_resize_infeasible(pod) {
        let mut with_spec = spec.clone();
        raise(&mut with_spec, &effective);
        return with_spec;
    }
    effective
}

/// As [`effective_requests`], for limits, which are not granted.
fn effective_limits(
    pod: &Pod,
    spec: &ResourceList,
    in_force: &ResourceRequirements,
) -> ResourceList {
    if is_resize_infeasible(pod) {
        return in_force.limits.clone();
    }
    let mut effective = spec.clone();
    raise(&mut effective, &in_force.limits);
    effective
}

/// Whether the kubelet says that the node can never grant the requested resize.
fn is_resize_infeasible(pod: &Pod) -> bool {
    let pending = pod
        .status
        .conditions
        .iter()
        .find(|c| c.type_ == "PodResizePending");
    pending.is_some_and(|condition| condition.reason == "Infeasible")
}

/// Adds amounts by name.
fn add(total: &mut ResourceList, amounts: &ResourceList) {
    for (name, amount) in amounts {
        match total.get_mut(name) {
            Some(sum) => *sum += amount,
            None => drop(total.insert(name.clone(), amount.clone())),
        }
    }
}

/// Raises amounts by name to at least the others.
fn raise(total: &mut ResourceList, amounts: &ResourceList) {
    for (name, amount) in amounts {
        match total.get_mut(name) {
            Some(largest) if *amount > *largest => *largest = amount.clone(),
            Some(_) => {}
            None => drop(total.insert(name.clone(), amount.clone())),
        }
    }
}

/// How many GPUs a pod holds: units of extended resources that are called so, such as
/// `nvidia.com/gpu` and `nvidia.com/mig-1g.5gb`.
pub fn gpus(pod: &Pod) -> i64 {
    let is_gpu = |name: &str| {
        let device = name.rsplit('/').next().unwrap_or_default();
        device == "gpu" || device.starts_with("mig-") || device.starts_with("gpu.")
    };
    let resources = scheduler_resources(pod);
    let scalar = resources.scalar.iter();
    scalar
        .filter(|(name, _)| is_gpu(name))
        .map(|(_, amount)| amount)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: serde_json::Value) -> Pod {
        serde_json::from_value(json).unwrap()
    }

    fn printed(list: &ResourceList) -> Vec<String> {
        list.iter()
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect()
    }

    #[test]
    fn the_largest_stage_counts() {
        let pod = pod(serde_json::json!({ "spec": {
            "initContainers": [
                { "name": "side", "restartPolicy": "Always",
                  "resources": { "requests": { "cpu": "1" } } },
                { "name": "init", "resources": { "requests": { "cpu": "3", "memory": "1Gi" } } },
            ],
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }],
            "overhead": { "cpu": "100m" },
        }}));
        let options = PodResourcesOptions::default();
        assert_eq!(
            printed(&pod_requests(&pod, &options)),
            ["cpu=4100m", "memory=1Gi"]
        );
        let options = PodResourcesOptions {
            exclude_overhead: true,
            ..options
        };
        assert_eq!(
            printed(&pod_requests(&pod, &options)),
            ["cpu=4", "memory=1Gi"]
        );
    }

    #[test]
    fn a_resize_counts_at_its_largest() {
        let spec = |reason: &str| {
            pod(serde_json::json!({
                "spec": { "containers": [
                    { "name": "c", "resources": { "requests": { "cpu": "4", "memory": "1Gi" } } },
                ]},
                "status": {
                    "conditions": [{ "type": "PodResizePending", "reason": reason }],
                    "containerStatuses": [{
                        "name": "c",
                        "resources": { "requests": { "cpu": "1", "memory": "2Gi" } },
                        "allocatedResources": { "cpu": "2" },
                    }],
                },
            }))
        };
        let resources = scheduler_resources(&spec("Deferred"));
        assert_eq!(
            (resources.cpu_milli, resources.memory_bytes >> 30),
            (4000, 2)
        );
        let resources = scheduler_resources(&spec("Infeasible"));
        assert_eq!(
            (resources.cpu_milli, resources.memory_bytes >> 30),
            (2000, 2)
        );
        assert_eq!(incoming_requests(&spec("Infeasible")).cpu_milli, 4000);
    }

    #[test]
    fn scorers_differ_in_pod_level_resources_and_defaults() {
        let pod = pod(serde_json::json!({ "spec": {
            "containers": [{ "name": "a" }, { "name": "b" }],
            "resources": { "requests": { "cpu": "3" } },
        }}));
        let names = ["cpu", "memory", "nvidia.com/gpu"].map(str::to_owned);
        assert_eq!(score_requests(&pod, &names, true), [3000, 0, 0]);
        let defaults = [200, 2 * DEFAULT_MEMORY_BYTES_REQUEST, 0];
        assert_eq!(score_requests(&pod, &names, false), defaults);
        let resources = scheduler_resources(&pod);
        assert_eq!(resources.non_zero_cpu_milli, 3000);
        assert_eq!(
            resources.non_zero_memory_bytes,
            2 * DEFAULT_MEMORY_BYTES_REQUEST
        );
    }

    #[test]
    fn resource_names() {
        for (name, extended, scalar) in [
            ("cpu", false, false),
            ("pods", false, false),
            ("nvidia.com/gpu", true, true),
            ("requests.nvidia.com/gpu", false, false),
            ("kubernetes.io/batch-cpu", false, true),
            ("hugepages-2Mi", false, true),
            ("attachable-volumes-aws-ebs", false, true),
            ("bad name/gpu", false, false),
        ] {
            assert_eq!(is_extended_resource_name(name), extended, "{name}");
            assert_eq!(is_scalar_resource_name(name), scalar, "{name}");
        }
    }

    #[test]
    fn incoming_requests_are_not_negative() {
        let pod = pod(serde_json::json!({ "spec": { "containers": [
            { "name": "a", "resources": { "requests": { "cpu": "-1", "a.b/c": "-1" } } },
        ]}}));
        let requests = incoming_requests(&pod);
        assert_eq!((requests.cpu_milli, requests.scalar["a.b/c"]), (0, 0));
    }
}
