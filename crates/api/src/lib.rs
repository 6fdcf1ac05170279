//! Kubernetes objects, in and out: what people write (YAML, JSON, kubectl dumps)
//! becomes typed objects, with every mistake reported by file, line and field.
//!
//! The crate knows the API of Kubernetes 1.36 and nothing of scheduling. Each
//! module is one subject:
//!
//! * [`quantity`]: amounts of resources such as `500m` or `2Gi`, with upstream's
//!   exact rounding and canonical form;
//! * [`names`]: what may be a label, and how objects may be named;
//! * [`labels`], [`fields`], [`node_selector`]: the selector languages;
//! * [`taints`]: taints, tolerations and the specs of `kubectl taint`;
//! * [`pod_resources`], [`qos`]: what a pod requests as a whole, and its class;
//! * [`cron`]: schedules of CronJobs;
//! * [`types`]: the typed objects;
//! * [`document`], [`schema`], [`decode`]: from bytes to typed objects;
//! * [`defaults`], [`validation`], [`limit_range`]: what the API server fills in, and what
//!   it demands;
//! * [`apply`], [`update`]: what `kubectl apply` makes of an object, and what cannot be
//!   changed;
//! * [`status`], [`field_error`]: what the API server answers, in its own words;
//! * [`request_body`], [`patch`], [`server_side_apply`], [`managed_fields`]: what it reads, how
//!   it changes objects, and who owns what was written;
//! * [`custom_resource`]: kinds that are defined at run time;
//! * [`resource_type`]: what it serves, and what that is called;
//! * [`written_form`]: the form in which it keeps objects;
//! * [`metadata`]: what it demands of the metadata of every object, and writes into it;
//! * [`diagnostic`]: mistakes, with their places.
//!
//! ```
//! use outrank_api::quantity::Quantity;
//!
//! let memory: Quantity = "1.5Gi".parse().unwrap();
//! assert_eq!(memory.to_string(), "1536Mi");
//! assert_eq!(memory.value(), 1_610_612_736);
//! ```

pub mod apply;
mod base64_bytes;
pub mod cron;
pub mod custom_resource;
pub mod decode;
pub mod defaults;
pub mod diagnostic;
pub mod document;
pub mod field_error;
pub mod fields;
mod fields_of;
pub mod labels;
pub mod limit_range;
pub mod managed_fields;
pub mod metadata;
pub mod names;
pub mod node_selector;
pub mod patch;
pub mod pod_resources;
pub mod prefer_avoid_pods;
pub mod qos;
pub mod quantity;
pub mod request_body;
pub mod resource_type;
pub mod schema;
pub mod server_side_apply;
pub mod status;
pub mod taints;
pub mod time;
pub mod types;
pub mod update;
pub mod validation;
pub mod written_form;
