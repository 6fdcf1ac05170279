//! An API server: what kubectl and client libraries speak, over a store.
//!
//! * [`discovery`]: which resources there are;
//! * [`document`]: answers that are made once and given often.

pub mod discovery;
pub mod document;
