//! Changes of stored objects, as events of the engine.

use outrank_api::decode::{Object, ObjectKind};
use outrank_controllers::{Key, Kind, Stored};
use outrank_engine::Event;

/// The event that an object is there as it is; `None` if it does not concern scheduling.
/// Pods are not among these: which event they are depends on what was decided.
pub(crate) fn set(stored: &Stored) -> Option<Event> {
    match stored.object()?.clone() {
        Object::Pod(_) => None,
        Object::Node(it) => Some(Event::NodeChanged(*it)),
        Object::Namespace(it) => Some(Event::NamespaceChanged(*it)),
        Object::Service(it) => Some(Event::ServiceChanged(*it)),
        Object::PriorityClass(it) => Some(Event::PriorityClassChanged(*it)),
        Object::PodDisruptionBudget(it) => Some(Event::BudgetChanged(*it)),
        other => Event::of_owner(&other).or_else(|| Event::of_storage(other)),
    }
}

/// The event that an object other than a pod is gone.
pub(crate) fn gone(key: &Key) -> Option<Event> {
    let Kind::Known(kind) = key.kind else {
        return None;
    };
    let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
    let event = match kind {
        ObjectKind::Node => Event::NodeGone { name },
        ObjectKind::Service => Event::ServiceGone { namespace, name },
        ObjectKind::PriorityClass => Event::PriorityClassGone { name },
        ObjectKind::PodDisruptionBudget => Event::BudgetGone { namespace, name },
        ObjectKind::ReplicaSet | ObjectKind::StatefulSet | ObjectKind::ReplicationController => {
            Event::OwnerChanged {
                kind: kind.name().to_owned(),
                namespace,
                name,
                selector: None,
            }
        }
        kind if kind.is_storage() => Event::StorageGone {
            kind,
            namespace,
            name,
        },
        _ => return None,
    };
    Some(event)
}
