//! What the API server demands of objects beyond the form of single fields: names, and
//! fields that must fit each other.
//!
//! The rules are those of `pkg/apis/core/validation` and `pkg/apis/apps/validation` in
//! Kubernetes 1.36, for the fields that decisions read; that the tables of
//! [`crate::schema`] check, too, is not repeated here. The API server defaults objects
//! before it validates them, so do [`crate::defaults`] first.

mod quota;

use std::collections::BTreeSet;

use crate::cron::{Schedule, Zone};
use crate::decode::Object;
use crate::defaults::containers_total;
use crate::diagnostic::{Finding, Findings, Here, Severity, Suggestion};
use crate::names::{
    dns1123_label_errors, dns1123_subdomain_errors, label_key_errors, label_value_errors,
};
use crate::quantity::{Format, Quantity};
use crate::schema::{did_you_mean, nearest};
use crate::types::{
    Affinity, CSINode, Container, ContainerPort, CronJobSpec, IntOrString, LabelSelector,
    LabelSelectorRequirement, Node, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm,
    ObjectMeta, PersistentVolumeClaimSpec, PersistentVolumeSpec, Pod, PodAffinity, PodAffinityTerm,
    PodDisruptionBudgetSpec, PodSpec, PodTemplateSpec, PriorityClass, ResourceList,
    ResourceQuotaStatus, ResourceRequirements, StatefulSetSpec, StorageClass, StringMap, Taint,
    Toleration, TopologySpreadConstraint, VolumeClaimTemplate,
};

pub use quota::QUOTA_SCOPES;

/// What is wrong with an object that has its defaults.
pub fn findings(object: &Object) -> Vec<Finding> {
    let mut findings = Findings::default();
    validate(object, &mut findings);
    findings.0
}

/// What is wrong with the status of a quota that is to be written; [`findings`] looks at the
/// spec alone, as the API server does.
pub fn quota_status_findings(status: &ResourceQuotaStatus) -> Vec<Finding> {
    let mut findings = Findings::default();
    quota::check_quota_status(status, &Here::OBJECT.field("status"), &mut findings);
    findings.0
}

pub(crate) fn validate(object: &Object, findings: &mut Findings) {
    let here = Here::OBJECT;
    let is_label_name = matches!(object, Object::Namespace(_));
    check_metadata(
        object.metadata(),
        is_label_name,
        &here.field("metadata"),
        findings,
    );
    let spec = here.field("spec");
    match object {
        Object::Pod(pod) => check_pod(pod, &spec, findings),
        Object::Node(node) => check_node(node, &here, findings),
        Object::Namespace(_)
        | Object::ControllerRevision(_)
        | Object::Service(_)
        | Object::CSIDriver(_)
        | Object::VolumeAttachment(_) => {}
        Object::StorageClass(class) => check_storage_class(class, &here, findings),
        Object::PodDisruptionBudget(budget) => check_budget(&budget.spec, &spec, findings),
        Object::ResourceQuota(it) => quota::check_quota(&it.spec, &spec, findings),
        Object::CSINode(node) => check_csi_node(node, &spec, findings),
        Object::PersistentVolume(volume) => check_volume(&volume.spec, &spec, findings),
        Object::PersistentVolumeClaim(claim) => check_claim(&claim.spec, &spec, findings),
        Object::CSIStorageCapacity(capacity) => {
            if let Some(selector) = &capacity.node_topology {
                check_selector(selector, &here.field("nodeTopology"), findings);
            }
            let sizes = [
                ("capacity", &capacity.capacity),
                ("maximumVolumeSize", &capacity.maximum_volume_size),
            ];
            for (field, size) in sizes {
                if size.as_ref().is_some_and(|it| *it < Quantity::default()) {
                    findings.error(&here.field(field), "must not be negative");
                }
            }
        }
        Object::PriorityClass(class) => check_priority_class(class, &here, findings),
        Object::Deployment(object) => {
            let (selector, template) = (&object.spec.selector, &object.spec.template);
            check_workload(selector.as_ref(), template, &[], &spec, findings);
        }
        Object::ReplicaSet(object) => {
            let (selector, template) = (&object.spec.selector, &object.spec.template);
            check_workload(selector.as_ref(), template, &[], &spec, findings);
        }
        Object::StatefulSet(object) => check_stateful_set(&object.spec, &spec, findings),
        Object::DaemonSet(object) => {
            let (selector, template) = (&object.spec.selector, &object.spec.template);
            check_workload(selector.as_ref(), template, &[], &spec, findings);
        }
        Object::ReplicationController(object) => {
            let selector = LabelSelector {
                match_labels: object.spec.selector.clone(),
                match_expressions: Vec::new(),
            };
            check_workload(Some(&selector), &object.spec.template, &[], &spec, findings);
        }
        Object::Job(job) => check_job_template(&job.spec.template, &spec, findings),
        Object::CronJob(object) => {
            let template = spec.field("jobTemplate");
            let job = &object.spec.job_template.spec;
            check_job_template(&job.template, &template.field("spec"), findings);
            check_schedule(&object.spec, &spec, findings);
        }
    }
}

/// Whether a CronJob says when it runs.
fn check_schedule(cron_job: &CronJobSpec, spec: &Here<'_>, findings: &mut Findings) {
    let schedule = cron_job.schedule.as_str();
    if !schedule.is_empty()
        && let Err(error) = Schedule::parse(schedule)
    {
        let message = format!("{schedule:?} is not a schedule: {error}");
        findings.error(&spec.field("schedule"), message);
    }
    if let Some(zone) = &cron_job.time_zone
        && Zone::named(zone).is_none()
    {
        let message = format!("unknown time zone {zone}");
        findings.error(&spec.field("timeZone"), message);
    }
}

fn check_budget(budget: &PodDisruptionBudgetSpec, here: &Here<'_>, findings: &mut Findings) {
    let counts = [
        ("minAvailable", &budget.min_available),
        ("maxUnavailable", &budget.max_unavailable),
    ];
    for (field, count) in counts {
        let problem = match count {
            Some(IntOrString::Int(count)) if *count < 0 => Some("must not be negative"),
            Some(IntOrString::String(share)) => share_problem(share),
            _ => None,
        };
        if let Some(problem) = problem {
            findings.error(&here.field(field), problem);
        }
    }
    if let Some(selector) = &budget.selector {
        check_selector(selector, &here.field("selector"), findings);
    }
}

/// What is wrong with a share in percent.
fn share_problem(share: &str) -> Option<&'static str> {
    let digits = share.strip_suffix('%').unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("must be a whole number, or a share such as \"50%\"");
    }
    // A number that is too long is too large as well.
    let is_share = digits.parse().is_ok_and(|share: u64| share <= 100);
    (!is_share).then_some("must not be greater than 100%")
}

fn check_metadata(
    metadata: &ObjectMeta,
    is_label_name: bool,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let rule = if is_label_name {
        dns1123_label_errors
    } else {
        dns1123_subdomain_errors
    };
    if metadata.name.is_empty() && metadata.generate_name.is_empty() {
        findings.error(&here.field("name"), "required field is missing or empty");
    }
    if !metadata.name.is_empty() {
        check_name(rule, &metadata.name, &here.field("name"), findings);
    }
    if !metadata.namespace.is_empty() {
        check_name(
            dns1123_label_errors,
            &metadata.namespace,
            &here.field("namespace"),
            findings,
        );
    }
    check_labels(&metadata.labels, &here.field("labels"), findings);
    let annotations = here.field("annotations");
    for key in metadata.annotations.keys() {
        let lower = key.to_ascii_lowercase();
        check_name(label_key_errors, &lower, &annotations.key(key), findings);
    }
    let controllers = metadata
        .owner_references
        .iter()
        .filter(|o| o.controller == Some(true));
    if controllers.count() > 1 {
        let message = "only one owner may have controller: true";
        findings.error(&here.field("ownerReferences"), message);
    }
}

fn check_name(rule: fn(&str) -> Vec<String>, name: &str, here: &Here<'_>, findings: &mut Findings) {
    let demands = rule(name);
    if !demands.is_empty() {
        findings.error(
            here,
            format!("{name:?} is not allowed: {}", demands.join("; ")),
        );
    }
}

fn check_labels(labels: &StringMap, here: &Here<'_>, findings: &mut Findings) {
    for (key, value) in labels {
        check_name(label_key_errors, key, &here.key(key), findings);
        check_name(label_value_errors, value, &here.key(key), findings);
    }
}

fn check_priority_class(class: &PriorityClass, here: &Here<'_>, findings: &mut Findings) {
    const USER_VALUE_MAX: i32 = 1_000_000_000;
    let name = &class.metadata.name;
    if name.starts_with("system-") {
        const BUILT_IN: [(&str, i32); 2] = [
            ("system-cluster-critical", 2_000_000_000),
            ("system-node-critical", 2_000_001_000),
        ];
        if !BUILT_IN.contains(&(name.as_str(), class.value)) {
            let metadata = here.field("metadata");
            let message = "names that begin with system- are reserved for the built-in classes";
            findings.error(&metadata.field("name"), message);
        }
    } else if class.value > USER_VALUE_MAX {
        let message = format!(
            "{} is out of range: must be at most {USER_VALUE_MAX}",
            class.value
        );
        findings.error(&here.field("value"), message);
    }
}

fn check_node(node: &Node, here: &Here<'_>, findings: &mut Findings) {
    let spec = here.field("spec");
    check_taints(&node.spec.taints, &spec.field("taints"), findings);
    let status = here.field("status");
    for (field, amounts) in [
        ("capacity", &node.status.capacity),
        ("allocatable", &node.status.allocatable),
    ] {
        let here = status.field(field);
        for (resource, amount) in amounts {
            check_amount(resource, amount, &here.key(resource), findings);
        }
    }
}

fn check_taints(taints: &[Taint], here: &Here<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let here = here.index(index);
        if !taint.key.is_empty() {
            check_name(label_key_errors, &taint.key, &here.field("key"), findings);
        }
        check_name(
            label_value_errors,
            &taint.value,
            &here.field("value"),
            findings,
        );
        if !seen.insert((&taint.key, &taint.effect)) {
            findings.error(&here, "a taint with this key and effect stands before it");
        }
    }
}

fn check_workload(
    selector: Option<&LabelSelector>,
    template: &PodTemplateSpec,
    claims: &[VolumeClaimTemplate],
    spec: &Here<'_>,
    findings: &mut Findings,
) {
    check_template(template, claims, spec, findings);
    check_selection(selector, template, spec, findings);
    if !matches!(template.spec.restart_policy.as_str(), "" | "Always") {
        let policy = &template.spec.restart_policy;
        let message = format!("{policy:?} is not allowed here: pods of this kind restart Always");
        let here = spec.field("template");
        let here = here.field("spec");
        findings.error(&here.field("restartPolicy"), message);
    }
}

fn check_selection(
    selector: Option<&LabelSelector>,
    template: &PodTemplateSpec,
    spec: &Here<'_>,
    findings: &mut Findings,
) {
    let here = spec.field("selector");
    let Some(selector) = selector else {
        findings.error(&here, "required field is missing or empty");
        return;
    };
    if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
        findings.error(
            &here,
            "must not be empty: it would select every pod of the namespace",
        );
        return;
    }
    let before = findings.0.len();
    check_selector(selector, &here, findings);
    if findings.0.len() == before && !selects(selector, &template.metadata.labels) {
        let template_here = spec.field("template");
        let metadata = template_here.field("metadata");
        findings.error(
            &metadata.field("labels"),
            "spec.selector does not select these labels",
        );
    }
}

fn check_stateful_set(set: &StatefulSetSpec, here: &Here<'_>, findings: &mut Findings) {
    let claims = &set.volume_claim_templates;
    check_workload(set.selector.as_ref(), &set.template, claims, here, findings);
    let templates = here.field("volumeClaimTemplates");
    let mut seen = BTreeSet::new();
    for (index, template) in claims.iter().enumerate() {
        let here = templates.index(index);
        let metadata = here.field("metadata");
        match template.metadata.name.as_str() {
            "" => findings.error(
                &metadata.field("name"),
                "required field is missing or empty",
            ),
            name => check_unique_name(name, &mut seen, &metadata, findings),
        }
        check_claim(&template.spec, &here.field("spec"), findings);
    }
}

fn check_job_template(template: &PodTemplateSpec, spec: &Here<'_>, findings: &mut Findings) {
    check_template(template, &[], spec, findings);
    if template.spec.restart_policy == "Always" {
        let here = spec.field("template");
        let here = here.field("spec");
        let message = "a Job needs OnFailure or Never (absent means Always)";
        findings.error(&here.field("restartPolicy"), message);
    }
}

/// Checks a template of pods that get a volume for each of `claims` besides their own.
fn check_template(
    template: &PodTemplateSpec,
    claims: &[VolumeClaimTemplate],
    spec: &Here<'_>,
    findings: &mut Findings,
) {
    let here = spec.field("template");
    let metadata = here.field("metadata");
    check_labels(
        &template.metadata.labels,
        &metadata.field("labels"),
        findings,
    );
    check_pod_spec(&template.spec, &here.field("spec"), findings);
    check_mounts(&template.spec, claims, &here.field("spec"), findings);
}

/// Whether a valid selector selects these labels.
fn selects(selector: &LabelSelector, labels: &StringMap) -> bool {
    let equal = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    let holds = |requirement: &LabelSelectorRequirement| {
        let value = labels.get(&requirement.key);
        match requirement.operator.as_str() {
            "In" => value.is_some_and(|value| requirement.values.contains(value)),
            "NotIn" => !value.is_some_and(|value| requirement.values.contains(value)),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    };
    selector.match_labels.iter().all(equal) && selector.match_expressions.iter().all(holds)
}

fn check_selector(selector: &LabelSelector, here: &Here<'_>, findings: &mut Findings) {
    check_labels(&selector.match_labels, &here.field("matchLabels"), findings);
    let here = here.field("matchExpressions");
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let here = here.index(index);
        let LabelSelectorRequirement {
            key,
            operator,
            values,
        } = requirement;
        check_values(operator, values, &here, findings);
        check_key_and_values(key, values, &here, findings);
    }
}

/// Whether an operator has as many values as it takes.
fn check_values(operator: &str, values: &[String], here: &Here<'_>, findings: &mut Findings) {
    let demand = match (operator, values.len()) {
        ("In" | "NotIn", 0) => "needs at least one value",
        ("Exists" | "DoesNotExist", 1..) => "takes no values",
        ("Gt" | "Lt", 0 | 2..) => "takes exactly one value",
        _ => return,
    };
    findings.error(
        &here.field("values"),
        format!("operator {operator} {demand}"),
    );
}

fn check_key_and_values(key: &str, values: &[String], here: &Here<'_>, findings: &mut Findings) {
    if !key.is_empty() {
        check_name(label_key_errors, key, &here.field("key"), findings);
    }
    let here = here.field("values");
    for (index, value) in values.iter().enumerate() {
        check_name(label_value_errors, value, &here.index(index), findings);
    }
}

fn check_pod(pod: &Pod, spec: &Here<'_>, findings: &mut Findings) {
    check_pod_spec(&pod.spec, spec, findings);
    check_mounts(&pod.spec, &[], spec, findings);
    if !pod.spec.host_network {
        return;
    }
    let containers = spec.field("containers");
    for (index, container) in pod.spec.containers.iter().enumerate() {
        let container_here = containers.index(index);
        let ports = container_here.field("ports");
        for (index, port) in container.ports.iter().enumerate() {
            if port.host_port != port.container_port {
                let here = ports.index(index);
                let message = "must equal containerPort when hostNetwork is true";
                findings.error(&here.field("hostPort"), message);
            }
        }
    }
}

fn check_pod_spec(pod: &PodSpec, here: &Here<'_>, findings: &mut Findings) {
    check_containers(pod, here, findings);
    check_volumes(pod, here, findings);
    check_labels(&pod.node_selector, &here.field("nodeSelector"), findings);
    for (field, name) in [
        ("nodeName", pod.node_name.as_str()),
        ("priorityClassName", &pod.priority_class_name),
        (
            "runtimeClassName",
            pod.runtime_class_name.as_deref().unwrap_or_default(),
        ),
    ] {
        if !name.is_empty() {
            check_name(dns1123_subdomain_errors, name, &here.field(field), findings);
        }
    }
    if let Some(affinity) = &pod.affinity {
        check_affinity(affinity, &here.field("affinity"), findings);
    }
    let tolerations = here.field("tolerations");
    for (index, toleration) in pod.tolerations.iter().enumerate() {
        check_toleration(toleration, &tolerations.index(index), findings);
    }
    let constraints = here.field("topologySpreadConstraints");
    check_spread(&pod.topology_spread_constraints, &constraints, findings);
    check_gates(pod, here, findings);
    let overhead = here.field("overhead");
    for (resource, amount) in &pod.overhead {
        check_amount(resource, amount, &overhead.key(resource), findings);
    }
    if let Some(resources) = &pod.resources {
        check_resources(
            resources,
            is_pod_level_resource,
            &here.field("resources"),
            findings,
        );
        check_container_limits(pod, resources, here, findings);
        check_whole_holds_containers(pod, resources, &here.field("resources"), findings);
    }
    if !pod.node_name.is_empty() && !pod.scheduling_gates.is_empty() {
        let message = "a pod with scheduling gates cannot be on a node";
        findings.error(&here.field("nodeName"), message);
    }
}

fn check_gates(pod: &PodSpec, here: &Here<'_>, findings: &mut Findings) {
    let here = here.field("schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, gate) in pod.scheduling_gates.iter().enumerate() {
        let here = here.index(index);
        if !gate.name.is_empty() {
            check_name(label_key_errors, &gate.name, &here.field("name"), findings);
        }
        if !seen.insert(&gate.name) {
            findings.error(
                &here.field("name"),
                format!("{:?} appears twice", gate.name),
            );
        }
    }
}

fn check_volumes(pod: &PodSpec, here: &Here<'_>, findings: &mut Findings) {
    let volumes = here.field("volumes");
    let mut seen = BTreeSet::new();
    for (index, volume) in pod.volumes.iter().enumerate() {
        let here = volumes.index(index);
        check_unique_name(&volume.name, &mut seen, &here, findings);
        let ephemeral = volume.ephemeral.as_ref();
        if let Some(template) = ephemeral.and_then(|it| it.volume_claim_template.as_ref()) {
            let here = here.field("ephemeral");
            let here = here.field("volumeClaimTemplate");
            check_claim(&template.spec, &here.field("spec"), findings);
        }
    }
}

/// Containers mount volumes of their pod, or those that their controller adds for `claims`.
fn check_mounts(
    pod: &PodSpec,
    claims: &[VolumeClaimTemplate],
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let added = claims.iter().map(|claim| claim.metadata.name.as_str());
    let own = pod.volumes.iter().map(|volume| volume.name.as_str());
    let known: BTreeSet<&str> = own.chain(added).collect();
    let lists = [
        ("containers", &pod.containers),
        ("initContainers", &pod.init_containers),
    ];
    for (field, containers) in lists {
        let list_here = here.field(field);
        for (index, container) in containers.iter().enumerate() {
            let container_here = list_here.index(index);
            let mounts_here = container_here.field("volumeMounts");
            for (index, mount) in container.volume_mounts.iter().enumerate() {
                let name = mount.name.as_str();
                if name.is_empty() || known.contains(name) {
                    continue;
                }
                let mount_here = mounts_here.index(index);
                let message = format!("the pod has no volume {name:?}");
                let near = nearest(name, known.iter().copied());
                let here = mount_here.field("name");
                findings.add(Severity::Error, &here, message, did_you_mean(near));
            }
        }
    }
}

fn check_volume(volume: &PersistentVolumeSpec, here: &Here<'_>, findings: &mut Findings) {
    let capacity = here.field("capacity");
    check_size(&volume.capacity, &capacity, findings);
    for resource in volume.capacity.keys().filter(|name| *name != "storage") {
        findings.error(
            &capacity.key(resource),
            "a volume has storage and nothing else",
        );
    }
    check_class_name(&volume.storage_class_name, here, findings);
    check_access_modes(&volume.access_modes, &here.field("accessModes"), findings);
    let affinity = here.field("nodeAffinity");
    let affinity = affinity.field("required");
    let terms = affinity.field("nodeSelectorTerms");
    let required = volume.node_affinity.iter().flat_map(|it| &it.required);
    for (index, term) in required.flat_map(|it| &it.node_selector_terms).enumerate() {
        check_node_term(term, true, &terms.index(index), findings);
    }
}

fn check_claim(claim: &PersistentVolumeClaimSpec, here: &Here<'_>, findings: &mut Findings) {
    let resources = here.field("resources");
    check_size(
        &claim.resources.requests,
        &resources.field("requests"),
        findings,
    );
    check_access_modes(&claim.access_modes, &here.field("accessModes"), findings);
    check_class_name(
        claim.storage_class_name.as_deref().unwrap_or_default(),
        here,
        findings,
    );
    if let Some(selector) = &claim.selector {
        check_selector(selector, &here.field("selector"), findings);
    }
}

fn check_class_name(name: &str, here: &Here<'_>, findings: &mut Findings) {
    if !name.is_empty() {
        let here = here.field("storageClassName");
        check_name(dns1123_subdomain_errors, name, &here, findings);
    }
}

fn check_storage_class(class: &StorageClass, here: &Here<'_>, findings: &mut Findings) {
    if !class.provisioner.is_empty() {
        let name = class.provisioner.to_lowercase();
        check_name(
            label_key_errors,
            &name,
            &here.field("provisioner"),
            findings,
        );
    }
    let topologies = here.field("allowedTopologies");
    for (index, term) in class.allowed_topologies.iter().enumerate() {
        let here = topologies.index(index);
        let here = here.field("matchLabelExpressions");
        let mut keys = BTreeSet::new();
        for (index, requirement) in term.match_label_expressions.iter().enumerate() {
            let here = here.index(index);
            if !keys.insert(&requirement.key) {
                let message = format!("{:?} appears twice", requirement.key);
                findings.error(&here.field("key"), message);
            }
            check_unique(&requirement.values, &here.field("values"), findings);
        }
    }
}

fn check_csi_node(node: &CSINode, here: &Here<'_>, findings: &mut Findings) {
    let drivers = here.field("drivers");
    let mut seen = BTreeSet::new();
    for (index, driver) in node.spec.drivers.iter().enumerate() {
        let here = drivers.index(index);
        if !seen.insert(driver.name.as_str()) {
            let message = format!("{:?} appears twice", driver.name);
            findings.error(&here.field("name"), message);
        }
        let keys = here.field("topologyKeys");
        check_unique(&driver.topology_keys, &keys, findings);
        for (index, key) in driver.topology_keys.iter().enumerate() {
            check_name(label_key_errors, key, &keys.index(index), findings);
        }
    }
}

fn check_unique(texts: &[String], here: &Here<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, text) in texts.iter().enumerate() {
        if !seen.insert(text) {
            findings.error(&here.index(index), format!("{text:?} appears twice"));
        }
    }
}

/// A volume has a size above zero.
fn check_size(amounts: &ResourceList, here: &Here<'_>, findings: &mut Findings) {
    match amounts.get("storage") {
        None => findings.error(&here.field("storage"), "required field is missing or empty"),
        Some(size) if *size <= Quantity::default() => {
            let message = format!("{size} is out of range: must be greater than 0");
            findings.error(&here.field("storage"), message);
        }
        Some(_) => {}
    }
}

fn check_access_modes(modes: &[String], here: &Here<'_>, findings: &mut Findings) {
    if let Some(index) = modes.iter().position(String::is_empty) {
        findings.error(&here.index(index), "must not be empty");
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let message = "ReadWriteOncePod cannot be combined with other access modes";
        findings.error(here, message);
    }
}

fn check_unique_name<'n>(
    name: &'n str,
    seen: &mut BTreeSet<&'n str>,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    if name.is_empty() {
        return;
    }
    check_name(dns1123_label_errors, name, &here.field("name"), findings);
    if !seen.insert(name) {
        findings.error(&here.field("name"), format!("{name:?} appears twice"));
    }
}

fn check_containers(pod: &PodSpec, here: &Here<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (field, containers) in [
        ("containers", &pod.containers),
        ("initContainers", &pod.init_containers),
    ] {
        let here = here.field(field);
        // Init containers run one after the other, but sidecars beside all others.
        let mut host_ports = BTreeSet::new();
        for (index, container) in containers.iter().enumerate() {
            let here = here.index(index);
            check_unique_name(&container.name, &mut seen, &here, findings);
            check_ports(container, &here, &mut host_ports, findings);
            let resources = here.field("resources");
            check_resources(
                &container.resources,
                is_container_resource,
                &resources,
                findings,
            );
        }
    }
}

fn check_ports<'p>(
    container: &'p Container,
    here: &Here<'_>,
    host_ports: &mut BTreeSet<(&'p str, &'p str, i32)>,
    findings: &mut Findings,
) {
    let here = here.field("ports");
    let mut port_names = BTreeSet::new();
    for (index, port) in container.ports.iter().enumerate() {
        let here = here.index(index);
        if !port.name.is_empty() {
            check_name(port_name_errors, &port.name, &here.field("name"), findings);
            if !port_names.insert(&port.name) {
                findings.error(
                    &here.field("name"),
                    format!("{:?} appears twice", port.name),
                );
            }
        }
        let ContainerPort {
            host_port,
            host_ip,
            protocol,
            ..
        } = port;
        if *host_port != 0 && !host_ports.insert((protocol, host_ip, *host_port)) {
            let message = format!("{protocol} port {host_port} is taken twice in this pod");
            findings.error(&here.field("hostPort"), message);
        }
    }
}

/// Whether a resource name may stand in a container.
fn is_container_resource(resource: &str) -> bool {
    match resource.split_once('/') {
        None => {
            matches!(resource, "cpu" | "memory" | "ephemeral-storage") || is_hugepages(resource)
        }
        Some((domain, _)) => {
            domain == "kubernetes.io"
                || domain.ends_with(".kubernetes.io")
                || !resource.starts_with("requests.")
        }
    }
}

/// Whether a resource name may stand in the resources of a pod as a whole.
fn is_pod_level_resource(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || is_hugepages(resource)
}

fn is_hugepages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Whether limits may be above requests for this resource: for the API's own, but not for
/// huge pages and extended resources.
fn may_overcommit(resource: &str) -> bool {
    let is_native = !resource.contains('/') || resource.contains("kubernetes.io/");
    is_native && !is_hugepages(resource)
}

fn check_resources(
    resources: &ResourceRequirements,
    is_allowed: fn(&str) -> bool,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let limits = here.field("limits");
    let requests = here.field("requests");
    for (here, amounts) in [
        (&limits, &resources.limits),
        (&requests, &resources.requests),
    ] {
        for (resource, amount) in amounts {
            let here = here.key(resource);
            check_resource_name(resource, is_allowed, &here, findings);
            check_amount(resource, amount, &here, findings);
            check_hugepages_amount(resource, amount, &here, findings);
        }
    }
    for (resource, request) in &resources.requests {
        let here = requests.key(resource);
        match resources.limits.get(resource) {
            Some(limit) if request > limit => {
                findings.error(
                    &here,
                    format!("request {request} is above the limit {limit}"),
                );
            }
            Some(limit) if request != limit && !may_overcommit(resource) => {
                findings.error(
                    &here,
                    format!("request {request} must equal the limit {limit}"),
                );
            }
            None if !may_overcommit(resource) => {
                findings.error(
                    &limits.key(resource),
                    "a limit is required for this resource",
                );
            }
            _ => {}
        }
    }
    check_hugepages_company(resources, here, findings);
}

fn check_resource_name(
    resource: &str,
    is_allowed: fn(&str) -> bool,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let demands = label_key_errors(resource);
    if !demands.is_empty() {
        let message = format!(
            "{resource:?} is not a resource name: {}",
            demands.join("; ")
        );
        findings.error(here, message);
    } else if !is_allowed(resource) {
        let message = format!("{resource:?} is not a resource that can be asked for here");
        findings.error(here, message);
    }
}

/// Whether an amount is not negative and, where only whole ones exist, whole.
fn check_amount(resource: &str, amount: &Quantity, here: &Here<'_>, findings: &mut Findings) {
    if *amount < Quantity::default() {
        findings.error(here, format!("{amount} is negative"));
    }
    let largest = match resource {
        "cpu" => Quantity::from_milli(i64::MAX, Format::DecimalSi),
        _ => Quantity::from_value(i64::MAX, Format::DecimalSi),
    };
    if *amount > largest {
        let message = format!("{amount} is more than can be counted; sums of it will be wrong");
        findings.add(Severity::Warning, here, message, Suggestion::None);
    }
    let is_extended = resource.contains('/') && !resource.contains("kubernetes.io/");
    if is_extended && !is_whole(amount) {
        findings.error(
            here,
            format!("{amount} is not whole, as {resource} must be"),
        );
    }
    if matches!(resource, "memory" | "ephemeral-storage") && !is_whole(amount) {
        let message = format!("{amount} is a fraction of a byte");
        let meant = amount
            .to_string()
            .strip_suffix('m')
            .map(|number| format!("{number}Mi"));
        let suggestion = meant.map_or(Suggestion::None, |meant| {
            Suggestion::Text(format!("did you mean {meant}?"))
        });
        findings.add(Severity::Warning, here, message, suggestion);
    }
}

fn is_whole(amount: &Quantity) -> bool {
    amount.milli_value() % 1000 == 0
}

fn check_hugepages_amount(
    resource: &str,
    amount: &Quantity,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let Some(size) = resource.strip_prefix("hugepages-") else {
        return;
    };
    let page_bytes = size
        .parse::<Quantity>()
        .map(|size| size.value())
        .unwrap_or_default();
    if page_bytes <= 0 {
        findings.error(here, format!("{size:?} is not a page size"));
    } else if amount.value() % page_bytes != 0 || !is_whole(amount) {
        findings.error(
            here,
            format!("{amount} is not a multiple of the page size {size}"),
        );
    }
}

fn check_hugepages_company(
    resources: &ResourceRequirements,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let amounts = [&resources.requests, &resources.limits];
    let any = |test: fn(&str) -> bool| {
        amounts
            .iter()
            .any(|amounts: &&ResourceList| amounts.keys().any(|name| test(name)))
    };
    if any(is_hugepages) && !any(|name| matches!(name, "cpu" | "memory")) {
        findings.error(here, "huge pages need cpu or memory beside them");
    }
}

/// Whether no container may use more than the pod as a whole.
fn check_container_limits(
    pod: &PodSpec,
    whole: &ResourceRequirements,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let containers = here.field("containers");
    for (index, container) in pod.containers.iter().enumerate() {
        let here = containers.index(index);
        let resources = here.field("resources");
        let limits = resources.field("limits");
        for (resource, limit) in &container.resources.limits {
            if whole
                .limits
                .get(resource)
                .is_some_and(|whole| limit > whole)
            {
                let message = format!("limit {limit} is above that of the pod as a whole");
                findings.error(&limits.key(resource), message);
            }
        }
    }
}

/// Whether the pod as a whole has at least what its containers have together.
fn check_whole_holds_containers(
    pod: &PodSpec,
    whole: &ResourceRequirements,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let requests = here.field("requests");
    for (resource, total) in containers_total(pod, |resources| &resources.requests) {
        if whole
            .requests
            .get(&resource)
            .is_some_and(|whole| total > *whole)
        {
            let message = format!("less than the {total} that the containers request together");
            findings.error(&requests.key(&resource), message);
        }
    }
    let limits = here.field("limits");
    for (resource, total) in containers_total(pod, |resources| &resources.limits) {
        let is_less = whole
            .limits
            .get(&resource)
            .is_some_and(|whole| total > *whole);
        if is_less && is_hugepages(&resource) {
            let message = format!("less than the {total} that the containers may use together");
            findings.error(&limits.key(&resource), message);
        }
    }
}

fn check_toleration(toleration: &Toleration, here: &Here<'_>, findings: &mut Findings) {
    let Toleration {
        key,
        operator,
        value,
        effect,
        toleration_seconds,
    } = toleration;
    if key.is_empty() && operator != "Exists" {
        let message = "without a key the operator must be Exists";
        findings.error(&here.field("operator"), message);
    }
    if !key.is_empty() {
        check_name(label_key_errors, key, &here.field("key"), findings);
    }
    if operator == "Exists" && !value.is_empty() {
        findings.error(&here.field("value"), "operator Exists takes no value");
    }
    if operator != "Exists" {
        check_name(label_value_errors, value, &here.field("value"), findings);
    }
    if toleration_seconds.is_some() && effect != "NoExecute" {
        let message = "must be NoExecute when tolerationSeconds is set";
        findings.error(&here.field("effect"), message);
    }
}

fn check_spread(
    constraints: &[TopologySpreadConstraint],
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let mut seen = BTreeSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let here = here.index(index);
        let action = constraint.when_unsatisfiable.as_str();
        if !seen.insert((constraint.topology_key.as_str(), action)) {
            let message =
                "a constraint with this topologyKey and whenUnsatisfiable stands before it";
            findings.error(&here, message);
        }
        if constraint.min_domains.is_some() && action == "ScheduleAnyway" {
            let message = "needs whenUnsatisfiable: DoNotSchedule";
            findings.error(&here.field("minDomains"), message);
        }
        if let Some(selector) = &constraint.label_selector {
            check_selector(selector, &here.field("labelSelector"), findings);
        } else {
            let message = "absent: no pods are counted, the constraint has no effect";
            findings.warning(&here.field("labelSelector"), message);
        }
        let keys = &constraint.match_label_keys;
        let selector = constraint.label_selector.as_ref();
        check_label_keys(keys, selector, &here.field("matchLabelKeys"), findings);
    }
}

/// Whether label keys that are taken from the incoming pod are valid and not selected on
/// already.
fn check_label_keys(
    keys: &[String],
    selector: Option<&LabelSelector>,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    for (index, key) in keys.iter().enumerate() {
        let here = here.index(index);
        check_name(label_key_errors, key, &here, findings);
        match selector {
            None => findings.error(&here, "needs a labelSelector"),
            Some(selector) => {
                let selected = selector.match_labels.contains_key(key)
                    || selector.match_expressions.iter().any(|one| one.key == *key);
                if selected {
                    findings.error(&here, "stands in labelSelector, too");
                }
            }
        }
    }
}

fn check_affinity(affinity: &Affinity, here: &Here<'_>, findings: &mut Findings) {
    if let Some(affinity) = &affinity.node_affinity {
        check_node_affinity(affinity, &here.field("nodeAffinity"), findings);
    }
    if let Some(affinity) = &affinity.pod_affinity {
        check_pod_affinity(affinity, &here.field("podAffinity"), findings);
    }
    if let Some(affinity) = &affinity.pod_anti_affinity {
        check_pod_affinity(affinity, &here.field("podAntiAffinity"), findings);
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn check_node_affinity(affinity: &NodeAffinity, here: &Here<'_>, findings: &mut Findings) {
    if let Some(required) = &affinity.required {
        let here = here.field(REQUIRED);
        let terms = here.field("nodeSelectorTerms");
        for (index, term) in required.node_selector_terms.iter().enumerate() {
            check_node_term(term, true, &terms.index(index), findings);
        }
    }
    let preferred = here.field(PREFERRED);
    for (index, term) in affinity.preferred.iter().enumerate() {
        let here = preferred.index(index);
        check_node_term(&term.preference, false, &here.field("preference"), findings);
    }
}

fn check_node_term(
    term: &NodeSelectorTerm,
    is_required: bool,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let expressions = here.field("matchExpressions");
    for (index, requirement) in term.match_expressions.iter().enumerate() {
        let here = expressions.index(index);
        let NodeSelectorRequirement {
            key,
            operator,
            values,
        } = requirement;
        check_values(operator, values, &here, findings);
        // The API lets preferences have values that no label can have.
        let values = if is_required { values.as_slice() } else { &[] };
        check_key_and_values(key, values, &here, findings);
    }
    let fields = here.field("matchFields");
    for (index, requirement) in term.match_fields.iter().enumerate() {
        check_node_field(requirement, &fields.index(index), findings);
    }
}

fn check_node_field(
    requirement: &NodeSelectorRequirement,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let NodeSelectorRequirement {
        key,
        operator,
        values,
    } = requirement;
    if !key.is_empty() && key != "metadata.name" {
        let message = format!("{key:?} is not a field of a node that can be matched");
        findings.error(&here.field("key"), message);
    }
    match operator.as_str() {
        "In" | "NotIn" if values.len() != 1 => {
            let message = format!("operator {operator} takes exactly one value for a field");
            findings.error(&here.field("values"), message);
        }
        "In" | "NotIn" | "" => {}
        _ => findings.error(&here.field("operator"), "must be In or NotIn for a field"),
    }
    let here = here.field("values");
    for (index, value) in values.iter().enumerate() {
        check_name(
            dns1123_subdomain_errors,
            value,
            &here.index(index),
            findings,
        );
    }
}

fn check_pod_affinity(affinity: &PodAffinity, here: &Here<'_>, findings: &mut Findings) {
    let required = here.field(REQUIRED);
    for (index, term) in affinity.required.iter().enumerate() {
        check_pod_term(term, &required.index(index), findings);
    }
    let preferred = here.field(PREFERRED);
    for (index, term) in affinity.preferred.iter().enumerate() {
        let here = preferred.index(index);
        check_pod_term(
            &term.pod_affinity_term,
            &here.field("podAffinityTerm"),
            findings,
        );
    }
}

fn check_pod_term(term: &PodAffinityTerm, here: &Here<'_>, findings: &mut Findings) {
    if !term.topology_key.is_empty() {
        let here = here.field("topologyKey");
        check_name(label_key_errors, &term.topology_key, &here, findings);
    }
    for (field, selector) in [
        ("labelSelector", &term.label_selector),
        ("namespaceSelector", &term.namespace_selector),
    ] {
        if let Some(selector) = selector {
            check_selector(selector, &here.field(field), findings);
        }
    }
    let namespaces = here.field("namespaces");
    for (index, namespace) in term.namespaces.iter().enumerate() {
        check_name(
            dns1123_label_errors,
            namespace,
            &namespaces.index(index),
            findings,
        );
    }
    let selector = term.label_selector.as_ref();
    let keys = here.field("matchLabelKeys");
    check_label_keys(&term.match_label_keys, selector, &keys, findings);
    let keys = here.field("mismatchLabelKeys");
    for (index, key) in term.mismatch_label_keys.iter().enumerate() {
        let here = keys.index(index);
        check_name(label_key_errors, key, &here, findings);
        if term.match_label_keys.contains(key) {
            findings.error(&here, "stands in matchLabelKeys, too");
        }
    }
}

/// What is wrong with the name of a port (`apimachinery/pkg/util/validation`).
fn port_name_errors(name: &str) -> Vec<String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let demands = [
        (name.len() <= 15, "must be no more than 15 characters"),
        (
            name.chars().all(|c| fits(c) || c == '-') && name.contains(|c: char| c.is_lowercase()),
            "must consist of lower case letters (at least one), digits and '-'",
        ),
        (
            name.starts_with(fits) && name.ends_with(fits) && !name.contains("--"),
            "must have '-' only one at a time and between other characters",
        ),
    ];
    let broken = demands.into_iter().filter(|(holds, _)| !holds);
    broken.map(|(_, demand)| demand.to_owned()).collect()
}
