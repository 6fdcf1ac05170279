//! Volumes of pods that have their node: they are bound, or made, before the pod is.

use std::collections::BTreeMap;

use outrank_api::decode::ObjectKind;
use outrank_api::types::PersistentVolumeClaim;
use outrank_controllers::write::Patch;
use outrank_controllers::{Key, Write};
use outrank_engine::Engine;
use outrank_engine::ids::PodId;
use serde_json::json;

/// The annotation of a claim by which a provisioner knows for which node to make the volume.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation of a volume whose claim was chosen for it, not named by a person.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Claims, known by namespace and name, and whether they are bound.
#[derive(Default)]
pub(crate) struct Claims {
    known: BTreeMap<(String, String), Claim>,
}

struct Claim {
    uid: String,
    is_bound: bool,
}

impl Claims {
    pub(crate) fn set(&mut self, claim: &PersistentVolumeClaim) {
        let metadata = &claim.metadata;
        let name = (metadata.namespace.clone(), metadata.name.clone());
        let known = Claim {
            uid: metadata.uid.clone(),
            is_bound: !claim.spec.volume_name.is_empty()
                && metadata
                    .annotations
                    .contains_key("pv.kubernetes.io/bind-completed"),
        };
        self.known.insert(name, known);
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) {
        self.known.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Whether all of these are bound.
    pub(crate) fn are_bound(&self, names: &[(String, String)]) -> bool {
        let is_bound = |name| self.known.get(name).is_some_and(|claim| claim.is_bound);
        names.iter().all(is_bound)
    }

    fn uid(&self, name: &(String, String)) -> &str {
        self.known.get(name).map_or("", |claim| &claim.uid)
    }
}

/// What has to be written so that the volumes reserved for a pod become its own, and the claims
/// that are bound then.
pub(crate) fn reserved(
    engine: &Engine,
    claims: &Claims,
    pod: PodId,
    node: &str,
) -> (Vec<Write>, Vec<(String, String)>) {
    let cluster = engine.cluster();
    let Some(reservation) = cluster.storage.reservation(pod) else {
        return Default::default();
    };
    let text = |symbol| cluster.symbols.text(symbol).to_owned();
    let (mut writes, mut names) = (Vec::new(), Vec::new());
    for &(volume, (namespace, name)) in &reservation.bindings {
        let claim = (text(namespace), text(name));
        let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": claim.0, "name": claim.1, "uid": claims.uid(&claim)});
        let changes = json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": reference}});
        let key = Key::new(ObjectKind::PersistentVolume, "", &text(volume));
        writes.push(patch(key, changes));
        names.push(claim);
    }
    for &(namespace, name) in &reservation.provisions {
        let claim = (text(namespace), text(name));
        let key = Key::new(ObjectKind::PersistentVolumeClaim, &claim.0, &claim.1);
        let changes = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
        writes.push(patch(key, changes));
        names.push(claim);
    }
    (writes, names)
}

fn patch(key: Key, changes: serde_json::Value) -> Write {
    Write::Patch(Box::new(Patch {
        key,
        subresource: None,
        changes,
        uid: None,
        resource_version: None,
    }))
}
