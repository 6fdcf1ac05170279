//! The kubelets of all nodes, and what their writes mean for objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::types::{Node, Pod};
use outrank_controllers::virtual_cluster::VirtualCluster;
use outrank_controllers::write::{Create, Delete, Event};
use outrank_controllers::{Change, Key, Kind, Stored, Write};
use outrank_node::{EventType, Input, Kubelet, KubeletConfig, Outage, PodRef};

/// Under which name kubelets write.
const KUBELET: &str = "kubelet";

/// Kubelets by the name of their node.
#[derive(Default)]
pub(crate) struct Kubelets {
    by_node: BTreeMap<String, Kubelet>,
    /// When each wants to be called, and the other way round.
    due: BTreeSet<(i64, String)>,
    due_at: BTreeMap<String, i64>,
    /// The node of each pod that has one.
    node_of: BTreeMap<Key, (String, String)>,
}

impl Kubelets {
    /// Tells the kubelet that a change concerns.
    pub(crate) fn handle(&mut self, change: &Change, now: i64) {
        match change {
            Change::Set(stored) => {
                if let Some(node) = stored.get::<Node>() {
                    let name = node.metadata.name.clone();
                    self.tell(&name, Input::NodeChanged(Arc::new(node.clone())), now);
                } else if let Some(pod) = stored.get::<Pod>()
                    && !pod.spec.node_name.is_empty()
                {
                    let node = pod.spec.node_name.clone();
                    let uid = pod.metadata.uid.clone();
                    self.node_of.insert(stored.key(), (node.clone(), uid));
                    self.tell(&node, Input::PodChanged(Arc::new(pod.clone())), now);
                }
            }
            Change::Gone { key, .. } => self.gone(key, now),
        }
    }

    /// Takes a node away for a time, as if its cable was pulled, or its power.
    pub(crate) fn stop(&mut self, node: &str, outage: Outage, now: i64) {
        if let Some(kubelet) = self.by_node.get_mut(node) {
            kubelet.stop(outage, now);
            self.note_due(node);
        }
    }

    /// Gives a node back.
    pub(crate) fn start(&mut self, node: &str, now: i64) {
        if let Some(kubelet) = self.by_node.get_mut(node) {
            kubelet.start(now);
            self.note_due(node);
        }
    }

    /// What kubelets write by now, node by node.
    pub(crate) fn advance(&mut self, now: i64) -> Vec<(String, outrank_node::Write)> {
        let mut writes = Vec::new();
        while let Some((time, node)) = self.due.first().cloned()
            && time <= now
        {
            if let Some(kubelet) = self.by_node.get_mut(&node) {
                let written = kubelet.advance(now);
                writes.extend(written.into_iter().map(|write| (node.clone(), write)));
            }
            self.note_due(&node);
        }
        writes
    }

    /// When the next of them has something to do.
    pub(crate) fn next_time(&self) -> Option<i64> {
        self.due.first().map(|(time, _)| *time)
    }

    fn gone(&mut self, key: &Key, now: i64) {
        match &key.kind {
            Kind::Known(ObjectKind::Node) => {
                self.by_node.remove(&*key.name);
                self.note_due(&key.name);
            }
            Kind::Known(ObjectKind::Pod) => {
                let Some((node, uid)) = self.node_of.remove(key) else {
                    return;
                };
                let pod = PodRef {
                    namespace: key.namespace.to_string(),
                    name: key.name.to_string(),
                    uid,
                };
                self.tell(&node, Input::PodGone(pod), now);
            }
            _ => {}
        }
    }

    fn tell(&mut self, node: &str, input: Input, now: i64) {
        if let Input::NodeChanged(_) = &input
            && !self.by_node.contains_key(node)
        {
            let config = KubeletConfig {
                node_name: node.to_owned(),
                ..KubeletConfig::default()
            };
            self.by_node.insert(node.to_owned(), Kubelet::new(config));
        }
        if let Some(kubelet) = self.by_node.get_mut(node) {
            kubelet.handle(input, now);
            self.note_due(node);
        }
    }

    fn note_due(&mut self, node: &str) {
        let time = self.by_node.get(node).and_then(Kubelet::next_time);
        if let Some(old) = self.due_at.remove(node) {
            self.due.remove(&(old, node.to_owned()));
        }
        if let Some(time) = time {
            self.due_at.insert(node.to_owned(), time);
            self.due.insert((time, node.to_owned()));
        }
    }
}

/// Carries out what the kubelet of a node writes.
pub(crate) fn carry_out(node: &str, write: outrank_node::Write, cluster: &mut VirtualCluster) {
    for write in writes_of(node, write, cluster) {
        cluster.carry_out(KUBELET, &write);
    }
}

fn writes_of(node: &str, write: outrank_node::Write, cluster: &VirtualCluster) -> Vec<Write> {
    use outrank_node::Write as Written;
    let find = |pod: &PodRef| {
        let key = Key::new(ObjectKind::Pod, &pod.namespace, &pod.name);
        let stored = cluster.stored(&key);
        stored.filter(|it| pod.uid.is_empty() || it.metadata().uid == pod.uid)
    };
    let write = match write {
        Written::PodStatus { pod, status } => find(&pod).and_then(|stored| {
            let old = &stored.get::<Pod>()?.status;
            Write::status(stored, old, &*status)
        }),
        Written::DeletePod { pod } => find(&pod).map(|stored| {
            Write::Delete(Delete {
                key: stored.key(),
                uid: Some(stored.metadata().uid.clone()),
                resource_version: None,
                grace_seconds: Some(0),
                propagation: None,
            })
        }),
        Written::CreateMirrorPod { pod } => Some(Write::Create(Box::new(Create {
            object: Object::Pod(pod),
            written: None,
        }))),
        Written::PodEvent { pod, event } => find(&pod).map(|it| Write::Event(event_of(it, event))),
        Written::NodeStatus { mut status } => {
            // Who is silent is known here; nobody has to say again and again that he is not.
            let conditions = status.conditions.iter_mut();
            conditions.for_each(|it| it.last_heartbeat_time = None);
            let stored = cluster.stored(&Key::new(ObjectKind::Node, "", node));
            stored.and_then(|stored| {
                let old = &stored.get::<Node>()?.status;
                Write::status(stored, old, &*status)
            })
        }
        // As with heartbeats.
        Written::RenewLease { .. } => None,
    };
    write.into_iter().collect()
}

fn event_of(about: &Stored, event: outrank_node::Event) -> Event {
    match event.type_ {
        EventType::Warning => Event::warning(about, event.reason, event.message),
        EventType::Normal => Event::normal(about, event.reason, event.message),
    }
}
