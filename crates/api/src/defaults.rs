//! What the API server fills in when a field is absent: for typed objects the fields that
//! decisions read, and with [`fill_in`] all of an object that is JSON. A test holds the two
//! together.
//!
//! Sources: `pkg/apis/core/v1/defaults.go`, `pkg/apis/apps/v1/defaults.go`,
//! `pkg/apis/batch/v1/defaults.go` in Kubernetes 1.36, and for what admission adds
//! `plugin/pkg/admission/defaulttolerationseconds`. Defaulting twice changes nothing.
//! Priorities are not resolved here.

mod written;

use std::sync::Arc;

use crate::decode::Object;
use crate::types::{
    Container, CronJob, DaemonSet, Deployment, IntOrString, Job, JobSpec, LimitRange, Namespace,
    Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod,
    PodSpec, PodTemplateSpec, PriorityClass, ReplicaSet, ReplicationController, ResourceList,
    ResourceQuota, ResourceRequirements, RollingUpdate, RolloutStrategy, RuntimeClass, Service,
    StatefulSet, StorageClass, Toleration,
};

pub use written::fill_in;

/// The namespace of objects that name none.
pub const NAMESPACE: &str = "default";

/// The scheduler of pods that name none.
pub const SCHEDULER_NAME: &str = "default-scheduler";

/// Time from the polite to the hard kill of pods that say nothing, in seconds.
pub const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;

/// How long pods stay on a node that is not ready or not reachable, in seconds, if they
/// say nothing.
pub const TOLERATION_SECONDS: i64 = 300;

/// Defaults an object of any kind.
pub fn default_object(object: &mut Object) {
    match object {
        Object::Pod(pod) => default_pod(pod),
        Object::Node(node) => default_node(node),
        Object::Namespace(namespace) => default_namespace(namespace),
        Object::Service(service) => default_service(service),
        Object::PriorityClass(class) => default_priority_class(class),
        Object::Deployment(deployment) => default_deployment(deployment),
        Object::ReplicaSet(set) => default_replica_set(set),
        Object::ReplicationController(controller) => default_replication_controller(controller),
        Object::StatefulSet(set) => default_stateful_set(set),
        Object::DaemonSet(set) => default_daemon_set(set),
        Object::Job(job) => default_job(job),
        Object::CronJob(cron_job) => default_cron_job(cron_job),
        Object::PersistentVolume(volume) => default_persistent_volume(volume),
        Object::PersistentVolumeClaim(claim) => default_persistent_volume_claim(claim),
        Object::StorageClass(class) => default_storage_class(class),
        Object::CSIStorageCapacity(capacity) => default_namespaced(&mut capacity.metadata),
        Object::PodDisruptionBudget(budget) => default_namespaced(&mut budget.metadata),
        Object::ResourceQuota(quota) => default_resource_quota(quota),
        Object::ControllerRevision(revision) => default_namespaced(&mut revision.metadata),
        Object::LimitRange(range) => default_limit_range(range),
        Object::RuntimeClass(class) => default_runtime_class(class),
        Object::CSINode(_) | Object::CSIDriver(_) | Object::VolumeAttachment(_) => {}
    }
}

/// Defaults a pod: all of its spec, and requests from limits, which templates do not get.
pub fn default_pod(pod: &mut Pod) {
    default_namespaced(&mut pod.metadata);
    let spec = Arc::make_mut(&mut pod.spec);
    default_pod_spec(spec);
    for container in spec.init_containers.iter_mut().chain(&mut spec.containers) {
        request_limits(&mut container.resources);
        if spec.host_network {
            open_ports_on_host(container);
        }
    }
    default_pod_level_resources(spec);
    if pod.status.phase.is_empty() {
        pod.status.phase = "Pending".to_owned();
    }
}

/// Defaults what pods and pod templates have in common.
pub fn default_pod_spec(spec: &mut PodSpec) {
    set_if_empty(&mut spec.restart_policy, "Always");
    set_if_empty(&mut spec.scheduler_name, SCHEDULER_NAME);
    spec.security_context.get_or_insert_default();
    let grace = spec
        .termination_grace_period_seconds
        .get_or_insert(TERMINATION_GRACE_PERIOD_SECONDS);
    if *grace < 0 {
        // Old clients sent -1; the API server stores it as the shortest period.
        *grace = 1;
    }
    for port in containers_mut(spec).flat_map(|container| &mut container.ports) {
        set_if_empty(&mut port.protocol, "TCP");
    }
    for volume in &mut spec.volumes {
        let ephemeral = volume.ephemeral.as_mut();
        if let Some(claim) = ephemeral.and_then(|it| it.volume_claim_template.as_mut()) {
            default_claim_spec(&mut claim.spec);
        }
        if let Some(rbd) = &mut volume.rbd {
            set_if_empty(&mut rbd.pool, "rbd");
        }
        if let Some(disk) = &mut volume.azure_disk {
            disk.kind.get_or_insert_with(|| "Shared".into());
        }
    }
    round_up_to_milli(&mut spec.overhead);
    if let Some(resources) = &mut spec.resources {
        round_up_to_milli(&mut resources.requests);
        round_up_to_milli(&mut resources.limits);
    }
    for container in containers_mut(spec) {
        round_up_to_milli(&mut container.resources.requests);
        round_up_to_milli(&mut container.resources.limits);
    }
}

fn containers_mut(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.init_containers.iter_mut().chain(&mut spec.containers)
}

/// Amounts finer than a thousandth are rounded up: the API keeps no finer ones.
fn round_up_to_milli(amounts: &mut ResourceList) {
    const MILLI: i32 = -3;
    for amount in amounts.values_mut() {
        amount.round_up(MILLI);
    }
}

fn request_limits(resources: &mut ResourceRequirements) {
    for (resource, limit) in &resources.limits {
        resources
            .requests
            .entry(resource.clone())
            .or_insert_with(|| limit.clone());
    }
}

fn open_ports_on_host(container: &mut Container) {
    for port in &mut container.ports {
        if port.host_port == 0 {
            port.host_port = port.container_port;
        }
    }
}

/// Defaults the resources of a pod as a whole, if it has any: limits of huge pages from
/// the containers, then requests from the containers' requests, else from the limits.
/// Needs the containers' requests to be defaulted.
fn default_pod_level_resources(spec: &mut PodSpec) {
    let Some(resources) = &spec.resources else {
        return;
    };
    let mut limits = resources.limits.clone();
    let mut requests = resources.requests.clone();
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    for (resource, limit) in containers_total(spec, |resources| &resources.limits) {
        if is_hugepages(&resource) && !requests.contains_key(&resource) {
            limits.entry(resource).or_insert(limit);
        }
    }
    if !limits.is_empty() {
        for (resource, request) in containers_total(spec, |resources| &resources.requests) {
            if matches!(resource.as_str(), "cpu" | "memory") {
                requests.entry(resource).or_insert(request);
            }
        }
        for (resource, limit) in &limits {
            if matches!(resource.as_str(), "cpu" | "memory") || is_hugepages(resource) {
                requests
                    .entry(resource.clone())
                    .or_insert_with(|| limit.clone());
            }
        }
    }
    spec.resources = Some(ResourceRequirements { requests, limits });
}

fn is_hugepages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// What the containers need together: the sum of those that run side by side or, if it is
/// more, what an init container needs with the sidecars that started before it.
pub(crate) fn containers_total(
    spec: &PodSpec,
    amounts: impl Fn(&ResourceRequirements) -> &ResourceList,
) -> ResourceList {
    let mut side_by_side = ResourceList::new();
    let mut peak = ResourceList::new();
    for container in &spec.init_containers {
        let own = amounts(&container.resources);
        if container.is_sidecar() {
            add(&mut side_by_side, own);
            raise(&mut peak, &side_by_side);
        } else {
            let mut with_sidecars = side_by_side.clone();
            add(&mut with_sidecars, own);
            raise(&mut peak, &with_sidecars);
        }
    }
    for container in &spec.containers {
        add(&mut side_by_side, amounts(&container.resources));
    }
    raise(&mut side_by_side, &peak);
    side_by_side
}

fn add(total: &mut ResourceList, amounts: &ResourceList) {
    for (resource, amount) in amounts {
        match total.get_mut(resource) {
            Some(total) => *total += amount,
            None => {
                total.insert(resource.clone(), amount.clone());
            }
        }
    }
}

fn raise(total: &mut ResourceList, amounts: &ResourceList) {
    for (resource, amount) in amounts {
        let total = total
            .entry(resource.clone())
            .or_insert_with(|| amount.clone());
        if *total < *amount {
            *total = amount.clone();
        }
    }
}

/// Defaults a node: what pods may use is all there is, if nothing else is said.
pub fn default_node(node: &mut Node) {
    node.metadata.namespace.clear();
    let status = &mut node.status;
    if status.allocatable.is_empty() {
        status.allocatable = status.capacity.clone();
    }
    round_up_to_milli(&mut status.capacity);
    round_up_to_milli(&mut status.allocatable);
}

/// Defaults a namespace: it gets its name as a label.
pub fn default_namespace(namespace: &mut Namespace) {
    let metadata = &mut namespace.metadata;
    metadata.namespace.clear();
    if !metadata.name.is_empty() {
        metadata.labels.insert(
            "kubernetes.io/metadata.name".to_owned(),
            metadata.name.clone(),
        );
    }
}

/// Defaults a priority class: its pods may preempt others.
pub fn default_priority_class(class: &mut PriorityClass) {
    class.metadata.namespace.clear();
    class
        .preemption_policy
        .get_or_insert_with(|| "PreemptLowerPriority".to_owned());
}

/// Defaults a Deployment: one pod.
pub fn default_deployment(deployment: &mut Deployment) {
    default_namespaced(&mut deployment.metadata);
    let spec = &mut deployment.spec;
    spec.replicas.get_or_insert(1);
    spec.revision_history_limit.get_or_insert(10);
    spec.progress_deadline_seconds.get_or_insert(600);
    if let Some(rolling) = rolling_update(&mut spec.strategy) {
        let quarter = || IntOrString::String("25%".to_owned());
        rolling.max_unavailable.get_or_insert_with(quarter);
        rolling.max_surge.get_or_insert_with(quarter);
    }
    default_template(&mut spec.template);
}

/// Defaults a ReplicaSet: one pod, and the template's labels for its own.
pub fn default_replica_set(set: &mut ReplicaSet) {
    default_namespaced(&mut set.metadata);
    set.spec.replicas.get_or_insert(1);
    default_template(&mut set.spec.template);
    if set.metadata.labels.is_empty() {
        set.metadata.labels = set.spec.template.metadata.labels.clone();
    }
}

/// Defaults a ReplicationController: one pod, and the template's labels for its selector
/// and its own labels.
pub fn default_replication_controller(controller: &mut ReplicationController) {
    default_namespaced(&mut controller.metadata);
    controller.spec.replicas.get_or_insert(1);
    default_template(&mut controller.spec.template);
    let labels = &controller.spec.template.metadata.labels;
    if controller.spec.selector.is_empty() {
        controller.spec.selector = labels.clone();
    }
    if controller.metadata.labels.is_empty() {
        controller.metadata.labels = labels.clone();
    }
}

/// Defaults a StatefulSet: one pod, made in order.
pub fn default_stateful_set(set: &mut StatefulSet) {
    default_namespaced(&mut set.metadata);
    set.spec.replicas.get_or_insert(1);
    set_if_empty(&mut set.spec.pod_management_policy, "OrderedReady");
    set.spec.revision_history_limit.get_or_insert(10);
    let strategy = &mut set.spec.update_strategy;
    // Who names the strategy has no settings but his own.
    if strategy.type_.is_empty() {
        rolling_update(strategy);
    }
    if let Some(rolling) = &mut strategy.rolling_update
        && strategy.type_ == "RollingUpdate"
    {
        rolling.partition.get_or_insert(0);
    }
    let retention = &mut set.spec.persistent_volume_claim_retention_policy;
    let retention = retention.get_or_insert_with(Default::default);
    set_if_empty(&mut retention.when_deleted, "Retain");
    set_if_empty(&mut retention.when_scaled, "Retain");
    for claim in &mut set.spec.volume_claim_templates {
        default_claim_spec(&mut claim.spec);
    }
    default_template(&mut set.spec.template);
}

/// Defaults a DaemonSet.
pub fn default_daemon_set(set: &mut DaemonSet) {
    default_namespaced(&mut set.metadata);
    set.spec.revision_history_limit.get_or_insert(10);
    if let Some(rolling) = rolling_update(&mut set.spec.update_strategy) {
        rolling.max_unavailable.get_or_insert(IntOrString::Int(1));
        rolling.max_surge.get_or_insert(IntOrString::Int(0));
    }
    default_template(&mut set.spec.template);
}

/// The settings of a rolling update, which is the default strategy of every kind; `None` if the
/// strategy is another.
fn rolling_update(strategy: &mut RolloutStrategy) -> Option<&mut RollingUpdate> {
    set_if_empty(&mut strategy.type_, "RollingUpdate");
    let is_rolling = strategy.type_ == "RollingUpdate";
    let settings = &mut strategy.rolling_update;
    is_rolling.then(|| settings.get_or_insert_with(Default::default))
}

/// Defaults a Job: one pod unless it says otherwise, and the template's labels for its own.
pub fn default_job(job: &mut Job) {
    default_namespaced(&mut job.metadata);
    default_job_spec(&mut job.spec);
    if job.metadata.labels.is_empty() {
        job.metadata.labels = job.spec.template.metadata.labels.clone();
    }
}

/// Defaults a CronJob and the job it makes.
pub fn default_cron_job(cron_job: &mut CronJob) {
    default_namespaced(&mut cron_job.metadata);
    let spec = &mut cron_job.spec;
    spec.suspend.get_or_insert(false);
    set_if_empty(&mut spec.concurrency_policy, "Allow");
    spec.successful_jobs_history_limit.get_or_insert(3);
    spec.failed_jobs_history_limit.get_or_insert(1);
    default_job_spec(&mut cron_job.spec.job_template.spec);
}

fn default_job_spec(spec: &mut JobSpec) {
    if spec.completions.is_none() && spec.parallelism.is_none() {
        spec.completions = Some(1);
    }
    spec.parallelism.get_or_insert(1);
    spec.completion_mode
        .get_or_insert_with(|| "NonIndexed".to_owned());
    spec.suspend.get_or_insert(false);
    let limit = match spec.backoff_limit_per_index {
        Some(_) => i32::MAX,
        None => 6,
    };
    spec.backoff_limit.get_or_insert(limit);
    let replaced_when = match spec.pod_failure_policy {
        Some(_) => "Failed",
        None => "TerminatingOrFailed",
    };
    let policy = &mut spec.pod_replacement_policy;
    policy.get_or_insert_with(|| replaced_when.to_owned());
    default_template(&mut spec.template);
}

/// Labels that the API server gives to the pods of a Job, once it has a uid: its uid and its
/// name, each under the name of today and the one of old.
const JOB_UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const JOB_NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// Makes the selector of a Job that has its uid, unless a person gave one.
///
/// Source: `pkg/registry/batch/job/strategy.go`, `generateSelector`, Kubernetes 1.36.
pub fn select_pods_of_job(job: &mut Job) {
    if job.spec.manual_selector == Some(true) {
        return;
    }
    let (name, uid) = (&job.metadata.name, &job.metadata.uid);
    let labels = &mut job.spec.template.metadata.labels;
    for (keys, value) in [(JOB_UID_LABELS, uid), (JOB_NAME_LABELS, name)] {
        for key in keys {
            let label = labels.entry(key.to_owned());
            label.or_insert_with(|| value.clone());
        }
    }
    let selector = job.spec.selector.get_or_insert_with(Default::default);
    let label = selector.match_labels.entry(JOB_UID_LABELS[0].to_owned());
    label.or_insert_with(|| uid.clone());
}

/// Defaults a persistent volume.
pub fn default_persistent_volume(volume: &mut PersistentVolume) {
    round_up_to_milli(&mut volume.spec.capacity);
    if let Some(disk) = &mut volume.spec.azure_disk {
        disk.kind.get_or_insert_with(|| "Shared".into());
    }
    set_if_empty(&mut volume.status.phase, "Pending");
    let mode = &mut volume.spec.volume_mode;
    mode.get_or_insert_with(|| "Filesystem".into());
}

/// Defaults a claim to a persistent volume. Which class is the default one is for admission
/// to say.
pub fn default_persistent_volume_claim(claim: &mut PersistentVolumeClaim) {
    default_namespaced(&mut claim.metadata);
    set_if_empty(&mut claim.status.phase, "Pending");
    default_claim_spec(&mut claim.spec);
}

fn default_claim_spec(claim: &mut PersistentVolumeClaimSpec) {
    round_up_to_milli(&mut claim.resources.requests);
    let mode = &mut claim.volume_mode;
    mode.get_or_insert_with(|| "Filesystem".into());
}

/// Defaults a service: its type, and whether a load balancer gets node ports.
pub fn default_service(service: &mut Service) {
    default_namespaced(&mut service.metadata);
    let spec = &mut service.spec;
    set_if_empty(&mut spec.service_type, "ClusterIP");
    if spec.service_type == "LoadBalancer" {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
    }
}

/// Defaults a quota: amounts finer than a thousandth are rounded up.
pub fn default_resource_quota(quota: &mut ResourceQuota) {
    default_namespaced(&mut quota.metadata);
    round_up_to_milli(&mut quota.spec.hard);
    round_up_to_milli(&mut quota.status.hard);
    round_up_to_milli(&mut quota.status.used);
}

/// Defaults a storage class.
pub fn default_storage_class(class: &mut StorageClass) {
    let mode = &mut class.volume_binding_mode;
    mode.get_or_insert_with(|| "Immediate".into());
}

/// Defaults a limit range: what containers get that do not say follows from the bounds. The
/// limit is the largest allowed, the request the limit, or else the smallest allowed.
pub fn default_limit_range(range: &mut LimitRange) {
    default_namespaced(&mut range.metadata);
    for limit in &mut range.spec.limits {
        let amounts = [
            &mut limit.max,
            &mut limit.min,
            &mut limit.default,
            &mut limit.default_request,
            &mut limit.max_limit_request_ratio,
        ];
        amounts.into_iter().for_each(round_up_to_milli);
        if limit.type_ != "Container" {
            continue;
        }
        let add_missing = |to: &mut ResourceList, from: &ResourceList| {
            for (resource, amount) in from {
                to.entry(resource.clone()).or_insert_with(|| amount.clone());
            }
        };
        add_missing(&mut limit.default, &limit.max);
        add_missing(&mut limit.default_request, &limit.default);
        add_missing(&mut limit.default_request, &limit.min);
    }
}

/// Defaults a runtime class.
pub fn default_runtime_class(class: &mut RuntimeClass) {
    class.metadata.namespace.clear();
    if let Some(overhead) = &mut class.overhead {
        round_up_to_milli(&mut overhead.pod_fixed);
    }
}

fn default_template(template: &mut PodTemplateSpec) {
    default_pod_spec(Arc::make_mut(&mut template.spec));
}

fn default_namespaced(metadata: &mut ObjectMeta) {
    set_if_empty(&mut metadata.namespace, NAMESPACE);
}

fn set_if_empty(field: &mut String, value: &str) {
    if field.is_empty() {
        value.clone_into(field);
    }
}

/// Adds the tolerations that admission gives to every pod unless it is configured otherwise:
/// those of [`add_node_tolerations`], with [`TOLERATION_SECONDS`] each.
pub fn add_default_tolerations(pod: &mut Pod) {
    add_node_tolerations(pod, TOLERATION_SECONDS, TOLERATION_SECONDS);
}

/// Lets a pod stay for a while on a node that is not ready or not reachable, unless it says
/// itself what it tolerates of that.
pub fn add_node_tolerations(pod: &mut Pod, not_ready_seconds: i64, unreachable_seconds: i64) {
    let taints = [
        ("node.kubernetes.io/not-ready", not_ready_seconds),
        ("node.kubernetes.io/unreachable", unreachable_seconds),
    ];
    let speaks_of = |toleration: &Toleration, key: &str| {
        (toleration.key == key || toleration.key.is_empty())
            && matches!(toleration.effect.as_str(), "" | "NoExecute")
    };
    let tolerations = &pod.spec.tolerations;
    let missing = taints.map(|(key, seconds)| {
        let is_missing = !tolerations
            .iter()
            .any(|toleration| speaks_of(toleration, key));
        is_missing.then(|| Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            effect: "NoExecute".to_owned(),
            toleration_seconds: Some(seconds),
            ..Toleration::default()
        })
    });
    if missing.iter().any(Option::is_some) {
        Arc::make_mut(&mut pod.spec)
            .tolerations
            .extend(missing.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn defaulted(spec: Value) -> Pod {
        let mut pod = Pod {
            spec: serde_json::from_value(spec).expect("a spec"),
            ..Pod::default()
        };
        default_pod(&mut pod);
        let once = pod.clone();
        default_pod(&mut pod);
        assert_eq!(pod, once, "defaulting twice changes nothing");
        pod
    }

    fn amounts(list: &ResourceList) -> Vec<String> {
        list.iter()
            .map(|(resource, amount)| format!("{resource}={amount}"))
            .collect()
    }

    #[test]
    fn requests_come_from_limits() {
        let pod = defaulted(json!({
            "initContainers": [{"resources": {"limits": {"cpu": "2"}}}],
            "containers": [
                {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "a/b": "3"}}},
            ],
        }));
        assert_eq!(
            amounts(&pod.spec.init_containers[0].resources.requests),
            ["cpu=2"]
        );
        assert_eq!(
            amounts(&pod.spec.containers[0].resources.requests),
            ["a/b=3", "cpu=1"]
        );
    }

    #[test]
    fn amounts_are_kept_to_a_thousandth() {
        let pod =
            defaulted(json!({"containers": [{"resources": {"requests": {"cpu": "100100u"}}}]}));
        assert_eq!(
            amounts(&pod.spec.containers[0].resources.requests),
            ["cpu=101m"]
        );
    }

    #[test]
    fn requests_of_the_whole_come_from_the_containers_then_the_limits() {
        let pod = defaulted(json!({
            "resources": {"limits": {"cpu": "8", "memory": "1Gi"}},
            "initContainers": [
                {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
                {"resources": {"requests": {"cpu": "4"}}},
            ],
            "containers": [{"resources": {"requests": {"cpu": "2", "a/b": "1"}}}],
        }));
        let whole = pod.spec.resources.as_ref().expect("resources");
        assert_eq!(amounts(&whole.requests), ["cpu=5", "memory=1Gi"]);
    }

    #[test]
    fn huge_pages_of_the_containers_limit_the_whole() {
        let pod = defaulted(json!({
            "resources": {"requests": {"cpu": "1"}},
            "containers": [{"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}],
        }));
        let whole = pod.spec.resources.as_ref().expect("resources");
        assert_eq!(amounts(&whole.limits), ["hugepages-2Mi=4Mi"]);
        assert_eq!(amounts(&whole.requests), ["cpu=1", "hugepages-2Mi=4Mi"]);
    }

    #[test]
    fn ports_open_on_the_host_under_host_network_only() {
        let containers = json!([{"ports": [{"containerPort": 80}]}]);
        let pod = defaulted(json!({"containers": containers, "hostNetwork": true}));
        let port = &pod.spec.containers[0].ports[0];
        assert_eq!((port.host_port, port.protocol.as_str()), (80, "TCP"));
        let pod = defaulted(json!({"containers": containers}));
        assert_eq!(pod.spec.containers[0].ports[0].host_port, 0);
    }

    #[test]
    fn tolerations_are_added_unless_the_pod_speaks_of_the_taint() {
        let keys = |tolerations: Value| {
            let mut pod = defaulted(json!({ "tolerations": tolerations }));
            add_default_tolerations(&mut pod);
            let keys: Vec<String> = pod.spec.tolerations.iter().map(|t| t.key.clone()).collect();
            keys.join(" ")
        };
        let (not_ready, unreachable) = (
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        );
        assert_eq!(keys(json!([])), format!("{not_ready} {unreachable}"));
        let own = json!([{"key": not_ready, "operator": "Exists", "effect": "NoExecute"}]);
        assert_eq!(keys(own), format!("{not_ready} {unreachable}"));
        let other = json!([{"key": not_ready, "operator": "Exists", "effect": "NoSchedule"}]);
        assert_eq!(
            keys(other),
            format!("{not_ready} {not_ready} {unreachable}")
        );
        assert_eq!(keys(json!([{"operator": "Exists"}])), "");
    }

    #[test]
    fn nodes_offer_what_they_have() {
        let mut node: Node =
            serde_json::from_value(json!({"status": {"capacity": {"cpu": "4"}}})).expect("a node");
        default_node(&mut node);
        assert_eq!(amounts(&node.status.allocatable), ["cpu=4"]);
    }

    #[test]
    fn jobs_run_one_pod_to_completion() {
        let mut job = Job::default();
        default_job(&mut job);
        assert_eq!(
            (job.spec.parallelism, job.spec.completions),
            (Some(1), Some(1))
        );
        let mut queue = Job::default();
        queue.spec.parallelism = Some(3);
        default_job(&mut queue);
        assert_eq!(
            (queue.spec.parallelism, queue.spec.completions),
            (Some(3), None)
        );
    }
}
