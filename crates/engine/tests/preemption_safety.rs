//! What makes preemption safe to switch on: protected classes, budgets, delays, dry runs.
//!
//! Each test is a small cluster of nodes with 4 CPUs. Pods are written as name, class, CPUs;
//! classes are batch (priority 10), precious (50), online (1000) and critical (2000001000).

use std::collections::BTreeMap;

use outrank_api::types::{Node, Pod, PodDisruptionBudget, PriorityClass};
use outrank_engine::preemption::safety::{PreemptionBudget, PreemptionMode, PreemptionSafetyArgs};
use outrank_engine::profile::ProfileConfig;
use outrank_engine::{Engine, EngineConfig, Event, Outcome, PodState, TimeNanos};
use proptest::prelude::*;
use serde_json::{Value, json};

const SECOND: TimeNanos = 1_000_000_000;
const CLASSES: [(&str, i32); 4] = [
    ("batch", 10),
    ("precious", 50),
    ("online", 1000),
    ("critical", 2_000_001_000),
];

struct World {
    engine: Engine,
    pods: BTreeMap<String, Pod>,
    killed: Vec<String>,
    now: TimeNanos,
}

impl World {
    /// Nodes of 4 CPUs, and the classes with these annotations on `precious`.
    fn new(safety: Option<PreemptionSafetyArgs>, nodes: usize, precious: Value) -> Self {
        let profile = ProfileConfig {
            preemption_safety: safety,
            ..ProfileConfig::default()
        };
        let mut engine = Engine::new(&EngineConfig {
            profiles: vec![profile],
            ..EngineConfig::default()
        })
        .expect("a valid profile");
        for (name, value) in CLASSES {
            let mut class = json!({"metadata": {"name": name}, "value": value});
            if name == "precious" {
                class["metadata"]["annotations"] = precious["annotations"].clone();
                class["preemptionPolicy"] = precious["preemptionPolicy"].clone();
            }
            let class: PriorityClass = serde_json::from_value(class).expect("a class");
            engine.handle(Event::PriorityClassChanged(class), 0);
        }
        for number in 1..=nodes {
            let node = json!({"metadata": {"name": format!("n{number}")},
                "status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"}}});
            let node: Node = serde_json::from_value(node).expect("a node");
            engine.handle(Event::NodeChanged(node), 0);
        }
        Self {
            engine,
            pods: BTreeMap::new(),
            killed: Vec::new(),
            now: 1_000_000 * SECOND,
        }
    }

    fn pod(&self, name: &str, class: &str, cpu: u32) -> Pod {
        let priority = CLASSES.iter().find(|(other, _)| *other == class);
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": class}},
            "spec": {"priority": priority.expect("a class").1, "priorityClassName": class,
                "containers": [{"name": "c", "image": "i",
                    "resources": {"requests": {"cpu": cpu}}}]},
        });
        serde_json::from_value(pod).expect("a pod")
    }

    /// A pod that has run on a node for so many seconds.
    fn runs(&mut self, name: &str, class: &str, cpu: u32, node: &str, seconds: u64) {
        self.runs_with(name, class, cpu, node, seconds, |_| {});
    }

    fn runs_with(
        &mut self,
        name: &str,
        class: &str,
        cpu: u32,
        node: &str,
        seconds: u64,
        change: impl FnOnce(&mut Pod),
    ) {
        let mut pod = self.pod(name, class, cpu);
        std::sync::Arc::make_mut(&mut pod.spec).node_name = node.into();
        let since = self.time(self.now - seconds * SECOND);
        pod.status.start_time = Some(since.clone());
        let scheduled = json!({"type": "PodScheduled", "status": "True",
            "lastTransitionTime": since});
        let scheduled = serde_json::from_value(scheduled).expect("a condition");
        pod.status.conditions.push(scheduled);
        change(&mut pod);
        self.pods.insert(name.into(), pod.clone());
        self.engine.handle(Event::PodChanged(pod), self.now);
    }

    fn time(&self, nanos: TimeNanos) -> String {
        outrank_api::time::rfc3339(nanos.try_into().expect("in range"))
    }

    /// A pod comes; returns what becomes of it. Victims go at once.
    fn comes(&mut self, name: &str, class: &str, cpu: u32) -> String {
        let pod = self.pod(name, class, cpu);
        self.pods.insert(name.into(), pod.clone());
        self.engine.handle(Event::PodChanged(pod), self.now);
        self.settle();
        self.tell(name)
    }

    /// Time passes; returns what becomes of a pod.
    fn after(&mut self, seconds: u64, name: &str) -> String {
        self.now += seconds * SECOND;
        self.settle();
        self.tell(name)
    }

    fn settle(&mut self) {
        while let Some(decision) = self.engine.next(self.now) {
            if let Outcome::Scheduled { node, .. } = decision.outcome {
                let (_, name) = self.engine.pod_name(decision.pod).expect("a known pod");
                let (name, node) = (name.to_owned(), self.engine.cluster().name(node).to_owned());
                let pod = self.pods[&name].clone();
                let (class, cpu) = (pod.spec.priority_class_name.clone(), cpu_of(&pod));
                self.runs(&name, &class, cpu, &node, 0);
            }
            for victim in decision.preemption.iter().flat_map(|it| &it.victims.pods) {
                let (namespace, name) = self.engine.pod_name(*victim).expect("a known pod");
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                self.pods.remove(&name);
                self.killed.push(name.clone());
                self.engine
                    .handle(Event::PodGone { namespace, name }, self.now);
            }
        }
    }

    /// `on NODE`, or why nobody was killed.
    fn tell(&self, name: &str) -> String {
        let cluster = self.engine.cluster();
        let pod = self.engine.pod("default", name).expect("a known pod");
        match self.engine.pod_state(pod) {
            Some(PodState::Placed(node)) => format!("on {}", cluster.name(*node)),
            Some(PodState::Unschedulable(diagnosis)) => {
                let last = diagnosis.post_filter.last().map(|it| it.text(cluster));
                last.unwrap_or_else(|| "nominated".into())
            }
            state => format!("{state:?}"),
        }
    }

    fn killed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.killed)
    }
}

fn cpu_of(pod: &Pod) -> u32 {
    let cpu = &pod.spec.containers[0].resources.requests["cpu"];
    u32::try_from(cpu.value()).expect("a few CPUs")
}

fn safety(args: PreemptionSafetyArgs) -> Option<PreemptionSafetyArgs> {
    Some(args)
}

#[test]
fn without_rules_the_lowest_priority_dies() {
    let mut world = World::new(None, 2, json!({}));
    world.runs("b", "batch", 4, "n1", 60);
    world.runs("p", "precious", 4, "n2", 60);
    assert_eq!(world.comes("web", "online", 4), "on n1");
    assert_eq!(world.killed(), ["b"]);
    assert_eq!(world.comes("web-2", "online", 4), "on n2");
    assert_eq!(world.killed(), ["p"]);
}

#[test]
fn a_class_that_is_not_preemptible_keeps_its_places_but_for_what_nodes_need() {
    for precious in [
        json!({"preemptionPolicy": "NonPreemptible"}),
        json!({"annotations": {"scheduling.outrank.dev/preemption-policy": "NonPreemptible"}}),
    ] {
        let mut world = World::new(None, 1, precious);
        world.runs("p", "precious", 4, "n1", 60);
        let told = world.comes("web", "online", 4);
        let expected = "preemption: 0/1 nodes are available: 1 No preemption victims found for \
                        incoming pod, 1 node(s) had pods of lower priority protected by \
                        NonPreemptible.";
        assert_eq!(told, expected);
        assert_eq!(world.comes("exporter", "critical", 1), "on n1");
        assert_eq!(world.killed(), ["p"]);
    }
}

#[test]
fn pods_of_such_a_class_preempt_only_if_it_says_so() {
    let policy = "scheduling.outrank.dev/preempts-lower-priority";
    for (annotations, kills) in [(json!({}), false), (json!({policy: "true"}), true)] {
        let precious = json!({"preemptionPolicy": "NonPreemptible", "annotations": annotations});
        let mut world = World::new(None, 1, precious);
        world.runs("b", "batch", 4, "n1", 60);
        let mut pod = world.pod("p", "precious", 4);
        std::sync::Arc::make_mut(&mut pod.spec).preemption_policy = Some("NonPreemptible".into());
        world.pods.insert("p".into(), pod.clone());
        world.engine.handle(Event::PodChanged(pod), world.now);
        world.settle();
        assert_eq!(!world.killed().is_empty(), kills);
        if !kills {
            let told = "preemption: not eligible due to preemptionPolicy=NonPreemptible.";
            assert_eq!(world.tell("p"), told);
        }
    }
}

#[test]
fn a_class_tolerates_preemption_below_a_priority_for_a_time() {
    let prefix = "preemption-toleration.scheduling.x-k8s.io";
    let annotations = |seconds: &str| {
        let (minimum, time) = (
            format!("{prefix}/minimum-preemptable-priority"),
            format!("{prefix}/toleration-seconds"),
        );
        json!({"annotations": {minimum: "2000", time: seconds}})
    };
    let mut world = World::new(None, 1, annotations("100"));
    world.runs("p", "precious", 4, "n1", 60);
    let told = world.comes("web", "online", 4);
    assert!(
        told.contains("protected by toleration of preemption"),
        "{told}"
    );
    // Retried when the toleration ends.
    assert_eq!(world.after(39, "web"), told);
    assert_eq!(world.after(2, "web"), "on n1");
    assert_eq!(world.killed(), ["p"]);

    let mut world = World::new(None, 1, annotations("-1"));
    world.runs("p", "precious", 4, "n1", 1_000);
    assert!(world.comes("web", "online", 4).contains("toleration"));
    let mut world = World::new(None, 1, annotations("0"));
    world.runs("p", "precious", 4, "n1", 0);
    assert_eq!(world.comes("web", "online", 4), "on n1");
}

#[test]
fn a_dry_run_tells_who_would_die_and_kills_nobody() {
    let args = PreemptionSafetyArgs {
        mode: PreemptionMode::DryRun,
        ..PreemptionSafetyArgs::default()
    };
    let mut world = World::new(safety(args), 1, json!({}));
    world.runs("b", "batch", 4, "n1", 60);
    let told = "preemption: PreemptionSafety: mode is DryRun; would have killed default/b on n1";
    assert_eq!(world.comes("web", "online", 4), told);
    assert_eq!(world.killed(), Vec::<String>::new());
    // What nodes need is not held back.
    assert_eq!(world.comes("exporter", "critical", 4), "on n1");
}

#[test]
fn preemption_that_is_off_kills_nobody() {
    let args = PreemptionSafetyArgs {
        mode: PreemptionMode::Off,
        ..PreemptionSafetyArgs::default()
    };
    let mut world = World::new(safety(args), 1, json!({}));
    world.runs("b", "batch", 4, "n1", 60);
    let told = "preemption: PreemptionSafety: mode is Off";
    assert_eq!(world.comes("web", "online", 4), told);
}

#[test]
fn a_budget_allows_so_many_victims_a_minute_and_the_pod_is_tried_again_after_it() {
    let args = PreemptionSafetyArgs {
        budgets: vec![PreemptionBudget {
            priority_class_name: Some("batch".into()),
            victims_per_minute: Some(1),
            ..PreemptionBudget::default()
        }],
        ..PreemptionSafetyArgs::default()
    };
    let mut world = World::new(safety(args), 2, json!({}));
    world.runs("b1", "batch", 4, "n1", 60);
    world.runs("b2", "batch", 4, "n2", 60);
    assert_eq!(world.comes("web-1", "online", 4), "on n1");
    let told = world.comes("web-2", "online", 4);
    let held = "1 PreemptionSafety: 1 victims of priority class batch within a minute and 1 more, \
                1 allowed";
    assert!(told.contains(held), "{told}");
    assert_eq!(world.after(58, "web-2"), told);
    assert_eq!(world.after(3, "web-2"), "on n2");
    assert_eq!(world.killed(), ["b1", "b2"]);
}

#[test]
fn a_budget_allows_so_many_victims_at_once() {
    let args = PreemptionSafetyArgs {
        budgets: vec![PreemptionBudget {
            victims_per_decision: Some(1),
            ..PreemptionBudget::default()
        }],
        ..PreemptionSafetyArgs::default()
    };
    let mut world = World::new(safety(args), 1, json!({}));
    world.runs("b1", "batch", 2, "n1", 60);
    world.runs("b2", "batch", 2, "n1", 60);
    let told = world.comes("web", "online", 4);
    assert!(told.contains("2 victims at once, 1 allowed"), "{told}");
    assert_eq!(world.comes("small", "online", 2), "on n1");
}

#[test]
fn a_delay_gives_an_autoscaler_its_time() {
    let args = PreemptionSafetyArgs {
        delay_seconds: 30,
        ..PreemptionSafetyArgs::default()
    };
    let mut world = World::new(safety(args), 1, json!({}));
    world.runs("b", "batch", 4, "n1", 60);
    let told = "preemption: PreemptionSafety: delay of 30 s before preempting, 30 s to go";
    assert_eq!(world.comes("web", "online", 4), told);
    assert_eq!(world.after(29, "web"), told);
    assert_eq!(world.after(1, "web"), "on n1");
}

#[test]
fn a_pod_that_has_just_started_is_no_victim_yet() {
    let args = PreemptionSafetyArgs {
        minimum_run_seconds: 100,
        ..PreemptionSafetyArgs::default()
    };
    let mut world = World::new(safety(args), 1, json!({}));
    world.runs("b", "batch", 4, "n1", 60);
    let told = world.comes("web", "online", 4);
    assert!(told.contains("protected by minimum run time"), "{told}");
    assert_eq!(world.after(41, "web"), "on n1");
}

#[test]
fn of_equal_victims_those_go_that_lose_the_least_work() {
    let args = |prefers| PreemptionSafetyArgs {
        prefers_least_lost_work: prefers,
        ..PreemptionSafetyArgs::default()
    };
    for (prefers, killed) in [(false, "late"), (true, "saved")] {
        let mut world = World::new(safety(args(prefers)), 2, json!({}));
        let saved = world.time(world.now - 5 * SECOND);
        world.runs_with("saved", "batch", 4, "n1", 5_000, |pod| {
            let key = "scheduling.outrank.dev/last-checkpoint";
            pod.metadata.annotations.insert(key.into(), saved);
        });
        world.runs("late", "batch", 4, "n2", 600);
        world.comes("web", "online", 4);
        assert_eq!(world.killed(), [killed]);
    }
}

/// Case 5 of the public reports: two preemptors faster than the controller of the budget.
#[test]
fn a_strict_budget_counts_what_was_killed_before_it_could_say_so() {
    for (is_strict, second) in [(false, "v2"), (true, "w")] {
        let args = PreemptionSafetyArgs {
            strict_pdb: is_strict,
            ..PreemptionSafetyArgs::default()
        };
        let mut world = World::new(safety(args), 3, json!({}));
        world.runs("v1", "batch", 4, "n1", 60);
        world.runs("v2", "batch", 4, "n2", 60);
        world.runs("w", "precious", 4, "n3", 60);
        let budget = json!({"metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "batch"}}},
            "status": {"disruptionsAllowed": 1}});
        let budget: PodDisruptionBudget = serde_json::from_value(budget).expect("a budget");
        world.engine.handle(Event::BudgetChanged(budget), world.now);
        world.comes("h1", "online", 4);
        assert_eq!(world.killed(), ["v1"]);
        world.comes("h2", "online", 4);
        assert_eq!(world.killed(), [second]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever comes, no protected pod dies and no budget is exceeded.
    #[test]
    fn no_storm_kills_a_protected_pod_or_exceeds_a_budget(
        storm in prop::collection::vec((0..3usize, 1..5u32, 0..40u64), 1..60),
        per_minute in 0..4usize,
        per_decision in 1..3usize,
    ) {
        let args = PreemptionSafetyArgs {
            budgets: vec![PreemptionBudget {
                victims_per_minute: Some(per_minute),
                victims_per_decision: Some(per_decision),
                ..PreemptionBudget::default()
            }],
            ..PreemptionSafetyArgs::default()
        };
        let policy = json!({"annotations":
            {"scheduling.outrank.dev/preemption-policy": "NonPreemptible"}});
        let mut world = World::new(safety(args), 3, policy);
        let mut kills: Vec<TimeNanos> = Vec::new();
        for (number, (class, cpu, pause)) in storm.into_iter().enumerate() {
            world.now += pause * SECOND;
            world.comes(&format!("p{number}-{class}"), CLASSES[class].0, cpu);
            for killed in world.killed() {
                prop_assert!(killed.ends_with("-0"), "{killed} is protected, or not lower");
                kills.push(world.now);
            }
            let minute_ago = world.now.saturating_sub(60 * SECOND);
            let recent = kills.iter().filter(|at| **at > minute_ago);
            prop_assert!(recent.count() <= per_minute);
        }
    }
}
