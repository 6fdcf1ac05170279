//! What rules and admission make of an object that is to be written.

use outrank_admission::write::Stamp;
use outrank_admission::{Attributes, Operation as Admitted, Writes};
use outrank_api::status::Status;
use serde_json::Value;

use super::{ApiServer, Target, WriteOptions};

impl ApiServer {
    pub(super) fn admit_new(
        &self,
        target: &Target,
        body: Value,
        options: &WriteOptions,
        stamp: Stamp<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        let name = body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match target.served.stored.object_kind() {
            Some(kind) => {
                let attributes = Attributes {
                    namespace: &target.namespace,
                    name: &name,
                    dry_run: options.dry_run,
                    ..Attributes::of(Admitted::Create, kind)
                };
                let v = self.with_writes(target, |writes: &Writes<'_>| {
                    writes.create(&attributes, body, stamp)
                })?;
                Ok((v, Vec::new()))
            }
            None => {
                let mut body = body;
                if name.is_empty() {
                    body["metadata"]["name"] = format!(
                        "{}{}",
                        body["metadata"]["generateName"]
                            .as_str()
                            .unwrap_or_default(),
                        stamp.suffix
                    )
                    .into();
                }
                body["metadata"]["uid"] = stamp.uid.into();
                body["metadata"]["creationTimestamp"] = stamp.now.into();
                if !target.namespace.is_empty() {
                    body["metadata"]["namespace"] = target.namespace.as_str().into();
                }
                Ok((body, Vec::new()))
            }
        }
    }
    pub(super) fn admit_changed(
        &self,
        target: &Target,
        live: &Value,
        new: Value,
        options: &WriteOptions,
        stamp: Stamp<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        match target.served.stored.object_kind() {
            Some(kind) => {
                let attributes = Attributes {
                    namespace: &target.namespace,
                    name: &target.name,
                    subresource: &target.subresource,
                    dry_run: options.dry_run,
                    ..Attributes::of(Admitted::Update, kind)
                };
                let v = self.with_writes(target, |writes| {
                    writes.update(&attributes, live, new, stamp)
                })?;
                Ok((v, Vec::new()))
            }
            None => Ok((new, Vec::new())),
        }
    }
}
