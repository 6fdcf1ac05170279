//! Claims to volumes: they are bound, and volumes made, as the controllers of storage do.

use outrank_api::decode::Object;
use outrank_api::types::{Node, PersistentVolume, PersistentVolumeClaim};
use outrank_controllers::virtual_cluster::VirtualCluster;
use outrank_controllers::volumes::PersistentVolumeBinder;
use outrank_controllers::{Change, Kind, Stored};

/// The annotation by which the scheduler says for which node a volume is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Whether a change may let claims be bound.
pub(super) fn are_concerned(change: &Change) -> bool {
    let kind = match change {
        Change::Set(stored) => stored.kind(),
        Change::Gone { key, .. } => key.kind.clone(),
    };
    matches!(kind, Kind::Known(kind) if kind.is_storage())
}

/// Binds claims that can be bound now; whether there were any.
pub(super) fn bind(cluster: &mut VirtualCluster) -> bool {
    let unbound: Vec<PersistentVolumeClaim> = cluster
        .all()
        .filter(|claim: &&PersistentVolumeClaim| is_unbound(claim))
        .cloned()
        .collect();
    if unbound.is_empty() {
        return false;
    }
    let nodes: Vec<Node> = cluster.all().cloned().collect();
    let storage = cluster
        .objects()
        .filter_map(|(key, stored)| match key.kind {
            Kind::Known(kind) if kind.is_storage() => stored.object().cloned(),
            _ => None,
        });
    let storage: Vec<Object> = storage.collect();
    let mut binder = PersistentVolumeBinder::new(&nodes, &storage);
    for volume in cluster.all::<PersistentVolume>() {
        if let Some(claim) = &volume.spec.claim_ref {
            let name = (claim.namespace.clone(), claim.name.clone());
            if binder.claim(&name).is_some_and(is_unbound) {
                binder.bind(&name, &volume.metadata.name);
            }
        }
    }
    for claim in &unbound {
        let metadata = &claim.metadata;
        let name = (metadata.namespace.clone(), metadata.name.clone());
        if let Some(node) = metadata.annotations.get(SELECTED_NODE)
            && binder.claim(&name).is_some_and(is_unbound)
        {
            binder.provision(&name, node);
        }
    }
    binder.bind_claims();
    let changed = binder.take_changes();
    let has_changed = !changed.is_empty();
    changed
        .into_iter()
        .for_each(|object| cluster.load(Stored::typed(object)));
    has_changed
}

fn is_unbound(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.volume_name.is_empty() && claim.metadata.deletion_timestamp.is_none()
}
