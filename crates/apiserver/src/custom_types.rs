//! Types that CustomResourceDefinitions define: when they are served, and what is done with their
//! objects beside what is done with all.
//!
//! What a definition means is in [`outrank_api::custom_resource`].

use std::sync::Arc;

use outrank_api::custom_resource::{
    Definition, default_definition, default_object, is_true, validate, validate_object,
    validate_update, warnings, with_status,
};
use outrank_api::resource_type::ResourceType;
use outrank_api::status::Status;
use outrank_store::Store;
use serde_json::{Value, json};

use crate::lookups::entries_within;
use crate::openapi::CustomSchema;
use crate::served_types::{ServedType, ServedTypes};
use crate::stored_object::StoredObject;
use crate::table::CustomColumn;

/// What the store calls definitions.
pub const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Keeps a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The types of the definitions in a store.
pub(crate) fn served(store: &Store<StoredObject>) -> Vec<ServedType> {
    let definitions = definitions(store);
    let established = definitions.iter().filter(|it| is_true(it, "Established"));
    established.flat_map(served_by).collect()
}

fn definitions(store: &Store<StoredObject>) -> Vec<Value> {
    let entries = entries_within(store, DEFINITIONS, "");
    let values = entries
        .iter()
        .map(|it| serde_json::from_slice(it.value.json()));
    values.filter_map(Result::ok).collect()
}

fn served_by(definition: &Value) -> Vec<ServedType> {
    let read = Definition::read(definition);
    let resources = read.resource_types();
    let (Some(storage), Some(first)) = (read.storage_version(), resources.first()) else {
        return Vec::new();
    };
    let stored = Arc::new(ResourceType {
        version: storage.name.clone(),
        schema: storage.schema.clone(),
        ..first.clone()
    });
    let definition = Arc::new(definition.clone());
    let served = resources.into_iter().map(|resource| ServedType {
        definition: Some(definition.clone()),
        ..ServedType::of(Arc::new(resource), stored.clone())
    });
    served.collect()
}

/// Completes a definition, or an object of a custom type, before admission looks at it.
pub(crate) fn complete(store_name: &str, resource: &ResourceType, object: &mut Value) {
    if store_name == DEFINITIONS {
        default_definition(object);
        let finalizers = &mut object["metadata"]["finalizers"];
        if !finalizers.is_array() {
            *finalizers = json!([]);
        }
        let is_going = object["metadata"]["deletionTimestamp"].is_string();
        if let Value::Array(finalizers) = &mut object["metadata"]["finalizers"]
            && !is_going
            && !finalizers.iter().any(|it| it == CLEANUP)
        {
            finalizers.push(CLEANUP.into());
        }
    }
    if let Some(schema) = &resource.schema {
        default_object(schema, object);
    }
}

/// Checks a definition, or an object of a custom type; warnings. The status of a definition is
/// written into it.
///
/// # Errors
///
/// 422 with all that is wrong.
pub(crate) fn check(
    store: &Store<StoredObject>,
    store_name: &str,
    resource: &ResourceType,
    object: &mut Value,
    old: Option<&Value>,
    now: &str,
) -> Result<Vec<String>, Status> {
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let refuse = |errors: &[outrank_api::field_error::FieldError]| match errors {
        [] => Ok(()),
        errors => Err(Status::invalid(resource.qualified(), &name, errors)),
    };
    if let Some(schema) = &resource.schema {
        refuse(&validate_object(schema, object, old))?;
    }
    if store_name != DEFINITIONS {
        return Ok(Vec::new());
    }
    // A write that is not of the status loses the one it came with, and the versions in it.
    default_definition(object);
    refuse(&match old {
        Some(old) => validate_update(object, old),
        None => validate(object),
    })?;
    let others = definitions(store);
    if let Some(with_status) = with_status(object, &others, now) {
        *object = with_status;
    }
    Ok(warnings(object))
}

/// The columns of a custom type.
pub(crate) fn columns(served: &ServedType) -> Vec<CustomColumn> {
    match &served.definition {
        Some(definition) => CustomColumn::of_definition(definition, &served.resource.version),
        None => Vec::new(),
    }
}

/// What the definitions of the custom types say of their objects.
pub(crate) fn schemas(types: &ServedTypes) -> Vec<CustomSchema> {
    let custom = types.iter().filter_map(|served| {
        let definition = served.definition.as_ref()?;
        let versions = definition["spec"]["versions"].as_array()?;
        let resource = &served.resource;
        let version = versions.iter().find(|it| it["name"] == *resource.version)?;
        Some(CustomSchema {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            schema: version["schema"]["openAPIV3Schema"].clone(),
        })
    });
    custom.collect()
}
