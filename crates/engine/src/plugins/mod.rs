//! The plugins, one a file: those of the default profile with kube-scheduler's names, and
//! those that it does not have.

pub mod default_binder;
pub mod dynamic_resources;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod legacy;
pub mod node_affinity;
pub mod node_declared_features;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_balanced_allocation;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod pod_topology_spread;
pub mod priority_share;
pub mod priority_sort;
pub mod scheduling_gates;
pub mod taint_toleration;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;
