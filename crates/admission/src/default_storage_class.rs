//! The DefaultStorageClass admission plugin: claims that name no class get the default one.
//!
//! A class is the default one by an annotation; of several the youngest counts, of those that are
//! equally young the first by name. A claim that names the class "" wants none, and gets none.
//!
//! Source: `plugin/pkg/admission/storage/storageclass/setdefault/admission.go` and
//! `pkg/volume/util/storageclass.go`, Kubernetes 1.36.

use std::cmp::Reverse;

use outrank_api::decode::Object;
use outrank_api::status::Status;
use outrank_api::types::StorageClass;

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};

/// The annotations that make a class the default one: of today, and of old.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// The plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultStorageClass;

impl AdmissionPlugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let is_new = attributes.operation == Operation::Create && attributes.is_about_whole();
        if let Some(Object::PersistentVolumeClaim(claim)) = object.filter(|_| is_new)
            && claim.class_name().is_none()
        {
            let class = default_class(cluster.storage_classes());
            claim.spec.storage_class_name = class.map(|class| class.metadata.name.clone());
        }
        Ok(())
    }
}

/// The class of claims that name none, if there is one. O(classes).
pub fn default_class<'c>(
    classes: impl IntoIterator<Item = &'c StorageClass>,
) -> Option<&'c StorageClass> {
    let is_default = |class: &&StorageClass| {
        let annotations = &class.metadata.annotations;
        let mut given = IS_DEFAULT.iter().filter_map(|key| annotations.get(*key));
        given.any(|value| value == "true")
    };
    let classes = classes.into_iter().filter(is_default);
    // Times of one form are in order as texts.
    classes.min_by_key(|class| {
        let metadata = &class.metadata;
        (Reverse(&metadata.creation_timestamp), &metadata.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, made: &str, is_default: &str) -> StorageClass {
        let mut class = StorageClass::default();
        class.metadata.name = name.to_owned();
        class.metadata.creation_timestamp = Some(made.to_owned());
        let annotations = &mut class.metadata.annotations;
        annotations.insert(IS_DEFAULT[0].to_owned(), is_default.to_owned());
        class
    }

    #[test]
    fn the_youngest_default_counts() {
        let classes = [
            class("old", "2026-01-01T00:00:00Z", "true"),
            class("b", "2026-01-02T00:00:00Z", "true"),
            class("a", "2026-01-02T00:00:00Z", "true"),
            class("other", "2026-01-03T00:00:00Z", "false"),
        ];
        let found = default_class(&classes);
        assert_eq!(found.map(|class| class.metadata.name.as_str()), Some("a"));
        assert!(default_class(&classes[3..]).is_none());
    }
}
