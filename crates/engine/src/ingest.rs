//! From API objects to the engine's own model: the only place that reads whole
//! pods and nodes. Taints, tolerations and selectors keep their API types until they are
//! compiled or compared.

use outrank_api::pod_resources::{
    incoming_requests, is_scalar_resource_name, scheduler_resources, score_requests,
};
use outrank_api::prefer_avoid_pods::{PREFER_AVOID_PODS, avoided_controllers};
use outrank_api::qos::{QosClass, computed_qos_class};
use outrank_api::quantity::Quantity;
use outrank_api::types::{Container, Node, Pod, PodSpec, Taint, TopologySpreadConstraint};

use crate::cluster::{Cluster, HostPort, LegacyNode, NodeObject, OwnerKey, PodInfo, PodUsage};
use crate::ids::{ResourceId, ShareId, Symbol, Symbols};
use crate::node_match::{PreferredNodes, RequiredNodes};
use crate::plugins::image_locality::with_tag;
use crate::plugins::legacy::node_conditions::NodeConditions;
use crate::plugins::legacy::node_resources::score_requests as score_requests_of_1_20;
use crate::plugins::node_affinity::listed_nodes;
use crate::plugins::node_declared_features::FeatureSet;
use crate::plugins::node_ports::NodePorts;
use crate::pod_class::{LegacyPod, PodClass};
use crate::pod_match::{AffinityTerms, PodIdentity, SpreadConstraint, compile_labels};
use crate::pod_row::priority;
use crate::profile::Profile;
use crate::release::Release;
use crate::storage::PodVolumes;

/// Compiles a node.
pub(crate) fn compile_node(node: &Node, cluster: &mut Cluster) -> NodeObject {
    let keeps_legacy = cluster.keeps_legacy();
    let legacy = keeps_legacy.then(|| compile_legacy_node(node, &mut cluster.symbols));
    let allocatable = &node.status.allocatable;
    let symbols = &mut cluster.symbols;
    let labels = compile_labels(&node.metadata.labels, symbols);
    let images = node.status.images.iter();
    let named = images.flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)));
    let images = named
        .map(|(name, size)| (symbols.intern(name), size))
        .collect();
    let taints = node.spec.taints.iter().map(|taint| Taint {
        time_added: None,
        ..taint.clone()
    });
    let name = symbols.intern(&node.metadata.name);
    NodeObject {
        name,
        labels,
        annotations: cluster.compile_annotations(&node.metadata.annotations),
        taints: taints.collect(),
        unschedulable: node.spec.unschedulable,
        declared_features: FeatureSet::declared(&node.status.declared_features),
        images,
        allowed_pods: allocatable.get("pods").map_or(0, Quantity::value),
        allocatable: allocatable
            .iter()
            .filter_map(|(name, amount)| resource_amount(name, amount, cluster))
            .collect(),
        legacy,
    }
}

fn compile_legacy_node(node: &Node, symbols: &mut Symbols) -> LegacyNode {
    let avoided = node.metadata.annotations.get(PREFER_AVOID_PODS);
    let avoided = avoided.map_or_else(Vec::new, |text| avoided_controllers(text));
    let avoided = avoided.iter().map(|controller| {
        (
            symbols.intern(&controller.kind),
            symbols.intern(&controller.uid),
        )
    });
    let allocatable = node.status.allocatable.iter();
    let attachable = allocatable.filter_map(|(name, amount)| {
        let of = name.strip_prefix("attachable-volumes-")?;
        Some((of.into(), amount.value()))
    });
    LegacyNode::new(
        NodeConditions::compile(&node.status.conditions),
        avoided.collect(),
        attachable.collect(),
    )
}

/// Compiles what a pod takes of its node. For pods that run it counts what the kubelet
/// has granted, where that differs from the spec.
pub(crate) fn compile_usage(pod: &Pod, cluster: &mut Cluster) -> PodUsage {
    let resources = scheduler_resources(pod);
    let mut requests = vec![
        (ResourceId::CPU_MILLI, resources.cpu_milli),
        (ResourceId::MEMORY_BYTES, resources.memory_bytes),
        (
            ResourceId::EPHEMERAL_STORAGE_BYTES,
            resources.ephemeral_storage_bytes,
        ),
    ];
    for (name, amount) in &resources.scalar {
        requests.push((cluster.resource(name), *amount));
    }
    let requests = above_zero(requests);
    PodUsage {
        shares: compile_shares(pod, &requests, cluster),
        requests,
        non_zero_cpu_milli: resources.non_zero_cpu_milli,
        non_zero_memory_bytes: resources.non_zero_memory_bytes,
        host_ports: host_ports(&pod.spec, &mut cluster.symbols),
    }
}

/// Shares of which a pod is, and what it takes of each; those of which it takes nothing are
/// left out. O(shares).
fn compile_shares(
    pod: &Pod,
    requests: &[(ResourceId, i64)],
    cluster: &Cluster,
) -> Box<[(ShareId, i64)]> {
    let namespace = &pod.metadata.namespace;
    let (class, priority) = (&pod.spec.priority_class_name, priority(pod));
    let shares = cluster.shares.iter();
    let own = shares.filter(|(_, share)| share.has_pod(namespace, class, priority));
    let taken = own.filter_map(|(number, share)| {
        let mut requests = requests.iter();
        let (_, amount) = requests.find(|(resource, _)| *resource == share.resource)?;
        Some((number, *amount))
    });
    taken.collect()
}

/// Annotations of a pod that plugins of its profile read.
fn compile_annotations(
    pod: &Pod,
    config: &Profile,
    symbols: &mut Symbols,
) -> Box<[(Symbol, Symbol)]> {
    let read = config.annotations.iter().filter_map(|key| {
        let value = pod.metadata.annotations.get(*key)?;
        Some((symbols.intern(key), symbols.intern(value)))
    });
    let mut annotations: Vec<(Symbol, Symbol)> = read.collect();
    annotations.sort_unstable();
    annotations.into()
}

/// Compiles a pod's class for the profile that places it.
pub(crate) fn compile_class(
    pod: &Pod,
    profile: usize,
    config: &Profile,
    cluster: &mut Cluster,
) -> PodClass {
    let class = compile_class_of_today(pod, profile, config, cluster);
    match config.release {
        Release::V1_36 => class,
        Release::V1_20 => class_of_1_20(class, pod, config, cluster),
    }
}

fn compile_class_of_today(
    pod: &Pod,
    profile: usize,
    config: &Profile,
    cluster: &mut Cluster,
) -> PodClass {
    let spec = &*pod.spec;
    let requests = requests(pod, cluster);
    let usage = compile_usage(pod, cluster);
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let preferred = affinity
        .map(|affinity| affinity.preferred.as_slice())
        .unwrap_or_default();
    let annotations = compile_annotations(pod, config, &mut cluster.symbols);
    let symbols = &mut cluster.symbols;
    PodClass {
        annotations,
        profile,
        requests: above_zero(requests),
        fit_score_requests: score_requests(pod, &config.fit_resources, false).into(),
        balanced_score_requests: score_requests(pod, &config.balanced_resources, true).into(),
        host_ports: usage.host_ports.clone(),
        usage,
        node_name: (!spec.node_name.is_empty()).then(|| symbols.intern(&spec.node_name)),
        required_nodes: RequiredNodes::compile(&spec.node_selector, required, symbols),
        listed_nodes: required
            .and_then(|required| listed_nodes(&required.node_selector_terms, symbols)),
        preferred_nodes: (!preferred.is_empty())
            .then(|| PreferredNodes::compile(preferred, symbols)),
        tolerations: spec.tolerations.clone().into(),
        images: images_with_volumes(spec, symbols),
        spread_constraints: SpreadConstraint::compile_all(
            &spec.topology_spread_constraints,
            &pod.metadata.labels,
            symbols,
        ),
        container_count: (spec.init_containers.len() + spec.containers.len()) as i64,
        has_resource_claims: !spec.resource_claims.is_empty(),
        needed_features: FeatureSet::needed(spec),
        legacy: None,
    }
}

/// The class for a profile of 1.20, which reads less, and some of it otherwise.
fn class_of_1_20(class: PodClass, pod: &Pod, config: &Profile, cluster: &mut Cluster) -> PodClass {
    let spec = &*pod.spec;
    let asks_for = |(resource, amount): &(ResourceId, i64)| *amount != 0 || resource.is_scalar();
    let all = requests(pod, cluster);
    // Whoever asks for anything must find room for all, if it is for nothing more.
    let all = if all.iter().any(asks_for) {
        all
    } else {
        Vec::new()
    };
    let symbols = &mut cluster.symbols;
    let constraints: Vec<TopologySpreadConstraint> = spec
        .topology_spread_constraints
        .iter()
        .map(spread_constraint_of_1_20)
        .collect();
    PodClass {
        requests: all.into(),
        fit_score_requests: score_requests_of_1_20(spec, &config.fit_resources),
        balanced_score_requests: Box::default(),
        listed_nodes: None,
        images: images(spec.containers.iter(), symbols),
        container_count: spec.containers.len() as i64,
        spread_constraints: SpreadConstraint::compile_all(
            &constraints,
            &pod.metadata.labels,
            symbols,
        ),
        legacy: Some(Box::new(compile_legacy_pod(pod, symbols))),
        ..class
    }
}

/// A constraint without what 1.20 does not know of.
fn spread_constraint_of_1_20(constraint: &TopologySpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: constraint.topology_key.clone(),
        when_unsatisfiable: constraint.when_unsatisfiable.clone(),
        label_selector: constraint.label_selector.clone(),
        ..TopologySpreadConstraint::default()
    }
}

fn compile_legacy_pod(pod: &Pod, symbols: &mut Symbols) -> LegacyPod {
    let controller = pod.metadata.controller();
    let controller = controller
        .filter(|owner| matches!(owner.kind.as_str(), "ReplicationController" | "ReplicaSet"));
    LegacyPod {
        controller: controller.map(|it| (symbols.intern(&it.kind), symbols.intern(&it.uid))),
        node_selector: compile_labels(&pod.spec.node_selector, symbols),
        is_best_effort: computed_qos_class(pod) == QosClass::BestEffort,
    }
}

/// What NodeResourcesFit asks for, by resource.
fn requests(pod: &Pod, cluster: &mut Cluster) -> Vec<(ResourceId, i64)> {
    let incoming = incoming_requests(pod);
    let mut requests = vec![
        (ResourceId::CPU_MILLI, incoming.cpu_milli),
        (ResourceId::MEMORY_BYTES, incoming.memory_bytes),
        (
            ResourceId::EPHEMERAL_STORAGE_BYTES,
            incoming.ephemeral_storage_bytes,
        ),
    ];
    for (name, amount) in &incoming.scalar {
        requests.push((cluster.resource(name), *amount));
    }
    requests
}

/// Compiles what other pods can see of a pod.
pub(crate) fn compile_info(pod: &Pod, cluster: &mut Cluster) -> PodInfo {
    let identity = PodIdentity {
        namespace: cluster.symbols.intern(&pod.metadata.namespace),
        labels: compile_labels(&pod.metadata.labels, &mut cluster.symbols),
    };
    let terms = AffinityTerms::compile(pod, &mut cluster.symbols);
    let volumes = PodVolumes::compile(pod, &mut cluster.symbols);
    PodInfo {
        identity: cluster.intern_identity(identity),
        terms: cluster.intern_terms(terms),
        volumes: cluster.storage.intern_pod_volumes(volumes),
        is_terminating: pod.metadata.deletion_timestamp.is_some(),
        priority: priority(pod),
    }
}

/// The workload that controls a pod, if it is of a kind that says which pods it selects.
pub(crate) fn compile_owner(pod: &Pod, symbols: &mut Symbols) -> Option<OwnerKey> {
    let owner = pod.metadata.controller()?;
    let is_known = matches!(
        (owner.api_version.as_str(), owner.kind.as_str()),
        ("v1", "ReplicationController") | ("apps/v1", "ReplicaSet" | "StatefulSet")
    );
    is_known.then(|| {
        let namespace = symbols.intern(&pod.metadata.namespace);
        (
            symbols.intern(&owner.kind),
            namespace,
            symbols.intern(&owner.name),
        )
    })
}

fn above_zero(requests: Vec<(ResourceId, i64)>) -> Box<[(ResourceId, i64)]> {
    requests
        .into_iter()
        .filter(|(_, amount)| *amount > 0)
        .collect()
}

fn resource_amount(
    name: &str,
    amount: &Quantity,
    cluster: &mut Cluster,
) -> Option<(ResourceId, i64)> {
    match name {
        "cpu" => Some((ResourceId::CPU_MILLI, amount.milli_value())),
        "memory" | "ephemeral-storage" => Some((cluster.resource(name), amount.value())),
        _ if is_scalar_resource_name(name) => Some((cluster.resource(name), amount.value())),
        _ => None,
    }
}

fn host_ports(spec: &PodSpec, symbols: &mut Symbols) -> Box<[HostPort]> {
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|container| container.is_sidecar());
    let ports = sidecars
        .chain(&spec.containers)
        .flat_map(|container: &Container| &container.ports);
    let mut host_ports: Vec<HostPort> = ports
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            ip: symbols.intern(or(&port.host_ip, NodePorts::ALL_ADDRESSES)),
            protocol: symbols.intern(or(&port.protocol, "TCP")),
            port: port.host_port,
        })
        .collect();
    host_ports.sort_unstable();
    host_ports.dedup();
    host_ports.into()
}

fn or<'t>(text: &'t str, default: &'t str) -> &'t str {
    if text.is_empty() { default } else { text }
}

fn images_with_volumes(spec: &PodSpec, symbols: &mut Symbols) -> Box<[Symbol]> {
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let volumes = spec
        .volumes
        .iter()
        .filter_map(|volume| volume.image.as_ref());
    let of_containers = images(containers, symbols).into_vec().into_iter();
    let of_volumes = volumes.map(|image| symbols.intern(&with_tag(&image.reference)));
    of_containers.chain(of_volumes).collect()
}

fn images<'s>(
    containers: impl Iterator<Item = &'s Container>,
    symbols: &mut Symbols,
) -> Box<[Symbol]> {
    let images = containers.map(|container| symbols.intern(&with_tag(&container.image)));
    images.collect()
}
