//! Who is tried when: priority, then arrival; backoff; gates; and which events wake whom.

use outrank_api::types::{Node, Pod};
use outrank_engine::ids::PodId;
use outrank_engine::profile::ProfileConfig;
use outrank_engine::{Backoff, Engine, EngineConfig, Event, Outcome, PodState, TimeNanos};
use serde_json::{Value, json};

const SECOND: TimeNanos = 1_000_000_000;

fn engine() -> Engine {
    Engine::new(&EngineConfig::default()).expect("the default profile is valid")
}

fn node(name: &str, cpu: &str) -> Node {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    });
    serde_json::from_value(node).expect("a node")
}

fn pod_with(name: &str, cpu: &str, priority: i32, more: &Value) -> Pod {
    let mut spec = json!({
        "priority": priority,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
    });
    for (key, value) in more.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    let pod = json!({"metadata": {"namespace": "default", "name": name}, "spec": spec});
    serde_json::from_value(pod).expect("a pod")
}

fn pod(name: &str, cpu: &str, priority: i32) -> Pod {
    pod_with(name, cpu, priority, &json!({}))
}

fn add_node(engine: &mut Engine, name: &str, cpu: &str, now: TimeNanos) {
    engine.handle(Event::NodeChanged(node(name, cpu)), now);
}

fn add(engine: &mut Engine, pod: Pod, now: TimeNanos) -> PodId {
    let name = pod.metadata.name.clone();
    engine.handle(Event::PodChanged(pod), now);
    engine.pod("default", &name).expect("just added")
}

fn delete(engine: &mut Engine, name: &str, now: TimeNanos) {
    let event = Event::PodGone {
        namespace: "default".into(),
        name: name.into(),
    };
    engine.handle(event, now);
}

/// The names of the pods that are tried now, in order.
fn tried(engine: &mut Engine, now: TimeNanos) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(decision) = engine.next(now) {
        let (_, name) = engine.pod_name(decision.pod).expect("a known pod");
        names.push(name.to_owned());
        assert!(names.len() < 100, "the queue never drains");
    }
    names
}

/// The name of the pod that is tried next, and whether it was placed.
fn next(engine: &mut Engine, now: TimeNanos) -> Option<(String, bool)> {
    let decision = engine.next(now)?;
    let (_, name) = engine.pod_name(decision.pod).expect("a known pod");
    let is_placed = matches!(decision.outcome, Outcome::Scheduled { .. });
    Some((name.to_owned(), is_placed))
}

fn placed(name: &str) -> Option<(String, bool)> {
    Some((name.to_owned(), true))
}

fn refused(name: &str) -> Option<(String, bool)> {
    Some((name.to_owned(), false))
}

#[test]
fn higher_priority_comes_first_then_who_came_first() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "64", 0);
    for (name, priority, arrival) in [
        ("late-low", -5, 1),
        ("early-zero", 0, 2),
        ("high", 1000, 3),
        ("late-zero", 0, 4),
        ("also-high", 1000, 5),
    ] {
        add(&mut engine, pod(name, "1", priority), arrival);
    }
    let order = ["high", "also-high", "early-zero", "late-zero", "late-low"];
    assert_eq!(tried(&mut engine, 10), order);
}

#[test]
fn pods_that_came_at_the_same_time_keep_the_order_of_their_events() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "64", 0);
    let names: Vec<String> = (0..20).map(|number| format!("p{}", 19 - number)).collect();
    for name in &names {
        add(&mut engine, pod(name, "1", 0), 7);
    }
    assert_eq!(tried(&mut engine, 7), names);
}

#[test]
fn a_pod_that_came_in_between_is_placed_in_its_turn() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "64", 0);
    add(&mut engine, pod("first", "1", 0), 0);
    add(&mut engine, pod("second", "1", 0), 0);
    assert_eq!(next(&mut engine, 1), placed("first"));
    add(&mut engine, pod("urgent", "1", 1), 1);
    assert_eq!(tried(&mut engine, 2), ["urgent", "second"]);
}

#[test]
fn pods_that_are_gone_or_bound_by_others_are_not_tried() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "64", 0);
    for name in ["stays", "gone", "bound", "finished"] {
        add(&mut engine, pod(name, "1", 0), 0);
    }
    delete(&mut engine, "gone", 1);
    let bound = pod_with("bound", "1", 0, &json!({"nodeName": "n1"}));
    engine.handle(Event::PodChanged(bound), 1);
    let mut finished = pod("finished", "1", 0);
    finished.status.phase = "Succeeded".into();
    engine.handle(Event::PodChanged(finished), 1);
    assert_eq!(tried(&mut engine, 2), ["stays"]);
}

#[test]
fn a_changed_priority_counts_from_then_on() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "64", 0);
    add(&mut engine, pod("one", "1", 0), 0);
    add(&mut engine, pod("two", "1", 0), 0);
    add(&mut engine, pod("two", "1", 5), 0);
    assert_eq!(tried(&mut engine, 0), ["two", "one"], "each is tried once");
}

#[test]
fn a_refused_pod_waits_for_an_event_that_helps_it() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "1", 0);
    let small = add(&mut engine, pod("small", "2", 0), 0);
    let large = add(&mut engine, pod("large", "8", 0), 0);
    assert_eq!(tried(&mut engine, 0), ["small", "large"]);

    // Nothing happened, or nothing that helps: however long it takes, nobody is tried.
    assert_eq!(engine.next(1000 * SECOND), None);
    add_node(&mut engine, "n2", "1", 1000 * SECOND);
    add_node(&mut engine, "n1", "1500m", 1000 * SECOND);
    let mut cordoned = node("n3", "64");
    cordoned.spec.unschedulable = true;
    engine.handle(Event::NodeChanged(cordoned), 1000 * SECOND);
    let other = pod_with("other", "100m", 0, &json!({"nodeName": "n2"}));
    engine.handle(Event::PodChanged(other), 1000 * SECOND);
    delete(&mut engine, "other", 1000 * SECOND);
    let name = "n2".to_owned();
    engine.handle(Event::NodeGone { name }, 1000 * SECOND);
    assert_eq!(engine.next(2000 * SECOND), None);
    assert_eq!((engine.attempts(small), engine.attempts(large)), (1, 1));

    // Room for the small one only: only that is tried.
    add_node(&mut engine, "n1", "4", 2000 * SECOND);
    assert_eq!(next(&mut engine, 2000 * SECOND), placed("small"));
    assert_eq!(engine.next(2000 * SECOND), None);
    assert_eq!(engine.attempts(large), 1);
    assert!(matches!(
        engine.pod_state(large),
        Some(PodState::Unschedulable(_))
    ));

    // Room for the large one.
    engine.handle(Event::NodeChanged(node("n3", "64")), 2001 * SECOND);
    assert_eq!(next(&mut engine, 2001 * SECOND), placed("large"));
    assert_eq!(engine.attempts(large), 2);
}

#[test]
fn room_that_a_deleted_pod_leaves_is_found() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "4", 0);
    add(&mut engine, pod("first", "4", 0), 0);
    add(&mut engine, pod("second", "4", 0), 0);
    assert_eq!(next(&mut engine, 0), placed("first"));
    assert_eq!(next(&mut engine, 0), refused("second"));
    assert_eq!(engine.next(SECOND), None);
    delete(&mut engine, "first", 20 * SECOND);
    assert_eq!(next(&mut engine, 20 * SECOND), placed("second"));
}

/// Two pods wait: `nominated`, for which preemption made room on n1 where it cannot start yet,
/// and `waits`.
fn with_room_kept_on_n1(profile: ProfileConfig) -> Engine {
    let mut engine = Engine::new(&EngineConfig {
        profiles: vec![profile],
        ..EngineConfig::default()
    })
    .expect("a valid profile");
    add_node(&mut engine, "n1", "4", 0);
    let mut nominated = pod_with(
        "nominated",
        "4",
        10,
        &json!({"nodeSelector": {"disk": "ssd"}}),
    );
    nominated.status.nominated_node_name = "n1".into();
    add(&mut engine, nominated, 0);
    add(&mut engine, pod("waits", "1", 0), 0);
    engine
}

/// Nobody looks whether nominations are still of use.
fn without_preemption() -> ProfileConfig {
    ProfileConfig {
        post_filter: Vec::new(),
        ..ProfileConfig::default()
    }
}

#[test]
fn room_that_is_of_no_use_to_a_nominated_pod_is_given_up() {
    let mut engine = with_room_kept_on_n1(ProfileConfig::default());
    assert_eq!(next(&mut engine, 0), refused("nominated"));
    assert_eq!(next(&mut engine, 0), placed("waits"));
}

#[test]
fn room_that_was_kept_for_a_nominated_pod_is_found_when_that_is_gone() {
    let mut engine = with_room_kept_on_n1(without_preemption());
    assert_eq!(next(&mut engine, 0), refused("nominated"));
    assert_eq!(next(&mut engine, 0), refused("waits"));
    delete(&mut engine, "nominated", 20 * SECOND);
    assert_eq!(next(&mut engine, 20 * SECOND), placed("waits"));
}

#[test]
fn room_that_was_kept_for_a_nominated_pod_is_found_when_that_goes_elsewhere() {
    let mut engine = with_room_kept_on_n1(without_preemption());
    assert_eq!(tried(&mut engine, 0), ["nominated", "waits"]);
    let mut fast = node("n2", "4");
    fast.metadata.labels.insert("disk".into(), "ssd".into());
    engine.handle(Event::NodeChanged(fast), 20 * SECOND);
    assert_eq!(next(&mut engine, 20 * SECOND), placed("nominated"));
    assert_eq!(next(&mut engine, 20 * SECOND), placed("waits"));
}

/// The names of the pods that are tried now and must go for others, by who takes their place.
fn preempted(engine: &mut Engine, now: TimeNanos) -> Vec<String> {
    let mut preempted = Vec::new();
    while let Some(decision) = engine.next(now) {
        let name = |pod| engine.pod_name(pod).expect("a known pod").1;
        let victims = decision.preemption.map(|it| it.victims.pods);
        for victim in victims.unwrap_or_default() {
            preempted.push(format!("{} for {}", name(victim), name(decision.pod)));
        }
        assert!(preempted.len() < 100, "the queue never drains");
    }
    preempted
}

fn running(name: &str, cpu: &str, priority: i32, node: &str) -> Event {
    Event::PodChanged(pod_with(name, cpu, priority, &json!({"nodeName": node})))
}

#[test]
fn a_pod_is_tried_once_preempting_others_helps_it() {
    let waiting = || {
        let mut engine = engine();
        add_node(&mut engine, "n1", "4", 0);
        engine.handle(running("equal", "2", 10, "n1"), 0);
        engine.handle(running("low", "1", 1, "n1"), 0);
        engine.handle(running("lower", "1", 0, "n1"), 0);
        add(&mut engine, pod("p", "4", 10), 0);
        assert_eq!(preempted(&mut engine, 0), [""; 0]);
        // One of those that were not in the way is gone.
        delete(&mut engine, "lower", 10 * SECOND);
        assert_eq!(engine.next(10 * SECOND), None);
        engine
    };
    // A pod that cannot be preempted is gone, or the node is larger.
    let mut engine = waiting();
    delete(&mut engine, "equal", 20 * SECOND);
    assert_eq!(preempted(&mut engine, 20 * SECOND), ["low for p"]);
    let mut engine = waiting();
    add_node(&mut engine, "n1", "6", 20 * SECOND);
    assert_eq!(preempted(&mut engine, 20 * SECOND), ["low for p"]);
    // A node that was cordoned, or not known, though a pod is there.
    let mut engine = waiting();
    engine.handle(running("other", "4", 0, "n2"), 20 * SECOND);
    let mut cordoned = node("n2", "4");
    cordoned.spec.unschedulable = true;
    engine.handle(Event::NodeChanged(cordoned), 20 * SECOND);
    assert_eq!(engine.next(20 * SECOND), None);
    add_node(&mut engine, "n2", "4", 30 * SECOND);
    assert_eq!(preempted(&mut engine, 30 * SECOND), ["other for p"]);
    let mut engine = waiting();
    engine.handle(running("other", "4", 0, "n2"), 20 * SECOND);
    add_node(&mut engine, "n2", "4", 20 * SECOND);
    assert_eq!(preempted(&mut engine, 20 * SECOND), ["other for p"]);
}

#[test]
fn a_pod_is_tried_once_those_it_could_preempt_make_room_for_nobody_else() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "4", 0);
    engine.handle(running("low", "4", 0, "n1"), 0);
    add(&mut engine, pod("first", "4", 20), 0);
    add(&mut engine, pod("second", "4", 10), 0);
    assert_eq!(preempted(&mut engine, 0), ["low for first"]);
    delete(&mut engine, "first", 20 * SECOND);
    assert_eq!(preempted(&mut engine, 20 * SECOND), ["low for second"]);
}

/// The pod with what the API server adds once it heard of the decision.
fn with_status(mut pod: Pod, nominated_node: &str) -> Pod {
    pod.status.nominated_node_name = nominated_node.into();
    pod
}

#[test]
fn news_of_its_status_do_not_cost_a_pod_its_turn() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "1", 0);
    add(&mut engine, pod("one", "1", 0), 1);
    add(&mut engine, pod("two", "1", 0), 2);
    add(&mut engine, with_status(pod("one", "1", 0), ""), 3);
    assert_eq!(next(&mut engine, 3), placed("one"));
    assert_eq!(next(&mut engine, 3), refused("two"));
    let two = add(&mut engine, with_status(pod("two", "1", 0), ""), 4);
    assert_eq!(engine.next(1000 * SECOND), None);
    assert!(matches!(
        engine.pod_state(two),
        Some(PodState::Unschedulable(_))
    ));
    // A smaller request is something else.
    add(&mut engine, pod("two", "500m", 0), 1001 * SECOND);
    assert_eq!(next(&mut engine, 1001 * SECOND), refused("two"));
}

#[test]
fn a_nomination_stays_until_the_status_of_the_pod_tells_of_it() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "1", 0);
    engine.handle(running("low", "1", 0, "n1"), 0);
    let high = add(&mut engine, pod("high", "1", 10), 0);
    assert_eq!(preempted(&mut engine, 0), ["low for high"]);
    // Other news of the pod come before its nomination is stored.
    let mut labelled = pod("high", "1", 10);
    labelled.metadata.labels.insert("a".into(), "b".into());
    for known in [pod("high", "1", 10), labelled.clone()] {
        add(&mut engine, known, SECOND);
        assert_eq!(engine.nominated_node(high), Some("n1"));
    }
    add(&mut engine, with_status(labelled.clone(), "n1"), 2 * SECOND);
    assert_eq!(engine.nominated_node(high), Some("n1"));
    // Somebody takes it back.
    add(&mut engine, with_status(labelled, ""), 3 * SECOND);
    assert_eq!(engine.nominated_node(high), None);
}

/// A pod that only node `full` could take and that was refused `attempts` times, the last
/// time at second 100.
fn refused_often(attempts: u32) -> (Engine, PodId) {
    let mut engine = engine();
    add_node(&mut engine, "full", "2", 0);
    add(&mut engine, pod("filler", "2", 0), 0);
    assert_eq!(next(&mut engine, 0), placed("filler"));
    let waits = add(&mut engine, pod("waits", "2", 0), 0);
    for attempt in 1..=attempts {
        let now = if attempt == attempts { 100 * SECOND } else { 0 };
        assert!(engine.decide_pod(waits, now).is_some());
        assert_eq!(engine.attempts(waits), attempt);
    }
    (engine, waits)
}

#[test]
fn a_pod_that_was_just_refused_backs_off_behind_others() {
    for (attempts, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (100, 10)] {
        let (mut engine, _) = refused_often(attempts);
        let over = (100 + seconds) * SECOND;
        delete(&mut engine, "filler", 100 * SECOND);
        // Before its backoff is over, everybody else comes first, however late.
        add(&mut engine, pod("newcomer", "100m", 0), over - 1);
        assert_eq!(
            next(&mut engine, over - 1),
            placed("newcomer"),
            "{attempts} attempts"
        );

        // Afterwards it comes first: it was refused before the other came.
        let (mut engine, _) = refused_often(attempts);
        delete(&mut engine, "filler", 100 * SECOND);
        add(&mut engine, pod("newcomer", "100m", 0), over);
        assert_eq!(
            next(&mut engine, over),
            placed("waits"),
            "{attempts} attempts"
        );
    }
}

#[test]
fn backing_off_is_cut_short_when_there_is_nothing_else_to_do() {
    let (mut engine, waits) = refused_often(5);
    delete(&mut engine, "filler", 100 * SECOND);
    assert_eq!(next(&mut engine, 100 * SECOND), placed("waits"));
    assert_eq!(engine.attempts(waits), 6);
}

#[test]
fn backoff_is_as_configured() {
    let config = EngineConfig {
        backoff: Backoff {
            initial_seconds: 30,
            maximum_seconds: 40,
        },
        ..EngineConfig::default()
    };
    for (attempts, seconds) in [(1, 30), (2, 40), (3, 40)] {
        let mut engine = Engine::new(&config).expect("the default profile is valid");
        let waits = add(&mut engine, pod("waits", "2", 0), 0);
        for _ in 0..attempts {
            engine.decide_pod(waits, 0);
        }
        add_node(&mut engine, "n1", "2", 0);
        add(
            &mut engine,
            pod("newcomer", "100m", 0),
            seconds * SECOND - 1,
        );
        assert_eq!(next(&mut engine, seconds * SECOND - 1), placed("newcomer"));
    }
}

#[test]
fn gated_pods_are_tried_once_their_gates_are_gone() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "8", 0);
    let gates = json!({"schedulingGates": [{"name": "example.com/quota"}, {"name": "b"}]});
    let gated = add(&mut engine, pod_with("gated", "1", 9, &gates), 0);
    add(&mut engine, pod("other", "1", 0), 1);
    assert_eq!(tried(&mut engine, 2), ["other"]);
    let Some(PodState::Gated(refusal)) = engine.pod_state(gated) else {
        panic!("{:?}", engine.pod_state(gated));
    };
    let texts: Vec<String> = refusal
        .reasons
        .iter()
        .map(|reason| reason.text(engine.cluster()))
        .collect();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("example.com/quota"), "{texts:?}");
    assert_eq!(engine.decide_pod(gated, 2), None);
    assert_eq!(engine.attempts(gated), 0);

    // One gate of two is gone: it is still held.
    let gates = json!({"schedulingGates": [{"name": "b"}]});
    engine.handle(Event::PodChanged(pod_with("gated", "1", 9, &gates)), 3);
    assert_eq!(engine.next(1000 * SECOND), None);

    engine.handle(Event::PodChanged(pod("gated", "1", 9)), 4);
    assert_eq!(next(&mut engine, 4), placed("gated"));
}

#[test]
fn pods_of_other_schedulers_are_left_alone() {
    let mut engine = engine();
    add_node(&mut engine, "n1", "8", 0);
    let theirs = pod_with("theirs", "1", 0, &json!({"schedulerName": "other"}));
    let theirs = add(&mut engine, theirs, 0);
    assert_eq!(engine.next(SECOND), None);
    assert_eq!(engine.decide_pod(theirs, SECOND), None);
    assert_eq!(engine.pod_state(theirs), Some(&PodState::Ignored));
}

#[test]
fn pods_on_unknown_nodes_are_there_once_the_node_is() {
    let mut engine = engine();
    let early = pod_with("early", "3", 0, &json!({"nodeName": "n1"}));
    let early = add(&mut engine, early, 0);
    assert!(matches!(
        engine.pod_state(early),
        Some(PodState::OnUnknownNode(_))
    ));
    add(&mut engine, pod("late", "2", 0), 0);
    assert_eq!(next(&mut engine, 0), refused("late"));
    add_node(&mut engine, "n1", "4", 20 * SECOND);
    assert!(matches!(engine.pod_state(early), Some(PodState::Placed(_))));
    assert_eq!(engine.next(20 * SECOND), None, "3 of 4 cores are taken");

    // The node goes and comes back, larger.
    let name = "n1".to_owned();
    engine.handle(Event::NodeGone { name }, 30 * SECOND);
    assert!(matches!(
        engine.pod_state(early),
        Some(PodState::OnUnknownNode(_))
    ));
    add_node(&mut engine, "n1", "5", 40 * SECOND);
    assert_eq!(next(&mut engine, 40 * SECOND), placed("late"));
}
