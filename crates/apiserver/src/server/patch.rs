//! Patches, and applies.

use outrank_api::metadata;
use outrank_api::patch::{self, PatchType};
use outrank_api::server_side_apply::{ApplyWrite, apply_body};
use outrank_api::status::{Reason, Status};
use outrank_api::types::ObjectMeta;
use serde_json::Value;

use super::{ApiServer, Target, WriteOptions, Written};
use crate::versions;

/// Looks at an object as it is to be, and as it is, before it is changed.
pub type Check<'c> = &'c dyn Fn(&Value, &Value) -> Result<(), Status>;

impl ApiServer {
    /// Changes an object by a patch, if `check` lets what comes of it through. The patch is one of
    /// the type that is served.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn patch(
        &self,
        target: &Target,
        patch_type: PatchType,
        text: &str,
        options: &WriteOptions,
        check: Check<'_>,
    ) -> Result<Written, Status> {
        let served = &target.served;
        self.modify(target, options, &|live| {
            let live = versions::to_served(&served.resource, &served.stored, live.clone());
            let validation = options.field_validation;
            let body = patch::apply(&served.resource, &live, patch_type, text, validation);
            let body = body.map_err(in_general)?;
            check_name(target, &body.value)?;
            check(&body.value, &live)?;
            let new = versions::to_stored(&served.resource, &served.stored, body.value);
            Ok((new, body.warnings))
        })
    }

    /// Applies a configuration, YAML or JSON: server-side apply. Makes the object if it is not
    /// there. `check` sees what comes of it, and the object as it is, or `null`.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused, with the conflicts if there are any.
    pub fn apply(
        &self,
        target: &Target,
        text: &str,
        options: &WriteOptions,
        check: Check<'_>,
    ) -> Result<Written, Status> {
        let served = &target.served;
        let now = self.now();
        let options = &WriteOptions {
            is_applied: true,
            ..options.clone()
        };
        let write = ApplyWrite {
            manager: &options.manager,
            force: options.force,
            subresource: &target.subresource,
            now: &now,
        };
        let apply = |live: Option<&Value>| {
            let validation = options.field_validation;
            apply_body(&served.resource, live, text, validation, write)
        };
        loop {
            if self.store().get(&target.key()).is_none() {
                if !target.subresource.is_empty() {
                    let resource = served.resource.resource();
                    return Err(Status::not_found(resource, &target.name));
                }
                let new = apply(None)?;
                check_no_uid(target, &new.value)?;
                check(&new.value, &Value::Null)?;
                match self.create(target, new.value, options) {
                    Err(status) if status.reason == Some(Reason::AlreadyExists) => continue,
                    outcome => {
                        return outcome.map(|mut written| {
                            written.warnings.splice(0..0, new.warnings);
                            written
                        });
                    }
                }
            }
            return self.modify(target, options, &|live| {
                let live = versions::to_served(&served.resource, &served.stored, live.clone());
                let new = apply(Some(&live))?;
                check_name(target, &new.value)?;
                check(&new.value, &live)?;
                let value = versions::to_stored(&served.resource, &served.stored, new.value);
                Ok((value, new.warnings))
            });
        }
    }
}

/// What clients are told of a JSON patch that does not fit the object: no more than that. Source:
/// `NewGenericServerResponse`, `k8s.io/apimachinery/pkg/api/errors/errors.go`, Kubernetes 1.36.
fn in_general(mut status: Status) -> Status {
    if status.code == 422 && status.details.is_none() {
        let message = "the server rejected our request due to an error in our request";
        status.message = message.to_owned();
        status.details = Some(Box::default());
    }
    status
}

/// An object that has an identity was there once, and is not now. Source: `applyPatch`,
/// `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.
fn check_no_uid(target: &Target, new: &Value) -> Result<(), Status> {
    let uid = new.pointer("/metadata/uid").and_then(Value::as_str);
    match uid.unwrap_or_default() {
        "" => Ok(()),
        uid => {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object \
                 was found"
            );
            let resource = target.served.resource.resource();
            Err(Status::conflict(resource, &target.name, why))
        }
    }
}

/// A change cannot give an object another name.
fn check_name(target: &Target, new: &Value) -> Result<(), Status> {
    let name = new.pointer("/metadata/name").and_then(Value::as_str);
    let metadata = ObjectMeta {
        name: name.unwrap_or_default().to_owned(),
        ..ObjectMeta::default()
    };
    metadata::check_name(&metadata, &target.name)
}
