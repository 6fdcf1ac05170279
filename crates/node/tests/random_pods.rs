//! Random pods, deletions, outages and steps of time on one node. Whatever happens:
//!
//! * the pods that the node took never request more than it has;
//! * nobody is evicted whom the rules protect: static pods and critical ones of the same or
//!   higher priority;
//! * every pod comes to the end that its spec says, and what was deleted goes;
//! * the same input gives the same writes, however often the kubelet is called.

mod cluster;
#[path = "../../../tests/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::{Cluster, SECOND, pod};
use outrank_api::time::rfc3339;
use outrank_api::types::{Node, Pod};
use outrank_node::{Input, Kubelet, KubeletConfig, Outage, PodRef, Write};
use random::Random;
use serde_json::{Value, json};

const CPU_MILLI: i64 = 4000;
const PODS: usize = 4;

#[test]
fn whatever_happens_the_rules_hold() {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..200 {
        let mut storm = Storm::new(seed);
        for _ in 0..60 {
            storm.act();
            storm.check();
        }
        storm.calm_down();
        for (_, write) in &storm.cluster.writes {
            if let Write::PodEvent { event, .. } = write {
                *reasons.entry(event.reason.clone()).or_default() += 1;
            }
        }
    }
    // The storms are worth their name.
    for reason in [
        "Preempting",
        "OutOfcpu",
        "OutOfpods",
        "UnexpectedAdmissionError",
        "DeadlineExceeded",
        "BackOff",
        "Killing",
    ] {
        let times = reasons.get(reason).copied().unwrap_or(0);
        assert!(
            times >= 20,
            "{reason} happened {times} times only: {reasons:?}"
        );
    }
}

#[test]
fn the_same_storm_gives_the_same_writes() {
    for seed in 0..40 {
        let run = || {
            let mut storm = Storm::new(seed);
            for _ in 0..60 {
                storm.act();
            }
            storm.cluster.writes
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}

#[test]
fn it_does_not_matter_how_often_the_kubelet_is_called() {
    for seed in 0..100 {
        let inputs = random_inputs(seed);
        let end = 10_000 * SECOND;
        let mut often = kubelet();
        let mut seldom = kubelet();
        let (mut often_writes, mut seldom_writes) = (Vec::new(), Vec::new());
        for (time, input) in inputs {
            while let Some(next) = often.next_time().filter(|next| *next < time) {
                often_writes.extend(often.advance(next));
            }
            often.handle(input.clone(), time);
            seldom.handle(input, time);
        }
        while let Some(next) = often.next_time().filter(|next| *next <= end) {
            often_writes.extend(often.advance(next));
        }
        often_writes.extend(often.advance(end));
        seldom_writes.extend(seldom.advance(end));
        assert_eq!(often_writes, seldom_writes, "seed {seed}");
    }
}

/// A cluster to which random things happen.
struct Storm {
    seed: u64,
    random: Random,
    cluster: Cluster,
    /// All pods that ever were, by identifier, as they were created.
    created: BTreeMap<String, Pod>,
    /// Those that do not end by themselves alone: deleted, or there when the power went.
    disturbed: BTreeSet<String>,
    /// Names of those that were deleted.
    deleted: BTreeSet<String>,
    /// How many writes were checked.
    checked: usize,
    is_down: bool,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let allocatable = json!({ "cpu": "4", "memory": "8Gi", "pods": PODS.to_string() });
        Self {
            seed,
            random: Random(seed),
            cluster: Cluster::with_node(allocatable),
            created: BTreeMap::new(),
            disturbed: BTreeSet::new(),
            deleted: BTreeSet::new(),
            checked: 0,
            is_down: false,
        }
    }

    fn act(&mut self) {
        match self.random.below(12) {
            0..=4 => self.create(),
            5 | 6 => self.delete(),
            7 if self.random.one_in(3) => self.remove(),
            8 if self.random.one_in(3) => self.change_power(),
            _ => {
                let seconds = 1 + self.random.below(40) as i64;
                let now = self.cluster.now / SECOND;
                self.cluster.run_to(now + seconds);
            }
        }
    }

    fn create(&mut self) {
        let name = format!("pod-{}", self.created.len());
        let pod = random_pod(&mut self.random, &name);
        self.cluster.create(pod);
        let pod = self.cluster.pods[&name].clone();
        self.created.insert(pod.metadata.uid.clone(), pod);
    }

    fn delete(&mut self) {
        let Some(name) = self.some_pod() else {
            return;
        };
        let grace_seconds = self.random.one_in(2).then(|| self.random.below(20) as i64);
        self.disturbed
            .insert(self.cluster.pods[&name].metadata.uid.clone());
        self.deleted.insert(name.clone());
        self.cluster.delete(&name, grace_seconds);
    }

    fn remove(&mut self) {
        if let Some(name) = self.some_pod() {
            self.disturbed
                .insert(self.cluster.pods[&name].metadata.uid.clone());
            self.cluster.remove(&name);
        }
    }

    fn change_power(&mut self) {
        self.is_down = !self.is_down;
        if !self.is_down {
            self.cluster.start_node();
            return;
        }
        let outage = *self.random.pick(&[Outage::Unreachable, Outage::PoweredOff]);
        if outage == Outage::PoweredOff {
            let uids = self
                .cluster
                .pods
                .values()
                .map(|pod| pod.metadata.uid.clone());
            self.disturbed.extend(uids);
        }
        self.cluster.stop_node(outage);
    }

    /// A pod that is not static: those come back.
    fn some_pod(&mut self) -> Option<String> {
        let pods = self.cluster.pods.values().filter(|pod| !is_static(pod));
        let names: Vec<String> = pods.map(|pod| pod.metadata.name.clone()).collect();
        (!names.is_empty()).then(|| self.random.pick(&names).clone())
    }

    fn check(&mut self) {
        let seed = self.seed;
        let taken: Vec<&Pod> = self
            .cluster
            .kubelet
            .active_pods()
            .iter()
            .map(|(_, pod)| &**pod)
            .collect();
        let cpu_milli: i64 = taken.iter().map(|pod| cpu_milli(pod)).sum();
        assert!(
            cpu_milli <= CPU_MILLI,
            "seed {seed}: {cpu_milli} milli cpu are taken"
        );
        assert!(taken.len() <= PODS, "seed {seed}: {} pods", taken.len());
        // What is said to run is what holds a place.
        let active: BTreeSet<&str> = taken.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        if !self.is_down {
            for pod in self
                .cluster
                .pods
                .values()
                .filter(|pod| pod.status.phase == "Running")
            {
                let uid = pod.metadata.uid.as_str();
                assert!(
                    active.contains(uid),
                    "seed {seed}: {} runs without a place",
                    pod.metadata.name
                );
            }
        }
        for (_, write) in &self.cluster.writes[self.checked..] {
            if let Write::PodEvent { pod, event } = write
                && event.reason == "Preempting"
            {
                self.check_victim(&self.created[&pod.uid]);
            }
        }
        self.checked = self.cluster.writes.len();
    }

    /// Some pod that may do so has the victim evicted.
    fn check_victim(&self, victim: &Pod) {
        let priority = |pod: &Pod| pod.spec.priority.unwrap_or(0);
        let is_critical = |pod: &Pod| is_static(pod) || priority(pod) >= 2_000_000_000;
        let mut others = self.created.values();
        let may = others.any(|pod| {
            is_critical(pod) && (!is_critical(victim) || priority(pod) > priority(victim))
        });
        assert!(
            may,
            "seed {}: {} is protected",
            self.seed, victim.metadata.name
        );
    }

    /// Lets everything come to its end, and looks at the ends.
    fn calm_down(&mut self) {
        if self.is_down {
            self.change_power();
        }
        let now = self.cluster.now / SECOND;
        self.cluster.run_to(now + 20_000);
        self.check();
        for name in &self.deleted {
            assert_eq!(
                self.cluster.phase(name),
                "gone",
                "seed {}: {name}",
                self.seed
            );
        }
        for pod in self.cluster.pods.values() {
            let metadata = &pod.metadata;
            let expected = expected_phases(&self.created[&metadata.uid]);
            let is_disturbed = self.disturbed.contains(&metadata.uid);
            let status = &pod.status;
            if status.reason.is_empty() && !is_disturbed {
                let seed = self.seed;
                assert_eq!(
                    status.phase, expected,
                    "seed {seed}: {} {:?}",
                    metadata.name, pod
                );
            }
            assert_ne!(
                status.phase, "Pending",
                "seed {}: {}",
                self.seed, metadata.name
            );
        }
    }
}

/// How a pod that is left alone ends, by what its annotations say.
fn expected_phases(pod: &Pod) -> &'static str {
    let annotation = |key: &str| {
        let annotations = &pod.metadata.annotations;
        annotations
            .get(&format!("node.outrank.dev/{key}"))
            .map(String::as_str)
    };
    let succeeds = annotation("exit-code").unwrap_or("0") == "0";
    let init_succeeds = annotation("exit-code.init").unwrap_or("0") == "0";
    let has_init = !pod.spec.init_containers.is_empty();
    match (annotation("run-for"), pod.spec.restart_policy.as_str()) {
        (_, "Never") if has_init && !init_succeeds => "Failed",
        (None, _) | (_, "Always") => "Running",
        (Some(_), "Never") if !succeeds => "Failed",
        // Failures are followed by a success.
        (Some(_), _) => "Succeeded",
    }
}

fn is_static(pod: &Pod) -> bool {
    let annotations = &pod.metadata.annotations;
    annotations.contains_key("kubernetes.io/config.source")
}

fn cpu_milli(pod: &Pod) -> i64 {
    let containers = pod.spec.containers.iter();
    let requests = containers.map(|it| it.resources.requests["cpu"].milli_value());
    requests.sum()
}

fn random_pod(random: &mut Random, name: &str) -> Value {
    let cpu = format!("{}m", 100 * (1 + random.below(17)));
    let policies: &[&str] = &["Never", "OnFailure", "Always"];
    let mut spec = json!({ "restartPolicy": random.pick(policies) });
    let priorities = [0, 0, 10, 2_000_000_000, 2_000_001_000];
    if !random.one_in(4) {
        spec["priority"] = json!(random.pick(&priorities));
    }
    if random.one_in(5) {
        spec["activeDeadlineSeconds"] = json!(1 + random.below(100));
    }
    if random.one_in(3) {
        spec["terminationGracePeriodSeconds"] = json!(random.below(20));
    }
    if random.one_in(3) {
        let mut init = json!([{ "name": "init" }]);
        if random.one_in(2) {
            init = json!([{ "name": "side", "restartPolicy": "Always" }, { "name": "init" }]);
        }
        spec["initContainers"] = init;
    }
    let mut annotations = json!({});
    let mut seconds = |random: &mut Random, key: &str, below: usize| {
        if random.one_in(2) {
            let value = format!("{}s", random.below(below));
            annotations[format!("node.outrank.dev/{key}")] = json!(value);
        }
    };
    seconds(random, "start-after", 5);
    seconds(random, "run-for", 60);
    seconds(random, "run-for.init", 10);
    seconds(random, "run-for.side", 30);
    seconds(random, "ready-after", 5);
    seconds(random, "stop-after", 20);
    seconds(random, "stop-after.side", 20);
    let codes: &[&str] = &["0", "1,0", "1,1,0"];
    annotations["node.outrank.dev/exit-code"] = json!(random.pick(codes));
    annotations["node.outrank.dev/exit-code.init"] = json!(random.pick(codes));
    if random.one_in(12) {
        annotations["kubernetes.io/config.source"] = json!("file");
    }
    pod(
        name,
        &cpu,
        json!({ "metadata": { "annotations": annotations }, "spec": spec }),
    )
}

fn kubelet() -> Kubelet {
    Kubelet::new(KubeletConfig {
        node_name: "n1".to_owned(),
        heartbeats: true,
        ..KubeletConfig::default()
    })
}

/// Changes of objects with their times; nobody carries out what the kubelet writes.
fn random_inputs(seed: u64) -> Vec<(i64, Input)> {
    let mut random = Random(seed);
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": "n1" },
        "status": {
            "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "8" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }))
    .unwrap();
    let mut inputs = vec![(0, Input::NodeChanged(Arc::new(node)))];
    let mut pods: Vec<Pod> = Vec::new();
    let mut time = 0;
    for number in 0..60 {
        time += random.below(20) as i64 * SECOND / 2;
        if pods.is_empty() || !random.one_in(4) {
            let mut pod = random_pod(&mut random, &format!("pod-{number}"));
            pod["spec"]["nodeName"] = json!("n1");
            pod["metadata"]["uid"] = json!(format!("uid-{number}"));
            let pod: Pod = serde_json::from_value(pod).unwrap();
            pods.push(pod.clone());
            inputs.push((time, Input::PodChanged(Arc::new(pod))));
            continue;
        }
        let mut pod = pods.swap_remove(random.below(pods.len()));
        if random.one_in(2) {
            pod.metadata.deletion_timestamp = Some(rfc3339(time));
            pod.metadata.deletion_grace_period_seconds = Some(random.below(10) as i64);
            inputs.push((time, Input::PodChanged(Arc::new(pod))));
        } else {
            inputs.push((time, Input::PodGone(PodRef::of(&pod))));
        }
    }
    inputs
}
