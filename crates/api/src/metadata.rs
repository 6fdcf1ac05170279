//! Object metadata as the API server treats it: what it demands, in its own words, and what
//! it writes itself.
//!
//! Clients give names, labels, annotations, owners and finalizers. UIDs, times and generations
//! are the server's: it clears what clients send there, and writes its own. Sources:
//! `k8s.io/apimachinery/pkg/api/validation/objectmeta.go`,
//! `k8s.io/apiserver/pkg/registry/rest/{create,update,meta}.go`,
//! `pkg/apis/core/validation/validation.go` (finalizers), Kubernetes 1.36.
//!
//! ```
//! use outrank_api::metadata::validate;
//! use outrank_api::names::NameRule;
//! use outrank_api::types::ObjectMeta;
//!
//! let metadata = ObjectMeta { name: "a".into(), namespace: "b".into(), ..Default::default() };
//! assert_eq!(
//!     validate(&metadata, false, NameRule::DnsSubdomain)[0].to_string(),
//!     "metadata.namespace: Forbidden: not allowed on this type",
//! );
//! ```

use serde::Serialize;

use crate::diagnostic::{FieldPath, Here};
use crate::field_error::FieldError;
use crate::names::{NameRule, label_key_errors, label_value_errors};
use crate::resource_type::ResourceType;
use crate::status::Status;
use crate::types::{ObjectMeta, OwnerReference};

/// Bytes of all annotations of an object together, keys and values, at most.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

const METADATA: Here<'static> = Here::OBJECT.field("metadata");

/// The rule for names of objects of this type.
pub fn name_rule(resource: &ResourceType) -> NameRule {
    match resource.type_name.unwrap_or_default() {
        "Namespace" | "StatefulSet" => NameRule::DnsLabel,
        "Service" => NameRule::Dns1035Label,
        "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" => NameRule::PathSegment,
        _ => NameRule::DnsSubdomain,
    }
}

/// What is wrong with the metadata of an object whose kind has no rules for names of its own.
pub fn validate_general(metadata: &ObjectMeta, is_namespaced: bool) -> Vec<FieldError> {
    validate_common(metadata, is_namespaced, NameRule::PathSegment)
}

/// What is wrong with the metadata of an object that is created: what holds for all kinds,
/// with their finalizers.
pub fn validate(metadata: &ObjectMeta, is_namespaced: bool, names: NameRule) -> Vec<FieldError> {
    let mut errors = validate_common(metadata, is_namespaced, names);
    errors.extend(unknown_finalizers(metadata));
    errors
}

/// What is wrong with the new metadata of an object: what validation looks at for all kinds
/// alike and then again for the kind itself. Upstream does both, so a mistake is reported
/// several times, and the answer has as many causes; hence the repetition here.
pub fn validate_update(new: &ObjectMeta, old: &ObjectMeta, is_namespaced: bool) -> Vec<FieldError> {
    let mut errors = validate_common(new, is_namespaced, NameRule::PathSegment);
    errors.extend(update_errors(new, old));
    errors.extend(update_errors(new, old));
    errors.extend(unknown_finalizers(new));
    errors
}

/// Makes the metadata that a client sent that of a new object: what only the server writes is
/// written, whatever stood there.
pub fn begin(metadata: &mut ObjectMeta, resource: &ResourceType, uid: &str, now: &str) {
    metadata.uid = uid.to_owned();
    metadata.creation_timestamp = Some(now.to_owned());
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.generation = i64::from(counts_generations(resource));
}

/// Carries over from the stored object what an update cannot change. `spec_changes` says
/// whether the update is one that counts.
pub fn carry_over(
    new: &mut ObjectMeta,
    old: &ObjectMeta,
    resource: &ResourceType,
    spec_changes: bool,
) {
    new.generation = old.generation + i64::from(spec_changes && counts_updates(resource));
    if new.uid.is_empty() {
        new.uid.clone_from(&old.uid);
    }
    if old.creation_timestamp.is_some() {
        new.creation_timestamp.clone_from(&old.creation_timestamp);
    }
    if old.deletion_timestamp.is_some() {
        new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    }
    if new.deletion_grace_period_seconds.is_none() {
        new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
}

/// Puts the object into the namespace of the request; empty for kinds that live in none.
///
/// # Errors
///
/// If the object names another namespace.
pub fn enter_namespace(metadata: &mut ObjectMeta, namespace: &str) -> Result<(), Status> {
    let given = metadata.namespace.as_str();
    if given != namespace && !given.is_empty() && !namespace.is_empty() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the \
             request",
        ));
    }
    metadata.namespace = namespace.to_owned();
    Ok(())
}

/// Whether an object that is put under a name is called so.
///
/// # Errors
///
/// If it is called otherwise.
pub fn check_name(metadata: &ObjectMeta, name: &str) -> Result<(), Status> {
    let given = metadata.name.as_str();
    if given == name {
        return Ok(());
    }
    Err(Status::bad_request(match given {
        "" => format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be \
             provided"
        ),
        _ => {
            format!("the name of the object ({given}) does not match the name on the URL ({name})")
        }
    }))
}

/// Whether new objects have the generation 1; others have none.
fn counts_generations(resource: &ResourceType) -> bool {
    counts_updates(resource)
        || matches!(
            resource.type_name.unwrap_or_default(),
            "PriorityClass" | "PodTemplate"
        )
}

/// Whether the generation grows when what is wanted changes.
fn counts_updates(resource: &ResourceType) -> bool {
    const KINDS: [&str; 24] = [
        "CustomResourceDefinition",
        "CronJob",
        "DaemonSet",
        "Deployment",
        "DeviceClass",
        "EndpointSlice",
        "FlowSchema",
        "Ingress",
        "IngressClass",
        "Job",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget",
        "PriorityLevelConfiguration",
        "ReplicaSet",
        "ReplicationController",
        "ResourceSlice",
        "StatefulSet",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ];
    // Custom resources have no type of ours.
    resource.type_name.is_none_or(|name| KINDS.contains(&name))
}

fn validate_common(metadata: &ObjectMeta, is_namespaced: bool, names: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = metadata.generate_name.as_str();
    if !prefix.is_empty() {
        let path = METADATA.field("generateName");
        let broken = names.prefix_errors(prefix).into_iter();
        errors.extend(broken.map(|rule| FieldError::invalid(&path, prefix, rule)));
    }
    let path = METADATA.field("name");
    match metadata.name.as_str() {
        "" => errors.push(FieldError::required(
            &path,
            "name or generateName is required",
        )),
        name => {
            let broken = names.errors(name).into_iter();
            errors.extend(broken.map(|rule| FieldError::invalid(&path, name, rule)));
        }
    }
    errors.extend(namespace_errors(&metadata.namespace, is_namespaced));
    errors.extend(generation_errors(metadata.generation));
    errors.extend(map_errors(metadata));
    errors.extend(owner_errors(&metadata.owner_references));
    errors.extend(finalizer_errors(&metadata.finalizers));
    errors
}

fn namespace_errors(namespace: &str, is_namespaced: bool) -> Vec<FieldError> {
    let path = METADATA.field("namespace");
    match (is_namespaced, namespace) {
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden(&path, "not allowed on this type")],
        (true, "") => vec![FieldError::required(&path, "")],
        (true, name) => {
            let broken = NameRule::DnsLabel.errors(name).into_iter();
            broken
                .map(|rule| FieldError::invalid(&path, name, rule))
                .collect()
        }
    }
}

fn generation_errors(generation: i64) -> Option<FieldError> {
    let path = METADATA.field("generation");
    let rule = "must be greater than or equal to 0";
    (generation < 0).then(|| FieldError::invalid(&path, generation, rule))
}

/// Labels and annotations.
fn map_errors(metadata: &ObjectMeta) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = METADATA.field("labels");
    for (key, value) in &metadata.labels {
        let broken = label_key_errors(key).into_iter();
        errors.extend(broken.map(|rule| FieldError::invalid(&path, key.as_str(), rule)));
        let broken = label_value_errors(value).into_iter();
        errors.extend(broken.map(|rule| FieldError::invalid(&path, value.as_str(), rule)));
    }
    let path = METADATA.field("annotations");
    for key in metadata.annotations.keys() {
        let broken = label_key_errors(&key.to_lowercase()).into_iter();
        errors.extend(broken.map(|rule| FieldError::invalid(&path, key.as_str(), rule)));
    }
    let annotations = metadata.annotations.iter();
    let bytes: usize = annotations
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(&path, ANNOTATIONS_BYTES_MAX));
    }
    errors
}

fn owner_errors(owners: &[OwnerReference]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = METADATA.field("ownerReferences");
    let mut controller: Option<String> = None;
    for (index, owner) in owners.iter().enumerate() {
        let path = list.index(index);
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            let field = path.field("apiVersion");
            let value = owner.api_version.as_str();
            errors.push(FieldError::invalid(
                &field,
                value,
                "version must not be empty",
            ));
        }
        for (field, value) in [
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ] {
            if value.is_empty() {
                errors.push(FieldError::required(
                    &path.field(field),
                    "must not be empty",
                ));
            }
        }
        if owner.api_version == "v1" && owner.kind == "Event" {
            let rule = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(&path, &written(owner), rule));
        }
        if owner.controller == Some(true) {
            let this = format!("{}/{}", owner.kind, owner.name);
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let rule = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {this}"
                    );
                    errors.push(FieldError::invalid(&list, &written(&owners), rule));
                }
            }
        }
    }
    errors
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

fn finalizer_errors(finalizers: &[String]) -> Vec<FieldError> {
    let path = METADATA.field("finalizers");
    let mut errors = Vec::new();
    for name in finalizers {
        let broken = label_key_errors(name).into_iter();
        errors.extend(broken.map(|rule| FieldError::invalid(&path, name.as_str(), rule)));
    }
    let has = |wanted: &str| finalizers.iter().any(|name| name == wanted);
    if has(ORPHAN) && has(FOREGROUND) {
        let rule = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(&path, &written(&finalizers), rule));
    }
    errors
}

/// Finalizers without a domain.
const STANDARD_FINALIZERS: [&str; 4] = [
    "kubernetes",
    ORPHAN,
    FOREGROUND,
    "customresourcecleanup.apiextensions.k8s.io",
];

/// Finalizers that are neither Kubernetes' own nor of a domain.
fn unknown_finalizers(metadata: &ObjectMeta) -> Vec<FieldError> {
    let list = METADATA.field("finalizers");
    let finalizers = metadata.finalizers.iter().enumerate();
    let unknown = finalizers
        .filter(|(_, name)| !name.contains('/') && !STANDARD_FINALIZERS.contains(&name.as_str()));
    let errors = unknown.map(|(index, name)| {
        let rule = "name is neither a standard finalizer name nor is it fully qualified";
        FieldError::invalid(&list.index(index), name.as_str(), rule)
    });
    errors.collect()
}

fn update_errors(new: &ObjectMeta, old: &ObjectMeta) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.deletion_timestamp.is_some() {
        errors.extend(added_finalizers(new, old));
    }
    if new.resource_version.is_empty() {
        let path = METADATA.field("resourceVersion");
        errors.push(FieldError::invalid(
            &path,
            "",
            "must be specified for an update",
        ));
    }
    errors.extend(generation_errors(new.generation));
    if new.generation < old.generation {
        let path = METADATA.field("generation");
        errors.push(FieldError::invalid(
            &path,
            new.generation,
            "must not be decremented",
        ));
    }
    errors.extend(immutable("metadata.name", &new.name, &old.name));
    errors.extend(immutable(
        "metadata.namespace",
        &new.namespace,
        &old.namespace,
    ));
    errors.extend(immutable("metadata.uid", &new.uid, &old.uid));
    errors.extend(immutable(
        "metadata.creationTimestamp",
        &new.creation_timestamp,
        &old.creation_timestamp,
    ));
    errors.extend(immutable(
        "metadata.deletionTimestamp",
        &new.deletion_timestamp,
        &old.deletion_timestamp,
    ));
    errors.extend(immutable(
        "metadata.deletionGracePeriodSeconds",
        &new.deletion_grace_period_seconds,
        &old.deletion_grace_period_seconds,
    ));
    errors.extend(map_errors(new));
    errors.extend(owner_errors(&new.owner_references));
    errors
}

fn added_finalizers(new: &ObjectMeta, old: &ObjectMeta) -> Option<FieldError> {
    let added = new
        .finalizers
        .iter()
        .filter(|name| !old.finalizers.contains(name));
    let mut added: Vec<String> = added.map(|name| crate::names::quoted(name)).collect();
    added.sort_unstable();
    added.dedup();
    let rule = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{{{}}}",
        added.join(", ")
    );
    (!added.is_empty()).then(|| FieldError::forbidden(&METADATA.field("finalizers"), rule))
}

/// The mistake of changing a field that stays as it is.
pub fn immutable<T: PartialEq + Serialize>(
    path: impl Into<FieldPath>,
    new: &T,
    old: &T,
) -> Option<FieldError> {
    (new != old).then(|| FieldError::invalid(path, &written(new), "field is immutable"))
}

/// A value as JSON.
fn written<T: Serialize>(value: &T) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::ObjectKind;

    fn metadata(value: serde_json::Value) -> ObjectMeta {
        serde_json::from_value(value).expect("metadata")
    }

    fn texts(errors: Vec<FieldError>) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn everything_that_is_wrong_is_told() {
        let wrong = metadata(json!({
            "namespace": "Shop", "labels": {"a": "b c"}, "annotations": {"a b": ""},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": ""}],
            "finalizers": ["mine"],
        }));
        let errors = texts(validate(&wrong, true, NameRule::DnsSubdomain));
        let starts = [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Invalid value: \"Shop\": a lowercase RFC 1123 label",
            "metadata.labels: Invalid value: \"b c\": a valid label must be",
            "metadata.annotations: Invalid value: \"a b\": name part must consist of",
            "metadata.ownerReferences[0].uid: Required value: must not be empty",
            "metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard",
        ];
        assert_eq!(errors.len(), starts.len(), "{errors:?}");
        for (error, start) in errors.iter().zip(starts) {
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn an_object_has_one_controller() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": "u", "controller": true});
        let wrong = metadata(json!({"name": "a", "ownerReferences": [owner("x"), owner("y")]}));
        let errors = texts(validate(&wrong, false, NameRule::DnsSubdomain));
        assert!(
            matches!(&errors[..], [only] if only.ends_with("for K/x and K/y")),
            "{errors:?}"
        );
    }

    #[test]
    fn an_update_keeps_what_the_server_wrote() {
        let mut old = metadata(json!({"name": "a", "resourceVersion": "3"}));
        begin(
            &mut old,
            ObjectKind::Deployment.into(),
            "u",
            "2026-01-01T00:00:00Z",
        );
        assert_eq!(old.generation, 1);
        let mut new = metadata(json!({"name": "a", "resourceVersion": "3", "generation": 9}));
        carry_over(&mut new, &old, ObjectKind::Deployment.into(), false);
        assert_eq!(new, old);
        carry_over(&mut new, &old, ObjectKind::Deployment.into(), true);
        assert_eq!(new.generation, 2);
        assert!(validate_update(&new, &old, false).is_empty());
        new.uid = "other".to_owned();
        let errors = texts(validate_update(&new, &old, false));
        let text = "metadata.uid: Invalid value: \"other\": field is immutable";
        assert_eq!(errors, [text, text]);
    }

    #[test]
    fn names_and_namespaces_are_those_of_the_request() {
        let mut pod = metadata(json!({"name": "p"}));
        enter_namespace(&mut pod, "shop").expect("no other is named");
        assert_eq!(pod.namespace, "shop");
        assert_eq!(enter_namespace(&mut pod, "other").unwrap_err().code, 400);
        assert_eq!(
            check_name(&pod, "q").unwrap_err().message,
            "the name of the object (p) does not match the name on the URL (q)"
        );
    }
}
