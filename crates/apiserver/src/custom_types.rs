//! Types that CustomResourceDefinitions define.

use outrank_api::status::Status;
use outrank_store::Store;
use serde_json::Value;

use crate::served_types::{ServedType, ServedTypes};
use crate::stored_object::StoredObject;
use crate::table::CustomColumn;

/// What the store calls definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The types of the definitions in a store.
pub(crate) fn served(_store: &Store<StoredObject>) -> Vec<ServedType> {
    Vec::new()
}

/// Writes the status of a definition that is new or has changed; warnings.
pub(crate) fn accept(_types: &ServedTypes, _definition: &mut Value) -> Result<Vec<String>, Status> {
    Ok(Vec::new())
}

/// The columns of a custom type.
pub(crate) fn columns(served: &ServedType) -> Vec<CustomColumn> {
    match &served.definition {
        Some(definition) => CustomColumn::of_definition(definition, &served.resource.version),
        None => Vec::new(),
    }
}
