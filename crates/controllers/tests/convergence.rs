//! Controllers in a storm: random workloads, writes that are refused, pods that die, news that
//! comes late. When it is over, everything is as it should be; and nothing is made twice.
//!
//! A test that fails prints its seed.

use std::collections::BTreeMap;

use outrank_api::decode::{Object, decode_value};
use outrank_api::defaults::default_object;
use outrank_api::types::{Node, Pod};
use outrank_controllers::virtual_cluster::{PodLife, SECOND, VirtualCluster};
use outrank_controllers::workloads::{Workload, reconcile};
use outrank_controllers::{Controllers, Key, Refusal, Write, workload_controllers};
use serde_json::{Value, json};

const START: &str = "2026-01-01T00:00:00Z";

/// Numbers that look random (xorshift*).
#[derive(Clone)]
struct Lots(u64);

impl Lots {
    fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

const KINDS: [&str; 5] = [
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
];

/// A workload of a kind whose pods have the label `app` with its name.
fn workload(kind: &str, name: &str, lots: &mut Lots) -> Value {
    let template = json!({
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [{"name": "c", "image": "i:1", "args": ["-x"]}],
            "restartPolicy": if kind == "Job" { "Never" } else { "Always" },
        },
    });
    let mut spec = json!({"template": template});
    if kind != "Job" {
        spec["selector"] = json!({"matchLabels": {"app": name}});
    }
    match kind {
        "DaemonSet" => {}
        "Job" => {
            spec["parallelism"] = (lots.below(5) + 1).into();
            spec["completions"] = (lots.below(9) + 1).into();
            spec["backoffLimit"] = 1000.into();
            spec["completionMode"] = (*lots.pick(&["Indexed", "NonIndexed"])).into();
        }
        _ => spec["replicas"] = lots.below(9).into(),
    }
    match kind {
        "StatefulSet" => {
            spec["podManagementPolicy"] = (*lots.pick(&["OrderedReady", "Parallel"])).into();
        }
        "Deployment" => {
            let strategy = lots.pick(&["RollingUpdate", "Recreate"]);
            spec["strategy"] = json!({"type": strategy});
        }
        _ => {}
    }
    let api_version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

struct Storm {
    cluster: VirtualCluster,
    lots: Lots,
    /// Workloads, and the most pods each ever wanted at a time.
    workloads: BTreeMap<Key, i64>,
}

impl Storm {
    fn of(seed: u64) -> Self {
        let controllers = Controllers::new(workload_controllers());
        let mut cluster = VirtualCluster::new(controllers, START);
        let mut lots = Lots::of(seed);
        cluster.pod_life = PodLife::Takes {
            start_seconds: lots.below(3) as i64,
            stop_seconds: lots.below(3) as i64,
        };
        cluster.lag = lots.below(3) as i64 * SECOND;
        let mut refusing = lots.clone();
        cluster.refuse = Some(Box::new(move |write| {
            let is_event = matches!(write, Write::Event(_));
            (!is_event && refusing.below(5) == 0).then(|| Refusal {
                code: 500,
                message: "the storm".into(),
                ..Refusal::default()
            })
        }));
        Self {
            cluster,
            lots,
            workloads: BTreeMap::new(),
        }
    }

    fn blow(&mut self) {
        for node in 0..3 {
            let name = format!("node-{node}");
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            self.cluster.create(node);
        }
        for number in 0..5 {
            let kind = *self.lots.pick(&KINDS);
            let name = format!("w{number}");
            let value = workload(kind, &name, &mut self.lots);
            let wanted = ["replicas", "parallelism"].map(|it| value["spec"][it].as_i64());
            let most = wanted.into_iter().flatten().next().unwrap_or(1);
            let key = self.cluster.create(value);
            self.workloads.insert(key, most);
        }
        for _ in 0..40 {
            self.act();
            let seconds = self.lots.below(5) as i64;
            self.cluster.run_seconds(seconds);
            self.check_that_nothing_is_made_twice();
        }
    }

    /// Something happens.
    fn act(&mut self) {
        let keys: Vec<Key> = self.workloads.keys().cloned().collect();
        let key = self.lots.pick(&keys).clone();
        let has_replicas = !matches!(key.kind.name(), "DaemonSet" | "Job");
        match self.lots.below(4) {
            0 if has_replicas => {
                let replicas = self.lots.below(9) as i64;
                self.cluster
                    .patch(&key, json!({"spec": {"replicas": replicas}}));
                let most = self.workloads.entry(key).or_default();
                *most = replicas.max(*most);
            }
            1 if key.kind.name() != "Job" => {
                let image = format!("i:{}", self.lots.below(4));
                let containers = json!([{"name": "c", "image": image}]);
                let template = json!({"spec": {"containers": containers}});
                self.cluster
                    .patch(&key, json!({"spec": {"template": template}}));
            }
            2 => {
                if let Some(pod) = self.some_pod() {
                    self.cluster.delete(&pod);
                }
            }
            _ => {
                if let Some(pod) = self.some_pod() {
                    self.cluster.set_pod_status(&pod, "Failed", false);
                }
            }
        }
    }

    fn some_pod(&mut self) -> Option<Key> {
        let pods: Vec<Key> = self.cluster.pods("default").collect();
        (!pods.is_empty()).then(|| self.lots.pick(&pods).clone())
    }

    /// Active pods by the kind and name of their controller.
    fn active(&self) -> BTreeMap<(String, String), i64> {
        let mut counts = BTreeMap::new();
        for key in self.cluster.pods("default") {
            let stored = self.cluster.stored(&key).expect("it is listed");
            let pod: &Pod = stored.get().expect("a pod");
            let is_active = !pod.is_finished() && pod.metadata.deletion_timestamp.is_none();
            if let Some(owner) = pod.metadata.controller().filter(|_| is_active) {
                let owner = (owner.kind.clone(), owner.name.clone());
                *counts.entry(owner).or_default() += 1;
            }
        }
        counts
    }

    fn check_that_nothing_is_made_twice(&self) {
        for ((kind, name), count) in self.active() {
            let most = match kind.as_str() {
                "DaemonSet" => 3,
                // A rollout may have more ReplicaSets, each with no more than the Deployment.
                "ReplicaSet" => {
                    let of = |key: &&Key| {
                        *key.name == *name || name.starts_with(&format!("{}-", key.name))
                    };
                    let key = self.workloads.keys().find(of).expect("its workload");
                    self.workloads[key] + self.workloads[key] / 4 + 1
                }
                _ => {
                    let mut of = self.workloads.iter();
                    *of.find(|(key, _)| *key.name == *name)
                        .expect("its workload")
                        .1
                }
            };
            assert!(
                count <= most,
                "{kind} {name} has {count} active pods, more than {most}"
            );
        }
    }

    /// The storm is over: everything comes to rest.
    fn calm(&mut self) {
        self.cluster.refuse = None;
        // Pods of jobs end well.
        for _ in 0..60 {
            self.cluster.run_seconds(30);
            for key in self.cluster.pods("default").collect::<Vec<_>>() {
                let stored = self.cluster.stored(&key).expect("it is listed");
                let pod: &Pod = stored.get().expect("a pod");
                let is_of_job = pod.metadata.controller().is_some_and(|it| it.kind == "Job");
                if is_of_job && pod.status.phase == "Running" {
                    self.cluster.set_pod_status(&key, "Succeeded", false);
                }
            }
        }
        self.cluster.run_seconds(2000);
    }

    fn check_rest(&self) {
        let active = self.active();
        let of = |kind: &str, name: &str| {
            active
                .get(&(kind.to_owned(), name.to_owned()))
                .copied()
                .unwrap_or(0)
        };
        for key in self.workloads.keys() {
            let value = self.cluster.value(key);
            let (spec, status) = (&value["spec"], &value["status"]);
            let number = |value: &Value| value.as_i64().unwrap_or(0);
            match key.kind.name() {
                "Deployment" => {
                    let wanted = number(&spec["replicas"]);
                    for count in ["replicas", "updatedReplicas", "availableReplicas"] {
                        assert_eq!(number(&status[count]), wanted, "{key} {count}: {status}");
                    }
                    let sets = self.cluster.objects().filter(|(_, it)| {
                        it.metadata()
                            .controller()
                            .is_some_and(|it| it.name == *key.name)
                    });
                    let pods: i64 = sets.map(|(set, _)| of("ReplicaSet", &set.name)).sum();
                    assert_eq!(pods, wanted, "{key}");
                }
                "Job" => {
                    let wanted = number(&spec["completions"]);
                    assert_eq!(number(&status["succeeded"]), wanted, "{key}: {status}");
                    let last = status["conditions"].as_array().and_then(|it| it.last());
                    assert_eq!(last.expect("a condition")["type"], "Complete", "{key}");
                }
                "DaemonSet" => {
                    assert_eq!(number(&status["numberAvailable"]), 3, "{key}: {status}");
                    assert_eq!(
                        number(&status["updatedNumberScheduled"]),
                        3,
                        "{key}: {status}"
                    );
                    assert_eq!(of("DaemonSet", &key.name), 3, "{key}");
                }
                kind => {
                    let wanted = number(&spec["replicas"]);
                    assert_eq!(
                        number(&status["availableReplicas"]),
                        wanted,
                        "{key}: {status}"
                    );
                    assert_eq!(of(kind, &key.name), wanted, "{key}");
                }
            }
        }
    }
}

#[test]
fn when_the_storm_is_over_everything_is_as_it_should_be() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut storm = Storm::of(seed);
        storm.blow();
        storm.calm();
        storm.check_rest();
    }
}

#[test]
fn the_same_seed_gives_the_same_writes() {
    let writes = |seed| {
        let mut storm = Storm::of(seed);
        storm.blow();
        format!("{:?}", storm.cluster.log)
    };
    for seed in 100..105 {
        println!("seed {seed}");
        assert!(writes(seed) == writes(seed));
    }
}

/// Pods by the label `app`.
fn by_app<'p>(pods: impl Iterator<Item = &'p Pod>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        *counts
            .entry(pod.metadata.labels["app"].clone())
            .or_default() += 1;
    }
    counts
}

#[test]
fn at_rest_there_are_the_pods_that_the_short_way_makes() {
    for seed in 0..100 {
        println!("seed {seed}");
        let mut lots = Lots::of(seed);
        let mut cluster = VirtualCluster::new(Controllers::new(workload_controllers()), START);
        let mut nodes: Vec<Node> = Vec::new();
        for number in 0..lots.below(4) {
            let name = format!("node-{number}");
            let value = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            nodes.push(serde_json::from_value(value.clone()).expect("a node"));
            cluster.create(value);
        }
        let mut objects: Vec<Object> = Vec::new();
        for number in 0..6 {
            let kind = *lots.pick(&KINDS);
            let value = workload(kind, &format!("w{number}"), &mut lots);
            let mut object = decode_value(&value).expect("a workload");
            default_object(&mut object);
            objects.push(object);
            cluster.create(value);
        }
        cluster.settle();
        let workloads: Vec<Workload<'_>> = objects.iter().filter_map(Workload::of).collect();
        let short = reconcile(&workloads, &[], &nodes).expect("not too many");
        let driven = cluster.pods("default").collect::<Vec<_>>();
        let driven = driven
            .iter()
            .filter_map(|key| cluster.stored(key)?.get::<Pod>());
        assert_eq!(by_app(driven), by_app(short.create.iter()));
    }
}

#[test]
fn pods_of_one_template_share_their_spec() {
    let controllers = Controllers::new(workload_controllers());
    let mut cluster = VirtualCluster::new(controllers, START);
    let mut value = workload("Deployment", "web", &mut Lots::of(1));
    value["spec"]["replicas"] = 3000.into();
    let object = decode_value(&value).expect("a workload");
    cluster.create_typed(object);
    cluster.settle();
    let pods: Vec<&Pod> = cluster.objects().filter_map(|(_, it)| it.get()).collect();
    assert_eq!(pods.len(), 3000);
    let first = &pods[0].spec;
    assert!(
        pods.iter()
            .all(|pod| std::sync::Arc::ptr_eq(first, &pod.spec))
    );
}
