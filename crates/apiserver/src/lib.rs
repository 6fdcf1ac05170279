//! An API server: what kubectl and client libraries speak, over a store.

pub mod answer;
pub mod authentication;
pub mod authorization;
pub mod certificates;
pub mod clock;
pub mod custom_types;
mod generated_name;
pub mod kubeconfig;
mod lookups;
pub mod media_type;
pub mod request;
pub mod selectable_fields;
pub mod served_types;
pub mod server;
mod service_addresses;
pub mod stored_object;
pub mod table;
pub mod versions;
