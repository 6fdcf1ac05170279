//! An API server: what kubectl and client libraries speak, over a store.

pub mod authentication;
pub mod authorization;
pub mod certificates;
pub mod kubeconfig;
mod private_file;
