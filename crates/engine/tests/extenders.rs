//! What extenders say counts as kube-scheduler lets it count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use outrank_api::types::{Container, Node, Pod, PodSpec};
use outrank_engine::extender::{Extender, ExtenderFilterResult, MetaVictims, NodeVictims};
use outrank_engine::extensions::Extensions;
use outrank_engine::preemption::safety::{PreemptionBudget, PreemptionSafetyArgs};
use outrank_engine::profile::ProfileConfig;
use outrank_engine::{Engine, EngineConfig, Event, Outcome};

type Filter = fn(&[&str]) -> Result<ExtenderFilterResult, String>;
type Preempt = fn(&[&str]) -> Result<BTreeMap<String, MetaVictims>, String>;
type Prioritize = fn(&[&str]) -> Result<Vec<(String, i64)>, String>;

/// An extender that answers what a test says, and remembers what it was asked.
#[derive(Debug)]
struct Scripted {
    filter: Option<Filter>,
    prioritize: Option<Prioritize>,
    preempt: Option<Preempt>,
    weight: i64,
    ignorable: bool,
    /// Pods whose names begin with this are its.
    interest: &'static str,
    asked: Mutex<Vec<String>>,
}

impl Default for Scripted {
    fn default() -> Self {
        Self {
            filter: None,
            prioritize: None,
            preempt: None,
            weight: 1,
            ignorable: false,
            interest: "",
            asked: Mutex::default(),
        }
    }
}

impl Scripted {
    fn filtering(filter: Filter) -> Self {
        Self {
            filter: Some(filter),
            ..Self::default()
        }
    }

    fn rating(weight: i64, prioritize: Prioritize) -> Self {
        Self {
            prioritize: Some(prioritize),
            weight,
            ..Self::default()
        }
    }

    fn preempting(preempt: Preempt) -> Self {
        Self {
            preempt: Some(preempt),
            ..Self::default()
        }
    }

    fn note<'n>(&self, call: &str, pod: &Pod, nodes: &'n [&Node]) -> Vec<&'n str> {
        let nodes: Vec<&str> = nodes.iter().map(|node| &*node.metadata.name).collect();
        let asked = format!("{call} {}: {}", pod.metadata.name, nodes.join(" "));
        self.asked.lock().expect("no panics").push(asked);
        nodes
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("no panics"))
    }
}

impl Extender for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn is_ignorable(&self) -> bool {
        self.ignorable
    }

    fn is_filter(&self) -> bool {
        self.filter.is_some()
    }

    fn is_prioritizer(&self) -> bool {
        self.prioritize.is_some()
    }

    fn weight(&self) -> i64 {
        self.weight
    }

    fn is_interested(&self, pod: &Pod) -> bool {
        pod.metadata.name.starts_with(self.interest)
    }

    fn filter(&self, pod: &Pod, nodes: &[&Node]) -> Result<ExtenderFilterResult, String> {
        let nodes = self.note("filter", pod, nodes);
        self.filter.expect("asked only if it filters")(&nodes)
    }

    fn prioritize(&self, pod: &Pod, nodes: &[&Node]) -> Result<Vec<(String, i64)>, String> {
        let nodes = self.note("prioritize", pod, nodes);
        self.prioritize.expect("asked only if it rates")(&nodes)
    }

    fn supports_preemption(&self) -> bool {
        self.preempt.is_some()
    }

    fn preempt(
        &self,
        pod: &Pod,
        victims: &BTreeMap<String, NodeVictims<'_>>,
    ) -> Result<BTreeMap<String, MetaVictims>, String> {
        let told = victims.iter().map(|(node, victims)| {
            let uids = victims.pods.iter().map(|pod| &*pod.metadata.uid);
            let uids: Vec<&str> = uids.collect();
            let places = victims.pods.iter().all(|pod| pod.spec.node_name == *node);
            assert!(places, "victims are on their node");
            format!("{node} {} {}", uids.join("+"), victims.num_pdb_violations)
        });
        let told: Vec<String> = told.collect();
        let asked = format!("preempt {}: {}", pod.metadata.name, told.join(", "));
        self.asked.lock().expect("no panics").push(asked);
        let nodes: Vec<&str> = victims.keys().map(String::as_str).collect();
        self.preempt.expect("asked only if it has a say")(&nodes)
    }
}

fn result(
    nodes: &[&str],
    failed: &[(&str, &str)],
    unresolvable: &[(&str, &str)],
) -> ExtenderFilterResult {
    let map = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()));
        pairs.collect()
    };
    ExtenderFilterResult {
        nodes: nodes.iter().map(ToString::to_string).collect(),
        failed: map(failed),
        failed_and_unresolvable: map(unresolvable),
    }
}

fn node(name: &str, cpu: &str) -> Node {
    let mut node = Node::default();
    node.metadata.name = name.into();
    for (resource, amount) in [("cpu", cpu), ("memory", "8Gi"), ("pods", "110")] {
        let allocatable = &mut node.status.allocatable;
        allocatable.insert(resource.into(), amount.parse().unwrap());
    }
    node
}

fn pod(name: &str, cpu: &str) -> Pod {
    let mut container = Container::default();
    let requests = &mut container.resources.requests;
    requests.insert("cpu".into(), cpu.parse().unwrap());
    let mut pod = Pod::default();
    pod.metadata.namespace = "default".into();
    pod.metadata.name = name.into();
    pod.spec = Arc::new(PodSpec {
        containers: vec![container],
        ..PodSpec::default()
    });
    pod
}

/// Nodes a, b and c with 4 cores, d with none.
fn engine(config: &EngineConfig, extenders: &[&Arc<Scripted>]) -> Engine {
    let extenders = extenders
        .iter()
        .map(|&it| Arc::clone(it) as Arc<dyn Extender>);
    let extensions = Extensions {
        extenders: extenders.collect(),
        ..Extensions::default()
    };
    let mut engine = Engine::with_extensions(config, extensions).unwrap();
    for (name, cpu) in [("a", "4"), ("b", "4"), ("c", "4"), ("d", "0")] {
        engine.handle(Event::NodeChanged(node(name, cpu)), 0);
    }
    engine
}

/// What comes of the next pod: `node score`, a message or an error.
fn next(engine: &mut Engine) -> Option<String> {
    let decision = engine.next(0)?;
    let cluster = engine.cluster();
    Some(match decision.outcome {
        Outcome::Scheduled {
            node, total_score, ..
        } => format!("{} {total_score}", cluster.name(node)),
        Outcome::Unschedulable(diagnosis) => diagnosis.filter_message(cluster),
        Outcome::Error(error) => format!("error: {error}"),
    })
}

fn decide(engine: &mut Engine, name: &str) -> String {
    engine.handle(Event::PodChanged(pod(name, "1")), 0);
    next(engine).expect("a decision")
}

fn decide_with(extenders: &[&Arc<Scripted>]) -> String {
    decide(&mut engine(&EngineConfig::default(), extenders), "p")
}

#[test]
fn each_is_asked_about_the_nodes_that_are_left() {
    let one = Arc::new(Scripted::filtering(|_| {
        Ok(result(&["b", "c"], &[("a", "too old")], &[]))
    }));
    let other = Arc::new(Scripted::filtering(|_| {
        Ok(result(&["c"], &[("b", "too new")], &[]))
    }));
    assert_eq!(decide_with(&[&one, &other]), "c 0");
    assert_eq!(one.asked(), ["filter p: a b c"]);
    assert_eq!(other.asked(), ["filter p: b c"]);
}

#[test]
fn refusals_are_told_by_their_messages() {
    let extender = Arc::new(Scripted::filtering(|_| {
        Ok(result(
            &[],
            &[("a", "no"), ("b", "no"), ("nowhere", "no")],
            &[("b", "never"), ("d", "off")],
        ))
    }));
    // For b the message that preemption cannot help counts; c is left out without a word;
    // what it says of d, about which it was not asked, replaces what a plugin said.
    assert_eq!(
        decide_with(&[&extender]),
        "0/4 nodes are available: 1 never, 1 no, 1 off."
    );
    let mut engine = engine(&EngineConfig::default(), &[&extender]);
    engine.handle(Event::PodChanged(pod("p", "1")), 0);
    let id = engine.pod("default", "p").unwrap();
    let evaluation = engine.evaluate(id).unwrap();
    let codes: Vec<(&str, &str)> = evaluation
        .refused
        .iter()
        .map(|(node, refusal)| (engine.cluster().name(*node), refusal.code.name()))
        .collect();
    let never = "UnschedulableAndUnresolvable";
    assert_eq!(
        codes,
        [
            ("a", "Unschedulable"),
            ("b", never),
            ("c", never),
            ("d", never)
        ]
    );
}

#[test]
fn errors_end_the_cycle_unless_they_may_be_passed_over() {
    let failing = || Scripted::filtering(|_| Err("out of order".into()));
    assert_eq!(decide_with(&[&Arc::new(failing())]), "error: out of order");
    let ignorable = Arc::new(Scripted {
        ignorable: true,
        ..failing()
    });
    let plain = decide_with(&[]);
    assert_eq!(decide_with(&[&ignorable]), plain);
    assert!(plain.starts_with("a "), "{plain}");
}

#[test]
fn nodes_that_were_not_asked_about_are_no_answer() {
    for answer in [
        (|_| Ok(result(&["a", "nowhere"], &[], &[]))) as Filter,
        |_| Ok(result(&["a", "d"], &[], &[])),
    ] {
        let told = decide_with(&[&Arc::new(Scripted::filtering(answer))]);
        assert!(
            told.starts_with("error: extender \"scripted\" claims a filtered node"),
            "{told}"
        );
    }
    // The same node twice is one node.
    let twice = Arc::new(Scripted::filtering(|_| Ok(result(&["b", "b"], &[], &[]))));
    assert_eq!(decide_with(&[&twice]), "b 0");
}

#[test]
fn scores_are_scaled_weighed_and_added() {
    let plain = decide_with(&[]);
    let base: i64 = plain.strip_prefix("a ").unwrap().parse().unwrap();
    let one = Arc::new(Scripted::rating(3, |_| {
        Ok(vec![("c".into(), 10), ("nowhere".into(), 99)])
    }));
    // 10 of 10 is 100, three times.
    assert_eq!(decide_with(&[&one]), format!("c {}", base + 300));
    let other = Arc::new(Scripted::rating(1, |_| Err("out of order".into())));
    assert_eq!(decide_with(&[&other, &one]), format!("c {}", base + 300));
    // Scores beyond the range are taken as they are, several of one node are added.
    let wild = Arc::new(Scripted::rating(1, |_| {
        Ok(vec![("b".into(), 50), ("b".into(), -20), ("a".into(), -1)])
    }));
    assert_eq!(decide_with(&[&wild]), format!("b {}", base + 300));
    // Nor does the largest of numbers break anything.
    let largest = Arc::new(Scripted::rating(i64::MAX, |nodes| {
        Ok(nodes
            .iter()
            .map(|node| ((*node).to_owned(), i64::MAX))
            .collect())
    }));
    assert!(!decide_with(&[&largest]).starts_with("error"));
}

#[test]
fn a_single_node_is_not_rated() {
    let filter = Scripted::filtering(|_| Ok(result(&["b"], &[], &[])));
    let both = Arc::new(Scripted {
        prioritize: Some(|_| Ok(Vec::new())),
        ..filter
    });
    assert_eq!(decide_with(&[&both]), "b 0");
    assert_eq!(both.asked(), ["filter p: a b c"]);
}

#[test]
fn pods_of_no_interest_are_decided_without_it() {
    let extender = Arc::new(Scripted {
        interest: "gpu",
        ..Scripted::filtering(|_| Err("out of order".into()))
    });
    let mut engine = engine(&EngineConfig::default(), &[&extender]);
    assert!(decide(&mut engine, "web").starts_with("a "));
    assert_eq!(extender.asked(), [] as [&str; 0]);
    assert_eq!(decide(&mut engine, "gpu-1"), "error: out of order");
}

#[test]
fn whatever_happens_may_help_a_pod_that_an_extender_refused() {
    let extender = Arc::new(Scripted {
        interest: "p",
        ..Scripted::filtering(|_| Ok(result(&[], &[("a", "no")], &[])))
    });
    let mut engine = engine(&EngineConfig::default(), &[&extender]);
    assert!(decide(&mut engine, "p").contains("1 no"));
    assert_eq!(next(&mut engine), None);
    // Another pod comes to a node.
    assert!(decide(&mut engine, "other").starts_with("a "));
    extender.asked();
    assert!(next(&mut engine).expect("tried again").contains("1 no"));
    assert_eq!(extender.asked(), ["filter p: a b c"]);
    assert_eq!(next(&mut engine), None);
    // A node changes in a way that no plugin cares about.
    engine.handle(Event::NodeChanged(node("b", "5")), 0);
    assert!(next(&mut engine).expect("tried again").contains("1 no"));
    assert_eq!(next(&mut engine), None);
}

#[test]
fn the_nominated_node_is_tried_alone() {
    let extender = Arc::new(Scripted::filtering(|nodes| Ok(result(nodes, &[], &[]))));
    let mut engine = engine(&EngineConfig::default(), &[&extender]);
    let mut nominated = pod("p", "1");
    nominated.status.nominated_node_name = "c".into();
    engine.handle(Event::PodChanged(nominated), 0);
    assert_eq!(next(&mut engine).as_deref(), Some("c 0"));
    assert_eq!(extender.asked(), ["filter p: c"]);
}

#[test]
fn a_sample_is_what_extenders_are_asked_about() {
    let profile = ProfileConfig {
        percentage_of_nodes_to_score: Some(1),
        score: Vec::new(),
        ..ProfileConfig::default()
    };
    let config = EngineConfig {
        profiles: vec![profile],
        ..EngineConfig::default()
    };
    let extender = Arc::new(Scripted::filtering(|nodes| {
        Ok(result(&nodes[..1], &[], &[]))
    }));
    let mut engine = engine(&config, &[&extender]);
    for number in 0..200 {
        let node = node(&format!("n{number:03}"), "4");
        engine.handle(Event::NodeChanged(node), 0);
    }
    decide(&mut engine, "p");
    let asked = extender.asked();
    // Without extenders the first feasible node would be taken: nothing rates nodes.
    assert_eq!(asked[0].split_whitespace().count(), 102);
}

/// Pods that must go from nodes, by name: `node uid+uid`.
fn chosen(answer: &[&str]) -> Result<BTreeMap<String, MetaVictims>, String> {
    let chosen = answer.iter().map(|told| {
        let (node, uids) = told.split_once(' ').unwrap_or((told, ""));
        let victims = MetaVictims {
            pod_uids: uids.split_terminator('+').map(String::from).collect(),
            num_pdb_violations: 0,
        };
        (node.to_owned(), victims)
    });
    Ok(chosen.collect())
}

fn of_priority(pod: Pod, priority: i32) -> Pod {
    let mut pod = pod;
    pod.metadata.uid = format!("uid-{}", pod.metadata.name);
    Arc::make_mut(&mut pod.spec).priority = Some(priority);
    pod
}

/// Nodes a, b and c, each with two pods of 2 CPUs, `a1` and `a2` and so on, of which the second
/// has the higher priority.
fn full_engine(config: &EngineConfig, extenders: &[&Arc<Scripted>]) -> Engine {
    let mut engine = engine(config, extenders);
    for node in ["a", "b", "c"] {
        for number in [1, 2] {
            let mut pod = of_priority(pod(&format!("{node}{number}"), "2"), number);
            Arc::make_mut(&mut pod.spec).node_name = node.into();
            engine.handle(Event::PodChanged(pod), 0);
        }
    }
    engine
}

/// Who goes for a pod of priority 9 that asks for 2 CPUs, or why nobody does.
fn preempt_in(engine: &mut Engine) -> String {
    engine.handle(Event::PodChanged(of_priority(pod("p", "2"), 9)), 0);
    let decision = engine.next(0).expect("a decision");
    match (decision.preemption, decision.outcome) {
        (Some(preemption), _) => {
            let victims = preemption.victims.pods.iter();
            let names = victims.filter_map(|pod| engine.pod_name(*pod));
            let names: Vec<&str> = names.map(|(_, name)| name).collect();
            let node = engine.cluster().name(preemption.node);
            format!("{node}: {}", names.join(" "))
        }
        (None, Outcome::Unschedulable(diagnosis)) => {
            let last = diagnosis.post_filter.last().expect("a reason");
            last.text(engine.cluster())
        }
        (None, outcome) => format!("{outcome:?}"),
    }
}

fn preempt_with(extenders: &[&Arc<Scripted>]) -> String {
    preempt_in(&mut full_engine(&EngineConfig::default(), extenders))
}

#[test]
fn extenders_say_where_and_who_is_preempted() {
    assert_eq!(preempt_with(&[]), "a: a1");
    let one = Arc::new(Scripted::preempting(|_| chosen(&["b uid-b1", "c uid-c1"])));
    let other = Arc::new(Scripted::preempting(|_| chosen(&["c uid-c2+uid-c1"])));
    assert_eq!(preempt_with(&[&one, &other]), "c: c2 c1");
    assert_eq!(
        one.asked(),
        ["preempt p: a uid-a1 0, b uid-b1 0, c uid-c1 0"]
    );
    assert_eq!(other.asked(), ["preempt p: b uid-b1 0, c uid-c1 0"]);
    // As upstream, the node need not be one that was asked about, nor the pod of lower priority.
    let anywhere = Arc::new(Scripted::preempting(|_| chosen(&["b uid-b2"])));
    assert_eq!(preempt_with(&[&anywhere]), "b: b2");
}

#[test]
fn the_best_of_what_extenders_leave_is_chosen() {
    let extender = Arc::new(Scripted::preempting(|_| {
        chosen(&["a uid-a2", "b uid-b1", "c uid-c1+uid-c2"])
    }));
    assert_eq!(preempt_with(&[&extender]), "b: b1");
    // What it says of PodDisruptionBudgets counts before all else.
    let violating = Arc::new(Scripted::preempting(|_| {
        let mut chosen = chosen(&["a uid-a2", "b uid-b1"])?;
        if let Some(victims) = chosen.get_mut("b") {
            victims.num_pdb_violations = 1;
        }
        Ok(chosen)
    }));
    assert_eq!(preempt_with(&[&violating]), "a: a2");
}

#[test]
fn an_answer_without_nodes_ends_preemption() {
    let none = Arc::new(Scripted::preempting(|_| chosen(&[])));
    let never = Arc::new(Scripted::preempting(|_| chosen(&["a uid-a1"])));
    let told = "preemption: no candidate node for preemption";
    assert_eq!(preempt_with(&[&none, &never]), told);
    assert_eq!(never.asked(), [] as [&str; 0]);
    // Who knows what helps: the pod is tried again when anything happens.
    let mut engine = full_engine(&EngineConfig::default(), &[&none]);
    assert_eq!(preempt_in(&mut engine), told);
    assert_eq!(next(&mut engine), None);
    engine.handle(Event::NodeChanged(node("d", "1")), 0);
    assert!(next(&mut engine).is_some());
}

#[test]
fn preemption_that_goes_wrong_ends_unless_the_extender_may_be_passed_over() {
    let wrong: [(Preempt, &str); 4] = [
        (|_| Err("out of order".into()), "out of order"),
        (
            |_| chosen(&["nowhere uid-a1"]),
            "nodeinfo not found for node name \"nowhere\"",
        ),
        (
            |_| chosen(&["a uid-b1"]),
            "extender: scripted claims to preempt pod (UID: &{uid-b1}) on node: a, but the pod is \
             not found on that node",
        ),
        (
            |_| chosen(&["a"]),
            "expected at least one victim pod on node \"a\"",
        ),
    ];
    for (preempt, error) in wrong {
        let failing = || Scripted::preempting(preempt);
        let told = format!("preemption: {error}");
        assert_eq!(preempt_with(&[&Arc::new(failing())]), told);
        let ignorable = Arc::new(Scripted {
            ignorable: true,
            ..failing()
        });
        // A node without victims is left out; the extender then leaves no other.
        let expected = match error.starts_with("expected") {
            true => "preemption: no candidate node for preemption",
            false => "a: a1",
        };
        assert_eq!(preempt_with(&[&ignorable]), expected, "{error}");
    }
}

#[test]
fn pods_of_no_interest_preempt_without_it() {
    let extender = Arc::new(Scripted {
        interest: "gpu",
        ..Scripted::preempting(|_| Err("out of order".into()))
    });
    assert_eq!(preempt_with(&[&extender]), "a: a1");
    assert_eq!(extender.asked(), [] as [&str; 0]);
}

#[test]
fn pods_without_a_uid_are_told_by_their_names() {
    let extender = Arc::new(Scripted::preempting(|_| chosen(&["b default/low"])));
    let mut engine = engine(&EngineConfig::default(), &[&extender]);
    // The engine itself places it, on the only node that is left.
    for name in ["a", "c"] {
        engine.handle(Event::NodeGone { name: name.into() }, 0);
    }
    assert!(decide(&mut engine, "low").starts_with("b "));
    engine.handle(Event::PodChanged(of_priority(pod("p", "4"), 9)), 0);
    let decision = engine.next(0).expect("a decision");
    assert!(decision.preemption.is_some());
    assert_eq!(extender.asked(), ["preempt p: b default/low 0"]);
}

#[test]
fn what_rules_protect_extenders_cannot_have_either() {
    let config = EngineConfig {
        profiles: vec![ProfileConfig {
            preemption_safety: Some(PreemptionSafetyArgs {
                budgets: vec![PreemptionBudget {
                    victims_per_decision: Some(1),
                    ..PreemptionBudget::default()
                }],
                ..PreemptionSafetyArgs::default()
            }),
            ..ProfileConfig::default()
        }],
        ..EngineConfig::default()
    };
    let extender = Arc::new(Scripted::preempting(|_| chosen(&["a uid-a1+uid-a2"])));
    let told = preempt_in(&mut full_engine(&config, &[&extender]));
    let held = "1 PreemptionSafety: 2 victims at once, 1 allowed";
    assert!(told.contains(held), "{told}");
    let mut engine = full_engine(&EngineConfig::default(), &[&extender]);
    let mut a2 = of_priority(pod("a2", "2"), 2);
    let spec = Arc::make_mut(&mut a2.spec);
    spec.node_name = "a".into();
    spec.preemption_policy = Some("NonPreemptible".into());
    engine.handle(Event::PodChanged(a2), 0);
    let told = preempt_in(&mut engine);
    assert!(told.contains("protected by NonPreemptible"), "{told}");
}
