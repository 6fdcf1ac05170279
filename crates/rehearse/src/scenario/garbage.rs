//! Garbage collection: what goes when its owners go.

use std::collections::{HashMap, HashSet};

use outrank_api::decode::{Object, ObjectKey, ObjectKind};
use outrank_api::types::{ObjectMeta, OwnerReference};

/// The places of objects that go because all their owners are `deleted` or go too. An object
/// of which another owner is left stays, and no longer refers to those that are gone
/// (`pkg/controller/garbagecollector`, Kubernetes 1.36). O(n).
///
/// Owners are told by name: what refers to an earlier object of the same name has lost its
/// owner already.
pub(super) fn dependents(objects: &mut [Object], deleted: Vec<ObjectKey>) -> HashSet<usize> {
    if deleted.is_empty() {
        return HashSet::new();
    }
    let mut dependents: HashMap<ObjectKey, Vec<usize>> = HashMap::new();
    for (place, object) in objects.iter().enumerate() {
        let metadata = object.metadata();
        let owners = metadata.owner_references.iter();
        for owner in owners.filter_map(|owner| owner_key(metadata, owner)) {
            dependents.entry(owner).or_default().push(place);
        }
    }
    let mut gone: HashSet<usize> = HashSet::new();
    // How many owners each has left, of those that lose one.
    let mut left: HashMap<usize, usize> = HashMap::new();
    let mut lost: HashSet<ObjectKey> = HashSet::new();
    let mut owners = deleted;
    while let Some(owner) = owners.pop() {
        // Each owner is looked up once: owners that own each other come to an end.
        for place in dependents.remove(&owner).unwrap_or_default() {
            let references = objects[place].metadata().owner_references.len();
            let left = left.entry(place).or_insert(references);
            *left -= 1;
            if *left == 0 && gone.insert(place) {
                owners.push(objects[place].key());
            }
        }
        lost.insert(owner);
    }
    for place in left.into_keys().filter(|place| !gone.contains(place)) {
        let metadata = objects[place].metadata_mut();
        let mut references = std::mem::take(&mut metadata.owner_references);
        references.retain(|it| owner_key(metadata, it).is_none_or(|owner| !lost.contains(&owner)));
        metadata.owner_references = references;
    }
    gone
}

/// The object that a reference means, if it is of a kind that is read.
pub(super) fn owner_key(dependent: &ObjectMeta, owner: &OwnerReference) -> Option<ObjectKey> {
    let kind = ObjectKind::find(&owner.api_version, &owner.kind)?;
    let namespace = match kind.is_namespaced() {
        true => dependent.namespace.clone(),
        false => String::new(),
    };
    Some((kind, namespace, owner.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, owners: &[(&str, &str)]) -> Object {
        let owners = owners.iter().map(|(kind, name)| {
            format!("{{apiVersion: apps/v1, kind: {kind}, name: {name}, uid: u}}")
        });
        let owners: Vec<String> = owners.collect();
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, ownerReferences: [{}]}}\nspec: \
             {{containers: [{{name: c, image: i}}]}}\n",
            owners.join(", ")
        );
        let loaded = outrank_api::decode::load([("test.yaml", manifest.as_bytes())]);
        assert_eq!(loaded.errors, []);
        loaded.objects[0].object.clone()
    }

    fn key(kind: ObjectKind, name: &str) -> ObjectKey {
        (kind, "default".into(), name.into())
    }

    #[test]
    fn an_object_goes_with_the_last_of_its_owners() {
        let both = [("ReplicaSet", "r"), ("StatefulSet", "s")];
        let mut objects = vec![pod("a", &both), pod("b", &both[..1]), pod("c", &[])];
        let gone = dependents(&mut objects, vec![key(ObjectKind::ReplicaSet, "r")]);
        assert_eq!(gone, HashSet::from([1]));
        let left = &objects[0].metadata().owner_references;
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].kind, "StatefulSet");
        let gone = dependents(&mut objects, vec![key(ObjectKind::StatefulSet, "s")]);
        assert_eq!(gone, HashSet::from([0]));
    }

    #[test]
    fn owners_of_kinds_that_are_not_read_are_there() {
        let mut objects = vec![pod("a", &[("ReplicaSet", "r"), ("Rollout", "x")])];
        let gone = dependents(&mut objects, vec![key(ObjectKind::ReplicaSet, "r")]);
        assert!(gone.is_empty());
        assert_eq!(objects[0].metadata().owner_references[0].kind, "Rollout");
    }
}
