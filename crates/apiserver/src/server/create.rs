//! Making an object.

use std::sync::Arc;

use outrank_admission::write::Stamp;
use outrank_api::status::Status;
use outrank_store::{CommitError, Key, Operation};
use serde_json::Value;
use uuid::Uuid;

use super::quota::Quotas;
use super::{ApiServer, Target, WriteOptions, Written, check_depth, refused_commit, with_version};
use crate::stored_object::StoredObject;
use crate::versions;
use crate::{custom_types, generated_name};

/// How often a name is generated anew if it is taken.
///
/// Source: `maxNameGenerationCreateAttempts` of `generic/registry/store.go`, Kubernetes 1.36.
const NAMES_TRIED: usize = 8;

impl ApiServer {
    /// Makes an object. The body has been read: it is of the type that is served.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn create(
        &self,
        target: &Target,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let served = &target.served;
        let body = versions::to_stored(&served.resource, &served.stored, body);
        let is_generated = name_of(&body).is_none();
        let mut tried = 1;
        loop {
            match self.create_once(target, body.clone(), options) {
                Err(refused) if is_generated && tried < NAMES_TRIED && is_taken(&refused) => {
                    tried += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn create_once(
        &self,
        target: &Target,
        mut body: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let uid = Uuid::new_v4().to_string();
        let (now, suffix) = (self.now(), generated_name::suffix());
        let stamp = Stamp {
            now: &now,
            uid: &uid,
            suffix: &suffix,
            manager: &options.manager,
        };
        let (name, stored) = (&target.served.store_name, &target.served.stored);
        custom_types::complete(name, stored, &mut body);
        let admitted = self.admit_new(target, body, options, stamp)?;
        let (mut value, mut warnings) = (admitted.value, admitted.warnings);
        warnings.extend(self.complete_new(target, &mut value)?);
        let name = name_of(&value).unwrap_or_default();
        let key = Key::new(
            target.served.store_name.clone(),
            target.namespace.as_str(),
            name,
        );
        let is_service = &*key.resource == "services";
        let given = is_service.then(|| value.clone());
        let stored = self.store_new(target, &key, value, options);
        if let Some(service) = given.filter(|_| stored.is_err() || options.dry_run) {
            self.0.addresses.release(&service);
        }
        let object = stored?;
        Ok(Written {
            object,
            key,
            is_new: true,
            warnings,
        })
    }

    /// Stores a new object, and what it adds to quotas.
    fn store_new(
        &self,
        target: &Target,
        key: &Key,
        value: Value,
        options: &WriteOptions,
    ) -> Result<Arc<StoredObject>, Status> {
        check_depth(&value)?;
        loop {
            let quotas = Quotas::of(self, target, &value, None, options.dry_run)?;
            // What is tried only is looked up first.
            if !options.dry_run {
                check_unversioned(&value, options)?;
            }
            if self.store().get(key).is_some() {
                let resource = target.served.resource.resource();
                return Err(Status::already_exists(resource, &key.name));
            }
            if options.dry_run {
                check_unversioned(&value, options)?;
                return Ok(Arc::new(StoredObject::new(&key.resource, value)));
            }
            let count = quotas.charges.len();
            let mut operations = quotas.into_operations();
            operations.push(Operation::Create {
                key: key.clone(),
                make: with_version(key.resource.clone(), value.clone()),
            });
            match self.commit(operations) {
                Ok(mut entries) => match entries.pop() {
                    Some(entry) => return Ok(entry.value),
                    None => return Err(Status::internal_error("nothing was stored")),
                },
                // A quota has changed meanwhile: it is asked again.
                Err(CommitError::Conflict { index, .. } | CommitError::NotFound { index, .. })
                    if index < count => {}
                Err(error) => return Err(refused_commit(&error, target)),
            }
        }
    }

    /// What is written into a new object that is otherwise complete; warnings.
    fn complete_new(&self, target: &Target, value: &mut Value) -> Result<Vec<String>, Status> {
        let (name, stored) = (&target.served.store_name, &target.served.stored);
        if &**name == "services" {
            self.0.addresses.allocate(value)?;
        }
        custom_types::check(self.store(), name, stored, value, None, &self.now())
    }
}

/// A new object has no version yet. What is no version at all is passed over; so are those of
/// objects that are applied, whose author cannot know whether they are there.
///
/// Source: `Create` in `k8s.io/apiserver/pkg/storage/etcd3/store.go` and
/// `pkg/registry/generic/registry/dryrun.go`.
fn check_unversioned(value: &Value, options: &WriteOptions) -> Result<(), Status> {
    let version = value.pointer("/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).unwrap_or_default();
    let has_version = version.parse::<u64>().is_ok_and(|version| version > 0);
    match has_version && !options.is_applied {
        false => Ok(()),
        true => Err(Status::unknown_error(
            "resourceVersion should not be set on objects to be created",
        )),
    }
}

fn name_of(value: &Value) -> Option<String> {
    let name = value.pointer("/metadata/name").and_then(Value::as_str)?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn is_taken(refused: &Status) -> bool {
    refused.reason == Some(outrank_api::status::Reason::AlreadyExists)
}
