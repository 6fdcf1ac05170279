//! What becomes of a request to write, from its body to the object that is to be stored.
//!
//! The order matters, for a request may be wrong in several ways and gets one answer: defaults,
//! who owns which field, the first phase of admission, what the server writes itself,
//! validation, warnings, the second phase, and only then whether the name is free, which is for
//! the store to say. An update is also held against the object as it is stored.
//!
//! Any type of resource goes this way. Objects of kinds that decisions read are typed on the
//! way, for admission; what it changes is carried over into the object in full. Of types that
//! are not known (custom resources) the metadata is looked at, and nothing else.
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
//! let class = writes.create(&attributes, body, stamp).unwrap().value;
//! assert_eq!(class["preemptionPolicy"], "PreemptLowerPriority");
//! assert_eq!(class["metadata"]["generation"], 1);
//! ```

mod strategy;

use outrank_api::decode::{Object, ObjectKind, decode_value};
use outrank_api::defaults;
use outrank_api::field_error::FieldError;
use outrank_api::managed_fields::{self, Write};
use outrank_api::metadata;
use outrank_api::resource_type::ResourceType;
use outrank_api::status::Status;
use outrank_api::types::ObjectMeta;
use outrank_api::validation;
use outrank_api::written_form::{carry, complete, tidy};
use serde_json::{Value, json};

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

/// What a request to write comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The object that is to be stored, in full.
    pub value: Value,
    /// What the client is warned of, for Warning headers.
    pub warnings: Vec<String>,
}

/// Who notes which fields the client owns from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owners {
    /// It is done here.
    Noted,
    /// The object says it, as after server-side apply.
    Given,
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
    /// The object that a creation makes. Whether its name is free is not looked at.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn create<'s>(
        &self,
        attributes: &Attributes<'s>,
        body: Value,
        stamp: Stamp<'s>,
    ) -> Result<Written, Status> {
        self.create_with(attributes, body, stamp, Owners::Noted)
    }

    /// The object that an update puts in the place of `live`: of the object as such all but its
    /// status, of a subresource what belongs to it.
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
    ) -> Result<Written, Status> {
        self.update_with(attributes, live, new, stamp, Owners::Noted)
    }

    /// The object that comes of server-side apply, which has noted already who owns what:
    /// `applied` is made if `live` is `None`, and else put in its place.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn apply<'s>(
        &self,
        attributes: &Attributes<'s>,
        live: Option<&Value>,
        applied: Value,
        stamp: Stamp<'s>,
    ) -> Result<Written, Status> {
        match live {
            None => self.create_with(attributes, applied, stamp, Owners::Given),
            Some(live) => self.update_with(attributes, live, applied, stamp, Owners::Given),
        }
    }

    fn create_with<'s>(
        &self,
        attributes: &Attributes<'s>,
        body: Value,
        stamp: Stamp<'s>,
        owners: Owners,
    ) -> Result<Written, Status> {
        let resource = attributes.resource;
        let mut value = defaulted(resource, body);
        let namespace = attributes.namespace;
        with_metadata(&mut value, |metadata| {
            metadata.uid.clear();
            metadata.creation_timestamp = None;
            metadata::enter_namespace(metadata, namespace)
        })?;
        strategy::prepare_create(resource, &mut value, stamp.now);
        if owners == Owners::Noted {
            let write = stamp.write(attributes);
            managed_fields::update(resource, &Value::Null, &mut value, write);
        }
        let attributes = self.admit(attributes, stamp, &mut value)?;
        let attributes = &attributes;
        with_metadata(&mut value, |metadata| {
            if metadata.name.is_empty() && !metadata.generate_name.is_empty() {
                metadata.name = format!("{}{}", metadata.generate_name, stamp.suffix);
            }
            metadata::begin(metadata, resource, stamp.uid, stamp.now);
            Ok(())
        })?;
        strategy::finish_create(resource, &mut value, stamp.now);
        let object = typed(resource, &value)?;
        let errors = match &object {
            Some(Object::PriorityClass(class)) => self.classes.validate(class),
            _ => validation::errors(resource, &value),
        };
        refuse_invalid(resource, &value, errors)?;
        let warnings = validation::warnings(resource, &value);
        self.chain
            .validate(attributes, object.as_ref(), self.cluster)?;
        complete(resource, &mut value);
        Ok(Written { value, warnings })
    }

    fn update_with<'s>(
        &self,
        attributes: &Attributes<'s>,
        live: &Value,
        new: Value,
        stamp: Stamp<'s>,
        owners: Owners,
    ) -> Result<Written, Status> {
        let resource = attributes.resource;
        let old = tidied(resource, live.clone());
        let mut value = defaulted(resource, new);
        with_metadata(&mut value, |metadata| {
            metadata::enter_namespace(metadata, attributes.namespace)
        })?;
        strategy::prepare_update(resource, attributes.subresource, &mut value, &old);
        if owners == Owners::Noted {
            let write = stamp.write(attributes);
            managed_fields::update(resource, live, &mut value, write);
        }
        let old_object = typed(resource, &old)?;
        let attributes = Attributes {
            old: old_object.as_ref(),
            ..*attributes
        };
        let attributes = self.admit(&attributes, stamp, &mut value)?;
        let before = metadata_of(&old);
        let spec_changes = wanted(&value) != wanted(&old);
        with_metadata(&mut value, |metadata| {
            if metadata.resource_version.is_empty() {
                metadata
                    .resource_version
                    .clone_from(&before.resource_version);
            } else if metadata.resource_version != before.resource_version {
                return Err(Status::modified_since(resource.resource(), &metadata.name));
            }
            metadata::carry_over(metadata, &before, resource, spec_changes);
            Ok(())
        })?;
        let object = typed(resource, &value)?;
        let errors = match (&object, &old_object) {
            (Some(Object::PriorityClass(new)), Some(Object::PriorityClass(old))) => {
                self.classes.validate_update(new, old)
            }
            _ => validation::update_errors(resource, attributes.subresource, &value, &old),
        };
        refuse_invalid(resource, &value, errors)?;
        let warnings = match attributes.subresource {
            "" => validation::update_warnings(resource, &value, &old),
            _ => Vec::new(),
        };
        self.chain
            .validate(&attributes, object.as_ref(), self.cluster)?;
        complete(resource, &mut value);
        keep_owners_of_the_same(&mut value, live);
        Ok(Written { value, warnings })
    }

    /// Whether something may be made that is part of an object, such as the binding of a pod.
    ///
    /// # Errors
    ///
    /// The answer, if it may not.
    pub fn create_part(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.chain.admit(attributes, None, self.cluster)?;
        self.chain.validate(attributes, None, self.cluster)
    }

    /// Whether an object of this kind and name may be deleted.
    ///
    /// # Errors
    ///
    /// The answer, if it may not.
    pub fn delete(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.kind() == Some(ObjectKind::PriorityClass) {
            refuse_deletion(attributes.name)?;
        }
        let attributes = Attributes {
            operation: Operation::Delete,
            ..*attributes
        };
        self.chain.admit(&attributes, None, self.cluster)?;
        self.chain.validate(&attributes, None, self.cluster)
    }

    /// The first phase of admission; what plugins do to the typed object gets into the whole.
    fn admit<'s>(
        &self,
        attributes: &Attributes<'s>,
        stamp: Stamp<'s>,
        value: &mut Value,
    ) -> Result<Attributes<'s>, Status> {
        let attributes = Attributes {
            suffix: stamp.suffix,
            ..*attributes
        };
        let mut object = typed(attributes.resource, value)?;
        let before = object.as_ref().map(Object::to_value);
        self.chain
            .admit_whole(&attributes, object.as_mut(), value, self.cluster)?;
        if let (Some(before), Some(object)) = (before, object) {
            carry(&before, &object.to_value(), value);
        }
        Ok(attributes)
    }
}

/// An object in its tidy form, with its identity.
fn tidied(resource: &ResourceType, mut value: Value) -> Value {
    tidy(resource, &mut value);
    if let Value::Object(fields) = &mut value {
        fields.insert("apiVersion".to_owned(), resource.api_version().into());
        fields.insert("kind".to_owned(), resource.kind.as_str().into());
        fields.entry("metadata").or_insert_with(|| json!({}));
    }
    value
}

fn defaulted(resource: &ResourceType, value: Value) -> Value {
    let mut value = tidied(resource, value);
    defaults::fill_in(resource, &mut value);
    value
}

/// The object as decisions read it, if they do.
fn typed(resource: &ResourceType, value: &Value) -> Result<Option<Object>, Status> {
    if resource.object_kind().is_none() {
        return Ok(None);
    }
    let object = decode_value(value).map_err(|findings| {
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Status::bad_request(findings.join("; "))
    })?;
    Ok(Some(object))
}

fn metadata_of(value: &Value) -> ObjectMeta {
    let metadata = value.get("metadata").cloned().unwrap_or_default();
    serde_json::from_value(metadata).unwrap_or_default()
}

/// Changes the metadata of an object; what of it is not typed stays.
fn with_metadata(
    value: &mut Value,
    change: impl FnOnce(&mut ObjectMeta) -> Result<(), Status>,
) -> Result<(), Status> {
    let mut metadata = metadata_of(value);
    let before = json!(metadata);
    change(&mut metadata)?;
    if let Some(target) = value.get_mut("metadata") {
        carry(&before, &json!(metadata), target);
    }
    Ok(())
}

/// What is wanted of an object: all but its identity, its metadata and its status.
fn wanted(value: &Value) -> Vec<(&String, &Value)> {
    const OTHERS: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| !OTHERS.contains(&name.as_str()))
        .collect()
}

fn refuse_invalid(
    resource: &ResourceType,
    value: &Value,
    errors: Vec<FieldError>,
) -> Result<(), Status> {
    match errors.as_slice() {
        [] => Ok(()),
        errors => {
            let name = metadata_of(value).name;
            Err(Status::invalid(resource.qualified(), &name, errors))
        }
    }
}

/// An update that changes nothing does not change the times of owners either, so that there is
/// nothing to store.
fn keep_owners_of_the_same(value: &mut Value, live: &Value) {
    let without_times = |object: &Value| {
        let mut object = object.clone();
        let owners = object.pointer_mut("/metadata/managedFields");
        let owners = owners.and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            if let Value::Object(owner) = owner {
                owner.remove("time");
            }
        }
        object
    };
    let is_other = |pointer: &str| value.pointer(pointer) != live.pointer(pointer);
    let differs = [
        "/spec",
        "/status",
        "/metadata/labels",
        "/metadata/annotations",
    ];
    if !differs.into_iter().any(is_other) && without_times(value) == without_times(live) {
        *value = live.clone();
    }
}
