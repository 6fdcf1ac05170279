//! What the server writes into objects of each kind itself, whatever their authors say.
//!
//! New objects have no status yet, but for what the server knows of it. Who writes an object
//! cannot write its status, and who writes the status cannot write anything else. Sources:
//! `PrepareForCreate` and `PrepareForUpdate` of the strategies in `pkg/registry`, Kubernetes 1.36.

use std::collections::{HashMap, VecDeque};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use outrank_api::decode::{Object, decode_value};
use outrank_api::defaults::select_pods_of_job;
use outrank_api::qos::computed_qos_class;
use outrank_api::resource_type::ResourceType;
use outrank_api::written_form::carry;
use serde_json::{Map, Value, json};

type Fields = Map<String, Value>;

/// Makes an object a new one, before its owners are noted.
pub(super) fn prepare_create(resource: &ResourceType, object: &mut Value, now: &str) {
    let Value::Object(fields) = object else {
        return;
    };
    let type_name = resource.type_name.unwrap_or_default();
    if resource.has_subresource("status") && type_name != "Node" {
        fields.remove("status");
    }
    match type_name {
        "PersistentVolume" => {
            let status = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
            fields.insert("status".to_owned(), status);
        }
        "PersistentVolumeClaim" => {
            fields.insert("status".to_owned(), json!({"phase": "Pending"}));
        }
        "Service" => list_cluster_address(fields),
        "Secret" => take_string_data(fields),
        "StatefulSet" => drop_max_unavailable(object, &Value::Null),
        _ => {}
    }
}

/// The number of pods of a StatefulSet that an update may make unavailable is for those who have
/// the gate `MaxUnavailableStatefulSet` on, which is off in 1.36; who had it before keeps it.
fn drop_max_unavailable(new: &mut Value, old: &Value) {
    let pointer = "/spec/updateStrategy/rollingUpdate";
    let was_used = old
        .pointer(pointer)
        .is_some_and(|it| !it["maxUnavailable"].is_null());
    if let Some(Value::Object(rolling)) = new.pointer_mut(pointer)
        && !was_used
    {
        rolling.remove("maxUnavailable");
    }
}

/// Writes what follows from the object as it has left the first phase of admission.
pub(super) fn finish_create(resource: &ResourceType, object: &mut Value, now: &str) {
    match resource.type_name.unwrap_or_default() {
        "Namespace" => finish_namespace(object),
        "Pod" => {
            select_by_own_labels(object);
            let quality = decode_value(object);
            if let Ok(Object::Pod(pod)) = quality {
                let class = computed_qos_class(&pod).name();
                object["status"] = json!({"phase": "Pending", "qosClass": class});
                if !pod.spec.scheduling_gates.is_empty() {
                    object["status"]["conditions"] = json!([held_by_gates(now)]);
                }
            }
        }
        "Job" => {
            if let Ok(mut typed @ Object::Job(_)) = decode_value(object) {
                let before = typed.to_value();
                if let Object::Job(job) = &mut typed {
                    select_pods_of_job(job);
                }
                carry(&before, &typed.to_value(), object);
            }
        }
        _ => {}
    }
}

/// What is told of a pod that nobody may schedule yet.
fn held_by_gates(now: &str) -> Value {
    json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastTransitionTime": now})
}

/// Puts back what cannot be written this way.
pub(super) fn prepare_update(
    resource: &ResourceType,
    subresource: &str,
    new: &mut Value,
    old: &Value,
) {
    match subresource {
        "" => prepare_whole(resource, new, old),
        "status" => prepare_status(resource, new, old),
        "resize" => {
            resize(new, old);
            put_back_metadata(new, old);
        }
        "ephemeralcontainers" => {
            let containers = new.pointer("/spec/ephemeralContainers").cloned();
            put_back_all_but(new, old, &["metadata"]);
            set_or_remove(&mut new["spec"], "ephemeralContainers", containers);
            put_back_metadata(new, old);
        }
        "finalize" => {
            let finalizers = new.pointer("/spec/finalizers").cloned();
            put_back_all_but(new, old, &["metadata"]);
            set_or_remove(&mut new["spec"], "finalizers", finalizers);
        }
        _ => {}
    }
}

fn prepare_whole(resource: &ResourceType, new: &mut Value, old: &Value) {
    if resource.has_subresource("status") {
        let status = old.get("status").cloned();
        set_or_remove(new, "status", status);
    }
    match resource.type_name.unwrap_or_default() {
        "Namespace" => {
            let finalizers = old.pointer("/spec/finalizers").cloned();
            if let Value::Object(fields) = new {
                fields.entry("spec").or_insert_with(|| json!({}));
            }
            set_or_remove(&mut new["spec"], "finalizers", finalizers);
        }
        "Secret" => {
            if let Value::Object(fields) = new {
                take_string_data(fields);
            }
        }
        "Service" => keep_addresses(new, old),
        "StatefulSet" => drop_max_unavailable(new, old),
        _ => {}
    }
}

/// A namespace is in use, holds itself until all that is in it is gone, and can be selected by its
/// name.
fn finish_namespace(namespace: &mut Value) {
    const NAME: &str = "kubernetes.io/metadata.name";
    namespace["status"] = json!({"phase": "Active"});
    let spec = &mut namespace["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    if !spec["finalizers"].is_array() {
        spec["finalizers"] = json!([]);
    }
    if let Value::Array(finalizers) = &mut spec["finalizers"]
        && !finalizers.contains(&json!("kubernetes"))
    {
        finalizers.push("kubernetes".into());
    }
    let name = namespace["metadata"]["name"].clone();
    let labels = &mut namespace["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    labels[NAME] = name;
}

fn prepare_status(resource: &ResourceType, new: &mut Value, old: &Value) {
    const OWNERS: &str = "ownerReferences";
    put_back_all_but(new, old, &["metadata", "status"]);
    let metadata = |name: &str| old.get("metadata").and_then(|it| it.get(name)).cloned();
    match resource.type_name {
        Some("Pod") => {
            set_or_remove(&mut new["metadata"], OWNERS, metadata(OWNERS));
            let class = old.pointer("/status/qosClass");
            if let (Some(class), Some(Value::Object(status))) = (class, new.get_mut("status")) {
                status.entry("qosClass").or_insert_with(|| class.clone());
            }
            keep_observed_generations(&mut new["status"], &old["status"]);
        }
        Some("Deployment") => {
            set_or_remove(&mut new["metadata"], "labels", metadata("labels"));
        }
        // Custom resources: nothing but the status, and who wrote it.
        None => {
            let managed = new.pointer("/metadata/managedFields").cloned();
            let version = new.pointer("/metadata/resourceVersion").cloned();
            let kept = old.get("metadata").cloned();
            set_or_remove(new, "metadata", kept);
            set_or_remove(&mut new["metadata"], "managedFields", managed);
            set_or_remove(&mut new["metadata"], "resourceVersion", version);
        }
        Some(_) => {}
    }
}

/// A status that does not say which generation of the pod it is about is about the one that it was
/// about, and so are its conditions, the first of a type with the first of that type.
fn keep_observed_generations(new: &mut Value, old: &Value) {
    const FIELD: &str = "observedGeneration";
    let said = |part: &Value| part[FIELD].as_i64().filter(|it| *it != 0);
    let keep = |part: &mut Value, before: Option<i64>| {
        if let (Value::Object(fields), Some(before)) = (part, before)
            && fields.get(FIELD).and_then(Value::as_i64).unwrap_or(0) == 0
        {
            fields.insert(FIELD.to_owned(), before.into());
        }
    };
    keep(new, said(old));
    let mut before: HashMap<&str, VecDeque<Option<i64>>> = HashMap::new();
    for condition in old["conditions"].as_array().into_iter().flatten() {
        let of_type = before.entry(condition["type"].as_str().unwrap_or_default());
        of_type.or_default().push_back(said(condition));
    }
    let conditions = new.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let of_type = before.get_mut(condition["type"].as_str().unwrap_or_default());
        let said = of_type.and_then(VecDeque::pop_front).flatten();
        keep(condition, said);
    }
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    if let Value::Object(fields) = object {
        match value {
            Some(value) => drop(fields.insert(field.to_owned(), value)),
            None => drop(fields.remove(field)),
        }
    }
}

/// Puts back all of an object but some of its fields.
fn put_back_all_but(new: &mut Value, old: &Value, kept: &[&str]) {
    let mut whole = old.clone();
    for field in kept {
        let value = new.get(*field).cloned();
        set_or_remove(&mut whole, field, value);
    }
    *new = whole;
}

/// Puts back the metadata that only writers of the whole object change.
fn put_back_metadata(new: &mut Value, old: &Value) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let value = old["metadata"].get(field).cloned();
        set_or_remove(&mut new["metadata"], field, value);
    }
}

/// Puts back all of a pod but the resources of its containers, told by name.
fn resize(new: &mut Value, old: &Value) {
    let written = new["spec"].clone();
    put_back_all_but(new, old, &["metadata"]);
    let spec = &mut new["spec"];
    for list in ["initContainers", "containers"] {
        let others = written[list].as_array().into_iter().flatten();
        let others = first_by_key(others, |it| it["name"].to_string());
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let Some(other) = others.get(&container["name"].to_string()) else {
                continue;
            };
            for field in ["resources", "resizePolicy"] {
                set_or_remove(container, field, other.get(field).cloned());
            }
        }
    }
}

/// The first element of each key.
fn first_by_key<'v>(
    elements: impl Iterator<Item = &'v Value>,
    key: impl Fn(&Value) -> String,
) -> HashMap<String, &'v Value> {
    let mut first = HashMap::new();
    for element in elements {
        first.entry(key(element)).or_insert(element);
    }
    first
}

/// A service's address stands in a field of old, too, where people write it.
fn list_cluster_address(fields: &mut Fields) {
    if let Some(Value::Object(spec)) = fields.get_mut("spec")
        && let Some(address) = spec.get("clusterIP").cloned()
    {
        spec.entry("clusterIPs").or_insert_with(|| json!([address]));
    }
}

/// An update that leaves out what the server gave to a service keeps it.
fn keep_addresses(new: &mut Value, old: &Value) {
    let has_address = |spec: &Value| spec["type"] != "ExternalName";
    let (Some(old), Some(new)) = (old.get("spec"), new.get_mut("spec")) else {
        return;
    };
    if !has_address(old) || !has_address(new) {
        return;
    }
    let Value::Object(new) = new else { return };
    let keep = |new: &mut Fields, fields: &[&str]| {
        for field in fields {
            if let Some(value) = old.get(*field) {
                new.entry(*field).or_insert_with(|| value.clone());
            }
        }
    };
    keep(new, &["clusterIP"]);
    if new.get("clusterIP") == old.get("clusterIP") {
        keep(new, &["clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    } else if let Some(address) = new.get("clusterIP").cloned() {
        new.insert("clusterIPs".to_owned(), json!([address]));
    }
    let opens_nodes = |kind: Option<&Value>| {
        kind.is_some_and(|kind| kind == "NodePort" || kind == "LoadBalancer")
    };
    if opens_nodes(new.get("type")) && opens_nodes(old.get("type")) {
        let ports = new.get_mut("ports").and_then(Value::as_array_mut);
        let old_ports = old.get("ports").and_then(Value::as_array);
        let key = |port: &Value| format!("{} {}", port["port"], port["protocol"]);
        let old_ports = first_by_key(old_ports.into_iter().flatten(), key);
        for port in ports.into_iter().flatten() {
            let other = old_ports.get(&key(port));
            let node_port = other.and_then(|other| other.get("nodePort")).cloned();
            if let (Some(node_port), Value::Object(port)) = (node_port, port) {
                port.entry("nodePort").or_insert(node_port);
            }
        }
    }
}

/// Data of a secret that people write as text is kept as all of it is: in base64.
fn take_string_data(fields: &mut Fields) {
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    let data = fields.entry("data").or_insert_with(|| json!({}));
    if let Value::Object(data) = data {
        for (key, text) in texts {
            let bytes = text.as_str().unwrap_or_default().as_bytes();
            data.insert(key, BASE64.encode(bytes).into());
        }
    }
}

/// Label keys whose values are those of the pod become requirements of the selectors that they
/// belong to.
fn select_by_own_labels(pod: &mut Value) {
    let labels = pod.pointer("/metadata/labels").cloned().unwrap_or_default();
    let Some(spec) = pod.get_mut("spec") else {
        return;
    };
    let constraints = spec.get_mut("topologySpreadConstraints");
    let constraints = constraints.and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        require(constraint, "matchLabelKeys", "In", &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.pointer_mut(&format!("/affinity/{kind}")) else {
            continue;
        };
        for list in [
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ] {
            let terms = affinity.get_mut(list).and_then(Value::as_array_mut);
            for term in terms.into_iter().flatten() {
                let term = match term.get("podAffinityTerm") {
                    Some(_) => &mut term["podAffinityTerm"],
                    None => term,
                };
                require(term, "matchLabelKeys", "In", &labels);
                require(term, "mismatchLabelKeys", "NotIn", &labels);
            }
        }
    }
}

fn require(term: &mut Value, keys: &str, operator: &str, labels: &Value) {
    let keys = term.get(keys).and_then(Value::as_array).cloned();
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else {
        return;
    };
    let keys = keys.into_iter().flatten();
    for key in keys {
        let value = key.as_str().and_then(|key| labels.get(key));
        if let Some(value) = value {
            let requirement = json!({"key": key, "operator": operator, "values": [value]});
            let list = selector
                .entry("matchExpressions")
                .or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(requirement);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(api_version: &str, kind: &str) -> &'static ResourceType {
        ResourceType::of_kind(api_version, kind).expect("a kind")
    }

    #[test]
    fn text_of_secrets_becomes_data() {
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"a": "y", "b": "z"}});
        prepare_create(of("v1", "Secret"), &mut secret, "");
        assert_eq!(secret, json!({"data": {"a": "eQ==", "b": "eg=="}}));
    }

    #[test]
    fn each_half_is_written_by_itself() {
        let old = json!({"metadata": {"name": "p"}, "spec": {"a": 1}, "status": {"qosClass": "x"}});
        let new = json!({"metadata": {"name": "p", "labels": {"l": "m"}}, "spec": {"a": 2},
                         "status": {"phase": "Running"}});
        let pods = of("v1", "Pod");
        let mut whole = new.clone();
        prepare_update(pods, "", &mut whole, &old);
        assert_eq!(
            (&whole["spec"], &whole["status"]),
            (&new["spec"], &old["status"])
        );
        let mut status = new;
        prepare_update(pods, "status", &mut status, &old);
        assert_eq!(status["spec"], old["spec"]);
        assert_eq!(
            status["status"],
            json!({"phase": "Running", "qosClass": "x"})
        );
        assert_eq!(status["metadata"]["labels"]["l"], "m");
    }

    #[test]
    fn a_service_keeps_what_it_was_given() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}]}});
        let mut new =
            json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}});
        prepare_update(of("v1", "Service"), "", &mut new, &old);
        assert_eq!(new["spec"], old["spec"]);
    }

    #[test]
    fn a_stateful_set_has_no_new_number_of_unavailable_pods() {
        let set = |rolling: Value| json!({"spec": {"updateStrategy": {"rollingUpdate": rolling}}});
        let after = |old: Value| {
            let mut new = set(json!({"partition": 1, "maxUnavailable": 2}));
            drop_max_unavailable(&mut new, &old);
            new
        };
        let without = set(json!({"partition": 1}));
        assert_eq!(after(Value::Null), without);
        assert_eq!(after(without.clone()), without);
        let with = set(json!({"partition": 1, "maxUnavailable": 2}));
        assert_eq!(after(with.clone()), with);
    }

    #[test]
    fn keys_of_the_pod_become_requirements() {
        let mut pod = json!({"metadata": {"labels": {"v": "1"}}, "spec": {
            "containers": [], "topologySpreadConstraints":
                [{"labelSelector": {}, "matchLabelKeys": ["v", "other"]}]}});
        select_by_own_labels(&mut pod);
        assert_eq!(
            pod.pointer("/spec/topologySpreadConstraints/0/labelSelector/matchExpressions"),
            Some(&json!([{"key": "v", "operator": "In", "values": ["1"]}]))
        );
    }
}
