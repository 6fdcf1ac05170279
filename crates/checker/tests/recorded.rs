//! What Kubernetes decided, the checker accepts; what it refused, the checker refuses.
//!
//! For each pod of each recorded case and each node: the pod may be there, says the
//! checker, exactly if kube-scheduler found the node feasible. Nodes with room that is
//! promised to other pods are left out, and nodes refused for what the checker does not
//! judge: other pods, volumes, and features that nodes declare.

use std::fs::{File, read_dir};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use outrank_api::types::{Node, Pod};
use outrank_checker::{Options, check, wrongly_pending};
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
    let mut compared = 0;
    let mut refused = 0;
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
                replay(&scenario, &answer, &mut compared, &mut refused);
            }
        }
    }
    assert!(
        compared > 10_000 && refused > 2_000,
        "{compared} compared, {refused} refused"
    );
}

fn lines(path: &Path) -> impl Iterator<Item = Value> + use<> {
    let file = File::open(path).unwrap();
    let lines = BufReader::new(MultiGzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

/// Follows a case until something is preempted.
fn replay(scenario: &Value, answer: &Value, compared: &mut usize, refused: &mut usize) {
    let objects = scenario["objects"].as_array().unwrap();
    let of_kind = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
    let nodes: Vec<Node> = of_kind("Node").map(decode).collect();
    let mut placed: Vec<Pod> = of_kind("Pod").map(decode).collect();
    let text = scenario.to_string();
    let may_wait = MAY_WAIT_FOR.iter().any(|field| text.contains(field));
    let pods = scenario["pods"].as_array().unwrap();
    for (pod, result) in pods.iter().zip(answer["results"].as_array().unwrap()) {
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
            *compared += 1;
            *refused += usize::from(!is_feasible);
        }
        if !may_wait {
            let waiting = [placed.as_slice(), &[bound(&pod, "")]].concat();
            let wrong = wrongly_pending(&open, &waiting, &options);
            let wrong = wrong.iter().find(|wrong| wrong.pod == pod.key());
            let counted = wrong.map_or(0, |wrong| wrong.feasible_nodes);
            let feasible = open.iter().filter(|node| is_feasible(node)).count();
            assert_eq!(counted, feasible, "{context}: {wrong:?}");
        }
        match result["chosen"].as_str() {
            Some(node) => placed.push(bound(&pod, node)),
            None if result["preemption"]["nominatedNode"].is_string() => return,
            None => {}
        }
    }
}

fn decode<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn bound(pod: &Pod, node: &str) -> Pod {
    let mut pod = pod.clone();
    Arc::make_mut(&mut pod.spec).node_name = node.to_owned();
    pod
}
