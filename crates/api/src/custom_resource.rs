//! Custom resources: kinds that are defined while the server runs.
//!
//! A CustomResourceDefinition (`apiextensions.k8s.io/v1`) names a kind and says, for each of its
//! versions, what its objects are. From then on the server serves them as it serves its own:
//! they are read, defaulted, validated, patched, applied and listed by the schema in the
//! definition. In order, a write of an object goes through
//!
//! 1. [`crate::request_body::read`] or [`crate::patch`], which take out and tell what the schema
//!    does not have ([`prune`]);
//! 2. [`default_object`], which writes defaults;
//! 3. [`validate_object`], beside what [`crate::metadata`] demands of all objects.
//!
//! A write of a definition goes through [`default_definition`], [`validate`] (or
//! [`validate_update`]) and [`warnings`]; [`with_status`] says who has which name. [`Definition`]
//! is what comes of it: the types of resources that are served.
//!
//! # Limits
//!
//! * CEL rules (`x-kubernetes-validations`) are not evaluated; [`warnings`] says so.
//! * Between versions only `apiVersion` changes. Conversion webhooks are not called: a definition
//!   that needs one, because it serves several versions, is refused.
//! * Lists of schemas that a structural schema cannot have (`items: [...]`) are not understood,
//!   since they are refused.
//!
//! Source, Kubernetes 1.36: `k8s.io/apiextensions-apiserver`.
//!
//! ```
//! use outrank_api::custom_resource::{Definition, default_definition, validate};
//! use outrank_api::request_body::{FieldValidation, read};
//! use serde_json::json;
//!
//! let mut crd = json!({
//!     "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
//!     "metadata": {"name": "shirts.stable.example.com"},
//!     "spec": {
//!         "group": "stable.example.com", "scope": "Namespaced",
//!         "names": {"plural": "shirts", "kind": "Shirt"},
//!         "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
//!             "openAPIV3Schema": {"type": "object", "properties": {
//!                 "spec": {"type": "object", "properties": {"size": {"type": "string"}}}}}}}],
//!     },
//! });
//! default_definition(&mut crd);
//! assert_eq!(validate(&crd), []);
//! let shirts = &Definition::read(&crd).resource_types()[0];
//! let body = r#"{"apiVersion": "stable.example.com/v1", "kind": "Shirt",
//!                "metadata": {"name": "a"}, "spec": {"size": "M", "cut": "slim"}}"#;
//! let read = read(shirts, body, FieldValidation::Warn).unwrap();
//! assert_eq!(read.value["spec"], json!({"size": "M"}));
//! assert_eq!(read.warnings, [r#"unknown field "spec.cut""#]);
//! ```

mod defaults;
mod definition;
mod definition_validation;
mod format;
mod names;
mod openapi;
mod pattern;
mod prune;
pub mod schema;
mod structural;
mod validation;
mod version_validation;
mod warnings;

pub use defaults::default_object;
pub use definition::{
    Column, Definition, Names, Scale, Version, default_definition, remember_storage,
};
pub use definition_validation::{API_APPROVED, validate, validate_update};
pub use names::{is_true, with_status};
pub use prune::prune;
pub use validation::validate_object;
pub use warnings::warnings;
