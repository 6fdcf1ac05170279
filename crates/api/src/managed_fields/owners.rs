//! The entries of `metadata.managedFields`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use crate::time::unix_nanos;

/// How many entries of updates an object keeps; the oldest are put together beyond that.
pub const UPDATE_ENTRIES_MAX: usize = 10;

/// The manager to whom the oldest updates are ascribed.
pub const ANCIENT_CHANGES: &str = "ancient-changes";

/// What a manager did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owner {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    /// RFC 3339.
    pub(crate) time: Option<String>,
    pub(crate) fields: FieldSet,
}

impl Owner {
    /// The entry in the form of the API; `None` if it is not one.
    fn read(entry: Value) -> Option<Self> {
        let Value::Object(mut entry) = entry else {
            return None;
        };
        let mut text = |field: &str| match entry.remove(field) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        Some(Self {
            manager: text("manager"),
            operation,
            api_version,
            subresource: text("subresource"),
            time: Some(text("time")).filter(|time| !time.is_empty()),
            fields: FieldSet::read(entry.remove("fieldsV1").unwrap_or_default())?,
        })
    }

    fn into_value(self) -> Value {
        let mut entry = Map::new();
        let mut put = |field: &str, value: Value| entry.insert(field.to_owned(), value);
        put("apiVersion", self.api_version.into());
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.fields.into_value());
        put("manager", self.manager.into());
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        put("operation", operation.into());
        if !self.subresource.is_empty() {
            put("subresource", self.subresource.into());
        }
        if let Some(time) = self.time {
            put("time", time.into());
        }
        Value::Object(entry)
    }

    /// Whether both are one manager. Who applies stays the same in every version.
    pub(crate) fn is_manager(&self, other: &Owner) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The seconds of the time since 1970, 0 without one.
    fn seconds(&self) -> i64 {
        let nanos = self.time.as_deref().and_then(unix_nanos);
        nanos.unwrap_or_default().div_euclid(1_000_000_000)
    }
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owners(pub(crate) Vec<Owner>);

/// What a list of entries says.
enum Given {
    /// Nothing: it is absent, or not of the form of such a list.
    Nothing,
    /// That the object is to have none.
    Reset,
    Entries(Owners),
}

impl Owners {
    /// The owners that count for a write. They are taken out of the new object. A client may
    /// bring owners, or reset them by an empty list or a list of one empty entry; one that
    /// knows nothing of them leaves those that there were. Subresources cannot change them
    /// directly.
    pub(crate) fn of_write(live: &Value, new: &mut Value, subresource: &str) -> Self {
        let given = match new.get_mut("metadata") {
            Some(Value::Object(metadata)) => metadata.remove("managedFields"),
            _ => None,
        };
        // Nearly every write brings those that there were, and then they need not be copied.
        let stored = live.pointer("/metadata/managedFields");
        if subresource.is_empty() || (given.is_some() && given.as_ref() == stored) {
            match read(given) {
                Given::Reset => return Self::default(),
                Given::Entries(owners) => return owners,
                Given::Nothing => {}
            }
        }
        Self::of(live)
    }

    /// The owners of a stored object.
    pub(crate) fn of(live: &Value) -> Self {
        match read(live.pointer("/metadata/managedFields").cloned()) {
            Given::Entries(owners) => owners,
            Given::Nothing | Given::Reset => Self::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the fields of an owner to those that it has already.
    pub(crate) fn give(&mut self, owner: Owner) {
        match self.0.iter_mut().find(|other| other.is_manager(&owner)) {
            Some(own) => {
                own.fields.add(owner.fields);
                own.time = owner.time;
            }
            None => self.0.push(owner),
        }
    }

    /// Forgets owners of nothing.
    pub(crate) fn tidy(&mut self) {
        self.0.retain(|owner| !owner.fields.is_empty());
    }

    /// Puts the oldest updates of a version together until there are not too many
    /// (`capmanagers.go`).
    pub(crate) fn cap_updates(&mut self) {
        let is_update = |owner: &&Owner| owner.operation == Operation::Update;
        let mut count = self.0.iter().filter(is_update).count();
        if count <= UPDATE_ENTRIES_MAX {
            return;
        }
        let (mut updates, others): (Vec<Owner>, Vec<Owner>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|owner| is_update(&owner));
        updates.sort_by_cached_key(|owner| (owner.seconds(), key(owner)));
        let mut kept: Vec<Owner> = others;
        // By version, where that stands in `kept` into which others are put.
        let mut buckets: HashMap<String, usize> = HashMap::new();
        let (ancient, updates): (Vec<Owner>, Vec<Owner>) = updates
            .into_iter()
            .partition(|owner| owner.manager == ANCIENT_CHANGES && owner.subresource.is_empty());
        for owner in ancient.into_iter().chain(updates) {
            let bucket = buckets.get(&owner.api_version);
            match bucket.and_then(|at| kept.get_mut(*at)) {
                Some(bucket) if count > UPDATE_ENTRIES_MAX => {
                    ANCIENT_CHANGES.clone_into(&mut bucket.manager);
                    bucket.subresource.clear();
                    bucket.fields.add(owner.fields);
                    bucket.time = owner.time;
                    count -= 1;
                }
                _ => {
                    let version = owner.api_version.clone();
                    buckets.entry(version).or_insert(kept.len());
                    kept.push(owner);
                }
            }
        }
        self.0 = kept;
    }

    /// Writes the entries into an object, in upstream's order.
    pub(crate) fn write_to(mut self, object: &mut Value) {
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return;
        };
        if self.0.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        self.0.sort_by(|a, b| {
            let by_time = || match (&a.time, &b.time) {
                (a_time, b_time) if a_time == b_time => std::cmp::Ordering::Equal,
                _ => a.seconds().cmp(&b.seconds()),
            };
            a.operation
                .cmp(&b.operation)
                .then_with(by_time)
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        let entries = self.0.into_iter().map(Owner::into_value).collect();
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

/// What upstream sorts managers by where it says nothing else.
pub(crate) fn key(owner: &Owner) -> (String, Operation, String, String) {
    let version = match owner.operation {
        Operation::Apply => String::new(),
        Operation::Update => owner.api_version.clone(),
    };
    let Owner {
        manager,
        subresource,
        ..
    } = owner;
    (
        manager.clone(),
        owner.operation,
        version,
        subresource.clone(),
    )
}

fn read(entries: Option<Value>) -> Given {
    let Some(Value::Array(entries)) = entries else {
        return Given::Nothing;
    };
    let is_empty_entry = |entry: &Value| entry.as_object().is_some_and(Map::is_empty);
    if entries.is_empty() || matches!(entries.as_slice(), [one] if is_empty_entry(one)) {
        return Given::Reset;
    }
    let mut owners = Owners::default();
    for entry in entries {
        let Some(owner) = Owner::read(entry) else {
            return Given::Nothing;
        };
        // Of two entries of one manager the last counts.
        owners.0.retain(|other| !other.is_manager(&owner));
        owners.0.push(owner);
    }
    Given::Entries(owners)
}
