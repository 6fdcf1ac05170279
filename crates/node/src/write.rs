//! What a kubelet writes: values, for whoever carries them out.

use outrank_api::types::{NodeStatus, Pod, PodStatus};

/// A write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// The status of a pod becomes this. If the pod is gone, or another of its name is there,
    /// nothing is to be done.
    PodStatus {
        /// The pod.
        pod: PodRef,
        /// All of its status.
        status: Box<PodStatus>,
    },
    /// A pod that was deleted has ended: its object goes, with a grace period of 0, if it is
    /// still this one.
    DeletePod {
        /// The pod.
        pod: PodRef,
    },
    /// The object that shows a static pod was deleted, and is made again.
    CreateMirrorPod {
        /// The pod, without identifier.
        pod: Box<Pod>,
    },
    /// Something happened to a pod.
    PodEvent {
        /// The pod.
        pod: PodRef,
        /// What happened.
        event: Event,
    },
    /// The status of the node becomes this.
    NodeStatus {
        /// All of its status.
        status: Box<NodeStatus>,
    },
    /// The node is alive: its lease, called as the node in the namespace `kube-node-lease`, is
    /// renewed.
    RenewLease {
        /// When, in nanoseconds since 1970.
        renew_time: i64,
    },
}

/// Which pod is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Identifier; empty where nobody gives any.
    pub uid: String,
}

impl PodRef {
    /// Names a pod.
    pub fn of(pod: &Pod) -> Self {
        Self {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        }
    }
}

/// An event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it is as it should be.
    pub type_: EventType,
    /// One word, such as `Started`.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// The container it is about, such as `spec.containers{app}`; empty for the pod.
    pub field_path: String,
}

impl Event {
    /// A warning about a pod as a whole.
    pub(crate) fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            type_: EventType::Warning,
            reason: reason.into(),
            message: message.into(),
            field_path: String::new(),
        }
    }
}

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Something that people may want to look at.
    Warning,
}

impl EventType {
    /// The API's name.
    pub fn name(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}
