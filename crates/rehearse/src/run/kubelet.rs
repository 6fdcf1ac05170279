//! Kubelets: the last word on pods that have their node already and do not run yet.
//!
//! Such pods were bound by somebody else, or name their node themselves; nobody has asked whether
//! the node has room. The kubelet does, when it first sees them. A pod that it refuses fails and
//! uses nothing; for a critical pod it kills others.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use outrank_api::types::{Node, Pod};
use outrank_controllers::replacement;
use outrank_engine::ids::PodId;
use outrank_node::active_pods::{ActivePods, PodNumber};
use outrank_node::{Refusal, Verdict, admit};

use super::Run;
use super::kills::Cause;
use crate::scenario::{RefusedPod, Scenario, owner_of};

/// A node with the pods that hold a place on it, as its kubelet sees them.
struct Kubelet<'n> {
    node: &'n Node,
    active: ActivePods,
    ids: BTreeMap<PodNumber, PodId>,
}

impl<'s> Run<'s> {
    /// Lets pods that have their node come to it, in the order of the input.
    pub(super) fn arrive(&mut self, scenario: &'s Scenario) {
        let arriving = std::mem::take(&mut self.arriving);
        let nodes = scenario.nodes.iter();
        let nodes: BTreeMap<&str, &Node> = nodes.map(|node| (&*node.metadata.name, node)).collect();
        let mut kubelets: BTreeMap<&str, Kubelet<'s>> = BTreeMap::new();
        for (pod, stays) in arriving {
            let name = pod.spec.node_name.as_str();
            let Some(node) = nodes.get(name).filter(|_| stays) else {
                if stays {
                    self.kubelet_refuses(pod, "NodeNotFound", "there is no such node".into());
                }
                self.add(Cow::Borrowed(pod));
                continue;
            };
            let kubelet = kubelets.entry(name);
            let kubelet = kubelet.or_insert_with(|| self.kubelet(node));
            match admit(pod, kubelet.node, &kubelet.active, || None) {
                Verdict::Admitted { victims } => self.admitted(pod, kubelet, &victims),
                Verdict::Refused(Refusal { reason, message }) => {
                    self.kubelet_refuses(pod, &reason, message);
                    self.make_again(pod);
                }
            }
        }
    }

    /// The kubelet of a node, with the pods that run there.
    fn kubelet(&self, node: &'s Node) -> Kubelet<'s> {
        let mut kubelet = Kubelet {
            node,
            active: ActivePods::default(),
            ids: BTreeMap::new(),
        };
        let cluster = self.engine.cluster();
        let row = cluster.node(&node.metadata.name);
        let pods = row.into_iter().flat_map(|row| cluster.pods(row));
        for id in pods {
            if let Some(pod) = self.pods.get(id) {
                kubelet.add(*id, pod);
            }
        }
        kubelet
    }

    fn admitted(&mut self, pod: &'s Pod, kubelet: &mut Kubelet<'s>, victims: &[PodNumber]) {
        let Some(id) = self.add(Cow::Borrowed(pod)) else {
            return;
        };
        kubelet.add(id, pod);
        for number in victims {
            kubelet.active.remove(*number);
            if let Some(victim) = kubelet.ids.remove(number) {
                self.kill(victim, id, &kubelet.node.metadata.name, Cause::Kubelet);
            }
        }
    }

    /// A pod has failed: if it has a controller, that makes another.
    fn make_again(&mut self, pod: &Pod) {
        self.replaced += 1;
        self.quotas.release(pod);
        let Some(new) = replacement(pod, self.replaced) else {
            return;
        };
        if !new.spec.node_name.is_empty() {
            return;
        }
        match self.quotas.admit(&new) {
            Ok(()) => _ = self.add(Cow::Owned(new)),
            Err(message) => self.report.refused.push(RefusedPod {
                pod: new.key(),
                owner: owner_of(&new),
                message,
            }),
        }
    }
}

impl Kubelet<'_> {
    fn add(&mut self, id: PodId, pod: &Pod) {
        let number = self.ids.last_key_value().map_or(0, |(last, _)| last + 1);
        self.ids.insert(number, id);
        self.active.insert(number, Arc::new(pod.clone()));
    }
}
