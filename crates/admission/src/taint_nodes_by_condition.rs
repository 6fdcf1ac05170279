//! The TaintNodesByCondition admission plugin: nobody is put on a node before it is ready.
//!
//! Every new node gets the taint that nodes have that are not ready; the controller of node life
//! cycles takes it away once the node says that it is. Source:
//! `plugin/pkg/admission/nodetaint/admission.go`, Kubernetes 1.36.

use outrank_api::decode::Object;
use outrank_api::status::Status;
use outrank_api::types::Taint;

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

/// The plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaintNodesByCondition;

impl AdmissionPlugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
        _cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let is_new = attributes.operation == Operation::Create && attributes.is_about_whole();
        if let Some(Object::Node(node)) = object.filter(|_| is_new) {
            let taints = &mut node.spec.taints;
            if !taints
                .iter()
                .any(|it| it.key == NOT_READY && it.effect == EFFECT)
            {
                taints.push(Taint {
                    key: NOT_READY.to_owned(),
                    effect: EFFECT.to_owned(),
                    ..Taint::default()
                });
            }
        }
        Ok(())
    }
}
