//! An API server: what kubectl and client libraries speak, over a store.
//!
//! * [`discovery`]: which resources there are;
//! * [`openapi`]: which fields their objects have, and what can be asked of them;
//! * [`document`]: answers that are made once and given often.

pub mod discovery;
pub mod document;
pub mod openapi;
