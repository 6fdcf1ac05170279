//! The rules: each looks at one pod on one node, given the other pods there.
//!
//! A rule is a function in [`RULES`]; a new one is added there. Sources: the plugins of
//! the same subjects in `pkg/scheduler/framework/plugins`, Kubernetes 1.36.

use std::collections::BTreeMap;

use outrank_api::node_selector::RequiredNodeAffinity;
use outrank_api::taints::{find_untolerated, tolerates};
use outrank_api::types::{Node, Pod, Taint};

use crate::outcome::Options;
use crate::requests::{self, Units};
use crate::shares::ShareUse;
use crate::violation::Breach;

/// What one pod on one node breaks; nothing if it may be there.
pub(crate) type Rule = fn(&Place<'_>) -> Vec<Breach>;

/// All rules.
pub(crate) const RULES: &[Rule] = &[
    scheduler,
    gates,
    cordon,
    taints,
    node_selector,
    node_affinity,
    host_ports,
    resources,
    shares,
];

/// A pod on a node, or considered for it.
pub(crate) struct Place<'a> {
    pub(crate) pod: &'a Subject<'a>,
    pub(crate) node: &'a Site<'a>,
    pub(crate) shares: &'a [ShareUse<'a>],
    pub(crate) options: &'a Options,
}

/// A pod and what can be read off it alone.
pub(crate) struct Subject<'a> {
    pub(crate) pod: &'a Pod,
    required_node_affinity: RequiredNodeAffinity,
    pub(crate) asked: Units,
    pub(crate) held: Units,
    host_ports: Vec<HostPort<'a>>,
}

/// A node and what the pods that are on it take.
pub(crate) struct Site<'a> {
    pub(crate) node: &'a Node,
    allocatable: Units,
    held: Units,
    /// Host ports in use, with the pods that use them.
    host_ports: Vec<(&'a Pod, HostPort<'a>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct HostPort<'a> {
    protocol: &'a str,
    ip: &'a str,
    port: i32,
}

const ALL_ADDRESSES: &str = "0.0.0.0";
const PODS: &str = "pods";

impl<'a> Subject<'a> {
    pub(crate) fn of(pod: &'a Pod) -> Self {
        // A pod is one of `pods`, which no spec says.
        let with_itself = |mut units: Units| {
            units.insert(PODS.to_owned(), 1);
            units
        };
        Self {
            pod,
            required_node_affinity: RequiredNodeAffinity::of(&pod.spec),
            asked: with_itself(requests::asked(pod)),
            held: with_itself(requests::held(pod)),
            host_ports: host_ports_of(pod),
        }
    }

    /// The node that is promised to the pod while it waits (`status.nominatedNodeName`).
    pub(crate) fn promised_node(&self) -> Option<&'a str> {
        let node = self.pod.status.nominated_node_name.as_str();
        let waits = self.pod.spec.node_name.is_empty() && self.pod.spec.scheduling_gates.is_empty();
        (waits && !node.is_empty()).then_some(node)
    }
}

impl<'a> Site<'a> {
    pub(crate) fn of(node: &'a Node) -> Self {
        let allocatable = node.status.allocatable.iter();
        let allocatable = allocatable
            .filter_map(|(name, amount)| Some((name.clone(), requests::units(name, amount)?)));
        Self {
            node,
            allocatable: allocatable.collect(),
            held: BTreeMap::new(),
            host_ports: Vec::new(),
        }
    }

    /// Notes that a pod is on the node.
    pub(crate) fn add(&mut self, subject: &Subject<'a>) {
        for (resource, amount) in &subject.held {
            *self.held.entry(resource.clone()).or_default() += amount;
        }
        let ports = subject.host_ports.iter().map(|port| (subject.pod, *port));
        self.host_ports.extend(ports);
    }

    /// How much of a resource there is, used or not.
    pub(crate) fn offers(&self, resource: &str) -> i128 {
        amount(&self.allocatable, resource)
    }

    /// Whether several pods have the same host port, and it is one that another wants.
    pub(crate) fn has_port_twice_that_is_wanted_by(&self, subject: &Subject<'_>) -> bool {
        let wanted = |port: &HostPort<'_>| subject.host_ports.iter().any(|it| it.clashes(port));
        let mut ports = self.host_ports.iter().filter(|(_, port)| wanted(port));
        ports.any(|(pod, port)| {
            let mut others = self.host_ports.iter();
            others.any(|(other, taken)| taken == port && !std::ptr::eq(*pod, *other))
        })
    }
}

impl Place<'_> {
    /// Whether the pod is on the node already, and thus counted there.
    fn is_taken(&self) -> bool {
        self.pod.pod.spec.node_name == self.node.node.metadata.name
    }

    fn held_by_others(&self, resource: &str) -> i128 {
        let all = amount(&self.node.held, resource);
        if self.is_taken() {
            all - amount(&self.pod.held, resource)
        } else {
            all
        }
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        let mut tolerations = self.pod.pod.spec.tolerations.iter();
        tolerations
            .any(|toleration| tolerates(toleration, taint, self.options.taint_comparison_operators))
    }
}

impl HostPort<'_> {
    /// The address of all addresses clashes with every other.
    fn clashes(&self, other: &HostPort<'_>) -> bool {
        let same_address =
            self.ip == other.ip || self.ip == ALL_ADDRESSES || other.ip == ALL_ADDRESSES;
        same_address && self.protocol == other.protocol && self.port == other.port
    }

    fn text(&self) -> String {
        format!("{} {}:{}", self.protocol, self.ip, self.port)
    }
}

/// A pod is placed by its own scheduler.
fn scheduler(place: &Place<'_>) -> Vec<Breach> {
    if place.options.is_ours(place.pod.pod) {
        return Vec::new();
    }
    vec![Breach::OtherScheduler {
        scheduler: place.pod.pod.spec.scheduler_name.clone(),
    }]
}

/// A pod with gates is not placed.
fn gates(place: &Place<'_>) -> Vec<Breach> {
    let gates = &place.pod.pod.spec.scheduling_gates;
    if gates.is_empty() {
        return Vec::new();
    }
    vec![Breach::Gated {
        gates: gates.iter().map(|gate| gate.name.clone()).collect(),
    }]
}

/// A cordoned node takes only pods that tolerate the taint that goes with it.
fn cordon(place: &Place<'_>) -> Vec<Breach> {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if place.node.node.spec.unschedulable && !place.tolerates(&taint) {
        vec![Breach::Cordoned]
    } else {
        Vec::new()
    }
}

/// Every taint but the soft ones is tolerated.
fn taints(place: &Place<'_>) -> Vec<Breach> {
    let hard = |taint: &Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let taints = &place.node.node.spec.taints;
    let tolerations = &place.pod.pod.spec.tolerations;
    let operators = place.options.taint_comparison_operators;
    find_untolerated(taints, tolerations, operators, hard)
        .map(|taint| Breach::Untolerated {
            taint: taint.clone(),
        })
        .into_iter()
        .collect()
}

/// The node has every label of `nodeSelector`.
fn node_selector(place: &Place<'_>) -> Vec<Breach> {
    let labels = &place.node.node.metadata.labels;
    let wanted = place.pod.pod.spec.node_selector.iter();
    wanted
        .filter(|(key, value)| labels.get(*key) != Some(value))
        .map(|(key, value)| Breach::NodeSelector {
            key: key.clone(),
            wanted: value.clone(),
            found: labels.get(key).cloned(),
        })
        .collect()
}

/// A term of the required node affinity selects the node.
fn node_affinity(place: &Place<'_>) -> Vec<Breach> {
    let Some(terms) = place.pod.required_node_affinity.terms() else {
        return Vec::new();
    };
    let metadata = &place.node.node.metadata;
    let selects = terms
        .iter()
        .flatten()
        .any(|term| term.matches(&metadata.name, &metadata.labels));
    if selects {
        Vec::new()
    } else {
        vec![Breach::NodeAffinity { terms: terms.len() }]
    }
}

/// No other pod on the node has a host port that the pod wants.
fn host_ports(place: &Place<'_>) -> Vec<Breach> {
    let is_own = |pod: &Pod| std::ptr::eq(pod, place.pod.pod);
    let mut breaches = Vec::new();
    for wanted in &place.pod.host_ports {
        let mut others = place.node.host_ports.iter().filter(|(pod, _)| !is_own(pod));
        if let Some((other, taken)) = others.find(|(_, taken)| wanted.clashes(taken)) {
            breaches.push(Breach::HostPort {
                wanted: wanted.text(),
                other: other.key(),
                taken: taken.text(),
            });
        }
    }
    breaches
}

/// What the pod asks for and what the others hold is within what the node has, for
/// everything that the pod asks for.
fn resources(place: &Place<'_>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (resource, asked) in place.pod.asked.iter().filter(|(_, asked)| **asked > 0) {
        let held_by_others = place.held_by_others(resource);
        let allocatable = amount(&place.node.allocatable, resource);
        if asked + held_by_others > allocatable {
            breaches.push(Breach::Insufficient {
                resource: resource.clone(),
                asked: *asked,
                held_by_others,
                allocatable,
            });
        }
    }
    breaches
}

/// What the pod asks for of a limited share and what other pods of it use is within the
/// limit.
fn shares(place: &Place<'_>) -> Vec<Breach> {
    let shares = place.shares.iter();
    shares.filter_map(|share| share.breach(place.pod)).collect()
}

/// The host ports of what runs as long as the pod: containers and sidecars.
fn host_ports_of(pod: &Pod) -> Vec<HostPort<'_>> {
    let sidecars = pod
        .spec
        .init_containers
        .iter()
        .filter(|container| container.is_sidecar());
    let ports = sidecars
        .chain(&pod.spec.containers)
        .flat_map(|container| &container.ports);
    ports
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            protocol: or_default(&port.protocol, "TCP"),
            ip: or_default(&port.host_ip, ALL_ADDRESSES),
            port: port.host_port,
        })
        .collect()
}

fn or_default<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

pub(crate) fn amount(units: &Units, resource: &str) -> i128 {
    units.get(resource).copied().unwrap_or_default()
}
