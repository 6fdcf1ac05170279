//! Garbage collection: objects go when their owners do.
//!
//! An object names its owners in `ownerReferences`, by kind, name and uid. It goes when the last
//! of them has gone. How an owner goes is for who deletes it to choose:
//!
//! * **Background**: it goes at once, and the objects that it owns after it.
//! * **Foreground**: it is marked (`foregroundDeletion` among its finalizers) and stays until all
//!   objects have gone whose reference says `blockOwnerDeletion`. What it owns goes before it; an
//!   object that owns others itself goes in the foreground, too.
//! * **Orphan**: it is marked (`orphan`), what it owns loses the reference and stays.
//!
//! Owners in a circle go, too, if one of them is deleted. If somebody deletes several of a circle
//! in the foreground they wait for each other for ever, here as upstream.
//!
//! An object with one owner that stays and others that go, or are waiting for it to go, stays and
//! loses the references to the others.
//!
//! That an owner is not there means that it has gone. So what is known of the cluster must
//! be complete: nothing becomes of an object with an owner of a kind of which nothing is known, and
//! changes must come in the order in which they happened. References to something of that kind and name
//! with another uid, or in another namespace, are to an owner that has gone.
//!
//! Source: `pkg/controller/garbagecollector`, Kubernetes 1.36.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrank_api::types::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use crate::controller::{Controller, Plan};
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Delete, Event, Outcome, Propagation, Write};

/// The finalizer of what waits for the objects that it owns to go.
pub const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of what waits for the objects that it owns to be let go.
pub const ORPHAN: &str = "orphan";

/// The controller.
pub struct GarbageCollector {
    is_complete: Box<dyn Fn(&Kind) -> bool + Send>,
    never_missed: BTreeSet<String>,
}

impl GarbageCollector {
    /// A collector that knows all objects of all kinds.
    pub fn new() -> Self {
        Self::knowing(|_| true)
    }

    /// A collector that knows all objects of the kinds of which `is_complete` says so. Owners of
    /// other kinds are never missed.
    pub fn knowing(is_complete: impl Fn(&Kind) -> bool + Send + 'static) -> Self {
        Self {
            is_complete: Box::new(is_complete),
            never_missed: BTreeSet::new(),
        }
    }

    /// The same, for a world that begins without some owners, known by these uids: they are never
    /// missed.
    #[must_use]
    pub fn without(mut self, uids: impl IntoIterator<Item = String>) -> Self {
        self.never_missed.extend(uids);
        self
    }
}

impl Default for GarbageCollector {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "garbage-collector-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, _: i64) -> Vec<Key> {
        let old = seen.old.as_deref().map(Stored::metadata);
        let new = seen.new.as_deref().map(Stored::metadata);
        let mut keys = Vec::new();
        if new.is_some_and(|new| is_business(new) && old.is_none_or(|old| has_changed(old, new))) {
            keys.push(seen.key.clone());
        }
        let Some(old) = old else {
            return keys;
        };
        let new = new.filter(|new| new.uid == old.uid);
        let waits = |metadata| is_waiting(metadata, FOREGROUND);
        if new.is_none_or(|new| waits(new) && !waits(old)) {
            keys.extend(world.dependents(&old.uid).map(|it| it.key()));
        }
        if new.is_none_or(|new| new.owner_references != old.owner_references) {
            let owners = old.owner_references.iter();
            let owners = owners.filter_map(|owner| world.with_uid(&owner.uid));
            keys.extend(owners.filter(|it| waits(it.metadata())).map(|it| it.key()));
        }
        keys
    }

    fn reconcile(&mut self, key: &Key, world: &World, _: i64) -> Plan {
        let mut plan = Plan::nothing();
        let Some(stored) = world.stored(key) else {
            return plan;
        };
        let metadata = stored.metadata();
        if is_waiting(metadata, ORPHAN) {
            let dependents = world.dependents(&metadata.uid);
            plan.step(dependents.map(|it| without_owners(it, &[metadata.uid.as_str()])));
            plan.step([without_finalizer(stored, ORPHAN)]);
        } else if is_waiting(metadata, FOREGROUND) {
            let mut dependents = world.dependents(&metadata.uid);
            if !dependents.any(|it| blocks(it.metadata(), &metadata.uid)) {
                plan.step([without_finalizer(stored, FOREGROUND)]);
            }
        } else if metadata.deletion_timestamp.is_none() {
            self.collect(stored, world, &mut plan);
        }
        plan
    }

    fn tell(&self, _: &Key, _: &World, _: &Write, _: &Outcome) -> Option<Event> {
        None
    }
}

/// How the owners of an object are.
#[derive(Default)]
struct Owners<'o> {
    /// They are there.
    solid: usize,
    /// They have gone.
    gone: Vec<&'o str>,
    /// They wait for what they own to go.
    waiting: Vec<&'o str>,
    /// Those of the gone that are there, but in another namespace.
    elsewhere: Vec<&'o OwnerReference>,
    /// Whether it is not known of some whether they are there.
    are_unknown: bool,
}

impl GarbageCollector {
    /// Deletes an object that is not being deleted yet, if no owner is left.
    fn collect(&self, stored: &Arc<Stored>, world: &World, plan: &mut Plan) {
        let metadata = stored.metadata();
        if metadata.owner_references.is_empty() {
            return;
        }
        let owners = self.owners(stored, world);
        plan.step(owners.elsewhere.iter().map(|owner| invalid(stored, owner)));
        if owners.are_unknown {
            return;
        }
        if owners.solid > 0 {
            let mut leave = owners.gone;
            leave.extend(owners.waiting);
            plan.step((!leave.is_empty()).then(|| without_owners(stored, &leave)));
            return;
        }
        let mut dependents = world.dependents(&metadata.uid).peekable();
        if owners.waiting.is_empty() || dependents.peek().is_none() {
            plan.step([deletion(stored, of_finalizers(metadata))]);
            return;
        }
        // Owners in a circle would all wait for each other. This one lets its owners go first,
        // and when that is written it is its turn again.
        let is_circle = dependents.any(|it| is_waiting(it.metadata(), FOREGROUND));
        let unblocked = is_circle.then(|| not_blocking(stored)).flatten();
        plan.step([unblocked.unwrap_or_else(|| deletion(stored, Propagation::Foreground))]);
    }

    fn owners<'o>(&self, stored: &'o Stored, world: &World) -> Owners<'o> {
        let metadata = stored.metadata();
        let mut owners = Owners::default();
        for reference in &metadata.owner_references {
            let kind = Kind::of(&reference.api_version, &reference.kind);
            let found = world.with_uid(&reference.uid);
            let is_elsewhere = found.is_some_and(|found| {
                let namespace = &found.metadata().namespace;
                !namespace.is_empty() && *namespace != metadata.namespace
            });
            let owner = found.filter(|it| !is_elsewhere && is_meant(it, reference));
            match owner {
                Some(owner) if is_waiting(owner.metadata(), FOREGROUND) => {
                    owners.waiting.push(&reference.uid);
                }
                Some(_) => owners.solid += 1,
                None if self.never_missed.contains(&reference.uid) => owners.solid += 1,
                None if !self.can_be_missed(metadata, &kind) => owners.are_unknown = true,
                None => owners.gone.push(&reference.uid),
            }
            if is_elsewhere {
                owners.elsewhere.push(reference);
            }
        }
        owners
    }

    /// Whether an owner of a kind that is not there has gone. What is in no namespace cannot be
    /// owned by something that is in one: such a reference is not followed.
    fn can_be_missed(&self, dependent: &ObjectMeta, kind: &Kind) -> bool {
        let is_wrong = match kind {
            Kind::Known(kind) => dependent.namespace.is_empty() && kind.is_namespaced(),
            Kind::Other(_) => false,
        };
        !is_wrong && (self.is_complete)(kind)
    }
}

/// Whether there may be something to do about an object.
fn is_business(metadata: &ObjectMeta) -> bool {
    !metadata.owner_references.is_empty()
        || is_waiting(metadata, FOREGROUND)
        || is_waiting(metadata, ORPHAN)
}

fn has_changed(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.uid != new.uid
        || old.owner_references != new.owner_references
        || old.deletion_timestamp != new.deletion_timestamp
        || old.finalizers != new.finalizers
}

/// Whether an object is being deleted and has a finalizer.
fn is_waiting(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().any(|it| it == finalizer)
}

/// Whether the owner with this uid has to wait for an object.
fn blocks(dependent: &ObjectMeta, owner_uid: &str) -> bool {
    let mut references = dependent.owner_references.iter();
    references.any(|it| it.uid == owner_uid && it.block_owner_deletion == Some(true))
}

/// Whether an object of the right uid is the owner that a reference means. Versions of a kind are
/// all the same.
fn is_meant(owner: &Stored, reference: &OwnerReference) -> bool {
    let (kind, meant) = (
        owner.kind(),
        Kind::of(&reference.api_version, &reference.kind),
    );
    owner.metadata().name == reference.name
        && (kind == meant || kind.name() == meant.name() && kind.group() == meant.group())
}

/// How an object wants to go that is deleted for lack of owners.
fn of_finalizers(metadata: &ObjectMeta) -> Propagation {
    let has = |finalizer| metadata.finalizers.iter().any(|it| it == finalizer);
    if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

fn deletion(stored: &Stored, propagation: Propagation) -> Write {
    let delete = Delete {
        key: stored.key(),
        uid: Some(stored.metadata().uid.clone()),
        resource_version: None,
        grace_seconds: None,
        propagation: Some(propagation),
    };
    // At this version: it may have got another owner since.
    Write::Delete(delete).at_version(stored)
}

fn without_owners(stored: &Arc<Stored>, uids: &[&str]) -> Write {
    let references = stored.metadata().owner_references.iter();
    let left: Vec<&OwnerReference> = references
        .filter(|it| !uids.contains(&it.uid.as_str()))
        .collect();
    owners_write(stored, json!(left))
}

/// Lets the owners of an object go without it.
fn not_blocking(stored: &Stored) -> Option<Write> {
    let mut references = stored.metadata().owner_references.clone();
    let mut has_changed = false;
    for reference in &mut references {
        if reference.block_owner_deletion == Some(true) {
            reference.block_owner_deletion = Some(false);
            has_changed = true;
        }
    }
    has_changed.then(|| owners_write(stored, json!(references)))
}

fn owners_write(stored: &Stored, references: Value) -> Write {
    let changes = json!({"metadata": {"ownerReferences": or_absent(references)}});
    Write::patch(stored, changes).at_version(stored)
}

fn without_finalizer(stored: &Stored, finalizer: &str) -> Write {
    let finalizers = stored.metadata().finalizers.iter();
    let left: Vec<&String> = finalizers.filter(|it| *it != finalizer).collect();
    let changes = json!({"metadata": {"finalizers": or_absent(json!(left))}});
    Write::patch(stored, changes).at_version(stored)
}

/// An empty list is written as none.
fn or_absent(list: Value) -> Value {
    match list.as_array() {
        Some(elements) if elements.is_empty() => Value::Null,
        _ => list,
    }
}

fn invalid(stored: &Stored, owner: &OwnerReference) -> Write {
    let namespace = &stored.metadata().namespace;
    let message = format!(
        "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace \
         \"{namespace}\"",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    Write::Event(Event::warning(stored, "OwnerRefInvalidNamespace", message))
}
