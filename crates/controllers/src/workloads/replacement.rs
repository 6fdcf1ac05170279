//! The pod that a controller makes when one of its pods is gone.

use std::sync::Arc;

use outrank_api::types::{Pod, PodStatus};

use crate::generated_names::{GENERATED_BASE_BYTES_MAX, fnv1a, shortened, suffix, uid_of};

/// The pod that the controller of `pod` makes in its place once it is deleted; `None` if it has
/// no controller, so that nobody does. `number` tells several replacements made in a row apart.
///
/// A StatefulSet makes a pod of the same name, others one of a new name. Controllers that are
/// not part of Kubernetes are taken to do as a Job does. The new pod has no node and has never
/// run.
pub fn replacement(pod: &Pod, number: u64) -> Option<Pod> {
    let owner = pod.metadata.controller()?;
    let mut new = pod.clone();
    let metadata = &mut new.metadata;
    if owner.kind != "StatefulSet" {
        let base = match pod.metadata.generate_name.as_str() {
            "" => base_of(&pod.metadata.name),
            base => base,
        };
        let base = shortened(base, GENERATED_BASE_BYTES_MAX);
        let seed = fnv1a(&[pod.metadata.namespace.as_bytes(), base.as_bytes()]);
        metadata.name = format!("{base}{}", suffix(seed.rotate_left(7), number));
    }
    let number = number.to_string();
    metadata.uid = uid_of(&["replacement", &pod.metadata.uid, &metadata.name, &number]);
    metadata.creation_timestamp = None;
    metadata.deletion_timestamp = None;
    Arc::make_mut(&mut new.spec).node_name.clear();
    new.status = PodStatus {
        phase: "Pending".into(),
        ..PodStatus::default()
    };
    Some(new)
}

/// A generated name without what was generated.
fn base_of(name: &str) -> &str {
    let end = name.rfind('-').map_or(name.len(), |dash| dash + 1);
    &name[..end]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, kind: &str) -> Pod {
        let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u",
            "controller": true});
        let pod = json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": [owner]},
            "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn pods_of_a_replica_set_get_new_names_and_no_node() {
        let old = pod("web-1-abcde", "ReplicaSet");
        let names = [0, 1, 2].map(|number| {
            let new = replacement(&old, number).expect("a controller makes it");
            assert_eq!((&*new.spec.node_name, &*new.status.phase), ("", "Pending"));
            assert_ne!(new.metadata.uid, old.metadata.uid);
            new.metadata.name
        });
        assert!(names.iter().all(|name| name.starts_with("web-1-")));
        assert_ne!(names[0], names[1]);
        assert_ne!(names[1], names[2]);
    }

    #[test]
    fn a_pod_of_a_stateful_set_keeps_its_name() {
        let new = replacement(&pod("db-0", "StatefulSet"), 3).expect("a controller makes it");
        assert_eq!(new.metadata.name, "db-0");
    }

    #[test]
    fn nobody_makes_a_bare_pod_again() {
        assert_eq!(replacement(&Pod::default(), 0), None);
    }
}
