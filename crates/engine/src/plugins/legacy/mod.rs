//! Plugins that today's kube-scheduler has no longer, one a file: what a legacy scheduler
//! Policy may name besides the plugins that are still there.
//!
//! Those that Kubernetes 1.20 had as plugins have the names that they had there. The others
//! are predicates of older releases and called as the Policy calls them.

pub mod node_conditions;
pub mod node_label;
pub mod node_prefer_avoid_pods;
pub mod node_resources;
pub mod pod_tolerates_node_no_execute_taints;
pub mod service_affinity;
pub mod volume_limits;
