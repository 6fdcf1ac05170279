//! What a claim to a volume uses of a quota: itself and the storage that it requests, both in
//! all and of its storage class (`gold.storageclass.storage.k8s.io/requests.storage`).
//!
//! Source: `pkg/quota/v1/evaluator/core/persistent_volume_claims.go`, Kubernetes 1.36.

use outrank_api::quantity::Quantity;
use outrank_api::types::{PersistentVolumeClaim, ResourceList};

use super::amounts::count;

const COUNT_NAME: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Whether the name is one of something that claims use.
pub(super) fn is_limited_by(name: &str) -> bool {
    let name = match name.rsplit_once(OF_CLASS) {
        Some((_, of_class)) => of_class,
        None if name == COUNT_NAME => return true,
        None => name,
    };
    matches!(name, CLAIMS | STORAGE)
}

/// What the claim uses.
pub(super) fn usage(claim: &PersistentVolumeClaim) -> ResourceList {
    let mut usage = ResourceList::from([
        (CLAIMS.to_owned(), count(1)),
        (COUNT_NAME.to_owned(), count(1)),
    ]);
    let class = claim.class_name().filter(|class| !class.is_empty());
    if let Some(class) = class {
        usage.insert(format!("{class}{OF_CLASS}{CLAIMS}"), count(1));
    }
    if let Some(storage) = storage(claim) {
        if let Some(class) = class {
            usage.insert(format!("{class}{OF_CLASS}{STORAGE}"), storage.clone());
        }
        usage.insert(STORAGE.to_owned(), storage);
    }
    usage
}

/// The storage that was requested, or that was set aside while the volume grows if that is
/// more, in whole bytes.
fn storage(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let requested = claim.spec.resources.requests.get("storage")?;
    let requested = whole(requested);
    let allocated = claim.status.allocated_resources.get("storage");
    match allocated.filter(|allocated| **allocated > requested) {
        Some(allocated) => Some(whole(allocated)),
        None => Some(requested),
    }
}

fn whole(amount: &Quantity) -> Quantity {
    let mut rounded = amount.clone();
    // What is whole keeps its notation.
    if rounded.round_up(0) {
        return amount.clone();
    }
    rounded
}
