//! What the API server fills in when a field is absent, for whole objects as JSON.
//!
//! Most defaults are a table, `schema/defaults.txt`. Those that depend on other fields are here,
//! by the type they belong to. A type is defaulted before what is inside it, as upstream does it.
//! The typed defaults of the parent module say the same of the fields that decisions read.
//!
//! Sources: `pkg/apis/{core,apps,batch,autoscaling,networking,rbac,resource}/*/defaults.go`,
//! `pkg/apis/core/v1/conversion.go`; Kubernetes 1.36.

use serde_json::{Map, Value, json};

use crate::fields_of::{FieldsOf, object_in, quantity_of};
use crate::resource_type::ResourceType;
use crate::schema::{self, FieldType};
use crate::types::PodSpec;

type Fields = Map<String, Value>;

/// Fills in what is absent from an object of a built-in type. The object is to be
/// [tidy](crate::written_form::tidy). Defaulting twice changes nothing.
///
/// ```
/// use outrank_api::decode::ObjectKind;
/// use outrank_api::defaults::fill_in;
/// use serde_json::json;
///
/// let mut claim = json!({"spec": {"accessModes": ["ReadWriteOnce"]}});
/// fill_in(ObjectKind::PersistentVolumeClaim.into(), &mut claim);
/// assert_eq!(claim["spec"]["volumeMode"], "Filesystem");
/// ```
pub fn fill_in(resource: &ResourceType, object: &mut Value) {
    if let (Some(type_name), Value::Object(fields)) = (resource.type_name, object) {
        fill_in_fields(type_name, fields);
    }
}

fn fill_in_fields(type_name: &str, fields: &mut Fields) {
    by_type(type_name, fields);
    for (name, value) in schema::defaults_of(type_name) {
        fields.entry(*name).or_insert_with(|| value.clone());
    }
    after_table(type_name, fields);
    for name in schema::present_fields(type_name) {
        // What is always there has its own defaults.
        if let Some(field) = schema::field(type_name, name)
            && matches!(field.field_type, FieldType::Object(_))
            && !field.is_pointer
        {
            fields.entry(*name).or_insert_with(|| json!({}));
        }
    }
    for (name, value) in fields {
        if let Some(field) = schema::field(type_name, name) {
            fill_in_value(type_name, &field.field_type, value);
        }
    }
}

fn fill_in_value(type_name: &str, field_type: &FieldType, value: &mut Value) {
    match (field_type, value) {
        (FieldType::Object(inner), Value::Object(fields)) => fill_in_fields(inner, fields),
        (FieldType::List(element_type), Value::Array(elements)) => {
            let elements = elements.iter_mut();
            elements.for_each(|element| fill_in_value(type_name, element_type, element));
        }
        (FieldType::Map(value_type), Value::Object(entries)) => {
            let round = **value_type == FieldType::Quantity && !FINE_AMOUNTS.contains(&type_name);
            for value in entries.values_mut() {
                match round {
                    true => round_up_to_milli(value),
                    false => fill_in_value(type_name, value_type, value),
                }
            }
        }
        _ => {}
    }
}

/// Types whose amounts are kept as finely as they were written.
const FINE_AMOUNTS: [&str; 2] = ["CapacityRequirements", "DeviceRequestAllocationResult"];

fn round_up_to_milli(amount: &mut Value) {
    const MILLI: i32 = -3;
    if let Some(mut quantity) = quantity_of(amount)
        && !quantity.round_up(MILLI)
    {
        *amount = quantity.to_string().into();
    }
}

/// Defaults that come before those of the table.
fn by_type(type_name: &str, fields: &mut Fields) {
    match type_name {
        "Container" | "EphemeralContainer" => pull_policy(fields, "image", "imagePullPolicy"),
        "ImageVolumeSource" => pull_policy(fields, "reference", "pullPolicy"),
        "DeploymentStrategy" | "DaemonSetUpdateStrategy" => rolling_update(fields, true),
        "ExactDeviceRequest" | "DeviceSubRequest" => device_count(fields),
        "Job" => job(fields),
        "LimitRangeItem" => limit_range_item(fields),
        "Namespace" => namespace(fields),
        "NetworkPolicySpec" => network_policy(fields),
        "NodeSpec" => node_addresses(fields),
        "NodeStatus" => allocatable(fields),
        "PodSpec" => pod_spec(fields),
        "ReplicationController" => replication_controller(fields),
        "ServicePort" => target_port(fields),
        "StatefulSetUpdateStrategy" => rolling_update(fields, false),
        "Volume" => volume_source(fields),
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaler(fields),
        "rbac.v1.Subject" => subject(fields),
        _ => {}
    }
}

/// Defaults that rest on those of the table.
fn after_table(type_name: &str, fields: &mut Fields) {
    match type_name {
        "Pod" => pod(fields),
        "ServiceSpec" => service(fields),
        _ => {}
    }
}

fn text<'f>(fields: &'f Fields, name: &str) -> &'f str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn set_if_absent(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    fields.entry(name).or_insert_with(|| value.into());
}

/// An image without a tag or with `latest` is always looked for; one with a digest is not.
fn pull_policy(fields: &mut Fields, image: &str, policy: &str) {
    if !fields.contains_key(policy) {
        let is_latest = tag_of(text(fields, image)) == "latest";
        let value = if is_latest { "Always" } else { "IfNotPresent" };
        fields.insert(policy.to_owned(), value.into());
    }
}

/// The tag of an image, as far as it matters: `latest` if it has neither tag nor digest.
fn tag_of(image: &str) -> &str {
    let (name, has_digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), has_digest) {
        (Some((_, tag)), _) => tag,
        (None, false) if !image.is_empty() => "latest",
        (None, _) => "",
    }
}

/// `even_if_named`: also where the type is given, not only where it is the default.
fn rolling_update(fields: &mut Fields, even_if_named: bool) {
    const ROLLING: &str = "RollingUpdate";
    let given = text(fields, "type");
    if given.is_empty() || even_if_named && given == ROLLING {
        set_if_absent(fields, "rollingUpdate", json!({}));
    }
}

fn device_count(fields: &mut Fields) {
    if matches!(text(fields, "allocationMode"), "" | "ExactCount") {
        set_if_absent(fields, "count", 1);
    }
}

fn labels_of_template(fields: &Fields) -> Option<Value> {
    let labels = fields.get("spec")?.get("template")?.get("metadata")?;
    labels.part("labels").cloned()
}

fn label_if_bare(fields: &mut Fields, labels: Value) {
    if let Some(metadata) = object_in(fields, "metadata") {
        set_if_absent(metadata, "labels", labels);
    }
}

fn job(fields: &mut Fields) {
    let labels = labels_of_template(fields);
    if let Some(spec) = object_in(fields, "spec") {
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            spec.insert("completions".to_owned(), 1.into());
        }
        set_if_absent(spec, "parallelism", 1);
        let per_index = spec.contains_key("backoffLimitPerIndex");
        let limit = if per_index { i32::MAX } else { 6 };
        set_if_absent(spec, "backoffLimit", limit);
        set_if_absent(spec, "completionMode", "NonIndexed");
        set_if_absent(spec, "suspend", false);
        set_if_absent(spec, "manualSelector", false);
        let replaced_when = match spec.contains_key("podFailurePolicy") {
            true => "Failed",
            false => "TerminatingOrFailed",
        };
        set_if_absent(spec, "podReplacementPolicy", replaced_when);
    }
    if let Some(labels) = labels {
        label_if_bare(fields, labels);
    }
}

fn replication_controller(fields: &mut Fields) {
    if let Some(labels) = labels_of_template(fields) {
        if let Some(spec) = object_in(fields, "spec") {
            set_if_absent(spec, "selector", labels.clone());
        }
        label_if_bare(fields, labels);
    }
}

/// What containers get that do not say: the largest limit, and as request the limit or else the
/// smallest request.
fn limit_range_item(fields: &mut Fields) {
    if text(fields, "type") != "Container" {
        return;
    }
    for (from, to) in [
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ] {
        let amounts = fields.get(from).and_then(Value::as_object).cloned();
        if let Some(amounts) = amounts
            && let Some(target) = object_in(fields, to)
        {
            add_missing(target, amounts);
        }
    }
}

fn add_missing(target: &mut Fields, amounts: Fields) {
    for (name, amount) in amounts {
        target.entry(name).or_insert(amount);
    }
}

fn namespace(fields: &mut Fields) {
    if let Some(metadata) = object_in(fields, "metadata") {
        let name = text(metadata, "name").to_owned();
        if !name.is_empty()
            && let Some(labels) = object_in(metadata, "labels")
        {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
        }
    }
}

fn network_policy(fields: &mut Fields) {
    if !fields.contains_key("policyTypes") {
        let has_egress = fields.contains_key("egress");
        let egress = has_egress.then_some("Egress");
        let types: Vec<&str> = ["Ingress"].into_iter().chain(egress).collect();
        fields.insert("policyTypes".to_owned(), json!(types));
    }
}

/// The addresses of a node's pods stand in a field of today and in one of old.
fn node_addresses(fields: &mut Fields) {
    let first = fields.get("podCIDRs").and_then(|all| all.get(0)).cloned();
    match (fields.get("podCIDR").cloned(), first) {
        (Some(one), None) => {
            fields.insert("podCIDRs".to_owned(), json!([one]));
        }
        (None, Some(first)) => {
            fields.insert("podCIDR".to_owned(), first);
        }
        _ => {}
    }
}

/// Pods may use all that there is, if nothing else is said.
fn allocatable(fields: &mut Fields) {
    if let Some(capacity) = fields.get("capacity").cloned() {
        fields.entry("allocatable").or_insert(capacity);
    }
}

fn pod_spec(fields: &mut Fields) {
    if let Some(grace) = fields.get_mut("terminationGracePeriodSeconds")
        && grace.as_i64().is_some_and(|grace| grace < 0)
    {
        *grace = 1.into();
    }
    mirror_service_account(fields);
}

/// The service account stands in a field of today and in one of old.
fn mirror_service_account(fields: &mut Fields) {
    const NEW: &str = "serviceAccountName";
    const OLD: &str = "serviceAccount";
    let account = fields.get(NEW).or_else(|| fields.get(OLD)).cloned();
    if let Some(account) = account {
        fields.insert(NEW.to_owned(), account.clone());
        fields.insert(OLD.to_owned(), account);
    }
}

fn pod(fields: &mut Fields) {
    let Some(spec) = object_in(fields, "spec") else {
        return;
    };
    set_if_absent(spec, "enableServiceLinks", true);
    let is_on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            request_limits(container);
            if is_on_host {
                open_ports_on_host(container);
            }
        }
    }
    if spec.contains_key("resources") {
        whole_pod_resources(spec);
    }
}

/// Requests that a container does not name are its limits.
fn request_limits(container: &mut Value) {
    let limits = container.get("resources").and_then(|it| it.get("limits"));
    let Some(Value::Object(limits)) = limits.cloned() else {
        return;
    };
    let resources = container
        .get_mut("resources")
        .and_then(Value::as_object_mut);
    if let Some(requests) = resources.and_then(|it| object_in(it, "requests")) {
        add_missing(requests, limits);
    }
}

fn open_ports_on_host(container: &mut Value) {
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if let Value::Object(port) = port
            && let Some(number) = port.get("containerPort").cloned()
        {
            port.entry("hostPort").or_insert(number);
        }
    }
}

/// The resources of the pod as a whole follow from those of its containers.
fn whole_pod_resources(spec: &mut Fields) {
    let typed = serde_json::from_value::<PodSpec>(Value::Object(spec.clone()));
    let Ok(mut typed) = typed else { return };
    super::default_pod_level_resources(&mut typed);
    let (Some(resources), Some(target)) = (typed.resources, object_in(spec, "resources")) else {
        return;
    };
    for (name, amounts) in [
        ("requests", resources.requests),
        ("limits", resources.limits),
    ] {
        if !amounts.is_empty() {
            target.insert(name.to_owned(), json!(amounts));
        }
    }
}

/// A volume without a source is an empty directory.
fn volume_source(fields: &mut Fields) {
    if fields.keys().all(|name| name == "name") {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
}

fn target_port(fields: &mut Fields) {
    let is_given = match fields.get("targetPort") {
        Some(Value::Number(number)) => number.as_i64() != Some(0),
        Some(Value::String(name)) => !name.is_empty(),
        _ => false,
    };
    if !is_given && let Some(port) = fields.get("port").cloned() {
        fields.insert("targetPort".to_owned(), port);
    }
}

/// How long clients stay with one pod, in seconds, if they do at all.
const CLIENT_AFFINITY_SECONDS: i32 = 10_800;

fn service(fields: &mut Fields) {
    match text(fields, "sessionAffinity") {
        "None" => {
            fields.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = fields.get("sessionAffinityConfig");
            let timeout = config.and_then(|it| it.pointer("/clientIP/timeoutSeconds"));
            if timeout.is_none() {
                let config = json!({"clientIP": {"timeoutSeconds": CLIENT_AFFINITY_SECONDS}});
                fields.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
    let service_type = text(fields, "type").to_owned();
    let is_inside = service_type == "ClusterIP";
    let is_balanced = service_type == "LoadBalancer";
    let is_outside = matches!(service_type.as_str(), "NodePort" | "LoadBalancer");
    if is_outside || is_inside && fields.contains_key("externalIPs") {
        set_if_absent(fields, "externalTrafficPolicy", "Cluster");
    }
    if is_inside || is_outside {
        set_if_absent(fields, "internalTrafficPolicy", "Cluster");
    }
    if is_balanced {
        set_if_absent(fields, "allocateLoadBalancerNodePorts", true);
    }
}

fn autoscaler(fields: &mut Fields) {
    if !fields.contains_key("metrics") {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        fields.insert("metrics".to_owned(), json!([metric]));
    }
    let Some(behavior) = fields.get_mut("behavior").and_then(Value::as_object_mut) else {
        return;
    };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(up) = object_in(behavior, "scaleUp") {
        set_if_absent(up, "stabilizationWindowSeconds", 0);
        set_if_absent(up, "selectPolicy", "Max");
        set_if_absent(up, "policies", json!([pods, percent]));
    }
    if let Some(down) = object_in(behavior, "scaleDown") {
        set_if_absent(down, "selectPolicy", "Max");
        set_if_absent(down, "policies", json!([percent]));
    }
}

/// Users and groups belong to the API group of RBAC, service accounts to the core group.
fn subject(fields: &mut Fields) {
    if matches!(text(fields, "kind"), "User" | "Group") {
        set_if_absent(fields, "apiGroup", "rbac.authorization.k8s.io");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_are_always_pulled() {
        for (image, tag) in [
            ("nginx", "latest"),
            ("nginx:latest", "latest"),
            ("registry.example:5000/nginx", "latest"),
            ("registry.example:5000/nginx:1.2", "1.2"),
            ("nginx@sha256:ab", ""),
            ("nginx:latest@sha256:ab", "latest"),
            ("", ""),
        ] {
            assert_eq!(tag_of(image), tag, "{image}");
        }
    }

    #[test]
    fn kinds_that_decisions_do_not_read_are_defaulted_too() {
        for (api_version, kind, object, pointer, expected) in [
            ("v1", "Secret", json!({}), "/type", json!("Opaque")),
            (
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                json!({"subjects": [{"kind": "User", "name": "u"}], "roleRef": {}}),
                "/subjects/0/apiGroup",
                json!("rbac.authorization.k8s.io"),
            ),
            (
                "networking.k8s.io/v1",
                "NetworkPolicy",
                json!({"spec": {"podSelector": {}, "egress": [{}]}}),
                "/spec/policyTypes",
                json!(["Ingress", "Egress"]),
            ),
            (
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                json!({"spec": {"behavior": {}}}),
                "/spec/behavior/scaleDown/selectPolicy",
                json!("Max"),
            ),
            (
                "v1",
                "Service",
                json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
                "/spec/ports/0/targetPort",
                json!(80),
            ),
        ] {
            let resource = ResourceType::of_kind(api_version, kind).expect("a kind");
            let mut defaulted = object;
            fill_in(resource, &mut defaulted);
            let once = defaulted.clone();
            fill_in(resource, &mut defaulted);
            assert_eq!(defaulted, once, "{kind}: defaulting twice changes nothing");
            assert_eq!(once.pointer(pointer), Some(&expected), "{kind}: {once}");
        }
    }
}
