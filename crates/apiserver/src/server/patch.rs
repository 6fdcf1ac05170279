//! Patches, and applies.

use outrank_api::patch::{self, PatchType};
use outrank_api::server_side_apply::{self, ApplyWrite};
use outrank_api::status::Status;
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
            let body = patch::apply(&served.resource, &live, patch_type, text, validation)?;
            check(&body.value, &live)?;
            let new = versions::to_stored(&served.resource, &served.stored, body.value);
            Ok((new, body.warnings))
        })
    }

    /// Applies a configuration: server-side apply. Makes the object if it is not there.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused, with the conflicts if there are any.
    pub fn apply(
        &self,
        target: &Target,
        applied: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let served = &target.served;
        let now = self.now();
        let write = ApplyWrite {
            manager: &options.manager,
            force: options.force,
            subresource: &target.subresource,
            now: &now,
        };
        loop {
            if self.store().get(&target.key()).is_none() {
                if !target.subresource.is_empty() {
                    let resource = served.resource.resource();
                    return Err(Status::not_found(resource, &target.name));
                }
                let new = server_side_apply::apply(&served.resource, None, applied.clone(), write)?;
                match self.create(target, new, options) {
                    Err(status) if is_taken(&status) => continue,
                    outcome => return outcome,
                }
            }
            return self.modify(target, options, &|live| {
                let live = versions::to_served(&served.resource, &served.stored, live.clone());
                let applied = applied.clone();
                let new =
                    server_side_apply::apply(&served.resource, Some(&live), applied, write)?;
                let new = versions::to_stored(&served.resource, &served.stored, new);
                Ok((new, Vec::new()))
            });
        }
    }
}

fn is_taken(status: &Status) -> bool {
    status.reason == Some(outrank_api::status::Reason::AlreadyExists)
}
