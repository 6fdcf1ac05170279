//! What makes preemption safe to switch on: protected classes, budgets, delays, dry runs.
//!
//! Each test is a small cluster of nodes with 4 CPUs. Pods are written as name, class, CPUs;
//! classes are batch (priority 10), precious (50), online (1000) and critical (2000001000).

mod words_of_checker;

use std::collections::BTreeMap;

use outrank_api::types::{Node, Pod, PodDisruptionBudget, PriorityClass};
use outrank_checker::{
    Before, Kill, Options, Preemption, PreemptionRules, check, check_kills, check_preemption,
    wrongly_pending,
};
use outrank_engine::preemption::safety::{PreemptionBudget, PreemptionMode, PreemptionSafetyArgs};
use outrank_engine::profile::ProfileConfig;
use outrank_engine::{Decision, Engine, EngineConfig, Event, Outcome, PodState, TimeNanos};
use proptest::prelude::*;
use serde_json::{Value, json};

use words_of_checker::rules_of;

const SECOND: TimeNanos = 1_000_000_000;
const CLASSES: [(&str, i32); 4] = [
    ("batch", 10),
    ("precious", 50),
    ("online", 1000),
    ("critical", 2_000_001_000),
];

struct World {
    engine: Engine,
    nodes: Vec<Node>,
    classes: Vec<PriorityClass>,
    budgets: Vec<PodDisruptionBudget>,
    pods: BTreeMap<String, Pod>,
    killed: Vec<String>,
    now: TimeNanos,
    /// What the checker judges by, and all kills that it has seen.
    rules: PreemptionRules,
    kills: Vec<Kill>,
    decisions: usize,
}

impl World {
    /// Nodes of 4 CPUs, and the classes with these annotations on `precious`.
    fn new(safety: Option<PreemptionSafetyArgs>, nodes: usize, precious: Value) -> Self {
        let rules = safety.as_ref().map(rules_of).unwrap_or_default();
        let profile = ProfileConfig {
            preemption_safety: safety,
            ..ProfileConfig::default()
        };
        let mut engine = Engine::new(&EngineConfig {
            profiles: vec![profile],
            ..EngineConfig::default()
        })
        .expect("a valid profile");
        let mut classes = Vec::new();
        let mut all_nodes = Vec::new();
        for (name, value) in CLASSES {
            let mut class = json!({"metadata": {"name": name}, "value": value});
            if name == "precious" {
                class["metadata"]["annotations"] = precious["annotations"].clone();
                class["preemptionPolicy"] = precious["preemptionPolicy"].clone();
            }
            let class: PriorityClass = serde_json::from_value(class).expect("a class");
            classes.push(class.clone());
            engine.handle(Event::PriorityClassChanged(class), 0);
        }
        for number in 1..=nodes {
            let node = json!({"metadata": {"name": format!("n{number}")},
                "status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"}}});
            let node: Node = serde_json::from_value(node).expect("a node");
            all_nodes.push(node.clone());
            engine.handle(Event::NodeChanged(node), 0);
        }
        Self {
            engine,
            nodes: all_nodes,
            classes,
            budgets: Vec::new(),
            pods: BTreeMap::new(),
            killed: Vec::new(),
            now: 1_000_000 * SECOND,
            rules,
            kills: Vec::new(),
            decisions: 0,
        }
    }

    /// A budget of all batch pods, whose status is told once.
    fn budget(&mut self, disruptions_allowed: i32) {
        let budget = json!({"metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "batch"}}},
            "status": {"disruptionsAllowed": disruptions_allowed}});
        let budget: PodDisruptionBudget = serde_json::from_value(budget).expect("a budget");
        self.budgets.push(budget.clone());
        self.engine.handle(Event::BudgetChanged(budget), self.now);
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
        loop {
            let before = self.pods_as_they_are();
            let Some(decision) = self.engine.next(self.now) else {
                break;
            };
            self.check_decision(&before, &decision);
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

    /// All pods, with nodes that are promised to those that wait.
    fn pods_as_they_are(&self) -> Vec<Pod> {
        let pods = self.pods.values().cloned().map(|mut pod| {
            let id = self.engine.pod("default", &pod.metadata.name);
            let promised = id.and_then(|id| self.engine.nominated_node(id));
            pod.status.nominated_node_name = promised.unwrap_or_default().to_owned();
            pod
        });
        pods.collect()
    }

    /// Has the checker look at who is killed, if anybody is.
    fn check_decision(&mut self, pods: &[Pod], decision: &Decision) {
        let Some(preemption) = &decision.preemption else {
            return;
        };
        let key = |pod| {
            let (namespace, name) = self.engine.pod_name(pod).expect("a known pod");
            format!("{namespace}/{name}")
        };
        let victims = &preemption.victims;
        let told = Preemption {
            preemptor: key(decision.pod),
            node: self.engine.cluster().name(preemption.node).to_owned(),
            victims: victims.pods.iter().map(|pod| key(*pod)).collect(),
            violating: victims.violating.iter().map(|pod| key(*pod)).collect(),
        };
        let before = Before {
            nodes: &self.nodes,
            pods,
            budgets: &self.budgets,
            priority_classes: &self.classes,
            kills: &self.kills,
            // They are told once here, before anybody is killed.
            kills_counted: &BTreeMap::from([("default/b".to_owned(), 0)]),
            now_nanos: self.now,
        };
        let wrong = check_preemption(&before, &told, &self.rules, &Options::default());
        assert!(wrong.is_empty(), "{wrong:#?}");
        let pod = |key: &String| pods.iter().find(|pod| pod.key() == *key).expect("there");
        let kills = told.victims.iter().map(|victim| Kill {
            at_nanos: self.now,
            victim: pod(victim).clone(),
            preemptor: told.preemptor.clone(),
            preemptor_priority: pod(&told.preemptor).spec.priority.unwrap_or(0),
            decision: self.decisions,
        });
        self.kills.extend(kills);
        self.decisions += 1;
    }

    /// What of the outcome may not be.
    fn wrong(&self) -> Vec<String> {
        let pods = self.pods_as_they_are();
        let options = Options::default();
        let kills = check_kills(&self.kills, &self.classes, &self.rules);
        let placed = check(&self.nodes, &pods, &options);
        let waiting = wrongly_pending(&self.nodes, &pods, &options);
        let told = kills.iter().map(ToString::to_string);
        let told = told.chain(placed.iter().map(ToString::to_string));
        told.chain(waiting.iter().map(ToString::to_string))
            .collect()
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
        world.budget(1);
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

    /// Whatever comes, who dies had to, no protected pod dies and no budget is exceeded; and the
    /// checker would have said so.
    #[test]
    fn no_storm_kills_a_protected_pod_or_exceeds_a_budget(
        storm in prop::collection::vec((0..4usize, 1..5u32, 0..40u64), 1..60),
        per_minute in 0..4usize,
        per_decision in 1..3usize,
        of_batch in prop::bool::ANY,
        minimum_run_seconds in prop_oneof![Just(0), 1..60u64],
        strict_pdb in prop::bool::ANY,
        prefers_least_lost_work in prop::bool::ANY,
        allowed in 0..5,
        (toleration, is_toleration) in (-1..90i64, prop::bool::ANY),
    ) {
        let args = PreemptionSafetyArgs {
            budgets: vec![PreemptionBudget {
                priority_class_name: of_batch.then(|| "batch".to_owned()),
                victims_per_minute: Some(per_minute),
                victims_per_decision: Some(per_decision),
                ..PreemptionBudget::default()
            }],
            minimum_run_seconds,
            strict_pdb,
            prefers_least_lost_work,
            ..PreemptionSafetyArgs::default()
        };
        let prefix = "preemption-toleration.scheduling.x-k8s.io";
        let policy = match is_toleration {
            true => json!({"annotations": {
                format!("{prefix}/minimum-preemptable-priority"): "2000",
                format!("{prefix}/toleration-seconds"): toleration.to_string()}}),
            false => json!({"annotations":
                {"scheduling.outrank.dev/preemption-policy": "NonPreemptible"}}),
        };
        let mut world = World::new(safety(args), 3, policy);
        world.budget(allowed);
        for (number, (class, cpu, pause)) in storm.into_iter().enumerate() {
            world.now += pause * SECOND;
            world.comes(&format!("p{number}-{class}"), CLASSES[class].0, cpu);
            prop_assert_eq!(world.wrong(), Vec::<String>::new());
        }
        for kill in 0..world.kills.len() {
            for (wrong, why) in wrong_kills(&world.kills, kill, per_minute) {
                let found = check_kills(&wrong, &world.classes, &world.rules);
                prop_assert!(!found.is_empty(), "{why} is accepted");
            }
        }
    }
}

/// The same kills with one of them changed so that it may not be.
fn wrong_kills(kills: &[Kill], index: usize, per_minute: usize) -> Vec<(Vec<Kill>, &'static str)> {
    let changed = |change: &dyn Fn(&mut Kill)| {
        let mut kills = kills.to_vec();
        change(&mut kills[index]);
        kills
    };
    let higher = changed(&|kill| {
        std::sync::Arc::make_mut(&mut kill.victim.spec).priority = Some(kill.preemptor_priority);
    });
    let mut wrong = vec![(higher, "a victim that is not lower")];
    if kills[index].preemptor_priority < 2_000_001_000 {
        let protected = changed(&|kill| {
            let spec = std::sync::Arc::make_mut(&mut kill.victim.spec);
            spec.preemption_policy = Some("NonPreemptible".to_owned());
        });
        wrong.push((protected, "a protected victim"));
        let mut many = kills[..=index].to_vec();
        let mut again = kills[index].clone();
        let spec = std::sync::Arc::make_mut(&mut again.victim.spec);
        spec.priority_class_name = "batch".to_owned();
        many.extend(std::iter::repeat_n(again, per_minute + 3));
        wrong.push((many, "a storm of kills"));
    }
    wrong
}
