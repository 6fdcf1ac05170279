//! Claims to volumes: they are bound, and volumes made, as the controllers of storage do.

use outrank_api::decode::Object;
use outrank_api::types::Node;
use outrank_controllers::virtual_cluster::VirtualCluster;
use outrank_controllers::volumes::bind_waiting;
use outrank_controllers::{Change, Kind, Stored};

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
    let nodes: Vec<Node> = cluster.all().cloned().collect();
    let storage = cluster
        .objects()
        .filter_map(|(key, stored)| match key.kind {
            Kind::Known(kind) if kind.is_storage() => stored.object().cloned(),
            _ => None,
        });
    let storage: Vec<Object> = storage.collect();
    let (changed, _) = bind_waiting(&nodes, &storage);
    let has_changed = !changed.is_empty();
    changed
        .into_iter()
        .for_each(|object| cluster.load(Stored::typed(object)));
    has_changed
}
