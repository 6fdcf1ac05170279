//! Server-side apply: a client says what it cares about, the server sees to the rest.
//!
//! The client sends a configuration, an object in part. What it says is merged into the object
//! and owned by the client from then on ([`crate::managed_fields`]); what it said the last time
//! and leaves out now is taken out of the object, unless somebody else owns it. If it says
//! something else than another manager that owns the field, that is a conflict, and nothing
//! happens; with `force` the field changes its owner. Two managers that say the same own it
//! together.
//!
//! The stages, in order: the configuration must fit the schema (`check`); it is merged, list
//! elements by their keys (`merge`); what is left out is taken away (`prune`); ownership is
//! compared (`conflict`). An application that changes nothing leaves times alone.
//!
//! Beside:
//!
//! * an object without managed fields that is applied gets an owner for what it was, named
//!   [`BEFORE_FIRST_APPLY`];
//! * who applies as `kubectl` takes over what `kubectl apply` wrote from the client's side, as
//!   far as the annotation [`LAST_APPLIED`] says that it did, without a conflict. The annotation
//!   is kept up to date for clients that still go by it.
//! * A configuration for the subresource `scale` is given here as one of the object that is
//!   scaled, with nothing but its replicas.
//!
//! Sources, Kubernetes 1.36: `k8s.io/apimachinery/pkg/util/managedfields`,
//! `sigs.k8s.io/structured-merge-diff` v6 (`merge/update.go`, `typed/{merge,remove}.go`),
//! `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`, KEP-555. Unlike there, an owner's fields
//! are not expanded if a type that was owned whole comes to be owned by parts.
//!
//! ```
//! use outrank_api::decode::ObjectKind;
//! use outrank_api::server_side_apply::{ApplyWrite, apply};
//! use serde_json::json;
//!
//! let class = |value| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
//!                            "metadata": {"name": "high"}, "value": value});
//! let by = |manager| ApplyWrite {
//!     manager, force: false, subresource: "", now: "2026-01-01T00:00:00Z",
//! };
//! let kind = ObjectKind::PriorityClass.into();
//! let live = apply(kind, None, class(7), by("one")).unwrap();
//! let refused = apply(kind, Some(&live), class(8), by("two")).unwrap_err();
//! assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"one\": .value");
//! let shared = apply(kind, Some(&live), class(7), by("two")).unwrap();
//! assert_eq!(shared["metadata"]["managedFields"].as_array().unwrap().len(), 2);
//! ```

mod applied_set;
mod check;
mod conflict;
mod merge;
mod prune;

use serde_json::{Map, Value};

use crate::apply::LAST_APPLIED;
use crate::document::{Document, DuplicateKey, Receiver, SyntaxError};
use crate::field_error::{FieldError, go_json};
use crate::managed_fields::compare::{Comparison, compare, is_same};
use crate::managed_fields::field_set::FieldSet;
use crate::managed_fields::owners::{Operation, Owner, Owners};
use crate::managed_fields::scope::Scope;
use crate::managed_fields::{Write, track};
use crate::metadata::ANNOTATIONS_BYTES_MAX;
use crate::patch::from_map;
use crate::request_body::{Body, FieldValidation};
use crate::resource_type::ResourceType;
use crate::status::{Qualified, Status};
use applied_set::fields_of;
use conflict::Conflict;

/// The content type of configurations.
pub const CONTENT_TYPE: &str = "application/apply-patch+yaml";

/// Who owns what an object was before anybody applied it, if nobody kept account.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Longest name of a manager, in bytes.
pub const MANAGER_BYTES_MAX: usize = 128;

/// Who applies, and how.
#[derive(Clone, Copy, Debug)]
pub struct ApplyWrite<'w> {
    /// Name of the client (`fieldManager`).
    pub manager: &'w str,
    /// Whether to take fields from other managers.
    pub force: bool,
    /// The subresource that is written to; may be empty.
    pub subresource: &'w str,
    /// The time, RFC 3339.
    pub now: &'w str,
}

/// Applies the body of a request, YAML or JSON. See [`apply`].
///
/// # Errors
///
/// As [`apply`], and if the body cannot be read, or, with strict validation, has a key twice;
/// a conflict is told first.
pub fn apply_body(
    resource: &ResourceType,
    live: Option<&Value>,
    body: &str,
    validation: FieldValidation,
    write: ApplyWrite<'_>,
) -> Result<Body, Status> {
    let (applied, duplicates) = read(body)?;
    let value = apply(resource, live, applied, write)?;
    let mut warnings = Vec::new();
    if !duplicates.is_empty() && validation != FieldValidation::Ignore {
        let lines = duplicates.iter().map(|duplicate| {
            let DuplicateKey { key, line, .. } = duplicate;
            format!("\n  line {line}: key {key:?} already set in map")
        });
        let lines: String = lines.collect();
        let why = format!("error converting YAML to JSON: yaml: unmarshal errors:{lines}");
        if validation == FieldValidation::Strict {
            return Err(Status::bad_request(format!(
                "error strict decoding patch: {why}"
            )));
        }
        warnings.push(why);
    }
    Ok(Body { value, warnings })
}

/// The object after a configuration was applied: merged, with its managed fields. It is neither
/// defaulted nor validated; what only the server may write must be put back by the caller, as
/// after any update. `live` is the object as it is, if there is one.
///
/// Time and memory are linear in the object, the configuration and the managed fields together.
///
/// # Errors
///
/// 409 with a cause for each field in conflict; 400 if the configuration is of another kind or
/// brings managed fields; 422 if there is no name of a manager; 500, as upstream, if it does not
/// fit the schema.
pub fn apply(
    resource: &ResourceType,
    live: Option<&Value>,
    applied: Value,
    write: ApplyWrite<'_>,
) -> Result<Value, Status> {
    check_manager(write.manager)?;
    check_identity(resource, &applied)?;
    let scope = Scope {
        resource,
        subresource: write.subresource,
    };
    check::check(scope.shape(), &applied).map_err(|why| {
        let about = about(resource, &applied);
        Status::unknown_error(format!(
            "failed to create typed patch object ({about}): {why}"
        ))
    })?;
    let nothing = Value::Object(Map::new());
    let application = Application {
        scope,
        live: live.unwrap_or(&nothing),
        owners: owners(scope, live, write),
        applied: &applied,
        write,
    };
    let mut outcome = match application.attempt(write.force) {
        Ok(outcome) => outcome,
        Err(conflicts) => application.take_over(conflicts)?,
    };
    if write.manager == "kubectl" {
        keep_last_applied(&mut outcome.object, &applied);
    }
    let Outcome { object, owners } = outcome;
    let mut object = convert(resource, object, &applied)?;
    owners.write_to(&mut object);
    Ok(object)
}

/// What happens in one application.
struct Application<'a> {
    scope: Scope<'a>,
    live: &'a Value,
    owners: Owners,
    applied: &'a Value,
    write: ApplyWrite<'a>,
}

struct Outcome {
    object: Value,
    owners: Owners,
}

/// By owner, as a number among [`Owners`], what is in conflict.
type Conflicts = Vec<(usize, FieldSet)>;

impl Application<'_> {
    fn attempt(&self, force: bool) -> Result<Outcome, Conflicts> {
        let shape = self.scope.shape();
        let mut fields = fields_of(shape, self.applied);
        self.scope.restrict(&mut fields);
        let own = self.me(fields);
        let mut owners = self.owners.clone();
        let own_index = owners.0.iter().position(|owner| owner.is_manager(&own));
        let own_index = own_index.unwrap_or(owners.0.len());
        let before = match owners.0.get_mut(own_index) {
            Some(before) => Some(std::mem::replace(before, own)),
            None => {
                owners.0.push(own);
                None
            }
        };

        let mut merged = self.live.clone();
        merge::merge(shape, &mut merged, self.applied.clone());
        if let Some(before) = before.as_ref().filter(|before| !before.fields.is_empty()) {
            merged = prune::prune(shape, &merged, &before.fields, &owners);
        }
        let Comparison { changed, removed } = compare(self.scope, self.live, &merged);
        let others = owners
            .0
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != own_index);
        let conflicts = others.map(|(at, owner)| (at, owner.fields.intersection(&changed)));
        let conflicts: Conflicts = conflicts.filter(|(_, set)| !set.is_empty()).collect();
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        for (at, owner) in owners.0.iter_mut().enumerate() {
            if at != own_index {
                owner.fields.subtract(&changed);
                owner.fields.subtract(&removed);
            }
        }
        owners.0[own_index].time = match is_same(self.live, &merged) {
            true => before.and_then(|before| before.time),
            false => Some(self.write.now.to_owned()),
        };
        owners.tidy();
        Ok(Outcome {
            object: merged,
            owners,
        })
    }

    fn me(&self, fields: FieldSet) -> Owner {
        Owner {
            manager: self.write.manager.to_owned(),
            operation: Operation::Apply,
            api_version: self.scope.resource.api_version(),
            subresource: self.write.subresource.to_owned(),
            time: None,
            fields,
        }
    }

    /// Applies in spite of conflicts, if they are all with what `kubectl apply` wrote from the
    /// client's side (`lastappliedmanager.go`).
    fn take_over(&self, mut conflicts: Conflicts) -> Result<Outcome, Status> {
        let allowed = match self.write.manager {
            "kubectl" => self.fields_last_applied(),
            _ => None,
        };
        if let Some(allowed) = allowed {
            conflicts
                .iter_mut()
                .for_each(|(_, set)| set.subtract(&allowed));
            conflicts.retain(|(_, set)| !set.is_empty());
            if conflicts.is_empty() {
                let forced = self.attempt(true);
                return forced.map_err(|conflicts| self.refusal(conflicts));
            }
        }
        Err(self.refusal(conflicts))
    }

    fn refusal(&self, conflicts: Conflicts) -> Status {
        let conflicts = conflicts.into_iter().filter_map(|(at, fields)| {
            let owner = self.owners.0.get(at)?;
            Some(Conflict { owner, fields })
        });
        conflict::refusal(conflicts.collect())
    }

    /// What stands in the annotation of `kubectl apply`, as far as it is still so.
    fn fields_last_applied(&self) -> Option<FieldSet> {
        let text = annotation(self.live)?;
        let last: Value = serde_json::from_str(text).ok()?;
        let shape = self.scope.shape();
        let is_version = *last.get("apiVersion")? == self.scope.resource.api_version();
        if !is_version || check::check(shape, &last).is_err() {
            return None;
        }
        let mut fields = fields_of(shape, &last);
        let Comparison { changed, removed } = compare(self.scope, &last, self.live);
        fields.subtract(&changed);
        fields.subtract(&removed);
        Some(fields)
    }
}

/// The owners that there were. Objects of a time before accounts were kept get one.
fn owners(scope: Scope<'_>, live: Option<&Value>, write: ApplyWrite<'_>) -> Owners {
    let Some(live) = live else {
        return Owners::default();
    };
    let owners = Owners::of(live);
    if !owners.is_empty() {
        return owners;
    }
    let write = Write {
        manager: BEFORE_FIRST_APPLY,
        subresource: write.subresource,
        now: write.now,
    };
    track(scope, &Value::Null, live, owners, write)
}

fn check_manager(manager: &str) -> Result<(), Status> {
    let error = if manager.is_empty() {
        FieldError::required("fieldManager", "is required for apply patch")
    } else if manager.len() > MANAGER_BYTES_MAX {
        FieldError::too_long("fieldManager", MANAGER_BYTES_MAX)
    } else if manager.chars().any(char::is_control) {
        let detail = "should only contain printable characters";
        FieldError::invalid("fieldManager", manager, detail)
    } else {
        return Ok(());
    };
    let options = Qualified {
        group: "meta.k8s.io",
        name: "PatchOptions",
    };
    Err(Status::invalid(options, "", &[error]))
}

fn check_identity(resource: &ResourceType, applied: &Value) -> Result<(), Status> {
    let text = |field: &str| {
        applied
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != resource.api_version() || kind != resource.kind {
        let found = kind_text(api_version, kind);
        return Err(Status::bad_request(format!("invalid object type: {found}")));
    }
    match applied.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(has_managed_fields()),
    }
}

fn has_managed_fields() -> Status {
    Status::bad_request("metadata.managedFields must be nil")
}

/// A kind with its version, such as `apps/v1, Kind=Deployment` or `/v1, Kind=Pod`.
fn kind_text(api_version: &str, kind: &str) -> String {
    match api_version.contains('/') {
        true => format!("{api_version}, Kind={kind}"),
        false => format!("/{api_version}, Kind={kind}"),
    }
}

/// What a configuration is about, in upstream's errors.
fn about(resource: &ResourceType, applied: &Value) -> String {
    let text = |field: &str| {
        let text = applied
            .get("metadata")
            .and_then(|it| it.get(field)?.as_str());
        text.unwrap_or_default()
    };
    let kind = kind_text(&resource.api_version(), &resource.kind);
    format!("{}/{}; {kind}", text("namespace"), text("name"))
}

/// The object as one of its kind: without `null`.
fn convert(resource: &ResourceType, object: Value, applied: &Value) -> Result<Value, Status> {
    let (Some(type_name), Value::Object(fields)) = (resource.type_name, &object) else {
        return Ok(object);
    };
    let converted = from_map(type_name, fields.clone()).map_err(|why| {
        let about = about(resource, applied);
        Status::unknown_error(format!(
            "failed to convert new object ({about}) to proper version: {why}"
        ))
    })?;
    Ok(converted.value)
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    let text = annotations.get(LAST_APPLIED)?.as_str()?;
    Some(text).filter(|text| !text.is_empty())
}

/// Writes the configuration into the annotation of `kubectl apply`, if the object has one
/// (`lastappliedupdater.go`).
fn keep_last_applied(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{}\n", go_json(&applied));
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else {
        return;
    };
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
    let sizes = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if sizes.sum::<usize>() > ANNOTATIONS_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}

/// The first document of a body, and the keys that stand twice in it.
fn read(body: &str) -> Result<(Value, Vec<DuplicateKey>), Status> {
    #[derive(Default)]
    struct First {
        document: Option<Value>,
        duplicates: Vec<DuplicateKey>,
        has_managed_fields: bool,
    }

    impl Receiver for First {
        fn document(&mut self, document: Document) {
            self.document.get_or_insert(document.value);
        }

        fn duplicate_key(&mut self, duplicate: DuplicateKey) {
            if self.document.is_none() {
                self.duplicates.push(duplicate);
            }
        }

        fn managed_fields(&mut self) {
            self.has_managed_fields |= self.document.is_none();
        }
    }

    let mut first = First::default();
    let wrong = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
    crate::document::read(body, &mut first).map_err(|SyntaxError { line, message }| {
        wrong(format!(
            "error converting YAML to JSON: yaml: line {line}: {message}"
        ))
    })?;
    if first.has_managed_fields {
        return Err(has_managed_fields());
    }
    let found = match first.document.unwrap_or_default() {
        Value::Object(fields) => return Ok((Value::Object(fields), first.duplicates)),
        Value::Null => return Ok((Value::Object(Map::new()), first.duplicates)),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Err(wrong(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go \
         value of type map[string]interface {{}}"
    )))
}
