//! An API server: what kubectl and client libraries speak, over a store.

pub mod table;
