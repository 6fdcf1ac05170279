//! Changes that people make, at the time that it is.

use outrank_admission::namespace_lifecycle::IMMORTAL_NAMESPACES;
use outrank_api::apply::apply;
use outrank_api::decode::{LoadedObject, ObjectKind};
use outrank_api::time::rfc3339;
use outrank_api::types::{Node, NodeCondition};
use outrank_controllers::workloads::PODS_MAX;
use outrank_controllers::write::{Delete, Patch, Propagation, Write, difference};
use outrank_controllers::{Key, Outcome, Stored};
use outrank_node::Outage;
use serde_json::{Value, json};

use super::Simulation;
use crate::scenario::Changes;
use crate::scenario::commands::tainted;

/// How often a node that was away is heard of, so that it is not taken for lost again.
const HEARTBEAT_NANOS: i64 = 40_000_000_000;

/// Under which name people write.
const PEOPLE: &str = "kubectl";

impl Simulation {
    /// Makes changes as kubectl does, one after the other, at this time.
    ///
    /// # Errors
    /// Changes of what there is not, or that do not go together with it: all of them, one a line.
    pub fn change(&mut self, changes: &Changes) -> Result<(), String> {
        let mut wrong = Vec::new();
        for applied in &changes.apply {
            wrong.extend(self.apply(applied).err());
        }
        for name in &changes.delete {
            if name.kind == ObjectKind::Namespace && IMMORTAL_NAMESPACES.contains(&&*name.name) {
                wrong.push(format!(
                    "cannot delete {name}: this namespace may not be deleted"
                ));
                continue;
            }
            let key = Key::new(name.kind, &name.namespace, &name.name);
            wrong.extend(self.delete(key).err());
        }
        for scale in &changes.scale {
            let name = &scale.object;
            if usize::try_from(scale.replicas).is_ok_and(|pods| pods > PODS_MAX) {
                wrong.push(format!(
                    "cannot scale {name}: there can be at most {PODS_MAX} pods"
                ));
                continue;
            }
            let key = Key::new(name.kind, &name.namespace, &name.name);
            let field = match name.kind {
                ObjectKind::Job => "parallelism",
                _ => "replicas",
            };
            wrong.extend(
                self.patch(key, json!({"spec": {field: scale.replicas}}))
                    .err(),
            );
        }
        for node in changes.cordon.iter().chain(&changes.drain) {
            let key = Key::new(ObjectKind::Node, "", node);
            wrong.extend(
                self.patch(key, json!({"spec": {"unschedulable": true}}))
                    .err(),
            );
        }
        for taint in &changes.taint {
            wrong.extend(self.taint(&taint.node, &taint.taints).err());
        }
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
        for node in &changes.drain {
            self.drains.begin(node, &self.cluster);
        }
        Ok(())
    }

    /// Takes nodes away as if their power was cut: nothing is heard of them from now on.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn stop_nodes(&mut self, names: &[String]) -> Result<(), String> {
        self.settle();
        for name in names {
            // The last that is heard of it.
            if !self.hear_of(name) {
                return Err(format!("cannot stop node {name}: there is no such node"));
            }
            self.settle();
            self.heartbeats.remove(name);
            self.kubelets
                .stop(name, Outage::PoweredOff, self.cluster.now());
        }
        Ok(())
    }

    /// Gives nodes back that were taken away: their kubelets report again.
    pub fn start_nodes(&mut self, names: &[String]) {
        self.settle();
        let now = self.cluster.now();
        for name in names {
            self.kubelets.start(name, now);
            self.heartbeats.insert(name.clone(), now);
        }
        self.settle();
    }

    fn apply(&mut self, applied: &LoadedObject) -> Result<(), String> {
        let (kind, namespace, name) = applied.object.key();
        let key = Key::new(kind, &namespace, &name);
        let Some(live) = self.cluster.stored(&key).cloned() else {
            self.make(applied.clone());
            return Ok(());
        };
        let object = live.object().cloned();
        let object = object.ok_or_else(|| format!("cannot apply {key}: it is not known"))?;
        let old = live.to_value();
        let mut loaded = LoadedObject::from(object);
        loaded.raw = old.clone();
        let merged = apply(&loaded, &applied.raw).map_err(|findings| {
            let lines = findings
                .iter()
                .map(|finding| format!("cannot apply {key}: {finding}"));
            lines.collect::<Vec<_>>().join("\n")
        })?;
        match difference(&old, &merged.raw) {
            Some(changes) => self.patch(key, changes),
            None => Ok(()),
        }
    }

    fn patch(&mut self, key: Key, changes: Value) -> Result<(), String> {
        let patch = Patch {
            key: key.clone(),
            subresource: None,
            changes,
            uid: None,
            resource_version: None,
        };
        match self.cluster.try_patch(&patch) {
            Outcome::Refused(refusal) => Err(format!("cannot change {key}: {}", refusal.message)),
            Outcome::Stored(_) | Outcome::Done => Ok(()),
        }
    }

    fn delete(&mut self, key: Key) -> Result<(), String> {
        let delete = Write::Delete(Delete {
            key: key.clone(),
            uid: None,
            resource_version: None,
            grace_seconds: None,
            propagation: Some(Propagation::Background),
        });
        match self.cluster.carry_out(PEOPLE, &delete) {
            Outcome::Refused(refusal) => Err(format!("cannot delete {key}: {}", refusal.message)),
            Outcome::Stored(_) | Outcome::Done => Ok(()),
        }
    }

    fn taint(
        &mut self,
        node: &str,
        taints: &outrank_api::taints::TaintSpecs,
    ) -> Result<(), String> {
        let key = Key::new(ObjectKind::Node, "", node);
        let stored = self.cluster.stored(&key);
        let known = stored.and_then(|stored| stored.get::<Node>());
        let known = known.ok_or_else(|| format!("cannot taint {key}: there is no such node"))?;
        let taints = tainted(known, taints).map_err(|why| format!("cannot taint {key}: {why}"))?;
        self.patch(key, json!({"spec": {"taints": taints}}))
    }
}

impl Simulation {
    /// Lets nodes that were away and are back be heard of; whether any was.
    pub(super) fn beat_hearts(&mut self) -> bool {
        let now = self.cluster.now();
        let due = self.heartbeats.iter().filter(|(_, time)| **time <= now);
        let due: Vec<String> = due.map(|(node, _)| node.clone()).collect();
        for name in &due {
            match self.hear_of(name) {
                true => {
                    let next = now.saturating_add(HEARTBEAT_NANOS);
                    self.heartbeats.insert(name.clone(), next)
                }
                false => self.heartbeats.remove(name),
            };
        }
        !due.is_empty()
    }

    /// Has a node be heard of now; whether there is such a node.
    fn hear_of(&mut self, name: &str) -> bool {
        let key = Key::new(ObjectKind::Node, "", name);
        let stored = self.cluster.stored(&key).cloned();
        let node = stored.as_ref().and_then(|it| Some((it, it.get::<Node>()?)));
        let Some((stored, node)) = node else {
            return false;
        };
        if let Some(write) = heartbeat(stored, node, self.cluster.now()) {
            self.cluster.carry_out("kubelet", &write);
        }
        true
    }
}

/// That a node was heard of just now.
fn heartbeat(stored: &Stored, node: &Node, now: i64) -> Option<Write> {
    let mut status = node.status.clone();
    let now = rfc3339(now);
    match status.conditions.iter_mut().find(|it| it.type_ == "Ready") {
        Some(ready) => ready.last_heartbeat_time = Some(now),
        None => status.conditions.push(NodeCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            last_heartbeat_time: Some(now),
            ..NodeCondition::default()
        }),
    }
    Write::status(stored, &node.status, &status)
}
