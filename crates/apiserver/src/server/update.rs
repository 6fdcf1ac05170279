//! Changing an object: what PUT, patches, applies and subresources have in common.
//!
//! An update is made of the object as it is now, and stored only if it still is. Otherwise it is
//! made anew, unless the client said of which version it is to be made.

use std::sync::Arc;

use outrank_admission::write::Stamp;
use outrank_api::metadata;
use outrank_api::resource_type::ResourceType;
use outrank_api::status::Status;
use outrank_store::{CommitError, Entry, Operation};
use serde_json::{Value, json};

use super::quota::Quotas;
use super::{ApiServer, Target, WriteOptions, Written, check_depth, refused_commit, with_version};
use crate::stored_object::StoredObject;
use crate::{custom_types, versions};

/// How often an update is made anew because somebody else was faster.
const TRIES_MAX: usize = 30;

/// What an object becomes, made of the object as it is stored; with warnings.
pub(super) type Change<'c> = &'c dyn Fn(&Value) -> Result<(Value, Vec<String>), Status>;

impl ApiServer {
    /// Puts another object in the place of one. Some kinds are made if they are not there.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn update(
        &self,
        target: &Target,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let served = &target.served;
        if target.subresource.is_empty() || target.subresource == "status" {
            let metadata = body.get("metadata").cloned().unwrap_or_default();
            let metadata = serde_json::from_value(metadata).unwrap_or_default();
            metadata::check_name(&metadata, &target.name)?;
        }
        let body = versions::to_stored(&served.resource, &served.stored, body);
        let version = body.pointer("/metadata/resourceVersion");
        let version = version
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if self.store().get(&target.key()).is_none() {
            let is_new = target.subresource.is_empty() && is_made_by_update(&served.stored);
            if is_new && version.is_empty() {
                return self.create(target, body, options);
            }
        }
        if version.is_empty() && needs_version(&served.stored) {
            let error = outrank_api::field_error::FieldError::invalid(
                "metadata.resourceVersion",
                0,
                "must be specified for an update",
            );
            let name = target.name.as_str();
            return Err(Status::invalid(served.stored.qualified(), name, &[error]));
        }
        self.modify(target, options, &|_| Ok((body.clone(), Vec::new())))
    }

    /// Changes an object as `change` says.
    pub(super) fn modify(
        &self,
        target: &Target,
        options: &WriteOptions,
        change: Change<'_>,
    ) -> Result<Written, Status> {
        let mut tried = 1;
        loop {
            let entry = self.get(target)?;
            let live = entry.value.to_value(&target.served.stored);
            let (new, warnings) = change(&live)?;
            let is_bound_to_version = new.pointer("/metadata/resourceVersion")
                != live.pointer("/metadata/resourceVersion");
            match self.replace(target, &entry, &live, new, options) {
                Ok(mut written) => {
                    written.warnings.splice(0..0, warnings);
                    return Ok(written);
                }
                Err(NotReplaced::Raced) if tried < TRIES_MAX && !is_bound_to_version => tried += 1,
                Err(NotReplaced::Raced) => {
                    let resource = target.served.resource.resource();
                    return Err(Status::modified_since(resource, &target.name));
                }
                Err(NotReplaced::Refused(status)) => return Err(*status),
            }
        }
    }

    /// Puts an object in the place of the one that was read.
    fn replace(
        &self,
        target: &Target,
        entry: &Entry<StoredObject>,
        live: &Value,
        mut new: Value,
        options: &WriteOptions,
    ) -> Result<Written, NotReplaced> {
        let now = self.now();
        let stamp = Stamp {
            now: &now,
            uid: "",
            suffix: "",
            manager: &options.manager,
        };
        let (mut value, mut warnings) = match target.subresource.as_str() {
            // A scheduler may set what no client may.
            "binding" => (new, Vec::new()),
            _ => {
                let (name, stored) = (&target.served.store_name, &target.served.stored);
                custom_types::complete(name, stored, &mut new);
                let admitted = self.admit_changed(target, live, new, options, stamp)?;
                (admitted.value, admitted.warnings)
            }
        };
        warnings.extend(self.complete_changed(target, &mut value, live)?);
        let answer = |object: Arc<StoredObject>, warnings| Written {
            object,
            key: entry.key.clone(),
            is_new: false,
            warnings,
        };
        if value == *live {
            return Ok(answer(entry.value.clone(), warnings));
        }
        check_depth(&value)?;
        let quotas = Quotas::of(self, target, &value, Some(live), options.dry_run)?;
        if options.dry_run {
            let object = Arc::new(StoredObject::new(&entry.key.resource, value));
            return Ok(answer(object, warnings));
        }
        let count = quotas.charges.len();
        let mut operations = quotas.into_operations();
        let make = with_version(entry.key.resource.clone(), value.clone());
        let (key, expected) = (entry.key.clone(), Some(entry.version));
        operations.push(match is_over(&value) {
            true => Operation::Delete {
                key,
                expected,
                make: Some(make),
            },
            false => Operation::Update {
                key,
                expected,
                make,
            },
        });
        match self.commit(operations) {
            Ok(mut entries) => match entries.pop() {
                Some(entry) => Ok(answer(entry.value, warnings)),
                None => Err(Status::internal_error("nothing was stored").into()),
            },
            Err(CommitError::Conflict { .. }) => Err(NotReplaced::Raced),
            Err(CommitError::NotFound { index, .. }) if index < count => Err(NotReplaced::Raced),
            Err(error) => Err(refused_commit(&error, target).into()),
        }
    }

    /// What is written into a changed object that is otherwise complete; warnings.
    fn complete_changed(
        &self,
        target: &Target,
        value: &mut Value,
        live: &Value,
    ) -> Result<Vec<String>, Status> {
        let (name, stored) = (&target.served.store_name, &target.served.stored);
        if &**name == "services" {
            self.0.addresses.keep(value, live)?;
        }
        custom_types::check(self.store(), name, stored, value, Some(live), &self.now())
    }
}

/// Why an object was not replaced.
enum NotReplaced {
    /// It has changed since it was read.
    Raced,
    /// The answer.
    Refused(Box<Status>),
}

impl From<Status> for NotReplaced {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// Whether an object is to go since it is being deleted and nothing holds it any more.
pub(super) fn is_over(value: &Value) -> bool {
    let metadata = &value["metadata"];
    let has = |list: &Value| list.as_array().is_some_and(|it| !it.is_empty());
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let holds_itself = value["kind"] == json!("Namespace") && has(&value["spec"]["finalizers"]);
    metadata["deletionTimestamp"].is_string()
        && !has(&metadata["finalizers"])
        && grace == 0
        && !holds_itself
}

/// Kinds of which an update makes an object that is not there (`AllowCreateOnUpdate`).
fn is_made_by_update(resource: &ResourceType) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("", "endpoints" | "events" | "limitranges" | "services")
            | ("coordination.k8s.io", "leases")
            | ("discovery.k8s.io", "endpointslices")
            | ("node.k8s.io", "runtimeclasses")
    ) && resource.plural != "services"
}

/// Kinds that are not updated without a version (`AllowUnconditionalUpdate`).
fn needs_version(resource: &ResourceType) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("apiextensions.k8s.io", _)
            | ("apiregistration.k8s.io", _)
            | ("coordination.k8s.io", _)
            | ("policy", "poddisruptionbudgets")
            | ("admissionregistration.k8s.io", _)
            | (
                "storage.k8s.io",
                "csistoragecapacities" | "volumeattachments"
            )
    ) || resource.type_name.is_none()
}
