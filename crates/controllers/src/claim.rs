//! Whose pods: adoption of those that nobody manages, and release of those that do not fit.
//!
//! A controller owns what its reference says and its selector matches. What matches and has no
//! controller it adopts; what it owns but does not match any more it releases.
//! Source: `pkg/controller/controller_ref_manager.go`, Kubernetes 1.36.

use std::sync::Arc;

use outrank_api::decode::Typed;
use outrank_api::labels::Selector;
use outrank_api::types::OwnerReference;
use serde_json::json;

use crate::world::{Stored, World};
use crate::write::{Patch, Write};

/// What belongs to an owner, and what must be written so that it is so.
pub(crate) struct Claimed<'w> {
    /// Owned and matching, by name. Those that are to be adopted come when they are.
    pub(crate) own: Vec<&'w Arc<Stored>>,
    /// Adoptions and releases.
    pub(crate) writes: Vec<Write>,
}

/// The objects of a type that belong to `owner`, or are to. `fit` says which may be adopted.
pub(crate) fn claim<'w, T: Typed>(
    world: &'w World,
    owner: &'w Stored,
    selector: &Selector,
    fit: impl Fn(&T) -> bool,
) -> Claimed<'w> {
    let metadata = owner.metadata();
    let is_going = metadata.deletion_timestamp.is_some();
    // Without a selector, the reference alone decides.
    let selects_nothing = selector.requirements().is_none();
    let mut claimed = Claimed {
        own: Vec::new(),
        writes: Vec::new(),
    };
    for stored in owned::<T>(world, owner) {
        let its = stored.metadata();
        if selects_nothing || selector.matches(&its.labels) {
            claimed.own.push(stored);
        } else if !is_going && its.deletion_timestamp.is_none() {
            claimed.writes.push(release(stored, &metadata.uid));
        }
    }
    if is_going || selects_nothing || selector.is_empty() {
        return claimed;
    }
    for stored in world.orphans_stored::<T>(&metadata.namespace) {
        let its = stored.metadata();
        let matches = its.deletion_timestamp.is_none() && selector.matches(&its.labels);
        if matches && stored.get().is_some_and(&fit) {
            claimed.writes.push(adopt(stored, owner));
        }
    }
    claimed
}

/// The objects of a type that `owner` controls, by name.
pub(crate) fn owned<'w, T: Typed>(
    world: &'w World,
    owner: &'w Stored,
) -> impl Iterator<Item = &'w Arc<Stored>> {
    let uid = &owner.metadata().uid;
    let is_own = move |stored: &&Arc<Stored>| {
        let controller = stored.metadata().controller();
        controller.is_some_and(|it| it.uid == *uid)
    };
    world.dependents_of_kind(uid, T::KIND).filter(is_own)
}

/// The reference of an object that `owner` manages.
pub(crate) fn reference_to(owner: &Stored) -> OwnerReference {
    let kind = owner.kind();
    OwnerReference {
        api_version: kind.api_version().to_owned(),
        kind: kind.name().to_owned(),
        name: owner.metadata().name.clone(),
        uid: owner.metadata().uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub(crate) fn adopt(object: &Stored, owner: &Stored) -> Write {
    let mut owners = object.metadata().owner_references.clone();
    owners.push(reference_to(owner));
    with_owners(object, owners)
}

pub(crate) fn release(object: &Stored, uid: &str) -> Write {
    let mut owners = object.metadata().owner_references.clone();
    owners.retain(|owner| owner.uid != uid);
    with_owners(object, owners)
}

/// Sets the owners of an object, if nobody else has changed it: the list is written as a whole.
pub(crate) fn with_owners(object: &Stored, owners: Vec<OwnerReference>) -> Write {
    let metadata = object.metadata();
    let version = metadata.resource_version.clone();
    Write::Patch(Box::new(Patch {
        key: object.key(),
        subresource: None,
        changes: json!({"metadata": {"ownerReferences": owners}}),
        uid: Some(metadata.uid.clone()),
        resource_version: (!version.is_empty()).then_some(version),
    }))
}
