//! What becomes of a request to write, from its body to the object that is to be stored.
//!
//! The order matters, for a request may be wrong in several ways and gets one answer: the first
//! phase of admission, what the server writes itself, validation, the second phase, and only
//! then whether the name is free, which is for the store to say. An update is also held against
//! the object as it is stored.
//!
//! Classes of priority and limit ranges are validated in upstream's words, other kinds in our
//! own ([`outrank_api::validation`]).
//!
//! Sources, Kubernetes 1.36: `k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch}.go`,
//! `k8s.io/apiserver/pkg/registry/{rest/create.go,rest/update.go,generic/registry/store.go}`.
//!
//! ```
//! use outrank_admission::{AdmissionChain, Attributes, Cluster, ClassRules, Operation};
//! use outrank_admission::{PluginFlags, PriorityResolver, Writes};
//! use outrank_admission::write::Stamp;
//! use outrank_api::decode::ObjectKind;
//! use serde_json::json;
//!
//! struct NoClasses(PriorityResolver);
//!
//! impl Cluster for NoClasses {
//!     fn priority_classes(&self) -> &PriorityResolver {
//!         &self.0
//!     }
//! }
//!
//! let cluster = NoClasses(PriorityResolver::new([]));
//! let chain = AdmissionChain::default_plugins(&PluginFlags::default()).unwrap();
//! let writes = Writes { chain: &chain, classes: ClassRules::default(), cluster: &cluster };
//! let stamp = Stamp { now: "2026-01-01T00:00:00Z", uid: "u", suffix: "", manager: "kubectl" };
//! let body = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
//!                   "metadata": {"name": "high"}, "value": 7});
//! let attributes = Attributes::of(Operation::Create, ObjectKind::PriorityClass);
//! let class = writes.create(&attributes, body, stamp).unwrap();
//! assert_eq!(class["preemptionPolicy"], "PreemptLowerPriority");
//! assert_eq!(class["metadata"]["generation"], 1);
//! ```

use outrank_api::decode::{LoadedObject, Object, ObjectKind, Origin, decode_value, whole};
use outrank_api::defaults::default_object;
use outrank_api::diagnostic::Severity;
use outrank_api::field_error::FieldError;
use outrank_api::limit_range;
use outrank_api::managed_fields::{self, Write};
use outrank_api::metadata;
use outrank_api::status::Status;
use outrank_api::update::refused_change;
use outrank_api::validation;
use serde_json::Value;

use crate::chain::{AdmissionChain, Attributes, Cluster, Operation};
use crate::priority_class::{ClassRules, refuse_deletion};

/// What the server adds to an object that it could not know from the request.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'s> {
    /// The time, RFC 3339.
    pub now: &'s str,
    /// The UID of an object that is made.
    pub uid: &'s str,
    /// What follows `generateName` in the name of an object that is made.
    pub suffix: &'s str,
    /// Name of the client.
    pub manager: &'s str,
}

impl<'s> Stamp<'s> {
    fn write(self, attributes: &Attributes<'s>) -> Write<'s> {
        Write {
            manager: self.manager,
            subresource: attributes.subresource,
            now: self.now,
        }
    }
}

/// The rules by which objects are written.
#[derive(Clone, Copy)]
pub struct Writes<'w> {
    /// The admission plugins.
    pub chain: &'w AdmissionChain,
    /// The rules for priority classes.
    pub classes: ClassRules,
    /// What there is.
    pub cluster: &'w dyn Cluster,
}

impl Writes<'_> {
    /// The object that a creation makes, in full. Whether its name is free is not looked at.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn create<'s>(
        &self,
        attributes: &Attributes<'s>,
        body: Value,
        stamp: Stamp<'s>,
    ) -> Result<Value, Status> {
        let (mut object, mut written) = typed(body)?;
        let metadata = object.metadata_mut();
        metadata.uid.clear();
        metadata.creation_timestamp = None;
        metadata::enter_namespace(metadata, attributes.namespace)?;
        written = whole(&object, &written);
        let write = stamp.write(attributes);
        managed_fields::update(attributes.kind.into(), &Value::Null, &mut written, write);
        self.chain
            .admit(attributes, Some(&mut object), self.cluster)?;
        let metadata = object.metadata_mut();
        if metadata.name.is_empty() && !metadata.generate_name.is_empty() {
            metadata.name = format!("{}{}", metadata.generate_name, stamp.suffix);
        }
        metadata::begin(metadata, attributes.kind, stamp.uid, stamp.now);
        self.refuse_invalid(attributes.kind, &object, self.errors(&object))?;
        self.chain
            .validate(attributes, Some(&object), self.cluster)?;
        Ok(whole(&object, &written))
    }

    /// The object that an update puts in the place of `live`, in full.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn update<'s>(
        &self,
        attributes: &Attributes<'s>,
        live: &Value,
        new: Value,
        stamp: Stamp<'s>,
    ) -> Result<Value, Status> {
        let kind = attributes.kind;
        let (old, old_written) = typed(live.clone())?;
        let (mut object, mut written) = typed(new)?;
        metadata::enter_namespace(object.metadata_mut(), attributes.namespace)?;
        written = whole(&object, &written);
        managed_fields::update(kind.into(), live, &mut written, stamp.write(attributes));
        let attributes = Attributes {
            old: Some(&old),
            ..*attributes
        };
        self.chain
            .admit(&attributes, Some(&mut object), self.cluster)?;
        let (metadata, before) = (object.metadata_mut(), old.metadata());
        if metadata.resource_version.is_empty() {
            metadata
                .resource_version
                .clone_from(&before.resource_version);
        } else if metadata.resource_version != before.resource_version {
            return Err(Status::modified_since(kind.resource(), &metadata.name));
        }
        let spec_changes = written.get("spec") != old_written.get("spec");
        metadata::carry_over(metadata, before, kind, spec_changes);
        let errors = self.update_errors((&object, &written), (&old, &old_written));
        self.refuse_invalid(kind, &object, errors)?;
        self.chain
            .validate(&attributes, Some(&object), self.cluster)?;
        Ok(whole(&object, &written))
    }

    /// Whether an object of this kind and name may be deleted.
    ///
    /// # Errors
    ///
    /// The answer, if it may not.
    pub fn delete(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.kind == ObjectKind::PriorityClass {
            refuse_deletion(attributes.name)?;
        }
        let attributes = Attributes {
            operation: Operation::Delete,
            ..*attributes
        };
        self.chain.admit(&attributes, None, self.cluster)?;
        self.chain.validate(&attributes, None, self.cluster)
    }

    fn errors(&self, object: &Object) -> Vec<FieldError> {
        match object {
            Object::PriorityClass(class) => self.classes.validate(class),
            Object::LimitRange(range) => limit_range::validate(range),
            object => own_errors(object),
        }
    }

    fn update_errors(
        &self,
        (new, written): (&Object, &Value),
        (old, old_written): (&Object, &Value),
    ) -> Vec<FieldError> {
        if let (Object::PriorityClass(new), Object::PriorityClass(old)) = (new, old) {
            return self.classes.validate_update(new, old);
        }
        let is_namespaced = new.kind().is_namespaced();
        let mut errors = metadata::validate_update(new.metadata(), old.metadata(), is_namespaced);
        match new {
            Object::LimitRange(range) => errors.extend(limit_range::validate(range)),
            new => errors.extend(own_errors(new)),
        }
        let loaded = |object: &Object, raw: &Value| LoadedObject {
            object: object.clone(),
            raw: raw.clone(),
            origin: Origin::default(),
        };
        let refused = refused_change(&loaded(old, old_written), &loaded(new, written));
        errors.extend(refused.map(|path| FieldError::forbidden(path, "may not be changed")));
        errors
    }

    fn refuse_invalid(
        &self,
        kind: ObjectKind,
        object: &Object,
        errors: Vec<FieldError>,
    ) -> Result<(), Status> {
        match errors.as_slice() {
            [] => Ok(()),
            errors => Err(Status::invalid(
                kind.qualified(),
                &object.metadata().name,
                errors,
            )),
        }
    }
}

fn own_errors(object: &Object) -> Vec<FieldError> {
    let findings = validation::findings(object).into_iter();
    let errors = findings.filter(|finding| finding.severity == Severity::Error);
    errors.map(FieldError::from).collect()
}

/// An object with its defaults, and as it was written.
fn typed(value: Value) -> Result<(Object, Value), Status> {
    let mut object = decode_value(value.clone()).map_err(|findings| {
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Status::bad_request(findings.join("; "))
    })?;
    let namespace = object.metadata().namespace.clone();
    default_object(&mut object);
    // The namespace is that of the request.
    object.metadata_mut().namespace = namespace;
    Ok((object, value))
}
