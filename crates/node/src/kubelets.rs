//! The kubelets of many nodes, as clients of one API server: changes of its objects go in, writes
//! come out.
//!
//! Each change is told to the kubelet that it concerns, and only those that have something to do
//! are called. An annotation of a node says that it is away ([`OUTAGE`]).
//!
//! ```
//! use std::sync::Arc;
//!
//! use outrank_controllers::{Change, Stored};
//! use outrank_node::kubelets::Kubelets;
//! use serde_json::json;
//!
//! let mut kubelets = Kubelets::default();
//! let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
//!     "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
//! kubelets.handle(&Change::Set(Arc::new(Stored::whole(node))), 0);
//! let written = kubelets.advance(0);
//! assert!(written.iter().all(|(node, _)| node == "a"));
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::types::{Node, Pod};
use outrank_controllers::write::{Create, Delete, Event};
use outrank_controllers::{Change, Key, Kind, Stored, Write};

use crate::kubelet::{Input, Kubelet, KubeletConfig, Outage};
use crate::write::{self, EventType, PodRef};

/// The annotation of a node that is away: `Unreachable` (its pods run on) or `PoweredOff` (they
/// are lost).
pub const OUTAGE: &str = "node.outrank.dev/outage";

/// Kubelets by the name of their node.
#[derive(Default)]
pub struct Kubelets {
    by_node: BTreeMap<String, Kubelet>,
    /// Whether they renew leases and report from time to time.
    heartbeats: bool,
    /// When each wants to be called, and the other way round.
    due: BTreeSet<(i64, String)>,
    due_at: BTreeMap<String, i64>,
    /// The node of each pod that has one, and its uid.
    node_of: BTreeMap<Key, (String, String)>,
}

impl Kubelets {
    /// Kubelets that renew the leases of their nodes and report their status from time to time.
    pub fn with_heartbeats() -> Self {
        Self {
            heartbeats: true,
            ..Self::default()
        }
    }

    /// Tells the kubelet that a change concerns.
    pub fn handle(&mut self, change: &Change, now: i64) {
        match change {
            Change::Set(stored) => {
                if let Some(node) = stored.get::<Node>() {
                    self.set_node(node, now);
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
    pub fn stop(&mut self, node: &str, outage: Outage, now: i64) {
        if let Some(kubelet) = self.by_node.get_mut(node) {
            kubelet.stop(outage, now);
            self.note_due(node);
        }
    }

    /// Gives a node back.
    pub fn start(&mut self, node: &str, now: i64) {
        if let Some(kubelet) = self.by_node.get_mut(node) {
            kubelet.start(now);
            self.note_due(node);
        }
    }

    /// What kubelets write by now, node by node.
    pub fn advance(&mut self, now: i64) -> Vec<(String, write::Write)> {
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
    pub fn next_time(&self) -> Option<i64> {
        self.due.first().map(|(time, _)| *time)
    }

    fn set_node(&mut self, node: &Node, now: i64) {
        let name = node.metadata.name.clone();
        self.tell(&name, Input::NodeChanged(Arc::new(node.clone())), now);
        let outage = node.metadata.annotations.get(OUTAGE).map(String::as_str);
        match outage {
            Some("Unreachable") => self.stop(&name, Outage::Unreachable, now),
            Some("PoweredOff") => self.stop(&name, Outage::PoweredOff, now),
            _ => {}
        }
        let is_back = outage.is_none() && self.by_node.get(&name).is_some_and(Kubelet::is_away);
        if is_back && self.heartbeats {
            self.start(&name, now);
        }
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
                heartbeats: self.heartbeats,
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

/// The request to the API server that a write of the kubelet of a node stands for, given the
/// objects as they are known. `None` if there is nothing to write, or the object is another; the
/// lease of a node is not written here.
pub fn request_of<S: AsRef<Stored>>(
    node: &str,
    write: write::Write,
    find: impl Fn(&Key) -> Option<S>,
) -> Option<Write> {
    let pod_of = |pod: &PodRef| {
        let found = find(&Key::new(ObjectKind::Pod, &pod.namespace, &pod.name))?;
        let is_it = pod.uid.is_empty() || found.as_ref().metadata().uid == pod.uid;
        is_it.then_some(found)
    };
    match write {
        write::Write::PodStatus { pod, status } => {
            let stored = pod_of(&pod)?;
            let old = &stored.as_ref().get::<Pod>()?.status;
            Write::status(stored.as_ref(), old, &*status)
        }
        write::Write::DeletePod { pod } => {
            let stored = pod_of(&pod)?;
            Some(Write::Delete(Delete {
                key: stored.as_ref().key(),
                uid: Some(stored.as_ref().metadata().uid.clone()),
                resource_version: None,
                grace_seconds: Some(0),
                propagation: None,
            }))
        }
        write::Write::CreateMirrorPod { pod } => Some(Write::Create(Box::new(Create {
            object: Object::Pod(pod),
            written: None,
        }))),
        write::Write::PodEvent { pod, event } => {
            pod_of(&pod).map(|it| Write::Event(event_of(it.as_ref(), event)))
        }
        write::Write::NodeStatus { status } => {
            let stored = find(&Key::new(ObjectKind::Node, "", node))?;
            let old = &stored.as_ref().get::<Node>()?.status;
            Write::status(stored.as_ref(), old, &*status)
        }
        write::Write::RenewLease { .. } => None,
    }
}

fn event_of(about: &Stored, event: write::Event) -> Event {
    match event.type_ {
        EventType::Warning => Event::warning(about, event.reason, event.message),
        EventType::Normal => Event::normal(about, event.reason, event.message),
    }
}
