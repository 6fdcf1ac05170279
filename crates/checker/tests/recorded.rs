//! What Kubernetes decided, the checker accepts; what it refused, the checker refuses.
//!
//! For each pod of each recorded case and each node: the pod may be there, says the
//! checker, exactly if kube-scheduler found the node feasible. Nodes with room that is
//! promised to other pods are left out, and nodes refused for what the checker does not
//! judge: other pods, volumes, and features that nodes declare.
//!
//! For each recorded preemption: victims on a node that kube-scheduler might have chosen are
//! accepted, on any other candidate they are too dear, and one victim more, less or other is
//! refused.

use std::collections::BTreeMap;
use std::fs::{File, read_dir};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use outrank_api::time::rfc3339;
use outrank_api::types::{Node, Pod, PodDisruptionBudget};
use outrank_checker::{
    Before, Fault, Options, Preemption, PreemptionRules, check, check_preemption, wrongly_pending,
};
use serde_json::Value;

/// Names in a configuration with which feasibility is not the default profile's.
const OTHER_FEASIBILITY: &[&str] = &[
    "addedAffinity",
    "ignoredResource",
    "disabled",
    "schedulerName",
    "multiPoint",
];

/// Plugins that refuse nodes for what the checker does not judge.
const NOT_JUDGED: &[&str] = &[
    "InterPodAffinity",
    "NodeDeclaredFeatures",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
];

/// Fields with which the checker does not say whether a pod waits without need.
const MAY_WAIT_FOR: &[&str] = &[
    "podAffinity",
    "podAntiAffinity",
    "topologySpreadConstraints",
    "volumes",
];

#[test]
fn agrees_with_kubernetes_on_every_node() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/scheduler");
    let mut seen = Seen::default();
    for entry in read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(stem) = path
            .to_str()
            .and_then(|path| path.strip_suffix(".scenarios.jsonl.gz"))
        else {
            continue;
        };
        let answers = lines(Path::new(&format!("{stem}.expected.jsonl.gz")));
        for (scenario, answer) in lines(&path).zip(answers) {
            assert_eq!(scenario["name"], answer["name"]);
            let config = scenario["config"].to_string();
            if !OTHER_FEASIBILITY.iter().any(|name| config.contains(name)) {
                replay(&scenario, &answer, &mut seen);
            }
        }
    }
    let Seen {
        compared,
        refused,
        preemptions,
        dearer,
    } = seen;
    assert!(
        compared > 10_000 && refused > 2_000 && preemptions > 200 && dearer > 200,
        "{seen:?}"
    );
}

/// How much was there to compare.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    compared: usize,
    refused: usize,
    preemptions: usize,
    dearer: usize,
}

fn lines(path: &Path) -> impl Iterator<Item = Value> + use<> {
    let file = File::open(path).unwrap();
    let lines = BufReader::new(MultiGzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

/// Follows a case.
fn replay(scenario: &Value, answer: &Value, seen: &mut Seen) {
    let objects = scenario["objects"].as_array().unwrap();
    let of_kind = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
    let nodes: Vec<Node> = of_kind("Node").map(decode).collect();
    let mut placed: Vec<Pod> = of_kind("Pod").map(decode).collect();
    let text = scenario.to_string();
    let may_wait = MAY_WAIT_FOR.iter().any(|field| text.contains(field));
    let pods = scenario["pods"].as_array().unwrap();
    let budgets: Vec<PodDisruptionBudget> = of_kind("PodDisruptionBudget").map(decode).collect();
    let mut has_preempted = false;
    let results = answer["results"].as_array().unwrap();
    for (index, (pod, result)) in pods.iter().zip(results).enumerate() {
        let pod: Pod = decode(pod);
        let context = format!("{} {}", scenario["name"], pod.key());
        let is_promised = |node: &Node| result["nominatedPods"].get(&node.metadata.name).is_some();
        let is_judged = |node: &Node| {
            let refusals = [&result["filter"][&node.metadata.name], &result["preFilter"]];
            let plugins = refusals.map(|status| status["plugin"].as_str());
            let by_volumes = result["preFilterNodes"].is_array() && !pod.spec.volumes.is_empty();
            !by_volumes
                && !plugins
                    .iter()
                    .flatten()
                    .any(|plugin| NOT_JUDGED.contains(plugin))
        };
        let is_feasible = |node: &Node| {
            let feasible = result["feasible"].as_array();
            feasible.is_some_and(|feasible| feasible.iter().any(|it| *it == node.metadata.name))
        };
        let open: Vec<Node> = nodes
            .iter()
            .filter(|node| !is_promised(node) && is_judged(node))
            .cloned()
            .collect();
        let options = Options::starting_from(&placed);
        // Comparing all nodes takes its time; those after a preemption say nothing new.
        let open = if has_preempted { Vec::new() } else { open };
        for node in &open {
            let outcome = [placed.as_slice(), &[bound(&pod, &node.metadata.name)]].concat();
            let violations = check(&nodes, &outcome, &options);
            let is_feasible = is_feasible(node);
            let node = &node.metadata.name;
            assert_eq!(
                violations.is_empty(),
                is_feasible,
                "{context} on {node}: {violations:?}"
            );
            seen.compared += 1;
            seen.refused += usize::from(!is_feasible);
        }
        if !may_wait && !has_preempted {
            let waiting = [placed.as_slice(), &[bound(&pod, "")]].concat();
            let wrong = wrongly_pending(&open, &waiting, &options);
            let wrong = wrong.iter().find(|wrong| wrong.pod == pod.key());
            let counted = wrong.map_or(0, |wrong| wrong.feasible_nodes);
            let feasible = open.iter().filter(|node| is_feasible(node)).count();
            assert_eq!(counted, feasible, "{context}: {wrong:?}");
        }
        let preemption = &result["preemption"];
        let is_judged = !may_wait && nodes.iter().all(is_judged);
        if is_judged && preemption["nominatedNode"].is_string() {
            let waiting = pods.iter().map(decode);
            let waiting: Vec<Pod> = waiting.filter(|it: &Pod| it.key() != pod.key()).collect();
            let pods = before(&placed, &waiting, &pod, result);
            judge(
                &context,
                (&nodes, &pods, &budgets),
                &pod.key(),
                preemption,
                seen,
            );
        }
        has_preempted |= preemption["nominatedNode"].is_string();
        for victim in preemption["victims"].as_array().into_iter().flatten() {
            placed.retain(|it| *victim != it.key());
        }
        let node = match preemption["placed"].as_bool() {
            Some(true) => &preemption["nominatedNode"],
            _ => &result["chosen"],
        };
        if let Some(node) = node.as_str() {
            placed.push(started(&pod, node, index));
        }
    }
}

/// All pods before one preempts. Of pods that a node is promised to, those count that are
/// recorded.
fn before(placed: &[Pod], waiting: &[Pod], preemptor: &Pod, result: &Value) -> Vec<Pod> {
    let mut pods = placed.to_vec();
    pods.push(preemptor.clone());
    let promised = result["nominatedPods"].as_object();
    for (node, names) in promised.into_iter().flatten() {
        for name in names.as_array().unwrap() {
            let pod = placed.iter().chain(waiting).find(|pod| *name == pod.key());
            let mut pod = pod.unwrap().clone();
            pod.status.nominated_node_name.clone_from(node);
            pods.retain(|it| it.key() != pod.key());
            pods.push(pod);
        }
    }
    pods
}

/// Compares the checker's judgement of all candidates of a preemption.
fn judge(
    context: &str,
    (nodes, pods, budgets): (&[Node], &[Pod], &[PodDisruptionBudget]),
    preemptor: &str,
    answer: &Value,
    seen: &mut Seen,
) {
    let counted = BTreeMap::new();
    let before = Before {
        nodes,
        pods,
        budgets,
        priority_classes: &[],
        kills: &[],
        kills_counted: &counted,
        now_nanos: 1_780_272_000_000_000_000,
    };
    let options = Options::starting_from(pods);
    let faults = |preemption: &Preemption| -> Vec<Fault> {
        let wrong = check_preemption(&before, preemption, &PreemptionRules::default(), &options);
        wrong.into_iter().map(|wrong| wrong.fault).collect()
    };
    let names = |value: &Value| -> Vec<String> {
        let names = value.as_array().unwrap().iter();
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    };
    let possible = names(&answer["possibleNodes"]);
    for candidate in answer["candidates"].as_array().unwrap() {
        let mut preemption = Preemption {
            preemptor: preemptor.to_owned(),
            node: candidate["node"].as_str().unwrap().to_owned(),
            victims: names(&candidate["victims"]),
            violating: Vec::new(),
        };
        // The record has the number of violations, not whose they are.
        let mut found = faults(&preemption);
        if let [Fault::OtherViolations { rather }] = found.as_slice() {
            preemption.violating.clone_from(rather);
            found = faults(&preemption);
        }
        let violations = candidate["pdbViolations"].as_u64().unwrap_or(0);
        assert_eq!(
            preemption.violating.len() as u64,
            violations,
            "{context}: {candidate}"
        );
        if !possible.contains(&preemption.node) {
            let is_dearer = matches!(found.as_slice(), [Fault::Cheaper { .. }]);
            assert!(is_dearer, "{context}: {preemption:?}: {found:?}");
            seen.dearer += 1;
            continue;
        }
        assert_eq!(found, [], "{context}: {preemption:?}");
        seen.preemptions += 1;
        for mutation in mutations(&preemption, pods) {
            let wrong = faults(&mutation);
            assert_ne!(wrong, [], "{context}: {mutation:?} for {preemption:?}");
        }
    }
}

/// The same preemption done wrong: a victim less, and one more.
fn mutations(preemption: &Preemption, pods: &[Pod]) -> Vec<Preemption> {
    let with = |victims: Vec<String>| Preemption {
        victims,
        ..preemption.clone()
    };
    let mut less = preemption.victims.clone();
    less.pop();
    let mut others = pods.iter().map(Pod::key);
    let other = others.rfind(|key| !preemption.victims.contains(key));
    let more = other.map(|other| with([preemption.victims.as_slice(), &[other]].concat()));
    [with(less)].into_iter().chain(more).collect()
}

/// A pod that was placed as the one of that number.
fn started(pod: &Pod, node: &str, index: usize) -> Pod {
    let mut pod = bound(pod, node);
    let seconds = 1_780_272_001 + i64::try_from(index).unwrap();
    pod.status.start_time = Some(rfc3339(seconds * 1_000_000_000));
    pod
}

fn decode<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn bound(pod: &Pod, node: &str) -> Pod {
    let mut pod = pod.clone();
    Arc::make_mut(&mut pod.spec).node_name = node.to_owned();
    pod
}
