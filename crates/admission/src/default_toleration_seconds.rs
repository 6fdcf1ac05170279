//! The DefaultTolerationSeconds admission plugin: how long pods stay on a node that is lost.
//!
//! A node that is not ready or not reachable gets a taint that evicts pods. So that a short
//! absence does not move everything, each pod that says nothing of these taints tolerates them
//! for a while. The plugin looks at pods that are created and at pods that are updated.
//!
//! Source: `plugin/pkg/admission/defaulttolerationseconds/admission.go`, Kubernetes 1.36.

use outrank_api::decode::Object;
use outrank_api::defaults::{TOLERATION_SECONDS, add_node_tolerations};
use outrank_api::status::Status;

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};

/// The plugin, with the flags of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultTolerationSeconds {
    /// `--default-not-ready-toleration-seconds`.
    pub not_ready_seconds: i64,
    /// `--default-unreachable-toleration-seconds`.
    pub unreachable_seconds: i64,
}

impl Default for DefaultTolerationSeconds {
    /// Five minutes each.
    fn default() -> Self {
        Self {
            not_ready_seconds: TOLERATION_SECONDS,
            unreachable_seconds: TOLERATION_SECONDS,
        }
    }
}

impl AdmissionPlugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
        _cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let concerned =
            attributes.subresource.is_empty() && attributes.operation != Operation::Delete;
        if let Some(Object::Pod(pod)) = object.filter(|_| concerned) {
            add_node_tolerations(pod, self.not_ready_seconds, self.unreachable_seconds);
        }
        Ok(())
    }
}
