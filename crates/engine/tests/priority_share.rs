//! PriorityShare: pods of a priority class, or of a range of priorities, use at most a share
//! of a resource.
//!
//! First scenarios, one a rule; then random histories, in which what pods of a share hold is
//! added up anew after each step and held against the limit.

use std::collections::BTreeMap;

use outrank_api::decode::{Object, decode_value};
use outrank_engine::plugins::priority_share::{LimitedShare, PriorityShare, ShareLimit};
use outrank_engine::profile::ProfileConfig;
use outrank_engine::shares::SharePods;
use outrank_engine::{Decision, Engine, EngineConfig, Event, Outcome, PodState, TimeNanos};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// Longer than any backoff.
const A_WHILE: TimeNanos = 1_000_000_000_000;

const GPU: &str = "nvidia.com/gpu";

fn class_may_use(class: &str, limit: ShareLimit) -> LimitedShare {
    LimitedShare {
        pods: SharePods::PriorityClass(class.into()),
        namespace: None,
        resource: GPU.into(),
        limit,
    }
}

fn range_may_use(least: i32, most: i32, limit: ShareLimit) -> LimitedShare {
    LimitedShare {
        pods: SharePods::Priorities { least, most },
        ..class_may_use("", limit)
    }
}

/// The default profile with PriorityShare at PreFilter.
fn profile_with(shares: Vec<LimitedShare>) -> ProfileConfig {
    let default = ProfileConfig::default();
    let mut pre_filter = default.filter.clone();
    pre_filter.push(PriorityShare::NAME.into());
    ProfileConfig {
        pre_filter: Some(pre_filter),
        priority_shares: shares,
        ..default
    }
}

fn node_with(name: &str, allocatable: Value) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {}, "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "100"}}});
    for (resource, amount) in allocatable.as_object().expect("amounts") {
        node["status"]["allocatable"][resource] = amount.clone();
    }
    node
}

fn node(name: &str, gpus: u32) -> Value {
    node_with(name, json!({GPU: gpus.to_string()}))
}

/// A pod of the priority class `training`, which has priority 100.
fn pod(name: &str, gpus: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "research", "name": name},
        "spec": {"priorityClassName": "training", "priority": 100, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {GPU: gpus.to_string()}}}]}})
}

fn with(mut pod: Value, path: &str, value: impl Into<Value>) -> Value {
    *pod.pointer_mut(path).expect("a field") = value.into();
    pod
}

fn of_priority(pod: Value, priority: i32) -> Value {
    let pod = with(pod, "/spec/priorityClassName", "");
    with(pod, "/spec/priority", priority)
}

fn in_namespace(pod: Value, namespace: &str) -> Value {
    with(pod, "/metadata/namespace", namespace)
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn nominated(mut pod: Value, node: &str) -> Value {
    pod["status"]["nominatedNodeName"] = node.into();
    pod
}

struct Scenario {
    engine: Engine,
    now: TimeNanos,
}

impl Scenario {
    /// A cluster, and what pods of it may use.
    fn new(shares: Vec<LimitedShare>, cluster: impl IntoIterator<Item = Value>) -> Self {
        Self::of_profiles(vec![profile_with(shares)], cluster)
    }

    fn of_profiles(profiles: Vec<ProfileConfig>, cluster: impl IntoIterator<Item = Value>) -> Self {
        let config = EngineConfig {
            profiles,
            ..EngineConfig::default()
        };
        let engine = Engine::new(&config).expect("a valid profile");
        let mut scenario = Self { engine, now: 0 };
        cluster.into_iter().for_each(|object| scenario.tell(object));
        scenario
    }

    fn tell(&mut self, object: Value) {
        let event = match decode_value(&object).expect("an object") {
            Object::Node(node) => Event::NodeChanged(*node),
            Object::Pod(pod) => Event::PodChanged(*pod),
            other => panic!("{other:?}"),
        };
        self.engine.handle(event, self.now);
    }

    fn gone(&mut self, namespace: &str, name: &str) {
        let event = Event::PodGone {
            namespace: namespace.into(),
            name: name.into(),
        };
        self.engine.handle(event, self.now);
    }

    fn node_gone(&mut self, name: &str) {
        let event = Event::NodeGone { name: name.into() };
        self.engine.handle(event, self.now);
    }

    /// Which pods are tried within a while, and where they go, or why to no node.
    fn tried(&mut self) -> Vec<String> {
        self.now += A_WHILE;
        let mut tried = Vec::new();
        while let Some(decision) = self.engine.next(self.now) {
            tried.push(self.told(&decision));
            assert!(tried.len() < 30, "{tried:?}");
        }
        tried
    }

    fn told(&self, decision: &Decision) -> String {
        let cluster = self.engine.cluster();
        let (_, pod) = self.engine.pod_name(decision.pod).expect("a pod");
        match &decision.outcome {
            Outcome::Scheduled { node, .. } => format!("{pod} on {}", cluster.name(*node)),
            Outcome::Unschedulable(diagnosis) => {
                format!("{pod}: {}", diagnosis.filter_message(cluster))
            }
            Outcome::Error(error) => format!("{pod}: {error}"),
        }
    }

    #[track_caller]
    fn tries(&mut self, expected: &[&str]) {
        assert_eq!(self.tried(), expected);
    }
}

const NOTHING: &[&str] = &[];

#[test]
fn a_pod_over_the_share_waits_and_is_told_the_arithmetic() {
    let limited = LimitedShare {
        namespace: Some("research".into()),
        ..class_may_use("training", ShareLimit::Percent(50))
    };
    let mut scenario = Scenario::new(vec![limited], [node("a", 8), node("b", 8)]);
    scenario.tell(pod("p", 6));
    scenario.tries(&["p on a"]);
    scenario.tell(pod("q", 4));
    scenario.tries(&[
        "q: 0/2 nodes are available: PriorityShare: priority class training in namespace \
         research may use 50% of nvidia.com/gpu: 8 of 16; its pods hold 6 and this one wants 4.",
    ]);
    // What is left of the share can be used.
    scenario.tell(pod("r", 2));
    scenario.tries(&["r on a"]);
}

#[test]
fn only_pods_of_the_share_count_and_are_held_to_it() {
    let limited = LimitedShare {
        namespace: Some("research".into()),
        ..class_may_use("training", ShareLimit::Amount(4))
    };
    let mut scenario = Scenario::new(vec![limited], [node("a", 100)]);
    // Other classes, other namespaces, and pods that want none of the resource.
    scenario.tell(with(
        pod("other-class", 8),
        "/spec/priorityClassName",
        "serving",
    ));
    scenario.tell(in_namespace(pod("other-namespace", 8), "product"));
    scenario.tell(pod("p", 4));
    scenario.tell(pod("modest", 0));
    scenario.tries(&[
        "other-class on a",
        "other-namespace on a",
        "p on a",
        "modest on a",
    ]);
    scenario.tell(pod("q", 1));
    scenario.tries(&[
        "q: 0/1 nodes are available: PriorityShare: priority class training in namespace \
         research may use 4 of nvidia.com/gpu; its pods hold 4 and this one wants 1.",
    ]);
}

/// Pods of one template share their spec, and so may pods of two namespaces.
#[test]
fn pods_of_one_spec_in_two_namespaces_are_told_apart() {
    let limited = LimitedShare {
        namespace: Some("research".into()),
        ..class_may_use("training", ShareLimit::Amount(0))
    };
    let mut scenario = Scenario::new(vec![limited], [node("a", 8)]);
    let Ok(Object::Pod(one)) = decode_value(&in_namespace(pod("p", 1), "product")) else {
        panic!("a pod");
    };
    let mut other = (*one).clone();
    other.metadata.namespace = "research".into();
    scenario.engine.handle(Event::PodChanged(*one), 0);
    scenario.engine.handle(Event::PodChanged(other), 0);
    let tried = scenario.tried();
    assert_eq!(tried[0], "p on a");
    assert!(
        tried[1].contains("its pods hold 0 and this one wants 1"),
        "{tried:?}"
    );
}

#[test]
fn a_pod_of_several_shares_must_fit_them_all() {
    let of_cpu = |pods, limit| LimitedShare {
        pods,
        namespace: None,
        resource: "cpu".into(),
        limit,
    };
    let batch = SharePods::Priorities {
        least: i32::MIN,
        most: 100,
    };
    let shares = vec![
        class_may_use("training", ShareLimit::Amount(2)),
        range_may_use(0, 1000, ShareLimit::Amount(2)),
        range_may_use(1000, i32::MAX, ShareLimit::Amount(0)),
        of_cpu(batch, ShareLimit::Amount(1500)),
    ];
    let mut scenario = Scenario::new(shares, [node("a", 100)]);
    let requests = "/spec/containers/0/resources/requests";
    scenario.tell(with(pod("p", 0), requests, json!({GPU: "3", "cpu": "2"})));
    scenario.tries(&["p: 0/1 nodes are available: \
        PriorityShare: priority class training may use 2 of nvidia.com/gpu; its pods hold 0 and \
        this one wants 3, \
        PriorityShare: priorities 0 to 1000 may use 2 of nvidia.com/gpu; their pods hold 0 and \
        this one wants 3, \
        PriorityShare: priorities up to 100 may use 1500m of cpu; their pods hold 0 and this \
        one wants 2."]);
    scenario.tell(with(pod("q", 0), requests, json!({GPU: "2", "cpu": "1"})));
    scenario.tell(of_priority(pod("system", 1), 1001));
    scenario.tries(&[
        "system: 0/1 nodes are available: PriorityShare: priorities from 1000 may use 0 of \
         nvidia.com/gpu; their pods hold 0 and this one wants 1.",
        "q on a",
    ]);
}

#[test]
fn memory_is_told_in_its_units() {
    let limited = LimitedShare {
        resource: "memory".into(),
        ..range_may_use(7, i32::MAX, ShareLimit::Percent(10))
    };
    let mut scenario = Scenario::new(vec![limited], [node("a", 0)]);
    let requests = "/spec/containers/0/resources/requests";
    scenario.tell(with(pod("p", 0), requests, json!({"memory": "8Gi"})));
    scenario.tries(&[
        "p: 0/1 nodes are available: PriorityShare: priorities from 7 may use 10% \
        of memory: 6871947673 of 64Gi; their pods hold 0 and this one wants 8Gi.",
    ]);
}

#[test]
fn whoever_brought_a_pod_to_its_node_it_counts_until_it_is_gone() {
    let shares = vec![class_may_use("training", ShareLimit::Amount(4))];
    let mut scenario = Scenario::new(shares, [node("a", 100)]);
    let by_another = with(
        on(pod("there", 3), "a"),
        "/spec/containers/0/image",
        "other",
    );
    scenario.tell(by_another.clone());
    scenario.tell(pod("p", 2));
    assert!(scenario.tried()[0].contains("its pods hold 3 and this one wants 2"));
    let mut terminating = by_another.clone();
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    scenario.tell(terminating);
    scenario.tries(NOTHING);
    let mut finished = by_another;
    finished["status"]["phase"] = "Succeeded".into();
    scenario.tell(finished);
    scenario.tries(&["p on a"]);
}

#[test]
fn pods_that_are_over_the_share_already_stay() {
    let shares = vec![class_may_use("training", ShareLimit::Percent(50))];
    let mut scenario = Scenario::new(shares, [node("a", 8), node("b", 8)]);
    scenario.tell(pod("p", 8));
    scenario.tries(&["p on a"]);
    scenario.node_gone("b");
    let p = scenario.engine.pod("research", "p").expect("a pod");
    assert!(matches!(
        scenario.engine.pod_state(p),
        Some(PodState::Placed(_))
    ));
    scenario.tell(pod("q", 1));
    assert!(scenario.tried()[0].contains("4 of 8; its pods hold 8 and this one wants 1"));
}

/// The waiting pod `p`, which wants 2 of the 4 devices that its class may use and that others
/// of it hold; there are 8, all in use.
fn p_waits(limit: ShareLimit) -> Scenario {
    let shares = vec![class_may_use("training", limit)];
    let mut scenario = Scenario::new(shares, [node("a", 8)]);
    scenario.tell(pod("small", 1));
    scenario.tell(pod("large", 3));
    scenario.tries(&["small on a", "large on a"]);
    scenario.tell(of_priority(pod("other", 4), 100));
    scenario.tries(&["other on a"]);
    scenario.tell(pod("p", 2));
    assert_eq!(scenario.tried().len(), 1);
    scenario
}

#[test]
fn events_that_do_not_concern_the_share_retry_nobody() {
    let mut scenario = p_waits(ShareLimit::Percent(50));
    // A heartbeat, more of another resource, less of this one.
    scenario.tell(node("a", 8));
    scenario.tell(node_with("a", json!({GPU: "8", "cpu": "100"})));
    scenario.tell(node("b", 0));
    scenario.tries(NOTHING);
    // A pod of the share is told again; another one leaves, room on the node or not.
    scenario.tell(on(pod("small", 1), "a"));
    scenario.gone("research", "other");
    scenario.tries(NOTHING);
    // Too little room in the share.
    scenario.gone("research", "small");
    scenario.tries(NOTHING);
    scenario.node_gone("b");
    scenario.tries(NOTHING);
    // One more of 9 is no more than of 8, rounded down.
    scenario.tell(node("c", 1));
    scenario.tries(NOTHING);
}

#[test]
fn a_pod_of_the_share_that_leaves_has_others_retried() {
    let mut scenario = p_waits(ShareLimit::Amount(4));
    scenario.gone("research", "large");
    scenario.tries(&["p on a"]);
}

#[test]
fn a_pod_of_the_share_that_asks_for_less_has_others_retried() {
    let mut scenario = p_waits(ShareLimit::Amount(4));
    scenario.tell(on(pod("large", 1), "a"));
    scenario.gone("research", "other");
    scenario.tries(&["p on a"]);
}

#[test]
fn a_node_that_is_new_or_larger_has_pods_over_a_percentage_retried() {
    let mut scenario = p_waits(ShareLimit::Percent(50));
    scenario.tell(node("b", 4));
    scenario.tries(&["p on b"]);
    let mut scenario = p_waits(ShareLimit::Percent(50));
    scenario.tell(node("a", 12));
    scenario.tries(&["p on a"]);
    let mut scenario = p_waits(ShareLimit::Amount(4));
    scenario.tell(node("b", 4));
    scenario.tell(node("a", 12));
    scenario.tries(NOTHING);
}

/// While the share is full a node comes that would take the pod; once the share has room the
/// pod must not be forgotten because a node refused it when it was last tried.
#[test]
fn a_pod_that_waited_for_a_node_is_retried_once_its_share_has_room() {
    let shares = vec![class_may_use("training", ShareLimit::Amount(4))];
    let mut scenario = Scenario::new(shares, [node("a", 3)]);
    scenario.tell(pod("p", 4));
    scenario.tries(&["p: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."]);
    scenario.tell(pod("other", 1));
    scenario.tries(&["other on a"]);
    scenario.tell(node("b", 4));
    scenario.tries(NOTHING);
    scenario.gone("research", "other");
    scenario.tries(&["p on b"]);
}

#[test]
fn a_pod_over_its_share_preempts_nobody() {
    let shares = vec![range_may_use(100, 200, ShareLimit::Percent(50))];
    let mut scenario = Scenario::new(shares, [node("a", 8)]);
    scenario.tell(of_priority(pod("low", 2), 0));
    scenario.tell(of_priority(pod("own", 4), 100));
    scenario.tries(&["own on a", "low on a"]);
    scenario.tell(of_priority(pod("p", 4), 200));
    let decision = scenario.engine.next(scenario.now).expect("p is tried");
    assert_eq!(decision.preemption, None);
    assert!(
        scenario
            .told(&decision)
            .contains("hold 4 and this one wants 4")
    );
}

/// Two preemptors, `p` and `q`, of which the share has room for one: `p` is nominated.
fn two_preemptors() -> Scenario {
    let shares = vec![class_may_use("training", ShareLimit::Amount(8))];
    let mut scenario = Scenario::new(shares, [node("a", 8), node("b", 8)]);
    for (name, node) in [("x", "a"), ("y", "b")] {
        scenario.tell(on(of_priority(pod(name, 8), 0), node));
    }
    scenario.tell(pod("p", 8));
    let decision = scenario.engine.next(0).expect("p is tried");
    assert!(decision.preemption.is_some());
    scenario.tell(pod("q", 8));
    let decision = scenario.engine.next(0).expect("q is tried");
    assert_eq!(decision.preemption, None);
    assert_eq!(
        scenario.told(&decision),
        "q: 0/2 nodes are available: PriorityShare: priority class training may use 8 of \
         nvidia.com/gpu; its pods hold 0, 8 more are kept for nominated ones, and this one \
         wants 8."
    );
    scenario
}

#[test]
fn several_preemptors_make_no_more_room_than_they_may_use() {
    let mut scenario = two_preemptors();
    scenario.gone("research", "y");
    // There is a node for q, but not enough of the share, now and once p is placed.
    assert_eq!(scenario.tried()[0], "p on b");
    scenario.gone("research", "x");
    scenario.tries(NOTHING);
    scenario.gone("research", "p");
    scenario.tries(&["q on a"]);
}

#[test]
fn a_pod_of_higher_priority_takes_what_is_kept_for_a_nominated_one() {
    let mut scenario = two_preemptors();
    scenario.tell(with(pod("first", 8), "/spec/priority", 101));
    let decision = scenario.engine.next(0).expect("first is tried");
    assert!(decision.preemption.is_some());
}

/// The pod `q`, which finds all of its share kept for `p`, nominated to the node `full`.
fn q_waits_for_p() -> Scenario {
    let shares = vec![class_may_use("training", ShareLimit::Amount(8))];
    let there = on(of_priority(pod("there", 8), 1000), "full");
    let cluster = [node("full", 8), node("a", 4), there];
    let mut scenario = Scenario::new(shares, cluster);
    scenario.tell(nominated(pod("p", 8), "full"));
    scenario.tell(pod("q", 1));
    let q = scenario.engine.pod("research", "q").expect("a pod");
    let decision = scenario.engine.decide_pod(q, 0).expect("q wants a place");
    assert!(scenario.told(&decision).contains("8 more are kept"));
    scenario
}

#[test]
fn nobody_keeps_room_for_a_pod_that_is_gone_or_whose_node_is() {
    let mut scenario = q_waits_for_p();
    scenario.gone("research", "p");
    scenario.tries(&["q on a"]);

    let mut scenario = q_waits_for_p();
    scenario.node_gone("full");
    assert!(scenario.tried().contains(&"q on a".to_owned()));
    // It is kept again once the node is back.
    let mut scenario = q_waits_for_p();
    scenario.node_gone("full");
    scenario.tell(node("full", 0));
    let q = scenario.engine.pod("research", "q").expect("a pod");
    let decision = scenario.engine.decide_pod(q, 0).expect("q wants a place");
    assert!(scenario.told(&decision).contains("8 more are kept"));
}

#[test]
fn a_share_of_one_profile_counts_the_pods_of_all_and_limits_its_own() {
    let limited = profile_with(vec![class_may_use("training", ShareLimit::Amount(4))]);
    let free = ProfileConfig {
        scheduler_name: "free".into(),
        ..ProfileConfig::default()
    };
    let mut scenario = Scenario::of_profiles(vec![limited, free], [node("a", 100)]);
    let mut other = pod("other", 8);
    other["spec"]["schedulerName"] = "free".into();
    scenario.tell(other);
    scenario.tries(&["other on a"]);
    scenario.tell(pod("p", 1));
    assert!(scenario.tried()[0].contains("its pods hold 8 and this one wants 1"));
}

/// All the nodes there ever are.
const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// What is random about a pod.
#[derive(Clone, Debug)]
struct PodShape {
    class: &'static str,
    priority: i32,
    namespace: &'static str,
    gpus: u32,
}

fn pod_shape() -> impl Strategy<Value = PodShape> {
    let classes = prop::sample::select(vec![("", 0), ("low", 10), ("mid", 20), ("high", 30)]);
    let namespace = prop::sample::select(vec!["research", "product"]);
    (classes, namespace, 0..5u32).prop_map(|((class, priority), namespace, gpus)| PodShape {
        class,
        priority,
        namespace,
        gpus,
    })
}

fn limited_share() -> impl Strategy<Value = LimitedShare> {
    let class = prop::sample::select(vec!["low", "mid", "high"]);
    let pods = prop_oneof![
        class.prop_map(|class| SharePods::PriorityClass(class.into())),
        (0..3, 0..3).prop_map(|(from, more)| SharePods::Priorities {
            least: from * 10,
            most: (from + more) * 10,
        }),
    ];
    let namespace = prop::option::weighted(0.3, Just("research".to_owned()));
    let limit = prop_oneof![
        (0..=100u8).prop_map(ShareLimit::Percent),
        (0..12i64).prop_map(ShareLimit::Amount),
    ];
    (pods, namespace, limit).prop_map(|(pods, namespace, limit)| LimitedShare {
        pods,
        namespace,
        resource: GPU.into(),
        limit,
    })
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    SetNode(&'static str, u32),
    RemoveNode(&'static str),
    Add(PodShape),
    AddOn(PodShape, &'static str),
    /// Another tells what became of a pod, maybe with other requests.
    Change(Index, PodShape),
    Remove(Index),
    Decide,
    PassTime(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let node = || prop::sample::select(NODES.to_vec());
    prop_oneof![
        3 => (node(), 0..9u32).prop_map(|(node, gpus)| Step::SetNode(node, gpus)),
        1 => node().prop_map(Step::RemoveNode),
        6 => pod_shape().prop_map(Step::Add),
        1 => (pod_shape(), node()).prop_map(|(pod, node)| Step::AddOn(pod, node)),
        1 => (any::<Index>(), pod_shape()).prop_map(|(which, pod)| Step::Change(which, pod)),
        3 => any::<Index>().prop_map(Step::Remove),
        8 => Just(Step::Decide),
        1 => (0..20_000_000_000u64).prop_map(Step::PassTime),
    ]
}

/// An engine, and what it should know.
struct World {
    scenario: Scenario,
    shares: Vec<LimitedShare>,
    /// GPUs by node.
    nodes: BTreeMap<&'static str, u32>,
    /// Pods by name.
    pods: BTreeMap<String, PodShape>,
    created: usize,
}

impl World {
    fn new(shares: Vec<LimitedShare>) -> Self {
        Self {
            scenario: Scenario::new(shares.clone(), []),
            shares,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            created: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::SetNode(name, gpus) => {
                self.nodes.insert(name, *gpus);
                self.scenario.tell(node(name, *gpus));
            }
            Step::RemoveNode(name) => {
                self.nodes.remove(name);
                self.scenario.node_gone(name);
            }
            Step::Add(shape) => {
                self.created += 1;
                self.tell(format!("p{}", self.created), shape, None);
            }
            Step::AddOn(shape, node) => {
                self.created += 1;
                self.tell(format!("p{}", self.created), shape, Some(node));
            }
            Step::Change(which, shape) => {
                if let Some((name, _)) = self.pick(*which) {
                    let (namespace, node) = (self.pods[&name].namespace, self.node_of(&name));
                    let shape = PodShape {
                        namespace,
                        ..shape.clone()
                    };
                    self.tell(name, &shape, node.as_deref());
                }
            }
            Step::Remove(which) => {
                if let Some((name, shape)) = self.pick(*which) {
                    self.remove(&name, shape.namespace);
                }
            }
            Step::Decide => _ = self.decide(),
            Step::PassTime(nanos) => self.scenario.now += nanos,
        }
        self.check_counts();
    }

    fn tell(&mut self, name: String, shape: &PodShape, node: Option<&str>) {
        let mut told = in_namespace(pod(&name, shape.gpus), shape.namespace);
        told = with(told, "/spec/priorityClassName", shape.class);
        told = with(told, "/spec/priority", shape.priority);
        self.pods.insert(name, shape.clone());
        self.scenario
            .tell(node.map_or(told.clone(), |node| on(told, node)));
    }

    fn remove(&mut self, name: &str, namespace: &str) {
        self.pods.remove(name);
        self.scenario.gone(namespace, name);
    }

    fn pick(&self, which: Index) -> Option<(String, PodShape)> {
        let count = self.pods.len();
        let picked = (count > 0).then(|| self.pods.iter().nth(which.index(count)))?;
        picked.map(|(name, shape)| (name.clone(), shape.clone()))
    }

    fn state(&self, name: &str) -> &PodState {
        let engine = &self.scenario.engine;
        let pod = engine.pod(self.pods[name].namespace, name);
        engine.pod_state(pod.expect("a pod")).expect("a pod")
    }

    /// The node of a pod that is on one that is known.
    fn node_of(&self, name: &str) -> Option<String> {
        match self.state(name) {
            PodState::Placed(node) => Some(self.scenario.engine.cluster().name(*node).to_owned()),
            _ => None,
        }
    }

    /// What pods of a share hold that are on nodes.
    fn held(&self, share: &LimitedShare) -> i64 {
        let of_share = self.pods.iter().filter(|(_, shape)| is_of(shape, share));
        let placed = of_share.filter(|(name, _)| self.node_of(name).is_some());
        placed.map(|(_, shape)| i64::from(shape.gpus)).sum()
    }

    fn allowed(&self, share: &LimitedShare) -> i64 {
        let offered: u32 = self.nodes.values().sum();
        match share.limit {
            ShareLimit::Percent(percent) => i64::from(offered) * i64::from(percent) / 100,
            ShareLimit::Amount(amount) => amount,
        }
    }

    /// Decides a pod; if it is placed it does not overdraw its shares. Victims go at once.
    fn decide(&mut self) -> Option<Decision> {
        let expected = self.expected();
        let decision = self.scenario.engine.next(self.scenario.now)?;
        let told = self.scenario.told(&decision);
        let name = |pod| {
            let name = self.scenario.engine.pod_name(pod).expect("a pod");
            (name.1.to_owned(), name.0.to_owned())
        };
        let (pod, _) = name(decision.pod);
        assert_eq!(told, expected[&pod]);
        let shape = &self.pods[&pod];
        if self.node_of(&pod).is_some() && shape.gpus > 0 {
            for share in self.shares.iter().filter(|share| is_of(shape, share)) {
                assert!(self.held(share) <= self.allowed(share), "{share:?}");
            }
        }
        let preemption = decision.preemption.as_ref();
        let victims = preemption.map_or(&[][..], |it| &it.victims.pods).iter();
        for (victim, namespace) in victims.map(|pod| name(*pod)).collect::<Vec<_>>() {
            self.remove(&victim, &namespace);
        }
        Some(decision)
    }

    /// What an evaluation from scratch says of each pod that wants a place.
    fn expected(&self) -> BTreeMap<String, String> {
        let engine = &self.scenario.engine;
        let cluster = engine.cluster();
        let mut expected = BTreeMap::new();
        for (name, shape) in &self.pods {
            let pod = engine.pod(shape.namespace, name).expect("a pod");
            let evaluation = engine.evaluate(pod).expect("a pod");
            let best = evaluation.via_nominated_node.or_else(|| {
                let best = evaluation.best().into_iter();
                best.min_by_key(|node| cluster.name(*node))
            });
            let told = match best {
                Some(node) => format!("{name} on {}", cluster.name(node)),
                None => format!(
                    "{name}: {}",
                    evaluation.diagnosis(cluster).filter_message(cluster)
                ),
            };
            expected.insert(name.clone(), told);
        }
        expected
    }

    /// The sums that are kept are those that adding up gives.
    fn check_counts(&self) {
        let shares = &self.scenario.engine.cluster().shares;
        for (limited, (number, _)) in self.shares.iter().zip(shares.iter()) {
            assert_eq!(
                shares.held(number),
                self.held(limited).into(),
                "{limited:?}"
            );
            let offered: u32 = self.nodes.values().sum();
            assert_eq!(shares.offered(number), offered.into());
        }
    }

    /// Once all is tried, whoever waits because of a share does not fit it, with what is kept
    /// for others; and nobody waits who would be placed.
    fn check_waiting(&self) {
        let engine = &self.scenario.engine;
        let expected = self.expected();
        for (name, shape) in &self.pods {
            let PodState::Unschedulable(diagnosis) = self.state(name) else {
                continue;
            };
            let on = format!("{name} on ");
            assert!(!expected[name].starts_with(&on), "{name} would be placed");
            if !diagnosis.names(PriorityShare::NAME) {
                continue;
            }
            let pod = engine.pod(shape.namespace, name).expect("a pod");
            let nominated = engine.evaluate(pod).expect("a pod").nominated;
            let kept = |share: &LimitedShare| -> i64 {
                let pods = nominated.iter().flat_map(|(_, pods)| pods);
                let names = pods.filter_map(|pod| engine.pod_name(*pod));
                let shapes = names.map(|(_, name)| &self.pods[name]);
                let own = shapes.filter(|shape| is_of(shape, share));
                own.map(|shape| i64::from(shape.gpus)).sum()
            };
            let mut own = self.shares.iter().filter(|share| is_of(shape, share));
            assert!(
                own.any(|share| {
                    let used = self.held(share) + kept(share) + i64::from(shape.gpus);
                    used > self.allowed(share)
                }),
                "{name} fits its shares"
            );
        }
    }
}

fn is_of(shape: &PodShape, share: &LimitedShare) -> bool {
    let has_priority = match &share.pods {
        SharePods::PriorityClass(class) => shape.class == class,
        SharePods::Priorities { least, most } => {
            *least <= shape.priority && shape.priority <= *most
        }
    };
    has_priority
        && (share.namespace.is_none() || share.namespace.as_deref() == Some(shape.namespace))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_share_is_overdrawn_and_nobody_waits_for_nothing(
        shares in prop::collection::vec(limited_share(), 1..=3),
        steps in prop::collection::vec(step(), 20..120),
    ) {
        let mut unequal: Vec<LimitedShare> = Vec::new();
        for share in shares {
            let is_same = |it: &LimitedShare| {
                (&it.pods, &it.namespace) == (&share.pods, &share.namespace)
            };
            if !unequal.iter().any(is_same) {
                unequal.push(share);
            }
        }
        let mut world = World::new(unequal);
        steps.iter().for_each(|step| world.take(step));
        let mut tried = 0;
        while world.decide().is_some() {
            tried += 1;
            assert!(tried < 10_000, "the queue never drains");
        }
        world.check_counts();
        world.check_waiting();
    }
}
