//! DaemonSets: one pod on every node that the template fits.
//!
//! The controller chooses the nodes and the scheduler places the pods: each pod gets a
//! node affinity to the name of its node in place of the template's own requirements
//! (which the controller has looked at already), and tolerates the taints that nodes in
//! trouble get, so that it stays on them.

use std::collections::HashMap;
use std::sync::Arc;

use outrank_api::node_selector::RequiredNodeAffinity;
use outrank_api::taints::find_untolerated;
use outrank_api::types::{
    Affinity, DaemonSet, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, ObjectMeta, Pod, PodSpec, Taint, Toleration,
};

use super::deletion_order::daemon_pod_order;
use super::existing::{ExistingPods, selector_of};
use super::pods::{NewPod, Owner, PodMaker};
use super::{TooManyPods, Workload};
use crate::generated_names::template_hash;
use crate::pod_edit::PodEdit;

/// The field that the node affinity of a daemon pod compares.
const NAME_FIELD: &str = "metadata.name";

/// The annotation that carries the generation of the template, and the label of its pods.
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";

pub(super) fn reconcile(
    set: &DaemonSet,
    nodes: &[Node],
    existing: &mut ExistingPods<'_>,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    let owner = Owner::of(&Workload::DaemonSet(set));
    let selector = selector_of(set.spec.selector.as_ref(), &set.spec.template.metadata);
    let has_target = |pod: &Pod| target_node(&pod.spec).is_some();
    let pods = existing.claim(&owner, selector.as_ref(), has_target);
    let mut on_node: HashMap<&str, Vec<&Pod>> = HashMap::new();
    for pod in pods {
        if let Some(node) = target_node(&pod.spec) {
            on_node.entry(node).or_default().push(pod);
        }
    }

    let mut spec = PodSpec::clone(&set.spec.template.spec);
    add_tolerations(&mut spec);
    let required = RequiredNodeAffinity::of(&spec);
    let hash = template_hash(&set.spec.template, None, None);
    let mut tried = 0;
    for node in nodes {
        let pods = on_node
            .remove(node.metadata.name.as_str())
            .unwrap_or_default();
        if delete_and_ask(verdict(&spec, &required, node), pods, maker) {
            maker.reserve(1)?;
            let pod = new_pod(set, &owner, &spec, &node.metadata.name, &hash);
            maker.create_with_suffix(pod, &format!("{}-", set.metadata.name), &mut tried);
        }
    }
    // Pods that wait for a node that is not there would wait for ever.
    let mut lost: Vec<&Pod> = on_node.into_values().flatten().collect();
    lost.retain(|pod| pod.spec.node_name.is_empty());
    lost.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    lost.iter().for_each(|pod| maker.delete(pod));
    Ok(())
}

/// What a DaemonSet wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A pod should run there.
    Run,
    /// None would be started, but one that is there may stay.
    Keep,
    /// None may be there.
    Leave,
}

/// `spec` has the automatic tolerations already; `required` is what it asks of nodes.
pub(crate) fn verdict(spec: &PodSpec, required: &RequiredNodeAffinity, node: &Node) -> Verdict {
    let Node {
        metadata: ObjectMeta { name, labels, .. },
        ..
    } = node;
    let is_named = spec.node_name.is_empty() || spec.node_name == *name;
    // Terms that cannot be read match no node.
    if !is_named || !required.matches(name, labels).unwrap_or(false) {
        return Verdict::Leave;
    }
    let tolerates = |effects: &[&str]| {
        let counts = |taint: &Taint| effects.contains(&taint.effect.as_str());
        find_untolerated(&node.spec.taints, &spec.tolerations, false, counts).is_none()
    };
    if tolerates(&["NoSchedule", "NoExecute"]) {
        Verdict::Run
    } else if tolerates(&["NoExecute"]) {
        Verdict::Keep
    } else {
        Verdict::Leave
    }
}

/// Deletes the pods that must not be on a node. True if one must be created there.
fn delete_and_ask(verdict: Verdict, pods: Vec<&Pod>, maker: &mut PodMaker) -> bool {
    if pods.is_empty() {
        return verdict == Verdict::Run;
    }
    let (going, staying): (Vec<&Pod>, Vec<&Pod>) = pods
        .into_iter()
        .partition(|pod| pod.metadata.deletion_timestamp.is_some());
    if verdict == Verdict::Leave {
        staying.iter().for_each(|pod| maker.delete(pod));
        return false;
    }
    let (ended, mut running): (Vec<&Pod>, Vec<&Pod>) =
        staying.into_iter().partition(|pod| pod.is_finished());
    ended.iter().for_each(|pod| maker.delete(pod));
    running.sort_by(|a, b| daemon_pod_order(a, b));
    running.iter().skip(1).for_each(|pod| maker.delete(pod));
    verdict == Verdict::Run && running.is_empty() && going.is_empty()
}

fn new_pod<'a>(
    set: &DaemonSet,
    owner: &'a Owner<'a>,
    spec: &PodSpec,
    node: &str,
    hash: &str,
) -> NewPod<'a> {
    let mut pod = NewPod::of(owner, &set.spec.template);
    let generation = set.metadata.annotations.get(GENERATION_ANNOTATION);
    let generation = generation.filter(|text| text.parse::<i64>().is_ok());
    pod.label(
        GENERATION_LABEL,
        generation.map_or("1", String::as_str).to_owned(),
    );
    pod.label("controller-revision-hash", hash.to_owned());
    let mut spec = spec.clone();
    spec.affinity = Some(bound_to(spec.affinity.take(), node));
    pod.spec = Arc::new(spec);
    pod
}

/// The affinity with its required node terms replaced by "this node".
pub(crate) fn bound_to(affinity: Option<Affinity>, node: &str) -> Affinity {
    let requirement = NodeSelectorRequirement {
        key: NAME_FIELD.to_owned(),
        operator: "In".to_owned(),
        values: vec![node.to_owned()],
    };
    let term = NodeSelectorTerm {
        match_fields: vec![requirement],
        ..Default::default()
    };
    let required = Some(NodeSelector {
        node_selector_terms: vec![term],
    });
    let affinity = affinity.unwrap_or_default();
    let node_affinity = affinity.node_affinity.unwrap_or_default();
    let node_affinity = NodeAffinity {
        required,
        ..node_affinity
    };
    Affinity {
        node_affinity: Some(node_affinity),
        ..affinity
    }
}

/// The node a daemon pod is on or waits for.
pub(crate) fn target_node(spec: &PodSpec) -> Option<&str> {
    if !spec.node_name.is_empty() {
        return Some(&spec.node_name);
    }
    let required = spec
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required
        .as_ref()?;
    let fields = required
        .node_selector_terms
        .iter()
        .flat_map(|term| &term.match_fields);
    let by_name = fields.filter(|it| it.key == NAME_FIELD && it.operator == "In");
    match by_name.map(|it| it.values.as_slice()).next() {
        Some([name]) => Some(name),
        _ => None,
    }
}

/// Taints of nodes in trouble that daemon pods put up with, and the effect meant.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The same, for pods that use the node's network and so do not wait for the pods'.
const TOLERATED_ON_HOST_NETWORK: (&str, &str) =
    ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// What the pods of a DaemonSet tolerate beside what its template says.
///
/// Source: `pkg/controller/daemon/util/daemonset_util.go`, Kubernetes 1.36.
pub(crate) fn daemon_tolerations(host_network: bool) -> Vec<Toleration> {
    let on_host_network = host_network.then_some(TOLERATED_ON_HOST_NETWORK);
    let tolerated = TOLERATED.into_iter().chain(on_host_network);
    let tolerations = tolerated.map(|(key, effect)| Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        effect: effect.to_owned(),
        ..Default::default()
    });
    tolerations.collect()
}

/// The template may tolerate the same for a limited time; the controller's wish wins.
fn add_tolerations(spec: &mut PodSpec) {
    for toleration in daemon_tolerations(spec.host_network) {
        PodEdit::Toleration(toleration).edit(spec);
    }
}
