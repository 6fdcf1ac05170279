//! An API server: what kubectl and client libraries speak, over a store.

pub mod answer;
pub mod authentication;
pub mod authorization;
pub mod certificates;
pub mod clock;
pub mod custom_types;
pub mod discovery;
pub mod document;
pub mod front;
mod generated_name;
pub mod handler;
pub mod http;
pub mod kubeconfig;
mod lookups;
pub mod media_type;
mod metrics;
mod private_file;
pub mod request;
pub mod selectable_fields;
mod self_description;
pub mod served_types;
pub mod server;
mod service_addresses;
pub mod stored_object;
pub mod table;
pub mod versions;
