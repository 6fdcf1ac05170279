//! The NamespaceLifecycle admission plugin: nothing is made in a namespace that is not there or
//! is going, and the namespaces of the system stay.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go`, Kubernetes
//! 1.36.

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::status::{Status, StatusCause};

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};

/// How far the life of a namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespacePhase {
    /// It is there.
    Active,
    /// It is being deleted, with all that is in it.
    Terminating,
}

/// Namespaces that cannot be deleted.
pub const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceLifecycle;

impl AdmissionPlugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let namespace = attributes.namespace;
        if attributes.kind() == Some(ObjectKind::Namespace) {
            let goes = attributes.operation == Operation::Delete;
            return match goes && IMMORTAL_NAMESPACES.contains(&attributes.name) {
                true => Err(attributes.forbidden(None, "this namespace may not be deleted")),
                false => Ok(()),
            };
        }
        if namespace.is_empty() || attributes.operation != Operation::Create {
            return Ok(());
        }
        match cluster.namespace(namespace) {
            Some(NamespacePhase::Active) => Ok(()),
            None => Err(Status::not_found(
                ObjectKind::Namespace.resource(),
                namespace,
            )),
            Some(NamespacePhase::Terminating) => {
                let why = format!(
                    "unable to create new content in namespace {namespace} because it is being \
                     terminated"
                );
                let metadata = object.map(|object| object.metadata().clone());
                let mut status = attributes.forbidden(metadata.as_ref(), why);
                if let Some(details) = &mut status.details {
                    details.causes.push(StatusCause {
                        reason: "NamespaceTerminating".to_owned(),
                        message: format!("namespace {namespace} is being terminated"),
                        field: "metadata.namespace".to_owned(),
                    });
                }
                Err(status)
            }
        }
    }
}
