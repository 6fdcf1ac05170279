//! Broken and hostile policies: nothing panics, what is said is bounded by the input, and
//! what is accepted makes an engine and a configuration. Every test runs from fixed seeds.

#[path = "../../../tests/random.rs"]
mod random;

use std::time::{Duration, Instant};

use outrank_config::policy::{Reading, convert, read};
use outrank_engine::Engine;
use serde_json::{Value, json};

use random::Random;

const SEED: &str = include_str!("../../../tests/seeds/policy.json");

const YAML: &str = "\
kind: Policy
apiVersion: v1
predicates:
- name: Labels
  argument: {labelsPresence: {labels: [rack, disk], presence: true}}
- name: Service
  order: 2
  argument: {serviceAffinity: {labels: [zone]}}
priorities:
- name: Ratio
  weight: 3
  argument:
    requestedToCapacityRatioArguments:
      shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]
      resources: [{name: cpu, weight: 1}, {name: example.com/gpu, weight: 5}]
- {name: Spread, weight: 1, argument: {serviceAntiAffinity: {label: zone}}}
extenders:
- urlPrefix: http://127.0.0.1/
  prioritizeVerb: p
  weight: 2
  tlsConfig: {insecure: true}
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
hardPodAffinitySymmetricWeight: 5
alwaysCheckAllPredicates: true
";

/// Pieces that mean something somewhere in a policy.
const PIECES: &[&str] = &[
    "null",
    "0",
    "-1",
    "4294967296",
    "1e99",
    "\"\"",
    "true",
    "{}",
    "[]",
    "{",
    "]",
    ",",
    ":",
    "\n",
    "order",
    "weight",
    "name",
    "GeneralPredicates",
    "PodFitsHost",
    "NodeLabel",
    "EqualPriority",
    "argument",
    "labels",
    "*",
    "&a",
    "- ",
];

/// Reads in both ways, and looks at everything that comes out. Says whether one accepted it.
fn survive(text: &str) -> bool {
    let readings = [Reading::Lenient, Reading::V1_20];
    let accepted = readings.map(|reading| match read(text, reading) {
        Ok(policy) => {
            let engine = Engine::new(&policy.engine);
            assert!(engine.is_ok(), "{:?} from {text}", engine.err());
            let configuration = convert(&policy).configuration;
            let errors = outrank_config::read(&configuration).err();
            assert_eq!(errors, None, "{text}");
            true
        }
        Err(error) => {
            assert!(!error.problems.is_empty(), "{text}");
            assert!(!error.text_of_1_20.is_empty(), "{text}");
            let told = error.to_string().len() + error.text_of_1_20.len();
            assert!(told <= 1000 * (text.len() + 2), "{told} bytes about {text}");
            false
        }
    });
    accepted.contains(&true)
}

fn mutate(text: &str, random: &mut Random) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(text.len());
        let end = (at + random.below(12)).min(text.len());
        match random.below(3) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..end, random.pick(PIECES).chars())),
            _ => drop(text.splice(at..at, random.pick(PIECES).chars())),
        }
    }
    text.into_iter().collect()
}

#[test]
fn mutated_policies() {
    let mut random = Random(1);
    for valid in [SEED, YAML] {
        assert!(survive(valid));
        let accepted = (0..8_000).filter(|_| survive(&mutate(valid, &mut random)));
        let accepted = accepted.count();
        assert!(
            (100..7_900).contains(&accepted),
            "{accepted} of 8000 accepted"
        );
    }
}

#[test]
fn huge_policies_take_time_in_their_size() {
    let many = |entry: &dyn Fn(usize) -> Value| -> Value { (0..20_000).map(entry).collect() };
    let labels = many(&|number| format!("l{number}").into());
    let custom =
        |argument: &str, value: Value| json!([{"name": "A", "argument": {argument: value}}]);
    let policies = [
        json!({"predicates": many(&|number| json!({"name": "HostName", "order": number}))}),
        json!({"predicates": many(&|number| json!({"name": format!("p{number}")}))}),
        json!({"predicates": custom("labelsPresence", json!({"labels": labels, "presence": true}))}),
        json!({"predicates": custom("serviceAffinity", json!({"labels": labels}))}),
        json!({"priorities": many(&|number| json!({"name": format!("p{number}"), "weight": -1}))}),
        json!({"extenders": [{"managedResources":
            many(&|number| json!({"name": format!("example.com/r{number}")}))}]}),
        json!({"extenders": many(&|_| json!({"bindVerb": "b"}))}),
        json!({"hardPodAffinitySymmetricWeight": "x".repeat(1 << 20)}),
    ];
    let start = Instant::now();
    for mut policy in policies {
        policy["kind"] = "Policy".into();
        policy["apiVersion"] = "v1".into();
        survive(&policy.to_string());
    }
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
}
