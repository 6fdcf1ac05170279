//! An API server: what kubectl and client libraries speak, over a store.
//!
//! A request goes through these, from outside inwards:
//!
//! * [`http`]: connections, TLS, limits;
//! * [`authentication`], [`authorization`]: who asks, and whether he may; [`front`] holds both,
//!   with [`certificates`];
//! * [`handler`]: what is asked ([`request`], [`media_type`]), and [`answer`]: how it is answered,
//!   as [`table`] if that is wanted;
//! * [`server`]: what is done, over objects as they are [stored](stored_object) and
//!   [selected](selectable_fields);
//! * [`served_types`], [`custom_types`], [`versions`]: which types there are.
//!
//! What the server says of itself is in [`discovery`] (which resources there are) and [`openapi`]
//! (which fields their objects have), as [`document`]s that are made once and given often.
//! [`kubeconfig`] is how clients learn of the server.
//!
//! Clients in the same process use [`server::ApiServer`] without a network:
//!
//! ```
//! use outrank_admission::{AdmissionChain, ClassRules, PluginFlags};
//! use outrank_apiserver::clock::Clock;
//! use outrank_apiserver::server::{ApiServer, Settings, Target, WriteOptions};
//! use outrank_store::{Options, Store};
//! use serde_json::json;
//!
//! let settings = Settings {
//!     chain: AdmissionChain::default_plugins(&PluginFlags::default()).unwrap(),
//!     classes: ClassRules::default(),
//!     has_quotas: true,
//!     limited_resources: Vec::new(),
//!     clock: Clock::system(),
//! };
//! let server = ApiServer::new(Store::in_memory(Options::default()), settings);
//! let target = Target {
//!     served: server.types().of_kind("v1", "Namespace").unwrap().clone(),
//!     namespace: String::new(),
//!     name: "shop".to_owned(),
//!     subresource: String::new(),
//! };
//! let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
//! let written = server.create(&target, body, &WriteOptions::default()).unwrap();
//! assert!(written.is_new);
//! ```

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
pub mod openapi;
mod private_file;
pub mod request;
mod request_options;
pub mod selectable_fields;
mod self_description;
pub mod served_types;
pub mod server;
mod service_addresses;
pub mod stored_object;
pub mod table;
pub mod versions;
