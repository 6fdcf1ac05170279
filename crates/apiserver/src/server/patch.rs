//! Patches, and applies.

use outrank_api::patch::{self, PatchType};
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
}
