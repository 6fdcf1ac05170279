//! What the engine decides from its caches is what a look at every node from scratch says.
//!
//! Clusters, pods, profiles and the order of events are random: nodes come, change, go and
//! come back, pods come, change, are bound by others (also to nodes nobody knows yet) and
//! go. Before every decision each waiting pod is evaluated from scratch
//! ([`Engine::evaluate`]); the decision must say the same.

mod random_cluster;
mod words_of_checker;

use std::collections::BTreeMap;

use outrank_engine::evaluation::Evaluation;
use outrank_engine::ids::{NodeId, PodId};
use outrank_engine::preemption::Preemption;
use outrank_engine::{Decision, Engine, EngineConfig, Outcome, PodState, TimeNanos};
use proptest::prelude::*;
use proptest::sample::Index;

use random_cluster::{
    History, NODE_NAMES, Step, World, history, history_of_1_20, history_of_preemption,
    history_of_safe_preemption, history_with_volumes, node_of, pod_named,
};

/// What evaluation from scratch says about a pod.
#[derive(Clone, Debug, PartialEq)]
enum Expected {
    /// One of `nodes`, the first if there is no seed.
    Scheduled {
        nodes: Vec<String>,
        feasible_nodes: usize,
        total_score: i64,
    },
    Unschedulable {
        message: String,
        reasons: BTreeMap<String, usize>,
        preemption: Option<String>,
        retry_at: Option<TimeNanos>,
    },
    Error(String),
}

fn expected(pod: PodId, evaluation: &Evaluation, engine: &Engine, now: TimeNanos) -> Expected {
    let cluster = engine.cluster();
    let names = |nodes: &[NodeId]| {
        let mut names: Vec<String> = nodes.iter().map(|&n| cluster.name(n).to_owned()).collect();
        names.sort();
        names
    };
    let scheduled = |nodes: &[NodeId], feasible_nodes, total_score| Expected::Scheduled {
        nodes: names(nodes),
        feasible_nodes,
        total_score,
    };
    let is_placed = !evaluation.feasible.is_empty() || evaluation.via_nominated_node.is_some();
    // The node that the pod is nominated to is taken without scoring.
    let fails_before = evaluation.error.is_some()
        && evaluation.feasible.len() > 1
        && evaluation.via_nominated_node.is_none();
    if let Some(error) = &evaluation.reserve_error
        && is_placed
        && !fails_before
    {
        return Expected::Error(error.clone());
    }
    if let Some(node) = evaluation.via_nominated_node {
        return scheduled(&[node], 1, 0);
    }
    match evaluation.feasible.as_slice() {
        [] if evaluation.error.is_none() => {
            let mut diagnosis = evaluation.diagnosis(cluster);
            let report = engine.preemption(pod, evaluation, now).unwrap_or_default();
            diagnosis.post_filter = report.refusals;
            Expected::Unschedulable {
                message: diagnosis.message(cluster),
                reasons: diagnosis.reasons(cluster),
                preemption: report.preemption.map(|it| told(&it, engine)),
                retry_at: report.retry_at,
            }
        }
        // Taken without scoring, so that nothing can be wrong with its score.
        [only] => scheduled(&[*only], 1, 0),
        feasible => match &evaluation.error {
            Some(error) => Expected::Error(error.clone()),
            None => {
                let highest = evaluation.totals.iter().copied().max().unwrap_or(0);
                scheduled(&evaluation.best(), feasible.len(), highest)
            }
        },
    }
}

/// A preemption by names.
fn told(preemption: &Preemption, engine: &Engine) -> String {
    let names = |pods: &[PodId]| {
        let names = pods.iter().filter_map(|pod| engine.pod_name(*pod));
        names.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
    };
    format!(
        "{} loses {} ({} against budgets), {} no longer nominated",
        engine.cluster().name(preemption.node),
        names(&preemption.victims.pods),
        preemption.victims.violating.len(),
        names(&preemption.cleared_nominations),
    )
}

/// The pods that want a place and what is expected of each.
fn all_expected(engine: &Engine, now: TimeNanos) -> BTreeMap<PodId, Expected> {
    let wants_place = |pod: &PodId| {
        matches!(
            engine.pod_state(*pod),
            Some(PodState::Queued | PodState::Unschedulable(_) | PodState::Error(_))
        )
    };
    let expect = |pod| {
        let evaluation = engine.evaluate(pod)?;
        Some((pod, expected(pod, &evaluation, engine, now)))
    };
    engine
        .pods()
        .filter(wants_place)
        .filter_map(expect)
        .collect()
}

fn check(decision: &Decision, expected: &Expected, engine: &Engine, is_seeded: bool) {
    let cluster = engine.cluster();
    let pod = engine.pod_name(decision.pod);
    match (&decision.outcome, expected) {
        (
            Outcome::Scheduled {
                node,
                feasible_nodes,
                total_score,
            },
            Expected::Scheduled {
                nodes,
                feasible_nodes: expected_feasible,
                total_score: expected_score,
            },
        ) => {
            let name = cluster.name(*node);
            let may_be = if is_seeded { nodes } else { &nodes[..1] };
            assert!(
                may_be.iter().any(|other| other == name),
                "{pod:?}: {name}, not {may_be:?}"
            );
            assert_eq!(feasible_nodes, expected_feasible, "{pod:?}");
            assert_eq!(total_score, expected_score, "{pod:?}");
            assert_eq!(
                engine.pod_state(decision.pod),
                Some(&PodState::Placed(*node))
            );
        }
        (
            Outcome::Unschedulable(diagnosis),
            Expected::Unschedulable {
                message,
                reasons,
                preemption,
                retry_at,
            },
        ) => {
            assert_eq!(diagnosis.message(cluster), *message, "{pod:?}");
            assert_eq!(diagnosis.reasons(cluster), *reasons, "{pod:?}");
            let decided = decision.preemption.as_ref();
            assert_eq!(decided.map(|it| told(it, engine)), *preemption, "{pod:?}");
            let next = engine.next_retry().unwrap_or(TimeNanos::MAX);
            assert!(
                next <= retry_at.unwrap_or(TimeNanos::MAX),
                "{pod:?}: {next}"
            );
        }
        (Outcome::Error(found), Expected::Error(error)) => assert_eq!(**found, **error),
        (outcome, expected) => panic!("{pod:?}: {outcome:?}, expected {expected:?}"),
    }
}

/// Plays a history, checks every decision, and tells all of them by name.
fn play(history: &History) -> Vec<String> {
    let mut world = World::new(history);
    let is_seeded = history.config.tie_seed.is_some();
    let mut told = Vec::new();
    for step in &history.steps {
        match step {
            Step::Decide => {
                let expected = all_expected(&world.engine, world.now);
                let before = world.snapshot();
                if let Some(decision) = world.engine.next(world.now) {
                    world.check_decision(&before, &decision);
                    check(
                        &decision,
                        &expected[&decision.pod],
                        &world.engine,
                        is_seeded,
                    );
                    told.push(world.tell(&decision));
                    world.evict(&decision);
                }
            }
            Step::DecidePod(which) => {
                let expected = all_expected(&world.engine, world.now);
                let Some(pod) = world.pick_pod(*which) else {
                    continue;
                };
                let before = world.snapshot();
                let decision = world.engine.decide_pod(pod, world.now);
                assert_eq!(decision.is_some(), expected.contains_key(&pod));
                if let Some(decision) = decision {
                    world.check_decision(&before, &decision);
                    check(&decision, &expected[&pod], &world.engine, is_seeded);
                    told.push(world.tell(&decision));
                    world.evict(&decision);
                }
            }
            step => world.take(step),
        }
        world.note_ports();
        check_no_pod_is_lost(&world);
    }
    told.extend(drain(&mut world, history.has_rules));
    told
}

/// Decides until nothing can be tried; then every pod that waits fits nowhere, and has nobody
/// to preempt.
fn drain(world: &mut World, has_rules: bool) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(decision) = world.engine.next(world.now) {
        told.push(world.tell(&decision));
        world.evict(&decision);
        assert!(told.len() < 10_000, "the queue never drains");
    }
    for (pod, expected) in all_expected(&world.engine, world.now) {
        let name = world.engine.pod_name(pod);
        let state = world.engine.pod_state(pod);
        // Pods that something is wrong with wait although there may be room; and nobody wakes
        // a pod for which a plugin would fail now.
        let waits_rightly = match state {
            // As upstream, the plugin is not asked when a class is made anew, nor when a pod
            // comes that has the same volume.
            Some(PodState::Unschedulable(diagnosis)) if diagnosis.names("NodeVolumeLimits") => true,
            // A port is free once one of several users is gone, so that even a pod that comes may
            // help. Nobody is woken by that.
            Some(PodState::Unschedulable(diagnosis))
                if diagnosis.names("NodePorts")
                    && !matches!(expected, Expected::Scheduled { .. }) =>
            {
                true
            }
            Some(PodState::Unschedulable(_)) => match expected {
                Expected::Scheduled { .. } => false,
                Expected::Unschedulable { ref preemption, .. } => preemption.is_none() || has_rules,
                Expected::Error(_) => true,
            },
            state => matches!(state, Some(PodState::Error(_))),
        };
        assert!(
            waits_rightly,
            "{name:?} is {state:?}, but evaluation says {expected:?}"
        );
    }
    told
}

/// Every pod that was created and not deleted is known, once, and those on nodes are on
/// the lists of their nodes.
fn check_no_pod_is_lost(world: &World) {
    let engine = &world.engine;
    let mut known: Vec<(&str, &str)> = engine.pods().filter_map(|p| engine.pod_name(p)).collect();
    known.sort_unstable();
    let alive: Vec<(&str, &str)> = world.pods.keys().map(|name| ("default", &**name)).collect();
    assert_eq!(known, alive);
    let cluster = engine.cluster();
    let mut on_nodes = 0;
    for pod in engine.pods() {
        if let Some(PodState::Placed(node)) = engine.pod_state(pod) {
            assert!(cluster.is_present(*node));
            assert_eq!(
                cluster
                    .pods(*node)
                    .iter()
                    .filter(|other| **other == pod)
                    .count(),
                1
            );
            on_nodes += 1;
        }
    }
    assert_eq!(
        cluster
            .nodes()
            .map(|node| cluster.pods(node).len())
            .sum::<usize>(),
        on_nodes
    );
    let names: Vec<&String> = world.nodes.keys().collect();
    let mut known: Vec<&str> = cluster.nodes().map(|node| cluster.name(node)).collect();
    known.sort_unstable();
    assert_eq!(known, names);
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(800))]

    /// Few classes of pods: verdicts are used again and again.
    #[test]
    fn few_classes(history in history(1..=3, 20..160, false)) {
        play(&history);
    }

    /// Hardly two pods alike.
    #[test]
    fn many_classes(history in history(12..=24, 20..160, false)) {
        play(&history);
    }

    /// With a seed the choice is among the best, and the same log gives the same decisions.
    #[test]
    fn the_same_log_gives_the_same_decisions(history in history(1..=8, 20..100, true)) {
        prop_assert_eq!(play(&history), play(&history));
    }
}

proptest! {
    #![proptest_config(cases(1_200))]

    /// Small nodes full of pods of several priorities, and budgets that change.
    #[test]
    fn pods_that_preempt(history in history_of_preemption(2..=6, 40..200, false)) {
        play(&history);
    }

    /// With a seed, equally good candidates come in another order than by name.
    #[test]
    fn pods_that_preempt_in_another_order(history in history_of_preemption(2..=4, 40..120, true)) {
        play(&history);
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// Rules that protect pods for a time or for ever, that limit how many are killed, and
    /// searches that end early: the kept candidates know of all of it.
    #[test]
    fn pods_that_preempt_by_rules(history in history_of_safe_preemption(2..=6, 40..200, false)) {
        play(&history);
    }

    /// The same with equally good candidates in another order.
    #[test]
    fn pods_that_preempt_by_rules_in_another_order(
        history in history_of_safe_preemption(2..=4, 40..120, true),
    ) {
        play(&history);
    }
}

proptest! {
    #![proptest_config(cases(800))]

    /// Plugins of 1.20, some of which are asked about every node each time.
    #[test]
    fn plugins_of_1_20(history in history_of_1_20(1..=6, 20..120)) {
        play(&history);
    }
}

proptest! {
    #![proptest_config(cases(1_600))]

    /// Pods with claims that they share or have for themselves, while claims, volumes, limits
    /// and attachments change.
    #[test]
    fn pods_with_volumes(history in history_with_volumes(1..=3, 20..160)) {
        play(&history);
    }
}

proptest! {
    #![proptest_config(cases(60))]

    /// So many changes between decisions that the log of changes no longer holds them.
    #[test]
    fn caches_that_fell_far_behind(
        history in history(2..=5, 10..30, false),
        churned in prop::collection::vec((0..30usize, any::<Index>(), 300..1500usize), 1..4),
    ) {
        let mut history = history;
        for (at, node, times) in churned {
            let node = *node.get(&NODE_NAMES);
            history.steps.insert(at.min(history.steps.len()), Step::Churn { node, times });
        }
        play(&history);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// Whichever node came first, the same nodes are the best.
    #[test]
    fn order_of_nodes_does_not_matter(
        history in history(6..=6, 1..2, false),
        shapes in prop::collection::vec(random_cluster::node_shape(), NODE_NAMES.len()),
        order in Just((0..NODE_NAMES.len()).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let in_order = (0..NODE_NAMES.len()).collect::<Vec<_>>();
        let decided: Vec<Vec<(Expected, Option<String>)>> = [in_order, order]
            .iter()
            .map(|order| decide_all(&history, &shapes, order))
            .collect();
        prop_assert_eq!(&decided[0], &decided[1]);
    }
}

fn decide_all(
    history: &History,
    shapes: &[random_cluster::NodeShape],
    order: &[usize],
) -> Vec<(Expected, Option<String>)> {
    let config = EngineConfig {
        tie_seed: None,
        ..history.config.clone()
    };
    let mut engine = Engine::new(&config).expect("a valid profile");
    for &place in order {
        let node = node_of(NODE_NAMES[place], &shapes[place]);
        engine.handle(outrank_engine::Event::NodeChanged(node), 0);
    }
    let mut decided = Vec::new();
    for (number, template) in history.templates.iter().enumerate() {
        let pod = pod_named(&format!("p{number}"), template);
        engine.handle(outrank_engine::Event::PodChanged(pod), 0);
        while let Some(pod) = engine.pods().last()
            && let expected = expected(pod, &engine.evaluate(pod).expect("known"), &engine, 0)
            && let Some(decision) = engine.next(0)
        {
            let node = match decision.outcome {
                Outcome::Scheduled { node, .. } => Some(engine.cluster().name(node).to_owned()),
                _ => None,
            };
            decided.push((expected, node));
        }
    }
    decided
}

/// Nodes whose names each come before all others use up the room between ranks of equal
/// nodes soon; the smallest name must win all the same.
#[test]
fn the_smallest_name_wins_however_nodes_come() {
    let history = History::plain();
    let mut world = World::new(&history);
    for number in (0..200).rev() {
        let name = format!("n{number:03}");
        let node = node_of(&name, &random_cluster::NodeShape::plain());
        world
            .engine
            .handle(outrank_engine::Event::NodeChanged(node), 0);
        let pod = pod_named("probe", &history.templates[0]);
        world
            .engine
            .handle(outrank_engine::Event::PodChanged(pod), 0);
        let decision = world.engine.next(0).expect("a pod waits");
        assert_eq!(world.tell(&decision), format!("probe on {name}"));
        world.engine.handle(random_cluster::gone("probe"), 0);
    }
}
