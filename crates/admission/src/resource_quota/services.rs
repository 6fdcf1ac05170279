//! What a service uses of a quota: itself, and what outside of the cluster it asks for.
//!
//! Source: `pkg/quota/v1/evaluator/core/services.go`, Kubernetes 1.36.

use outrank_api::types::{ResourceList, Service};

use super::amounts::count;

const RESOURCES: [&str; 4] = [
    "count/services",
    "services",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether the name is one of something that services use.
pub(super) fn is_limited_by(name: &str) -> bool {
    RESOURCES.contains(&name)
}

/// What the service uses. Node ports are not given out yet when it is admitted, so it is the
/// intent that counts.
pub(super) fn usage(service: &Service) -> ResourceList {
    let spec = &service.spec;
    let ports = spec.ports.len();
    let (node_ports, load_balancers) = match spec.service_type.as_str() {
        "NodePort" => (ports, 0),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports == Some(false) => {
            let chosen = spec.ports.iter().filter(|port| port.node_port != 0);
            (chosen.count(), 1)
        }
        "LoadBalancer" => (ports, 1),
        _ => (0, 0),
    };
    let numbers = [1, 1, node_ports, load_balancers];
    let counts = numbers.map(|number| count(i64::try_from(number).unwrap_or(i64::MAX)));
    let names = RESOURCES.map(str::to_owned);
    names.into_iter().zip(counts).collect()
}
