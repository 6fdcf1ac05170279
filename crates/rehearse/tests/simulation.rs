//! Random clusters under a virtual clock, for a week: nodes are drained, lose their power and come
//! back, workloads grow and shrink, taints come and go.
//!
//! Always: no quota is exceeded, no node overcommitted, no pod placed twice. Once it is calm:
//! workloads have what they ask for, as far as their quota goes. And the same seed gives the same
//! bytes.

#[path = "../../../tests/random.rs"]
mod random;

use std::collections::BTreeMap;

use outrank_admission::resource_quota::{GroupResource, QuotaObject, usage};
use outrank_api::decode::{ObjectKind, load};
use outrank_api::types::{Deployment, Node, Pod, ResourceQuota};
use outrank_controllers::{Kind, Stored};
use outrank_rehearse::scenario::AdmissionOptions;
use outrank_rehearse::simulation::Simulation;
use outrank_rehearse::{Changes, RunOptions};
use random::Random;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;
const WEEK: i64 = 7 * 24 * HOUR;

/// So many clusters are played through.
const SEEDS: u64 = 4;

#[test]
fn a_week_in_random_clusters() {
    for seed in 0..SEEDS {
        let played = play(seed);
        assert_eq!(played, play(seed), "seed {seed}: not the same bytes");
    }
}

/// Plays a week and returns all that happened, as JSON.
fn play(seed: u64) -> String {
    let mut random = Random(seed);
    let cluster = cluster(&mut random);
    let loaded = load([("cluster.yaml", cluster.as_bytes())]);
    assert_eq!(loaded.errors, [], "seed {seed}");
    let simulation = Simulation::of(
        loaded.objects,
        &RunOptions::default(),
        &AdmissionOptions::default(),
    );
    let mut simulation = simulation.expect("the default configuration");
    let start = simulation.cluster().now();
    let mut stopped: Vec<String> = Vec::new();
    let mut now = start;
    while now < start + WEEK {
        now += random.below(6 * 3600) as i64 * SECOND + SECOND;
        simulation.run_until(now);
        check(&simulation, seed);
        disturb(&mut simulation, &mut stopped, &mut random);
    }
    // The storm is over.
    simulation.start_nodes(&stopped);
    for node in nodes(&simulation) {
        let changes = serde_json::json!({"spec": {"unschedulable": null, "taints": null}});
        let key = outrank_controllers::Key::new(ObjectKind::Node, "", &node);
        simulation.cluster_mut().patch(&key, changes);
    }
    simulation.run_until(now + 24 * HOUR);
    check(&simulation, seed);
    check_calm(&simulation, seed);
    serde_json::to_string(&simulation.report()).expect("plain data")
}

/// A cluster with room for twice of what its workloads ask for at most.
fn cluster(random: &mut Random) -> String {
    let mut text = String::new();
    for node in 0..4 + random.below(4) {
        text.push_str(&format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{node}}}\nstatus: {{allocatable: \
             {{cpu: 32, memory: 64Gi, pods: 110}}}}\n"
        ));
    }
    for number in 0..3 + random.below(3) {
        let (replicas, cpu_milli) = (1 + random.below(6), 100 + 100 * random.below(20));
        text.push_str(&format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{number}, namespace: \
             ns{}}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: d{number}}}}}\n  \
             template:\n    metadata: {{labels: {{app: d{number}}}, annotations: \
             {{node.outrank.dev/start-after: {}s, node.outrank.dev/stop-after: {}s}}}}\n    spec: \
             {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu_milli}m}}}}}}]}}\n",
            number % 2,
            random.below(20),
            random.below(40),
        ));
        if random.below(2) == 0 {
            text.push_str(&format!(
                "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: d{number}, \
                 namespace: ns{}}}\nspec: {{maxUnavailable: 1, selector: {{matchLabels: {{app: \
                 d{number}}}}}}}\n",
                number % 2
            ));
        }
    }
    text.push_str(&format!(
        "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q, namespace: ns0}}\nspec: {{hard: \
         {{pods: {}, requests.cpu: {}}}}}\n",
        4 + random.below(12),
        4 + random.below(12)
    ));
    text.push_str(&format!(
        "---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: nightly, namespace: ns1}}\nspec: \
         {{schedule: \"{} */6 * * *\", jobTemplate: {{spec: {{template: {{metadata: {{annotations: \
         {{node.outrank.dev/run-for: {}m}}}}, spec: {{restartPolicy: Never, containers: [{{name: c, \
         image: i, resources: {{requests: {{cpu: 500m}}}}}}]}}}}}}}}}}\n",
        random.below(60),
        1 + random.below(90)
    ));
    text
}

fn disturb(simulation: &mut Simulation, stopped: &mut Vec<String>, random: &mut Random) {
    let names = nodes(simulation);
    let node = names[random.below(names.len())].clone();
    let mut changes = Changes::default();
    match random.below(6) {
        0 if stopped.len() + 2 < names.len() && !stopped.contains(&node) => {
            simulation
                .stop_nodes(std::slice::from_ref(&node))
                .expect("there is such a node");
            stopped.push(node);
        }
        0 | 1 => {
            if let Some(node) = stopped.pop() {
                simulation.start_nodes(&[node]);
            }
        }
        2 => changes.drain.push(node),
        3 => {
            let key = outrank_controllers::Key::new(ObjectKind::Node, "", &node);
            let uncordoned = serde_json::json!({"spec": {"unschedulable": null}});
            simulation.cluster_mut().patch(&key, uncordoned);
        }
        4 => {
            let taint = format!("{node}=trouble=yes:NoExecute")
                .parse()
                .expect("a taint");
            // It may be there already.
            let taints = Changes {
                taint: vec![taint],
                ..Changes::default()
            };
            let _ = simulation.change(&taints);
        }
        _ => {
            let scale = format!("ns0/deployment/d0={}", random.below(9));
            changes.scale.push(scale.parse().expect("a scale"));
        }
    }
    simulation
        .change(&changes)
        .expect("nothing is wrong with it");
}

fn all<T: outrank_api::decode::Typed>(simulation: &Simulation) -> impl Iterator<Item = &T> {
    let objects = simulation.cluster().objects();
    let of_kind = objects.filter(|(key, _)| key.kind == Kind::Known(T::KIND));
    of_kind.filter_map(|(_, stored): (_, &std::sync::Arc<Stored>)| stored.get())
}

fn nodes(simulation: &Simulation) -> Vec<String> {
    let nodes = all::<Node>(simulation);
    nodes.map(|node| node.metadata.name.clone()).collect()
}

/// What holds at any time.
fn check(simulation: &Simulation, seed: u64) {
    let now = simulation.cluster().now();
    let pod_resource = GroupResource::from(ObjectKind::Pod);
    for quota in all::<ResourceQuota>(simulation) {
        let pods = all::<Pod>(simulation);
        let pods = pods.filter(|pod| pod.metadata.namespace == quota.metadata.namespace);
        let pods = pods.map(|pod| (&pod_resource, QuotaObject::Pod(pod)));
        let used = usage(quota, &Default::default(), pods, now);
        for (resource, used) in used {
            let hard = &quota.spec.hard[&resource];
            assert!(
                used <= *hard,
                "seed {seed}: {resource}: {used} of {hard} used"
            );
        }
    }
    let mut cpu_milli: BTreeMap<&str, i64> = BTreeMap::new();
    for pod in all::<Pod>(simulation).filter(|pod| pod.status.phase == "Running") {
        let requests = pod
            .spec
            .containers
            .iter()
            .flat_map(|it| it.resources.requests.get("cpu"));
        let sum: i64 = requests.map(|cpu| cpu.milli_value()).sum();
        *cpu_milli.entry(&pod.spec.node_name).or_default() += sum;
    }
    for (node, cpu_milli) in cpu_milli {
        assert!(cpu_milli <= 32_000, "seed {seed}: {node} has {cpu_milli}m");
    }
}

/// What holds once nothing happens any more.
fn check_calm(simulation: &Simulation, seed: u64) {
    for deployment in all::<Deployment>(simulation) {
        let metadata = &deployment.metadata;
        let app = &metadata.name;
        let pods = all::<Pod>(simulation).filter(|pod| {
            pod.metadata.namespace == metadata.namespace
                && pod.metadata.labels.get("app") == Some(app)
                && pod.metadata.deletion_timestamp.is_none()
                && !pod.is_finished()
        });
        let pods: Vec<&Pod> = pods.collect();
        let running = pods
            .iter()
            .filter(|pod| pod.status.phase == "Running")
            .count();
        assert_eq!(
            running,
            pods.len(),
            "seed {seed}: {app} has pods that do not run"
        );
        let wanted = deployment.spec.replicas.unwrap_or(1) as usize;
        let is_limited = metadata.namespace == "ns0";
        assert!(
            running == wanted || is_limited && running < wanted,
            "seed {seed}: {app}"
        );
    }
    let waiting = simulation.report().waiting;
    assert_eq!(waiting, [], "seed {seed}");
}
