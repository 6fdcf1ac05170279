//! What may become of objects that are there: which of their fields are immutable.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::errors::Errors;
use super::{further_kinds, job, node, of_kind, pod_update, quota, service};
use crate::diagnostic::Here;
use crate::field_error::FieldError;
use crate::fields_of::{FieldsOf, quantity_of};
use crate::metadata;
use crate::quantity::Quantity;
use crate::resource_type::ResourceType;
use crate::types::ObjectMeta;

/// What is wrong with an object that comes in the place of another one, written through a
/// subresource (`status`, ...) or, if that is empty, as such. What cannot be written this way is
/// taken to be as it was.
///
/// ```
/// use outrank_api::decode::ObjectKind;
/// use outrank_api::validation::update_errors;
/// use serde_json::json;
///
/// let class = |provisioner: &str| {
///     json!({"metadata": {"name": "fast", "resourceVersion": "1"},
///            "provisioner": provisioner, "volumeBindingMode": "Immediate"})
/// };
/// let (new, old) = (class("b"), class("a"));
/// let errors = update_errors(ObjectKind::StorageClass.into(), "", &new, &old);
/// assert_eq!(
///     errors[0].to_string(),
///     "provisioner: Forbidden: updates to provisioner are forbidden.",
/// );
/// ```
pub fn update_errors(
    resource: &ResourceType,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let metadata_of = |object: &Value| -> ObjectMeta {
        let metadata = object.part("metadata").cloned().unwrap_or_default();
        serde_json::from_value(metadata).unwrap_or_default()
    };
    let (after, before) = (metadata_of(new), metadata_of(old));
    let is_namespaced = resource.is_namespaced;
    let mut errors = Errors(metadata::validate_update(&after, &before, is_namespaced));
    match subresource {
        "" => of_object(resource, new, old, &mut errors),
        "status" => of_status(resource, new, old, &mut errors),
        "resize" => pod_update::resize(new, old, &mut errors),
        "ephemeralcontainers" => ephemeral_containers(new, old, &mut errors),
        _ => {}
    }
    errors.0
}

fn of_object(resource: &ResourceType, new: &Value, old: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let new_spec = new.part("spec").cloned().unwrap_or_default();
    match resource.type_name.unwrap_or_default() {
        "Pod" => super::pod::stored_pod(new, errors),
        "Node" => node::stored_node(new, errors),
        "Namespace" => {}
        "Job" => job::stored_job(&new_spec, &here, errors),
        "ResourceQuota" => quota::quota(&new_spec, &here, errors),
        _ => of_kind(resource, new, errors),
    }
    immutable_fields(resource, new, old, errors);
}

/// What of an object cannot become of another one.
pub(crate) fn changes_refused(
    resource: &ResourceType,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut errors = Errors::default();
    immutable_fields(resource, new, old, &mut errors);
    errors.0
}

fn immutable_fields(resource: &ResourceType, new: &Value, old: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let spec = |object: &Value| object.part("spec").cloned().unwrap_or_default();
    let (new_spec, old_spec) = (spec(new), spec(old));
    match resource.type_name.unwrap_or_default() {
        "Pod" => pod_update::pod_changes(new, old, errors),
        "Node" => node::node_changes(&new_spec, &old_spec, errors),
        "Deployment" | "ReplicaSet" | "DaemonSet" => {
            errors.immutable(&new_spec, &old_spec, "selector", &here);
        }
        "StatefulSet" => stateful_set(&new_spec, &old_spec, &here, errors),
        "Job" => job_update(&new_spec, &old_spec, &here, errors),
        "ControllerRevision" => further_kinds::unchanged(new, old, &["data"], errors),
        "Service" => service::service_update(&new_spec, &old_spec, &here, errors),
        "PersistentVolume" => volume(&new_spec, &old_spec, errors),
        "PersistentVolumeClaim" => claim(new, old, errors),
        "StorageClass" => storage_class(new, old, errors),
        "CSIDriver" => {
            for field in ["attachRequired", "fsGroupPolicy", "volumeLifecycleModes"] {
                errors.immutable(&new_spec, &old_spec, field, &here);
            }
        }
        "CSIStorageCapacity" => {
            let fields = ["nodeTopology", "storageClassName"];
            further_kinds::unchanged(new, old, &fields, errors);
        }
        "VolumeAttachment" => further_kinds::unchanged_spec(new, old, errors),
        "ResourceQuota" => quota::same_scopes(&new_spec, &old_spec, &here, errors),
        "RuntimeClass" => further_kinds::unchanged(new, old, &["handler"], errors),
        "Secret" => {
            further_kinds::unchanged(new, old, &["type"], errors);
            further_kinds::data_update(new, old, errors);
        }
        "ConfigMap" => further_kinds::data_update(new, old, errors),
        "EndpointSlice" => further_kinds::unchanged(new, old, &["addressType"], errors),
        "RoleBinding" | "ClusterRoleBinding" => {
            further_kinds::role_binding_update(new, old, errors);
        }
        _ => {}
    }
}

fn of_status(resource: &ResourceType, new: &Value, old: &Value, errors: &mut Errors) {
    const COUNTS: [&str; 18] = [
        "replicas",
        "fullyLabeledReplicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "currentReplicas",
        "observedGeneration",
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "numberAvailable",
        "numberUnavailable",
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ];
    let here = Here::OBJECT.field("status");
    let status = |object: &Value| object.part("status").cloned().unwrap_or_default();
    let (new_status, old_status) = (status(new), status(old));
    match resource.type_name.unwrap_or_default() {
        "Pod" => {
            errors.immutable(&new_status, &old_status, "qosClass", &here);
            terminated_containers(new, old, &here, errors);
        }
        "Node" => node::stored_node(new, errors),
        "ResourceQuota" => quota::quota_status(&new_status, &here, errors),
        "Namespace" => phase(new, &new_status, &here, errors),
        "Deployment"
        | "ReplicaSet"
        | "ReplicationController"
        | "StatefulSet"
        | "DaemonSet"
        | "PodDisruptionBudget" => {
            for field in COUNTS {
                errors.not_negative(&new_status, field, &here);
            }
            if let Some(replicas) = new_status.number("replicas") {
                let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
                for field in parts {
                    if let Some(part) = new_status.number(field)
                        && part > replicas
                    {
                        let rule = "cannot be greater than status.replicas";
                        errors.invalid(&here.field(field), part, rule);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Containers that have ended for good do not come back.
fn terminated_containers(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    let policy = old.pointer("/spec/restartPolicy").and_then(Value::as_str);
    if matches!(policy, None | Some("Always")) {
        return;
    }
    let statuses = |pod: &Value| -> Vec<Value> {
        let status = pod.part("status");
        status.map_or(Vec::new(), |it| it.list("containerStatuses").to_vec())
    };
    let list = here.field("containerStatuses");
    let new = statuses(new);
    let running = new.iter();
    let running = running.filter(|it| it.pointer("/state/terminated").is_none());
    let running: BTreeSet<&str> = running.map(|it| it.text("name")).collect();
    for (index, status) in statuses(old).iter().enumerate() {
        let Some(ended) = status.pointer("/state/terminated") else {
            continue;
        };
        let failed = ended.number("exitCode").unwrap_or(0) != 0;
        if failed && policy == Some("OnFailure") {
            continue;
        }
        let name = status.text("name");
        if running.contains(name) {
            let here = list.index(index);
            let detail = "may not be transitioned to non-terminated state";
            errors.forbidden(&here.field("state"), detail);
        }
    }
}

fn phase(namespace: &Value, status: &Value, here: &Here<'_>, errors: &mut Errors) {
    let goes = namespace.pointer("/metadata/deletionTimestamp").is_some();
    let phase = status.text("phase");
    let here = here.field("Phase");
    if !goes && phase != "Active" {
        let rule = "may only be 'Active' if `deletionTimestamp` is empty";
        errors.invalid(&here, phase, rule);
    }
    if goes && phase != "Terminating" {
        let rule = "may only be 'Terminating' if `deletionTimestamp` is not empty";
        errors.invalid(&here, phase, rule);
    }
}

/// Containers that were added to a running pod stay as they are.
fn ephemeral_containers(new: &Value, old: &Value, errors: &mut Errors) {
    super::pod::stored_pod(new, errors);
    let spec_here = Here::OBJECT.field("spec");
    let here = spec_here.field("ephemeralContainers");
    let list = |pod: &Value| -> Vec<Value> {
        let spec = pod.part("spec");
        spec.map_or(Vec::new(), |it| it.list("ephemeralContainers").to_vec())
    };
    let after = list(new);
    let after: BTreeMap<&str, &Value> = after.iter().map(|it| (it.text("name"), it)).collect();
    for before in list(old) {
        let name = before.text("name");
        match after.get(name) {
            None => {
                let detail = format!("existing ephemeral containers {name:?} may not be removed\n");
                errors.forbidden(&here, detail);
            }
            Some(after) if **after != before => {
                let detail = format!("existing ephemeral containers {name:?} may not be changed\n");
                errors.forbidden(&here, detail);
            }
            Some(_) => {}
        }
    }
}

/// An object without some of its fields.
fn without(object: &Value, fields: &[&str]) -> Value {
    let mut rest = object.clone();
    if let Value::Object(rest) = &mut rest {
        rest.retain(|name, _| !fields.contains(&name.as_str()));
    }
    rest
}

fn stateful_set(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    if without(new, &MUTABLE) != without(old, &MUTABLE) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                      'template', 'updateStrategy', 'revisionHistoryLimit', \
                      'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden(here, detail);
    }
}

fn job_update(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    let is_indexed = new.some_text("completionMode") == Some("Indexed");
    let (completions, before) = (new.number("completions"), old.number("completions"));
    if !is_indexed {
        errors.immutable(new, old, "completions", here);
    } else if completions != before && completions != new.number("parallelism") {
        let value = new.part("completions").unwrap_or(&Value::Null);
        let rule = "can only be modified in tandem with spec.parallelism";
        errors.invalid(&here.field("completions"), value, rule);
    }
    errors.immutable(new, old, "selector", here);
    job_template(new, old, here, errors);
    for field in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.immutable(new, old, field, here);
    }
}

/// The template of a Job stays, but as long as it is suspended its pods may be told where to go.
fn job_template(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    const PLACEMENT: [&str; 4] = ["nodeSelector", "tolerations", "schedulingGates", "affinity"];
    let mut wanted = new.part("template").cloned().unwrap_or_default();
    let before = old.part("template").cloned().unwrap_or_default();
    if old.flag("suspend") {
        for part in ["metadata", "spec"] {
            let from = before.part(part).cloned().unwrap_or_default();
            let fields: &[&str] = match part {
                "metadata" => &["labels", "annotations"],
                _ => &PLACEMENT,
            };
            let target = wanted.get_mut(part).and_then(Value::as_object_mut);
            let Some(target) = target else { continue };
            for field in fields {
                match from.part(field) {
                    Some(value) => drop(target.insert((*field).to_owned(), value.clone())),
                    None => drop(target.remove(*field)),
                }
            }
        }
    }
    if wanted != before {
        let value = new.part("template").unwrap_or(&Value::Null);
        errors.invalid(&here.field("template"), value, super::errors::IMMUTABLE);
    }
}

fn volume(new: &Value, old: &Value, errors: &mut Errors) {
    let here = Here::OBJECT;
    let source = |spec: &Value| -> Vec<Option<Value>> {
        let sources = super::storage::SOURCES.iter();
        let mut found: Vec<_> = sources.map(|it| spec.part(it).cloned()).collect();
        // A secret for growing it may be added.
        let secret = "controllerExpandSecretRef";
        let was_without = old
            .part("csi")
            .is_some_and(|csi| csi.part(secret).is_none());
        if was_without && let Some(Some(Value::Object(csi))) = found.last_mut() {
            csi.remove(secret);
        }
        found
    };
    if source(new) != source(old) {
        let spec_here = here.field("spec");
        let detail = "spec.persistentvolumesource is immutable after creation\n";
        errors.forbidden(&spec_here.field("persistentvolumesource"), detail);
    }
    errors.immutable(new, old, "volumeMode", &here);
    if old.part("nodeAffinity").is_some() && new.part("nodeAffinity") != old.part("nodeAffinity") {
        let value = new.part("nodeAffinity").unwrap_or(&Value::Null);
        let rule = "field is immutable, except for updating from beta label to GA";
        errors.invalid(&here.field("nodeAffinity"), value, rule);
    }
}

fn claim(new: &Value, old: &Value, errors: &mut Errors) {
    const MUTABLE_IF_BOUND: [&str; 2] = ["resources", "volumeAttributesClassName"];
    let here = Here::OBJECT.field("spec");
    let status = |claim: &Value| claim.part("status").cloned().unwrap_or_default();
    let is_bound = status(new).text("phase") == "Bound";
    let spec = |claim: &Value| claim.part("spec").cloned().unwrap_or_default();
    let (after, mut before) = (spec(new), spec(old));
    if let Value::Object(before) = &mut before {
        for field in ["volumeName", "storageClassName"] {
            if let Some(value) = after.part(field) {
                before.entry(field).or_insert_with(|| value.clone());
            }
        }
    }
    let fields: &[&str] = if is_bound { &MUTABLE_IF_BOUND } else { &[] };
    let rest = |spec: &Value| {
        let mut rest = without(spec, fields);
        if is_bound && let Some(resources) = spec.part("resources") {
            let mut resources = resources.clone();
            if let Some(Value::Object(requests)) = resources.get_mut("requests") {
                requests.remove("storage");
            }
            rest["resources"] = resources;
        }
        rest
    };
    if rest(&after) != rest(&before) {
        let detail = "spec is immutable after creation except resources.requests and \
                      volumeAttributesClassName for bound claims\n";
        errors.forbidden(&here, detail);
    }
    let size = |of: Option<&Value>| -> Quantity {
        let size = of.and_then(quantity_of);
        size.unwrap_or_default()
    };
    let requested = |spec: &Value| size(spec.pointer("/resources/requests/storage"));
    let there = size(status(old).pointer("/capacity/storage"));
    if requested(&after) < requested(&before) && requested(&after) <= there {
        let resources = here.field("resources");
        let requests = resources.field("requests");
        let detail = "field can not be less than status.capacity";
        errors.forbidden(&requests.field("storage"), detail);
    }
    if after.part("volumeMode") != before.part("volumeMode") {
        let value = after.part("volumeMode").unwrap_or(&Value::Null);
        let here = Here::OBJECT;
        errors.invalid(&here.field("volumeMode"), value, super::errors::IMMUTABLE);
    }
}

fn storage_class(new: &Value, old: &Value, errors: &mut Errors) {
    let here = Here::OBJECT;
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if new.part(field) != old.part(field) {
            let detail = format!("updates to {field} are forbidden.");
            errors.forbidden(&here.field(field), detail);
        }
    }
    errors.immutable(new, old, "volumeBindingMode", &here);
}
