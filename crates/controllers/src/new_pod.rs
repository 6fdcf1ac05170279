//! A pod that is about to be made of a template.

use std::sync::Arc;

use outrank_api::decode::Object;
use outrank_api::types::{ObjectMeta, Pod, PodSpec, PodTemplateSpec};
use serde_json::Value;

use crate::claim::reference_to;
use crate::pod_edit::PodEdit;
use crate::world::Stored;
use crate::write::{Create, Write, Written};

/// A pod of a template, and what is special about it.
pub(crate) struct NewPod {
    pub(crate) metadata: ObjectMeta,
    template: Arc<PodSpec>,
    /// The object that has the template as JSON, and where in it the spec is.
    source: Option<Arc<Value>>,
    pointer: &'static str,
    pub(crate) edits: Vec<PodEdit>,
}

impl NewPod {
    /// A pod of `owner` whose name begins with the owner's. `pointer` is where the template's
    /// spec is in the owner.
    pub(crate) fn of(owner: &Stored, template: &PodTemplateSpec, pointer: &'static str) -> Self {
        Self::from_source(owner, template, owner.raw().cloned(), pointer)
    }

    /// A pod of `owner` of a template that stands elsewhere.
    pub(crate) fn from_source(
        owner: &Stored,
        template: &PodTemplateSpec,
        source: Option<Arc<Value>>,
        pointer: &'static str,
    ) -> Self {
        let its = owner.metadata();
        Self {
            metadata: ObjectMeta {
                generate_name: format!("{}-", its.name),
                namespace: its.namespace.clone(),
                labels: template.metadata.labels.clone(),
                annotations: template.metadata.annotations.clone(),
                finalizers: template.metadata.finalizers.clone(),
                owner_references: vec![reference_to(owner)],
                ..Default::default()
            },
            template: template.spec.clone(),
            source,
            pointer,
            edits: Vec::new(),
        }
    }

    pub(crate) fn label(&mut self, name: &str, value: impl Into<String>) {
        self.metadata.labels.insert(name.to_owned(), value.into());
    }

    /// The typed pod; without edits it shares the template's spec.
    pub(crate) fn pod(&self) -> Pod {
        let mut spec = self.template.clone();
        for edit in self.edits.iter().filter(|edit| edit.is_typed()) {
            edit.edit(Arc::make_mut(&mut spec));
        }
        Pod {
            metadata: self.metadata.clone(),
            spec,
            ..Default::default()
        }
    }

    /// The write that makes it.
    pub(crate) fn create(self) -> Write {
        let pod = self.pod();
        let written = self.source.map(|source| Written {
            at: "/spec",
            source,
            pointer: self.pointer.into(),
            edits: self.edits,
        });
        Write::Create(Box::new(Create {
            object: Object::Pod(Box::new(pod)),
            written,
        }))
    }
}
