//! Typed Kubernetes objects: the fields that decisions read.
//!
//! The types mirror the API's JSON (`camelCase` names, absent means default) and
//! are plain data: no behaviour beyond small accessors. Fields that no decision
//! reads are left out; the object as it was written, in full, is kept beside the
//! typed view by whoever decoded it (see [`crate::decode`]).
//!
//! Decoding never fails on a field it does not know; [`crate::schema`] reports
//! those. Sources: the API reference of Kubernetes 1.36.

mod apps;
mod core;
mod meta;
mod policy;
mod quota;
mod resource;
mod scheduling;
mod service;
mod storage;

pub use apps::*;
pub use core::*;
pub use meta::*;
pub use policy::*;
pub use quota::*;
pub use resource::*;
pub use scheduling::*;
pub use service::*;
pub use storage::*;
