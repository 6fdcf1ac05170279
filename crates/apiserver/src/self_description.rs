//! What the server says of the types that it serves: discovery and OpenAPI.

use std::sync::Arc;

use crate::discovery::{Discovery, Form};
use crate::document::Document;
use crate::served_types::ServedTypes;

/// The documents about a set of types. They are made when they are asked for.
pub(crate) struct SelfDescription {
    discovery: Discovery,
}

impl SelfDescription {
    pub(crate) fn new(types: &ServedTypes, address: &str) -> Self {
        Self {
            discovery: Discovery::new(types.resources(), address),
        }
    }

    /// The document at a path, in a form that is accepted.
    pub(crate) fn document(&self, path: &str, accept: &str) -> Option<Arc<Document>> {
        let form = Form::accepted(accept).unwrap_or(Form::Plain);
        self.discovery.document(path, form)
    }
}
