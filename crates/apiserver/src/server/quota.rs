//! What a write adds to the quotas of its namespace.
//!
//! The quotas and the object are stored in one step, so that what was counted is there and what
//! is there was counted.

use std::sync::Arc;

use outrank_admission::resource_quota::{
    GroupResource, Operation as Kind, QuotaObject, QuotaRequest, admit,
};
use outrank_api::decode::{Object, ObjectKind, decode_value};
use outrank_api::resource_type::ResourceType;
use outrank_api::status::{Reason, Status};
use outrank_api::types::{ObjectMeta, ResourceQuota};
use outrank_store::{Entry, Operation};
use serde_json::{Value, json};

use super::{ApiServer, Target, with_version};
use crate::lookups::entries_within;
use crate::stored_object::StoredObject;

/// The quotas that a write changes.
pub(super) struct Quotas {
    /// The quota as it was read, and as it is to be.
    pub(super) charges: Vec<(Entry<StoredObject>, Value)>,
}

/// An object as quotas look at it.
enum Counted {
    Typed(Box<Object>),
    Other(Box<ObjectMeta>),
}

impl Quotas {
    /// What a new object adds, or one that takes the place of `old`.
    ///
    /// # Errors
    ///
    /// The answer, if a quota refuses it.
    pub(super) fn of(
        server: &ApiServer,
        target: &Target,
        new: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Self, Status> {
        let nothing = Self {
            charges: Vec::new(),
        };
        let settings = &server.0.settings;
        if !settings.has_quotas || target.namespace.is_empty() {
            return Ok(nothing);
        }
        let entries = entries_within(server.store(), "resourcequotas", &target.namespace);
        if entries.is_empty() && settings.limited_resources.is_empty() {
            return Ok(nothing);
        }
        let resource_type: &ResourceType = ObjectKind::ResourceQuota.into();
        let values: Vec<Value> = entries
            .iter()
            .map(|entry| entry.value.to_value(resource_type))
            .collect();
        let quotas: Vec<ResourceQuota> = values
            .iter()
            .map(|value| serde_json::from_value(value.clone()).unwrap_or_default())
            .collect();
        let (new, old) = (Counted::of(new), old.map(Counted::of));
        let stored = &target.served.stored;
        let request = QuotaRequest {
            operation: match old {
                Some(_) => Kind::Update,
                None => Kind::Create,
            },
            resource: &GroupResource::new(&stored.group, &stored.plural),
            subresource: &target.subresource,
            namespace: &target.namespace,
            object: new.for_quotas(),
            old_object: old.as_ref().map(Counted::for_quotas),
            dry_run,
        };
        let now = server.clock().now();
        let charges = admit(&quotas, &settings.limited_resources, &request, now);
        let charges = charges.map_err(|refusal| match refusal.code() {
            403 => Status {
                code: 403,
                reason: Some(Reason::Forbidden),
                message: refusal.to_string(),
                details: Some(details(target, &new)),
                ..Status::bad_request("")
            },
            _ => Status::unknown_error(refusal.to_string()),
        })?;
        let charged = charges.into_iter().filter_map(|charge| {
            let (entry, mut value) = (
                entries.get(charge.quota)?,
                values.get(charge.quota)?.clone(),
            );
            if !value["status"].is_object() {
                value["status"] = json!({});
            }
            value["status"]["used"] = serde_json::to_value(&charge.used).ok()?;
            Some((entry.clone(), value))
        });
        Ok(Self {
            charges: charged.collect(),
        })
    }

    /// The writes of the quotas, each only if its quota has not changed.
    pub(super) fn into_operations(self) -> Vec<Operation<StoredObject>> {
        let operations = self.charges.into_iter().map(|(entry, value)| {
            let resource: Arc<str> = entry.key.resource.clone();
            Operation::Update {
                key: entry.key,
                expected: Some(entry.version),
                make: with_version(resource, value),
            }
        });
        operations.collect()
    }
}

impl Counted {
    fn of(value: &Value) -> Self {
        match decode_value(value) {
            Ok(object) => Self::Typed(Box::new(object)),
            Err(_) => {
                let metadata = value.get("metadata").cloned().unwrap_or_default();
                Self::Other(Box::new(
                    serde_json::from_value(metadata).unwrap_or_default(),
                ))
            }
        }
    }

    fn for_quotas(&self) -> QuotaObject<'_> {
        match self {
            Self::Typed(object) => match &**object {
                Object::Pod(it) => QuotaObject::Pod(it),
                Object::Service(it) => QuotaObject::Service(it),
                Object::PersistentVolumeClaim(it) => QuotaObject::PersistentVolumeClaim(it),
                other => QuotaObject::Other(other.metadata()),
            },
            Self::Other(metadata) => QuotaObject::Other(metadata),
        }
    }
}

fn details(target: &Target, new: &Counted) -> Box<outrank_api::status::StatusDetails> {
    let resource = target.served.resource.resource();
    Box::new(outrank_api::status::StatusDetails {
        name: new.for_quotas().metadata().name.clone(),
        group: resource.group.to_owned(),
        kind: resource.name.to_owned(),
        ..Default::default()
    })
}
