//! The server itself: what is done with objects, whoever asks and however.
//!
//! [`ApiServer`] is what stands between a request and the [store](outrank_store): it knows the
//! types, asks admission, and keeps what is derived from objects (classes, custom types, rights) up
//! to date. The folder of this module has a file for each thing that can be done: [`create`](create),
//! [`read`](read), [`update`](update), [`patch`](patch), [`delete`](delete), [`watch`](watch), and
//! [`subresources`]. HTTP is elsewhere ([`crate::http`]); clients in the same process call these
//! functions, and get the same answers as those that come by network.

mod admitted;
pub mod create;
pub mod delete;
mod load;
pub mod patch;
mod quota;
pub mod read;
pub mod subresources;
pub mod update;
pub mod watch;

use std::sync::{Arc, PoisonError, RwLock};

use outrank_admission::{AdmissionChain, ClassRules, Writes};
use outrank_api::request_body::FieldValidation;
use outrank_api::status::Status;
use outrank_api::time::rfc3339;
use outrank_api::types::LimitedResource;
use outrank_store::{CommitError, Entry, Key, Operation, Store};
use serde_json::Value;

use crate::clock::Clock;
use crate::lookups::{Lookups, PriorityClasses};
use crate::served_types::{ServedType, ServedTypes};
use crate::service_addresses::ServiceAddresses;
use crate::stored_object::StoredObject;

/// What a server is told when it is made.
pub struct Settings {
    /// The admission plugins.
    pub chain: AdmissionChain,
    /// What priority classes may be.
    pub classes: ClassRules,
    /// Whether ResourceQuotas are asked.
    pub has_quotas: bool,
    /// What may not be used where no quota covers it.
    pub limited_resources: Vec<LimitedResource>,
    /// The time.
    pub clock: Clock,
}

/// An API server over a store. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct ApiServer(Arc<Inner>);

struct Inner {
    store: Store<StoredObject>,
    settings: Settings,
    types: RwLock<Arc<ServedTypes>>,
    classes: PriorityClasses,
    addresses: ServiceAddresses,
    observers: RwLock<Vec<Observer>>,
}

/// Is told of every change, after it was made and before it is answered.
pub type Observer = Box<dyn Fn(&Entry<StoredObject>, Changed) + Send + Sync>;

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The object is there, new or changed.
    Set,
    /// The object is gone.
    Gone,
}

/// The object that is meant, or all objects if there is no name.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its type.
    pub served: ServedType,
    /// Its namespace; empty if it is in none, or all are meant.
    pub namespace: String,
    /// Its name; may be empty.
    pub name: String,
    /// A part of it, such as `status`; may be empty.
    pub subresource: String,
}

impl Target {
    /// The key of the object in the store.
    pub fn key(&self) -> Key {
        Key::new(
            self.served.store_name.clone(),
            self.namespace.as_str(),
            self.name.as_str(),
        )
    }
}

/// How something is to be written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Name of the client, for `managedFields`.
    pub manager: String,
    /// Whether nothing is to come of it.
    pub dry_run: bool,
    /// What becomes of unknown fields.
    pub field_validation: FieldValidation,
    /// Whether an apply takes fields from their owners.
    pub force: bool,
    /// Whether the object says already who owns what, as after an apply.
    pub is_applied: bool,
}

/// An object that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object as it is stored, or would be.
    pub object: Arc<StoredObject>,
    /// Its key.
    pub key: Key,
    /// Whether it is new.
    pub is_new: bool,
    /// What the client is warned of.
    pub warnings: Vec<String>,
}

impl ApiServer {
    /// A server over a store.
    pub fn new(store: Store<StoredObject>, settings: Settings) -> Self {
        let server = Self(Arc::new(Inner {
            addresses: ServiceAddresses::of(&store),
            store,
            settings,
            types: RwLock::new(Arc::new(ServedTypes::new([]))),
            classes: PriorityClasses::default(),
            observers: RwLock::new(Vec::new()),
        }));
        server.refresh_custom_types();
        server
    }

    /// The store.
    pub fn store(&self) -> &Store<StoredObject> {
        &self.0.store
    }

    /// The time.
    pub fn clock(&self) -> &Clock {
        &self.0.settings.clock
    }

    /// The types that are served now.
    pub fn types(&self) -> Arc<ServedTypes> {
        let types = self.0.types.read().unwrap_or_else(PoisonError::into_inner);
        types.clone()
    }

    /// Has somebody told of every change from now on.
    pub fn observe(&self, observer: Observer) {
        let mut observers = self
            .0
            .observers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        observers.push(observer);
    }

    fn set_types(&self, types: ServedTypes) {
        *self.0.types.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(types);
    }

    /// The rules by which objects of a target are written.
    fn with_writes<T>(&self, then: impl FnOnce(&Writes<'_>) -> T) -> T {
        let Inner {
            store,
            settings,
            classes,
            ..
        } = &*self.0;
        let lookups = Lookups::new(store, classes);
        then(&Writes {
            chain: &settings.chain,
            classes: settings.classes,
            cluster: &lookups,
        })
    }

    /// Commits, and tells those who keep what is derived.
    fn commit(
        &self,
        operations: Vec<Operation<StoredObject>>,
    ) -> Result<Vec<Entry<StoredObject>>, CommitError> {
        let gone: Vec<bool> = operations
            .iter()
            .map(|it| matches!(it, Operation::Delete { .. }))
            .collect();
        let entries = self.0.store.commit(operations)?;
        for (entry, is_gone) in entries.iter().zip(gone) {
            let changed = if is_gone { Changed::Gone } else { Changed::Set };
            self.note(entry, changed);
        }
        Ok(entries)
    }

    fn note(&self, entry: &Entry<StoredObject>, changed: Changed) {
        self.0.classes.note(&entry.key);
        self.0.addresses.note(entry, changed);
        if &*entry.key.resource == crate::custom_types::DEFINITIONS {
            self.refresh_custom_types();
        }
        let observers = self
            .0
            .observers
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        observers
            .iter()
            .for_each(|observer| observer(entry, changed));
    }

    /// Reads the definitions of custom types anew.
    fn refresh_custom_types(&self) {
        let custom = crate::custom_types::served(&self.0.store);
        self.set_types(ServedTypes::new(custom));
    }

    fn now(&self) -> String {
        rfc3339(self.0.settings.clock.now())
    }
}

/// An object as it is to be stored once it has its version.
fn with_version(
    resource: Arc<str>,
    mut value: Value,
) -> Box<dyn FnOnce(u64) -> StoredObject + Send> {
    Box::new(move |version| {
        value["metadata"]["resourceVersion"] = version.to_string().into();
        StoredObject::new(&resource, value)
    })
}

/// How many lists and objects may be inside each other in a stored object, owners of fields included.
/// Readers of JSON, ours and those of clients, go no deeper than 127, and objects are sent inside of
/// lists, events and tables.
pub const STORED_DEPTH_MAX: usize = 120;

/// Refuses an object that could not be read again.
fn check_depth(value: &Value) -> Result<(), Status> {
    match outrank_api::document::depth(value) <= STORED_DEPTH_MAX {
        true => Ok(()),
        false => Err(Status::bad_request(format!(
            "the object has more than {STORED_DEPTH_MAX} lists and objects inside each other, the \
             owners of its fields included"
        ))),
    }
}

/// What a client is told of a write that the store did not take, and that it is no use to repeat.
fn refused_commit(error: &CommitError, target: &Target) -> Status {
    let resource = target.served.resource.resource();
    match error {
        CommitError::Exists { key, .. } => Status::already_exists(resource, &key.name),
        CommitError::NotFound { key, .. } => Status::not_found(resource, &key.name),
        CommitError::Conflict { key, .. } => Status::modified_since(resource, &key.name),
        other => Status::internal_error(other),
    }
}
