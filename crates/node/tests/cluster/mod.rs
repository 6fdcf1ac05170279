//! A cluster of one node for tests: it keeps objects, carries out what the kubelet writes,
//! tells it of every change, and remembers what happened when. Times are in seconds.

#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use outrank_api::time::rfc3339;
use outrank_api::types::{Node, Pod, PodStatus};
use outrank_node::{Input, Kubelet, KubeletConfig, Outage, PodRef, Write};
use serde_json::{Value, json};

pub(crate) const SECOND: i64 = 1_000_000_000;

pub(crate) struct Cluster {
    pub(crate) kubelet: Kubelet,
    pub(crate) node: Node,
    /// By name.
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) now: i64,
    /// All that the kubelet wrote, with the time.
    pub(crate) writes: Vec<(i64, Write)>,
    next_uid: u64,
}

impl Cluster {
    /// A node `n1` with 2 CPU and 4 GiB.
    pub(crate) fn new() -> Self {
        Self::with_node(json!({ "cpu": "2", "memory": "4Gi", "pods": "110" }))
    }

    pub(crate) fn with_node(allocatable: Value) -> Self {
        let config = KubeletConfig {
            node_name: "n1".to_owned(),
            ..KubeletConfig::default()
        };
        Self::with_config(config, allocatable)
    }

    pub(crate) fn with_config(config: KubeletConfig, allocatable: Value) -> Self {
        let node = serde_json::from_value(json!({
            "metadata": { "name": "n1" },
            "spec": { "podCIDR": "10.244.1.0/24" },
            "status": {
                "allocatable": allocatable,
                "addresses": [{ "type": "InternalIP", "address": "192.168.0.7" }],
            },
        }));
        let mut cluster = Self {
            kubelet: Kubelet::new(config),
            node: node.unwrap(),
            pods: BTreeMap::new(),
            now: 0,
            writes: Vec::new(),
            next_uid: 1,
        };
        cluster.tell(Input::NodeChanged(Arc::new(cluster.node.clone())));
        cluster
    }

    /// Creates a pod on the node. What is not said is filled in.
    pub(crate) fn create(&mut self, pod: Value) {
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        let metadata = &mut pod.metadata;
        if metadata.namespace.is_empty() {
            metadata.namespace = "default".to_owned();
        }
        metadata.uid = format!("uid-{}", self.next_uid);
        metadata.creation_timestamp = Some(rfc3339(self.now));
        self.next_uid += 1;
        pod.status.phase = "Pending".to_owned();
        let spec = Arc::make_mut(&mut pod.spec);
        spec.node_name = "n1".to_owned();
        self.store(pod);
    }

    /// Deletes a pod, with a grace period or its own. The object stays until the kubelet lets
    /// it go.
    pub(crate) fn delete(&mut self, name: &str, grace_seconds: Option<i64>) {
        let mut pod = self.pod(name).clone();
        let own = pod.spec.termination_grace_period_seconds.unwrap_or(30);
        let grace_seconds = grace_seconds.unwrap_or(own);
        let until = self.now + grace_seconds * SECOND;
        pod.metadata.deletion_timestamp = Some(rfc3339(until));
        pod.metadata.deletion_grace_period_seconds = Some(grace_seconds);
        self.store(pod);
    }

    /// Removes the object at once, as `kubectl delete --force` does.
    pub(crate) fn remove(&mut self, name: &str) {
        let pod = self.pods.remove(name).unwrap();
        self.tell(Input::PodGone(PodRef::of(&pod)));
    }

    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        let mut pod = self.pod(name).clone();
        change(&mut pod);
        self.store(pod);
    }

    pub(crate) fn change_node(&mut self, change: impl FnOnce(&mut Node)) {
        change(&mut self.node);
        self.tell(Input::NodeChanged(Arc::new(self.node.clone())));
    }

    /// Lets time pass up to this second.
    pub(crate) fn run_to(&mut self, second: i64) {
        let end = second * SECOND;
        while let Some(next) = self.kubelet.next_time().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.carry_out();
        }
        self.now = self.now.max(end);
        self.carry_out();
    }

    pub(crate) fn stop_node(&mut self, outage: Outage) {
        self.kubelet.stop(outage, self.now);
    }

    pub(crate) fn start_node(&mut self) {
        self.kubelet.start(self.now);
        self.carry_out();
    }

    pub(crate) fn pod(&self, name: &str) -> &Pod {
        let pod = self.pods.get(name);
        pod.unwrap_or_else(|| panic!("no pod {name}"))
    }

    pub(crate) fn status(&self, name: &str) -> &PodStatus {
        &self.pod(name).status
    }

    /// Phase of a pod, with its reason if it has one; `gone` if there is none.
    pub(crate) fn phase(&self, name: &str) -> String {
        match self.pods.get(name).map(|pod| &pod.status) {
            None => "gone".to_owned(),
            Some(status) if status.reason.is_empty() => status.phase.clone(),
            Some(status) => format!("{} {}", status.phase, status.reason),
        }
    }

    /// `True`, `False` with its reason, or `none`.
    pub(crate) fn condition(&self, name: &str, type_: &str) -> String {
        let mut conditions = self.status(name).conditions.iter();
        match conditions.find(|it| it.type_ == type_) {
            None => "none".to_owned(),
            Some(it) if it.reason.is_empty() => it.status.clone(),
            Some(it) => format!("{} {}", it.status, it.reason),
        }
    }

    /// What each container does, as `kubectl` would show it, and how often it was restarted.
    pub(crate) fn containers(&self, name: &str) -> Vec<String> {
        let status = self.status(name);
        let init = status.init_container_statuses.iter();
        let statuses = init.chain(&status.container_statuses);
        statuses
            .map(|status| {
                let state = &status.state;
                let text = match (&state.waiting, &state.running, &state.terminated) {
                    (Some(waiting), _, _) => waiting.reason.clone(),
                    (_, Some(_), _) if status.ready => "Running, ready".to_owned(),
                    (_, Some(_), _) => "Running".to_owned(),
                    (_, _, Some(ended)) => format!("{} {}", ended.reason, ended.exit_code),
                    _ => "nothing".to_owned(),
                };
                match status.restart_count {
                    0 => format!("{}: {text}", status.name),
                    restarts => format!("{}: {text}, restarts {restarts}", status.name),
                }
            })
            .collect()
    }

    /// Events about a pod: second, reason, message.
    pub(crate) fn events(&self, name: &str) -> Vec<String> {
        let events = self.writes.iter().filter_map(|(time, write)| match write {
            Write::PodEvent { pod, event } if pod.name == name => Some(format!(
                "{} {}: {}",
                time / SECOND,
                event.reason,
                event.message
            )),
            _ => None,
        });
        events.collect()
    }

    fn store(&mut self, pod: Pod) {
        self.pods.insert(pod.metadata.name.clone(), pod.clone());
        self.tell(Input::PodChanged(Arc::new(pod)));
    }

    fn tell(&mut self, input: Input) {
        self.kubelet.handle(input, self.now);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        for write in self.kubelet.advance(self.now) {
            self.writes.push((self.now, write.clone()));
            match write {
                Write::PodStatus { pod, status } => {
                    if let Some(mut stored) = self.stored(&pod) {
                        stored.status = *status;
                        self.store(stored);
                    }
                }
                Write::DeletePod { pod } => {
                    if self.stored(&pod).is_some() {
                        self.remove(&pod.name);
                    }
                }
                Write::CreateMirrorPod { pod } => {
                    let pod = serde_json::to_value(*pod).unwrap();
                    self.create(pod);
                }
                Write::NodeStatus { status } => {
                    self.node.status = *status;
                    self.tell(Input::NodeChanged(Arc::new(self.node.clone())));
                }
                Write::PodEvent { .. } | Write::RenewLease { .. } => {}
            }
        }
    }

    fn stored(&self, pod: &PodRef) -> Option<Pod> {
        let stored = self.pods.get(&pod.name)?;
        (stored.metadata.uid == pod.uid).then(|| stored.clone())
    }
}

/// A pod of one container `main` with a request for cpu. `also` is put over it.
pub(crate) fn pod(name: &str, cpu: &str, also: Value) -> Value {
    let mut pod = json!({
        "metadata": { "name": name },
        "spec": { "containers": [
            { "name": "main", "image": "app:1", "resources": { "requests": { "cpu": cpu } } },
        ]},
    });
    merge(&mut pod, also);
    pod
}

/// Annotations that say what the pod does.
pub(crate) fn does(what: &[(&str, &str)]) -> Value {
    let annotations = what
        .iter()
        .map(|(key, value)| (format!("node.outrank.dev/{key}"), json!(value)));
    let annotations: serde_json::Map<String, Value> = annotations.collect();
    json!({ "metadata": { "annotations": annotations } })
}

/// Both of these.
pub(crate) fn and(mut a: Value, b: Value) -> Value {
    merge(&mut a, b);
    a
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
