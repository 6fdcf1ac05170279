//! What the API server demands of objects, in its words and in its order.
//!
//! Objects are JSON with their defaults ([`crate::defaults::fill_in`]) in the form in which they
//! are kept ([`crate::written_form`]); whether fields have the right types is not looked at, see
//! [`crate::request_body`] and [`crate::schema`]. [`errors`] is about new objects,
//! [`update_errors`] about those that come in the place of others, and [`warnings`] says what
//! may not be meant so.
//!
//! Everything that is wrong is reported at once, since that is what people get from the API
//! server: one answer with all causes. Where upstream goes through a map in no fixed order, keys
//! are sorted here.
//!
//! Kinds that decisions read, and those that kubectl and controllers write, are checked as
//! upstream does; of the others only the metadata. Files that are read for a rehearsal go
//! through the same rules ([`findings`]), after the tables of [`crate::schema`], which know more
//! of what may have been meant.
//!
//! Sources: `pkg/apis/{core,apps,batch,policy,storage,discovery,rbac,...}/validation` and
//! `pkg/registry`, Kubernetes 1.36; each file names its own.
//!
//! ```
//! use outrank_api::decode::ObjectKind;
//! use outrank_api::validation::errors;
//! use serde_json::json;
//!
//! let budget = json!({"metadata": {"name": "web", "namespace": "shop"},
//!                     "spec": {"minAvailable": "150%"}});
//! let errors = errors(ObjectKind::PodDisruptionBudget.into(), &budget);
//! assert_eq!(
//!     errors[0].to_string(),
//!     "spec.minAvailable: Invalid value: \"150%\": must not be greater than 100%",
//! );
//! ```

mod affinity;
mod budget;
mod container;
mod errors;
mod further_kinds;
mod job;
mod node;
mod pod;
mod pod_update;
mod quota;
mod resources;
mod security;
mod selector;
mod service;
mod storage;
mod updates;
mod volume;
mod warnings;
mod workload;

use std::collections::HashSet;

use serde_json::Value;

use crate::decode::{Object, ObjectKind};
use crate::defaults;
use crate::diagnostic::{Finding, Findings, Here, Segment, Severity, Suggestion};
use crate::field_error::{FieldError, FieldErrorType};
use crate::fields_of::{FieldsOf, quantity_of};
use crate::metadata;
use crate::quantity::{Format, Quantity};
use crate::resource_type::ResourceType;
use crate::schema::{self, FieldType};
use crate::types::{ObjectMeta, Pod};
use crate::{limit_range, written_form};
use errors::Errors;
use resources::{Place, requirements};

pub use quota::QUOTA_SCOPES;
pub(crate) use updates::changes_refused;
pub use updates::update_errors;
pub use warnings::{update_warnings, warnings};

/// What is wrong with a new object. Costs time linear in its size, but for the few places where
/// elements of one list are held against each other.
pub fn errors(resource: &ResourceType, object: &Value) -> Vec<FieldError> {
    let metadata = object.part("metadata").cloned().unwrap_or_default();
    let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap_or_default();
    let names = metadata::name_rule(resource);
    let is_namespaced = resource.is_namespaced;
    if !names_its_objects(resource) {
        let mut errors = Errors::default();
        of_kind(resource, object, &mut errors);
        if errors.0.is_empty() {
            errors.0 = metadata::validate_general(&metadata, is_namespaced);
        }
        return errors.0;
    }
    let mut errors = Errors(metadata::validate(&metadata, is_namespaced, names));
    of_kind(resource, object, &mut errors);
    errors.0
}

/// What is wrong with the resources of a pod's containers. For a pod that was found right before
/// somebody else, such as an admission plugin, has changed them.
pub fn resource_errors(pod: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let claims = pod.spec.resource_claims.iter();
    let claims = claims.map(|claim| claim.name.as_str()).collect();
    let here = Here::OBJECT.field("spec");
    for (list, containers) in [
        ("containers", &pod.spec.containers),
        ("initContainers", &pod.spec.init_containers),
    ] {
        let here = here.field(list);
        for (index, container) in containers.iter().enumerate() {
            let here = here.index(index);
            let resources = serde_json::to_value(&container.resources).unwrap_or_default();
            let here = here.field("resources");
            requirements(&resources, Place::Container, &claims, &here, &mut errors);
        }
    }
    errors.0
}

/// Whether the kind has rules for names. Those of the others are looked at last, and may be
/// whatever a URL can hold.
fn names_its_objects(resource: &ResourceType) -> bool {
    resource.type_name != Some("PodDisruptionBudget")
}

/// What is wrong with a new object beyond its metadata.
fn of_kind(resource: &ResourceType, object: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let spec = object.part("spec").unwrap_or(&Value::Null);
    match resource.type_name.unwrap_or_default() {
        "Pod" => pod::pod(object, errors),
        "PodTemplate" => {
            let template = object.part("template").unwrap_or(&Value::Null);
            pod::pod_template(template, &Here::OBJECT.field("template"), errors);
        }
        "Node" => node::node(object, errors),
        "Namespace" => further_kinds::namespace(object, errors),
        "ResourceQuota" => {
            quota::quota(spec, &here, errors);
            let status = object.part("status").unwrap_or(&Value::Null);
            quota::quota_status(status, &Here::OBJECT.field("status"), errors);
        }
        "LimitRange" => limits(object, errors),
        "PodDisruptionBudget" => budget::budget(spec, &here, errors),
        "Deployment" => workload::deployment(spec, &here, errors),
        "ReplicaSet" => workload::replica_set(spec, &here, errors),
        "DaemonSet" => workload::daemon_set(spec, &here, errors),
        "StatefulSet" => workload::stateful_set(spec, &here, errors),
        "ReplicationController" => workload::replication_controller(spec, &here, errors),
        "ControllerRevision" => revision(object, errors),
        "Job" => job::job(object, errors),
        "CronJob" => job::cron_job(object, errors),
        "Service" => service::service(spec, &here, errors),
        "Endpoints" => service::endpoints(object, errors),
        "EndpointSlice" => service::endpoint_slice(object, errors),
        "PersistentVolume" => storage::volume_spec(spec, &here, errors),
        "PersistentVolumeClaim" => storage::claim_spec(spec, &here, errors),
        "StorageClass" => storage::storage_class(object, errors),
        "CSINode" => storage::csi_node(object, errors),
        "CSIDriver" => storage::csi_driver(object, errors),
        "CSIStorageCapacity" => storage::storage_capacity(object, errors),
        "VolumeAttachment" => storage::volume_attachment(object, errors),
        "RuntimeClass" => storage::runtime_class(object, errors),
        "ConfigMap" => further_kinds::config_map(object, errors),
        "Secret" => further_kinds::secret(object, errors),
        "Lease" => further_kinds::lease(object, errors),
        "core.v1.Event" => further_kinds::event(object, "involvedObject", errors),
        "events.v1.Event" => further_kinds::event(object, "regarding", errors),
        "Role" => further_kinds::role(object, true, errors),
        "ClusterRole" => further_kinds::role(object, false, errors),
        "RoleBinding" => further_kinds::role_binding(object, true, errors),
        "ClusterRoleBinding" => further_kinds::role_binding(object, false, errors),
        "autoscaling.v1.HorizontalPodAutoscaler" | "autoscaling.v2.HorizontalPodAutoscaler" => {
            further_kinds::autoscaler(spec, &here, errors);
        }
        "NetworkPolicy" => further_kinds::network_policy(spec, &here, errors),
        "Ingress" => further_kinds::ingress(spec, &here, errors),
        _ => {}
    }
}

fn limits(object: &Value, errors: &mut Errors) {
    if let Ok(range) = serde_json::from_value(object.clone()) {
        errors.0.extend(limit_range::limit_errors(&range));
    }
}

fn revision(object: &Value, errors: &mut Errors) {
    let here = Here::OBJECT;
    if object.part("data").is_none() {
        errors.required(&here.field("data"), "data is mandatory");
    }
    errors.not_negative(object, "revision", &here);
}

/// How an object came to be where it is read, by which rules of creation are past for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is to be made.
    New,
    /// It is there, and is to be changed to this.
    Changed,
    /// A cluster has it as it is. Whatever would be refused today was valid when it was written.
    Stored,
}

impl Standing {
    /// How an object of a file stands: one that an API server has given something to is of a dump.
    pub(crate) fn in_file(object: &Object, value: &Value) -> Self {
        let metadata = object.metadata();
        let is_known = !metadata.uid.is_empty() || metadata.creation_timestamp.is_some();
        let has_version = value.pointer("/metadata/resourceVersion").is_some();
        // Many take identifiers and times out of what they pass on. The phase counts as it is
        // written: by default pods have one.
        let has_begun =
            object.kind() == ObjectKind::Pod && value.pointer("/status/phase").is_some();
        match is_known || has_version || has_begun {
            true => Self::Stored,
            false => Self::New,
        }
    }
}

/// What is wrong with an object that was read from a file, given as it was written: what the API
/// server would refuse, unless it is said already, and what may not be meant so. `value` is the
/// object as JSON without its defaults. Of what a cluster has, nothing is refused; what it would
/// refuse today is a warning.
pub(crate) fn validate(
    object: &Object,
    mut value: Value,
    standing: Standing,
    findings: &mut Findings,
) {
    let resource: &ResourceType = object.kind().into();
    written_form::tidy(resource, &mut value);
    defaults::fill_in(resource, &mut value);
    let metadata = object.metadata();
    let names = metadata::name_rule(resource);
    let mut found = Errors(metadata::validate(metadata, resource.is_namespaced, names));
    if !metadata.generate_name.is_empty() {
        // Who takes the object gives it a name, before he looks at it.
        found.0.retain(|error| !is_nameless(error));
    }
    match object {
        Object::Pod(_) if standing != Standing::New => pod::stored_pod(&value, &mut found),
        _ => of_kind(resource, &value, &mut found),
    }
    let spec = value.part("spec").unwrap_or(&Value::Null);
    match object.kind() {
        // Nobody makes pods or claims that would be refused.
        ObjectKind::StatefulSet => {
            workload::stateful_pods(spec, &Here::OBJECT.field("spec"), &mut found);
        }
        // The API server selects its pods, once it has a UID.
        ObjectKind::Job if spec["manualSelector"] != true => {
            found.0.retain(|error| !is_about_selector(error));
        }
        ObjectKind::PriorityClass => reserved_name(&value, &mut found),
        _ => {}
    }
    add_unsaid(found.0, &value, standing, findings);
    if let Some(type_name) = resource.type_name {
        advise(
            &FieldType::Object(type_name.to_owned()),
            &value,
            &Here::OBJECT,
            findings,
        );
    }
    if findings
        .0
        .iter()
        .any(|finding| finding.severity == Severity::Error)
    {
        // What was left out because it is wrong would be missed here.
        return;
    }
    for warning in warnings::of_pods(resource, &value) {
        // Of these more is said already.
        if !warning.text.starts_with("fractional") {
            findings.warning_at(warning.path, warning.text);
        }
    }
}

/// Whether an error is that there is no name.
fn is_nameless(error: &FieldError) -> bool {
    error.error_type == FieldErrorType::Required && error.path.to_string() == "metadata.name"
}

/// Whether an error is about a selector, or that it does not select a template.
fn is_about_selector(error: &FieldError) -> bool {
    match error.path.to_string().as_str() {
        "spec.selector" => true,
        "spec.template.metadata.labels" => error.body().contains("`selector` does not match"),
        _ => false,
    }
}

/// Names of priority classes that are not for people. The API server asks admission, which
/// knows more (`priority_class` of outrank-admission).
fn reserved_name(class: &Value, errors: &mut Errors) {
    const USER_VALUE_MAX: i64 = 1_000_000_000;
    const BUILT_IN: [(&str, i64); 2] = [
        ("system-cluster-critical", 2_000_000_000),
        ("system-node-critical", 2_000_001_000),
    ];
    let metadata = class.part("metadata").unwrap_or(&Value::Null);
    let (name, value) = (metadata.text("name"), class.number("value").unwrap_or(0));
    let here = Here::OBJECT;
    if name.starts_with("system-") {
        if !BUILT_IN.contains(&(name, value)) {
            let metadata = here.field("metadata");
            let detail = "names that begin with system- are reserved for the built-in classes";
            errors.forbidden(&metadata.field("name"), detail);
        }
    } else if value > USER_VALUE_MAX {
        let detail =
            format!("maximum allowed value of a user defined priority is {USER_VALUE_MAX}");
        errors.forbidden(&here.field("value"), detail);
    }
}

/// Adds mistakes in fields of which nothing is said yet, nor of what is in them or around them:
/// what was said there is why they are wrong. `value` is the object.
fn add_unsaid(errors: Vec<FieldError>, value: &Value, standing: Standing, findings: &mut Findings) {
    let said = findings.0.iter();
    let said = said.filter(|finding| finding.severity == Severity::Error);
    let said: HashSet<Vec<Segment>> = said.map(|it| it.path.segments().to_vec()).collect();
    let prefixes = said
        .iter()
        .flat_map(|path| (0..path.len()).map(|end| &path[..end]));
    let around: HashSet<&[Segment]> = prefixes.collect();
    let is_said = |error: &FieldError| {
        let own = error.path.segments();
        let follows = own.len() > 1 || error.error_type == FieldErrorType::Required;
        (0..=own.len()).any(|end| said.contains(&own[..end])) || follows && around.contains(own)
    };
    let errors = errors.into_iter().filter(|error| !is_said(error));
    let errors: Vec<FieldError> = errors.collect();
    for error in errors {
        let suggestion = match error.error_type {
            FieldErrorType::NotFound => near_volume(&error, value),
            _ => Suggestion::None,
        };
        let (severity, message) = match standing {
            Standing::Stored => {
                let message = format!("{}; taken as it is, as a cluster has it", error.body());
                (Severity::Warning, message)
            }
            Standing::New | Standing::Changed => (Severity::Error, error.body()),
        };
        findings.0.push(Finding {
            severity,
            message,
            path: error.path,
            suggestion,
        });
    }
}

/// The volume that is likely meant by a name that none has.
fn near_volume(error: &FieldError, value: &Value) -> Suggestion {
    let specs = [
        "/spec/volumes",
        "/spec/template/spec/volumes",
        "/spec/jobTemplate/spec/template/spec/volumes",
    ];
    let volumes = specs.into_iter().find_map(|pointer| value.pointer(pointer));
    let volumes = volumes.and_then(Value::as_array).into_iter().flatten();
    let claims = value.pointer("/spec/volumeClaimTemplates");
    let claims = claims.and_then(Value::as_array).into_iter().flatten();
    let claims = claims.map(|claim| claim.part("metadata").unwrap_or(&Value::Null));
    let names = volumes.chain(claims).map(|it| it.text("name"));
    let name = error.shown_text().unwrap_or_default();
    schema::did_you_mean(schema::nearest(name, names))
}

/// Says of amounts that they cannot be meant as they stand.
fn advise(field_type: &FieldType, value: &Value, here: &Here<'_>, findings: &mut Findings) {
    match (field_type, value) {
        (FieldType::Object(type_name), Value::Object(fields)) => {
            for (name, value) in fields {
                if let Some(field) = schema::field(type_name, name) {
                    advise(&field.field_type, value, &here.field(name), findings);
                }
            }
        }
        (FieldType::List(element_type), Value::Array(elements)) => {
            for (index, element) in elements.iter().enumerate() {
                advise(element_type, element, &here.index(index), findings);
            }
        }
        (FieldType::Map(value_type), Value::Object(entries))
            if **value_type == FieldType::Quantity =>
        {
            for (name, value) in entries {
                if let Some(amount) = quantity_of(value) {
                    advise_amount(name, &amount, &here.key(name), findings);
                }
            }
        }
        _ => {}
    }
}

fn advise_amount(name: &str, amount: &Quantity, here: &Here<'_>, findings: &mut Findings) {
    let largest = match name {
        "cpu" => Quantity::from_milli(i64::MAX, Format::DecimalSi),
        _ => Quantity::from_value(i64::MAX, Format::DecimalSi),
    };
    if *amount > largest {
        let message = format!("{amount} is more than can be counted; sums of it will be wrong");
        findings.add(Severity::Warning, here, message, Suggestion::None);
    }
    let is_of_bytes = matches!(name, "memory" | "ephemeral-storage");
    if is_of_bytes && amount.milli_value() % 1000 != 0 {
        let message = format!("{amount} is a fraction of a byte");
        let text = amount.to_string();
        let meant = text.strip_suffix('m').map(|number| format!("{number}Mi"));
        let suggestion = meant.map_or(Suggestion::None, |meant| {
            Suggestion::Text(format!("did you mean {meant}?"))
        });
        findings.add(Severity::Warning, here, message, suggestion);
    }
}
