//! Broken and hostile configurations: nothing panics, what is said is bounded by the input,
//! and what is accepted makes an engine. Every test runs from fixed seeds.

#[path = "../../../tests/random.rs"]
mod random;

use outrank_engine::Engine;
use serde_json::{Value, json};

use random::Random;

fn valid() -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podInitialBackoffSeconds": 2,
        "podMaxBackoffSeconds": 20,
        "percentageOfNodesToScore": 50,
        "parallelism": 8,
        "leaderElection": {"leaderElect": true, "leaseDuration": "30s"},
        "clientConnection": {"burst": 5},
        "extenders": [{
            "urlPrefix": "http://127.0.0.1:1/a",
            "filterVerb": "filter",
            "prioritizeVerb": "rate",
            "weight": 2,
            "httpTimeout": "1m0.5s",
            "managedResources": [{"name": "example.com/a", "ignoredByScheduler": true}],
            "tlsConfig": {"caData": "QQ=="},
        }],
        "profiles": [
            {
                "schedulerName": "packer",
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 3}]},
                    "filter": {"disabled": [{"name": "NodePorts"}]},
                    "score": {
                        "disabled": [{"name": "*"}],
                        "enabled": [{"name": "NodeResourcesFit", "weight": 7}],
                    },
                },
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {
                        "ignoredResources": ["example.com/a"],
                        "ignoredResourceGroups": ["example.org"],
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "cpu", "weight": 2}, {"name": "memory"}],
                            "requestedToCapacityRatio": {"shape": [
                                {"utilization": 0, "score": 0},
                                {"utilization": 100, "score": 10},
                            ]},
                        },
                    }},
                    {"name": "NodeResourcesBalancedAllocation", "args": {
                        "resources": [{"name": "cpu", "weight": 1}]}},
                    {"name": "NodeAffinity", "args": {"addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                            {"matchExpressions": [
                                {"key": "rank", "operator": "Gt", "values": ["3"]}]}]},
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 5, "preference": {"matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["n"]}]}}],
                    }}},
                ],
            },
            {"schedulerName": "default-scheduler"},
        ],
    })
}

/// Words that mean something somewhere in a configuration.
const WORDS: &[&str] = &[
    "apiVersion",
    "kind",
    "profiles",
    "schedulerName",
    "plugins",
    "pluginConfig",
    "name",
    "args",
    "score",
    "filter",
    "multiPoint",
    "enabled",
    "disabled",
    "weight",
    "*",
    "NodeAffinity",
    "NodeResourcesFit",
    "scoringStrategy",
    "type",
    "resources",
    "shape",
    "utilization",
    "LeastAllocated",
    "MostAllocated",
    "RequestedToCapacityRatio",
    "addedAffinity",
    "requestedToCapacityRatio",
    "extenders",
    "urlPrefix",
    "managedResources",
    "httpTimeout",
    "9999999h",
    "percentageOfNodesToScore",
    "queueSort",
    "bind",
    "",
    "\u{1f980}",
    "a\nb",
];

fn scalar(random: &mut Random) -> Value {
    match random.below(12) {
        0 => Value::Null,
        1 => (random.next() & 1 == 0).into(),
        2 => random.next().into(),
        3 => (random.next() as i64).into(),
        4 => i64::MIN.into(),
        5 => u64::MAX.into(),
        6 => json!(1e300),
        7 => json!(0.5),
        8 => (random.below(200) as i64 - 50).into(),
        9 => "x".repeat(random.below(5000)).into(),
        _ => (*random.pick(WORDS)).into(),
    }
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 1 } else { 4 }) {
        1 => (0..random.below(5))
            .map(|_| value(random, depth - 1))
            .collect(),
        2 | 3 => {
            let fields = random.below(5);
            let field = |random: &mut Random| {
                let name = (*random.pick(WORDS)).to_owned();
                (name, value(random, depth - 1))
            };
            Value::Object((0..fields).map(|_| field(random)).collect())
        }
        _ => scalar(random),
    }
}

/// Changes something somewhere.
fn mutate(target: &mut Value, random: &mut Random) {
    let stops = random.below(4) == 0;
    match target {
        Value::Object(map) if !stops && !map.is_empty() => {
            let at = random.below(map.len());
            let name = map.keys().nth(at).cloned().unwrap_or_default();
            match random.below(10) {
                0 => drop(map.remove(&name)),
                1 => {
                    let added = value(random, 2);
                    map.insert((*random.pick(WORDS)).to_owned(), added);
                }
                _ => mutate(&mut map[&name], random),
            }
        }
        Value::Array(list) if !stops && !list.is_empty() => {
            let at = random.below(list.len());
            match random.below(8) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                2 => list.swap(0, at),
                _ => mutate(&mut list[at], random),
            }
        }
        other => *other = value(random, 2),
    }
}

/// Reads, and looks at everything that comes out. Says whether it was accepted.
fn survive(document: &Value) -> bool {
    let size = document.to_string().len();
    match outrank_config::read(document) {
        Ok(config) => {
            let engine = Engine::new(&config.engine);
            assert!(engine.is_ok(), "{:?} from {document}", engine.err());
            true
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            assert!(
                errors.len() <= size + 2,
                "{} errors in {size} bytes",
                errors.len()
            );
            let told: usize = errors.iter().map(|error| error.to_string().len()).sum();
            // A path, what was found, and what would be right.
            assert!(told <= 500 * (size + 2), "{told} bytes about {size}");
            false
        }
    }
}

#[test]
fn what_is_mutated_is_valid() {
    assert!(survive(&valid()));
}

#[test]
fn mutated_configurations() {
    let mut random = Random(1);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut document = valid();
        for _ in 0..=random.below(4) {
            mutate(&mut document, &mut random);
        }
        accepted += usize::from(survive(&document));
    }
    assert!(
        (100..19_900).contains(&accepted),
        "{accepted} of 20000 accepted"
    );
}

#[test]
fn random_values() {
    let mut random = Random(2);
    for _ in 0..20_000 {
        let mut document = value(&mut random, 5);
        survive(&document);
        if let Value::Object(map) = &mut document {
            map.insert("apiVersion".into(), "kubescheduler.config.k8s.io/v1".into());
            map.insert("kind".into(), "KubeSchedulerConfiguration".into());
            survive(&document);
        }
    }
}

#[test]
fn huge_configurations_take_time_in_their_size() {
    // Many of everything that is compared with the others of its kind.
    let enabled: Vec<Value> = (0..20_000).map(|_| json!({"name": "NodeName"})).collect();
    let mut document = valid();
    document["profiles"][0]["plugins"]["filter"]["enabled"] = enabled.into();
    assert!(!survive(&document));

    let args: Vec<Value> = (0..20_000)
        .map(|number| json!({"name": format!("p{number}")}))
        .collect();
    let mut document = valid();
    document["profiles"][0]["pluginConfig"] = args.into();
    survive(&document);

    let mut document = valid();
    let name = "long".repeat(1 << 20);
    document["profiles"][0]["schedulerName"] = name.clone().into();
    document["profiles"][1]["schedulerName"] = name.into();
    assert!(!survive(&document));
}
