//! What rules and admission make of an object that is to be written.

use outrank_admission::write::{Stamp, Written};
use outrank_admission::{Attributes, Operation};
use outrank_api::status::Status;
use serde_json::Value;

use super::{ApiServer, Target, WriteOptions};

impl ApiServer {
    /// The object that a creation makes.
    pub(super) fn admit_new(
        &self,
        target: &Target,
        body: Value,
        options: &WriteOptions,
        stamp: Stamp<'_>,
    ) -> Result<Written, Status> {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let name = name.to_owned();
        let attributes = Attributes {
            namespace: &target.namespace,
            name: &name,
            dry_run: options.dry_run,
            ..Attributes::of(Operation::Create, &*target.served.stored)
        };
        self.with_writes(|writes| match options.is_applied {
            true => writes.apply(&attributes, None, body, stamp),
            false => writes.create(&attributes, body, stamp),
        })
    }

    /// Whether a subresource of an object may be made.
    pub(super) fn admit_part(&self, target: &Target, dry_run: bool) -> Result<(), Status> {
        let attributes = Attributes {
            namespace: &target.namespace,
            name: &target.name,
            subresource: &target.subresource,
            dry_run,
            ..Attributes::of(Operation::Create, &*target.served.stored)
        };
        self.with_writes(|writes| writes.create_part(&attributes))
    }

    /// The object that comes in the place of `live`.
    pub(super) fn admit_changed(
        &self,
        target: &Target,
        live: &Value,
        new: Value,
        options: &WriteOptions,
        stamp: Stamp<'_>,
    ) -> Result<Written, Status> {
        let attributes = Attributes {
            namespace: &target.namespace,
            name: &target.name,
            subresource: &target.subresource,
            dry_run: options.dry_run,
            ..Attributes::of(Operation::Update, &*target.served.stored)
        };
        self.with_writes(|writes| match options.is_applied {
            true => writes.apply(&attributes, Some(live), new, stamp),
            false => writes.update(&attributes, live, new, stamp),
        })
    }
}
