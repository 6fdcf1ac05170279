//! A preemption as it should be is accepted; each way of doing it wrong is refused.
//!
//! Nodes have 4 CPUs. Pods are written as name, node, priority, CPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrank_api::types::{Node, Pod, PodDisruptionBudget, PriorityClass};
use outrank_checker::{
    Before, EnoughCandidates, Kill, KillBudget, Options, Preemption, PreemptionRules, Share,
    ShareLimit, SharePods, check, check_kills, check_preemption, missed_preemption,
    wrongly_pending,
};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;
/// 2026-01-01T01:00:00Z
const NOW: u64 = 1_767_229_200 * SECOND;

#[derive(Default)]
struct World {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    budgets: Vec<PodDisruptionBudget>,
    classes: Vec<PriorityClass>,
    kills: Vec<Kill>,
    counted: BTreeMap<String, usize>,
    rules: PreemptionRules,
    options: Options,
}

impl World {
    fn new(nodes: usize) -> Self {
        let node = |number: usize| {
            let node = json!({"metadata": {"name": format!("n{number}")},
                "status": {"allocatable": {"cpu": "4", "pods": "110"}}});
            serde_json::from_value(node).unwrap()
        };
        Self {
            nodes: (1..=nodes).map(node).collect(),
            ..Self::default()
        }
    }

    fn pod(mut self, name: &str, node: &str, priority: i32, cpu: u32) -> Self {
        let minutes = self.pods.len();
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
            "spec": {"nodeName": node, "priority": priority, "containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        });
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        if !node.is_empty() {
            pod.status.start_time = Some(format!("2026-01-01T00:{minutes:02}:00Z"));
        }
        self.pods.push(pod);
        self
    }

    /// Changes the pod that came last.
    fn with(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(self.pods.last_mut().unwrap());
        self
    }

    fn class(mut self, name: &str, rest: Value) -> Self {
        let mut class = json!({"metadata": {"name": name}, "value": 10});
        class
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        self.classes.push(serde_json::from_value(class).unwrap());
        self.with(|pod| Arc::make_mut(&mut pod.spec).priority_class_name = name.to_owned())
    }

    /// A budget for the pods of these names.
    fn budget(mut self, pods: &[&str], allowed: i32) -> Self {
        let name = format!("b{}", self.budgets.len());
        let budget = json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchExpressions": [
                {"key": "app", "operator": "In", "values": pods}]}},
            "status": {"disruptionsAllowed": allowed}});
        self.budgets.push(serde_json::from_value(budget).unwrap());
        self
    }

    fn rules(mut self, rules: PreemptionRules) -> Self {
        self.rules = rules;
        self
    }

    fn before(&self) -> Before<'_> {
        Before {
            nodes: &self.nodes,
            pods: &self.pods,
            budgets: &self.budgets,
            priority_classes: &self.classes,
            kills: &self.kills,
            kills_counted: &self.counted,
            now_nanos: NOW,
        }
    }

    /// What is wrong if the pod `high` has these killed.
    fn faults(&self, node: &str, victims: &[&str], violating: &[&str]) -> Vec<String> {
        let keys = |names: &[&str]| names.iter().map(|it| format!("default/{it}")).collect();
        let preemption = Preemption {
            preemptor: "default/high".to_owned(),
            node: node.to_owned(),
            victims: keys(victims),
            violating: keys(violating),
        };
        let wrong = check_preemption(&self.before(), &preemption, &self.rules, &self.options);
        wrong.iter().map(|wrong| wrong.fault.to_string()).collect()
    }
}

const RIGHT: [&str; 0] = [];

#[test]
fn who_must_go_goes_and_nobody_else() {
    let world = World::new(1)
        .pod("a", "n1", 1, 2)
        .pod("b", "n1", 2, 2)
        .pod("high", "", 10, 2);
    assert_eq!(world.faults("n1", &["a"], &[]), RIGHT);
    assert_eq!(
        world.faults("n1", &["a", "b"], &[]),
        ["default/a could stay", "default/b could stay"]
    );
    assert_eq!(
        world.faults("n1", &["b"], &[]),
        ["the victims should be default/a"]
    );
    assert_eq!(world.faults("n1", &[], &[])[0], "nobody is killed");
    assert_eq!(
        world.faults("n1", &["a", "a"], &[]),
        ["default/a is a victim twice"]
    );
    assert_eq!(
        world.faults("n1", &["c"], &[])[0],
        "there is no pod default/c"
    );
    assert_eq!(world.faults("n2", &["a"], &[]), ["there is no such node"]);
}

#[test]
fn killing_too_few_does_not_help() {
    let world = World::new(1)
        .pod("a", "n1", 1, 2)
        .pod("b", "n1", 2, 2)
        .pod("high", "", 10, 4);
    assert_eq!(world.faults("n1", &["a", "b"], &[]), RIGHT);
    assert_eq!(
        world.faults("n1", &["a"], &[]),
        ["does not fit when the victims are gone: \
          requests 4 cpu, but the others hold 2 of 4"]
    );
}

#[test]
fn victims_are_lower() {
    for (priority, refused) in [(9, false), (10, true), (11, true)] {
        let world = World::new(1)
            .pod("a", "n1", priority, 4)
            .pod("high", "", 10, 4);
        let faults = world.faults("n1", &["a"], &[]);
        assert_eq!(!faults.is_empty(), refused, "{faults:?}");
        if refused {
            let told = format!("default/a has priority {priority}, which is not below 10");
            assert_eq!(faults, [told]);
        }
    }
}

#[test]
fn victims_are_on_the_node() {
    let world = World::new(2)
        .pod("a", "n1", 1, 4)
        .pod("b", "n2", 1, 4)
        .pod("high", "", 10, 4);
    assert_eq!(world.faults("n2", &["a"], &[]), ["default/a is on node n1"]);
}

#[test]
fn a_pod_that_fits_or_may_not_kill_kills_nobody() {
    let room = World::new(2).pod("a", "n1", 1, 4).pod("high", "", 10, 4);
    assert_eq!(
        room.faults("n1", &["a"], &[]),
        ["it fits on node n2 as things are"]
    );
    let never = World::new(1)
        .pod("a", "n1", 1, 4)
        .pod("high", "", 10, 4)
        .with(|pod| Arc::make_mut(&mut pod.spec).preemption_policy = Some("Never".to_owned()));
    assert_eq!(
        never.faults("n1", &["a"], &[]),
        ["its policy is to preempt nobody"]
    );
    let placed = World::new(2).pod("a", "n1", 1, 4).pod("high", "n2", 10, 4);
    assert_eq!(
        placed.faults("n1", &["a"], &[]),
        ["it is on node n2 already"]
    );
}

#[test]
fn a_pod_waits_for_those_that_are_going_for_it() {
    let going = json!([{"type": "DisruptionTarget", "status": "True",
        "reason": "PreemptionByScheduler"}]);
    let world = World::new(2)
        .pod("b", "n2", 1, 4)
        .pod("a", "n1", 1, 4)
        .with(|pod| {
            pod.metadata.deletion_timestamp = Some("2026-01-01T01:00:00Z".to_owned());
            pod.status.conditions = serde_json::from_value(going).unwrap();
        })
        .pod("high", "", 10, 4)
        .with(|pod| pod.status.nominated_node_name = "n1".to_owned());
    assert_eq!(
        world.faults("n2", &["b"], &[]),
        ["default/a is still going from the node that is promised to it"]
    );
}

#[test]
fn room_that_is_promised_to_others_is_no_room() {
    let world = |priority| {
        World::new(1)
            .pod("a", "n1", 1, 2)
            .pod("b", "n1", 2, 2)
            .pod("promised", "", priority, 2)
            .with(|pod| pod.status.nominated_node_name = "n1".to_owned())
            .pod("high", "", 10, 2)
    };
    assert_eq!(world(10).faults("n1", &["a", "b"], &[]), RIGHT);
    assert_eq!(world(9).faults("n1", &["a"], &[]), RIGHT);
    assert_eq!(world(10).faults("n1", &["a"], &[]).len(), 1);
}

#[test]
fn budgets_spare_pods_and_violations_are_told() {
    let world = World::new(1)
        .pod("a", "n1", 1, 2)
        .pod("b", "n1", 2, 2)
        .budget(&["a"], 0)
        .pod("high", "", 10, 2);
    assert_eq!(world.faults("n1", &["b"], &[]), RIGHT);
    assert_eq!(
        world.faults("n1", &["a"], &["a"]),
        ["the victims should be default/b"]
    );
    assert_eq!(
        world.faults("n1", &["b"], &["b"]),
        ["no victim violates a budget"]
    );
    let both = World::new(1)
        .pod("a", "n1", 1, 2)
        .pod("b", "n1", 2, 2)
        .budget(&["a", "b"], 1)
        .pod("high", "", 10, 4);
    // The more important one is counted first.
    assert_eq!(both.faults("n1", &["a", "b"], &["a"]), RIGHT);
    assert_eq!(
        both.faults("n1", &["a", "b"], &[]),
        ["the victims that violate a budget are default/a"]
    );
}

#[test]
fn a_strict_budget_is_not_violated() {
    let strict = PreemptionRules {
        strict_pdb: true,
        ..PreemptionRules::default()
    };
    let world = |allowed| {
        World::new(1)
            .pod("a", "n1", 1, 4)
            .budget(&["a"], allowed)
            .pod("high", "", 10, 4)
    };
    assert_eq!(world(0).faults("n1", &["a"], &["a"]), RIGHT);
    let refused = ["default/a goes against a PodDisruptionBudget, which is strict"];
    assert_eq!(
        world(0).rules(strict.clone()).faults("n1", &["a"], &["a"]),
        refused
    );
    assert_eq!(
        world(1).rules(strict.clone()).faults("n1", &["a"], &[]),
        RIGHT
    );
    // Another of its pods was killed, which its status does not count yet.
    let mut second = world(1).rules(strict);
    second.kills.push(Kill {
        victim: second.pods[0].clone(),
        at_nanos: NOW,
        preemptor: "default/other".to_owned(),
        preemptor_priority: 10,
        decision: 0,
    });
    assert_eq!(second.faults("n1", &["a"], &[]), RIGHT);
    second.counted.insert("default/b0".to_owned(), 0);
    assert_eq!(second.faults("n1", &["a"], &["a"]), refused);
}

/// Two nodes on which the pods `a` and `b` would go, of which the first is dearer.
fn dearer(world: &World, a: &[&str], against: &[&str], b: &[&str], because: &str) {
    let faults = world.faults("n1", a, against);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("node n2 costs less"), "{faults:?}");
    assert!(faults[0].contains(because), "{faults:?}");
    assert_eq!(world.faults("n2", b, &[]), RIGHT);
}

#[test]
fn the_node_is_chosen_where_least_is_lost() {
    let high = |world: World| world.pod("high", "", 10, 4);
    let violation = World::new(2)
        .pod("a", "n1", 1, 4)
        .budget(&["a"], 0)
        .pod("b", "n2", 5, 4);
    dearer(
        &high(violation),
        &["a"],
        &["a"],
        &["b"],
        "violations of budgets 0, not 1",
    );
    let priority = World::new(2).pod("a", "n1", 2, 4).pod("b", "n2", 1, 4);
    dearer(
        &high(priority),
        &["a"],
        &[],
        &["b"],
        "highest priority 1, not 2",
    );
    let sum = World::new(2)
        .pod("a", "n1", 5, 2)
        .pod("a2", "n1", 4, 2)
        .pod("b", "n2", 5, 2)
        .pod("b2", "n2", 3, 2);
    dearer(
        &high(sum),
        &["a", "a2"],
        &[],
        &["b", "b2"],
        "sum of priorities",
    );
    // Each victim adds to the sum, however low it is.
    let number = World::new(2)
        .pod("a", "n1", 5, 2)
        .pod("a2", "n1", -50, 2)
        .pod("b", "n2", 5, 4);
    dearer(
        &high(number),
        &["a", "a2"],
        &[],
        &["b"],
        "sum of priorities",
    );
    let start = World::new(2).pod("a", "n1", 5, 4).pod("b", "n2", 5, 4);
    dearer(&high(start), &["a"], &[], &["b"], "started so long ago");
}

#[test]
fn equally_important_pods_go_in_any_order() {
    let same_time = |pod: &mut Pod| pod.status.start_time = None;
    let world = World::new(1)
        .pod("a", "n1", 1, 2)
        .with(same_time)
        .pod("b", "n1", 1, 2)
        .with(same_time)
        .pod("high", "", 10, 2);
    assert_eq!(world.faults("n1", &["a"], &[]), RIGHT);
    assert_eq!(world.faults("n1", &["b"], &[]), RIGHT);
    assert_eq!(world.faults("n1", &["a", "b"], &[]).len(), 2);
}

#[test]
fn what_is_not_checked_is_accepted_but_victims_stay_lower() {
    let term = json!([{ "topologyKey": "zone", "labelSelector": {} }]);
    let affinity = json!({"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": term}});
    let world = World::new(2)
        .pod("a", "n1", 1, 2)
        .pod("b", "n1", 1, 2)
        .pod("same", "n1", 10, 0)
        .pod("high", "", 10, 2)
        .with(|pod| {
            Arc::make_mut(&mut pod.spec).affinity = serde_json::from_value(affinity).unwrap();
        });
    assert_eq!(world.faults("n1", &["a", "b"], &[]), RIGHT);
    assert_eq!(world.faults("n1", &["a", "same"], &[]).len(), 1);
}

#[test]
fn protected_pods_stay() {
    let annotated = |key: &str, value: &str| {
        json!({"metadata":
        {"name": "precious", "annotations": {key: value}}})
    };
    let tolerates = |seconds: &str| {
        let prefix = "preemption-toleration.scheduling.x-k8s.io";
        let minimum = format!("{prefix}/minimum-preemptable-priority");
        let key = format!("{prefix}/toleration-seconds");
        json!({"metadata": {"name": "precious", "annotations": {minimum: "20", key: seconds}}})
    };
    let scheduled = json!([{"type": "PodScheduled", "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let policy = "scheduling.outrank.dev/preemption-policy";
    for (class, priority, rule) in [
        (json!({}), 10, None),
        (
            json!({"preemptionPolicy": "NonPreemptible"}),
            10,
            Some("NonPreemptible"),
        ),
        (
            json!({"preemptionPolicy": "NonPreemptible"}),
            2_000_001_000,
            None,
        ),
        (
            annotated(policy, "NonPreemptible"),
            10,
            Some("NonPreemptible"),
        ),
        (annotated(policy, "Never"), 10, None),
        (tolerates("3601"), 10, Some("toleration of preemption")),
        (tolerates("3600"), 10, None),
        (tolerates("-1"), 19, Some("toleration of preemption")),
        (tolerates("-1"), 20, None),
        (tolerates("0"), 10, None),
    ] {
        let world = World::new(1)
            .pod("a", "n1", 1, 4)
            .with(|pod| pod.status.conditions = serde_json::from_value(scheduled.clone()).unwrap())
            .class("precious", class.clone())
            .pod("high", "", priority, 4);
        let faults = world.faults("n1", &["a"], &[]);
        let expected = rule.map(|rule| format!("default/a is protected by {rule}"));
        assert_eq!(faults, Vec::from_iter(expected), "{class} {priority}");
    }
}

#[test]
fn pods_that_have_just_started_stay() {
    // a started at 00:00, now it is 01:00.
    for (minimum_run_seconds, refused) in [(3_600, false), (3_601, true)] {
        let rules = PreemptionRules {
            minimum_run_seconds,
            ..PreemptionRules::default()
        };
        let world = World::new(1).pod("a", "n1", 1, 4).pod("high", "", 10, 4);
        let faults = world.rules(rules).faults("n1", &["a"], &[]);
        assert_eq!(!faults.is_empty(), refused, "{faults:?}");
    }
}

#[test]
fn lost_work_comes_before_the_sum_of_priorities() {
    let rules = PreemptionRules {
        prefers_least_lost_work: true,
        ..PreemptionRules::default()
    };
    let world = World::new(2)
        .pod("a", "n1", 5, 4)
        .pod("b", "n2", 5, 2)
        .pod("b2", "n2", 5, 2)
        .pod("high", "", 10, 4);
    // One that has run for 60 minutes, or two for 59 and 58.
    assert_eq!(world.faults("n1", &["a"], &[]), RIGHT);
    let world = world.rules(rules);
    assert_eq!(world.faults("n1", &["a"], &[]), RIGHT);
    let mut saved = world;
    for pod in &mut saved.pods[1..3] {
        let key = "scheduling.outrank.dev/last-checkpoint".to_owned();
        let when = "2026-01-01T00:59:00Z".to_owned();
        pod.metadata.annotations.insert(key, when);
    }
    assert!(saved.faults("n1", &["a"], &[])[0].contains("lost work 120, not 3600"));
    assert_eq!(saved.faults("n2", &["b", "b2"], &[]), RIGHT);
}

fn kill(name: &str, seconds: u64, decision: usize) -> Kill {
    let world = World::new(1).pod(name, "n1", 1, 1);
    let victim = world.pods.into_iter().next().unwrap();
    Kill {
        victim,
        at_nanos: NOW + seconds * SECOND,
        preemptor: format!("default/high-{decision}"),
        preemptor_priority: 10,
        decision,
    }
}

fn of_budget(budget: KillBudget) -> PreemptionRules {
    PreemptionRules {
        budgets: vec![budget],
        ..PreemptionRules::default()
    }
}

fn wrong_kills(kills: &[Kill], rules: &PreemptionRules) -> Vec<String> {
    let wrong = check_kills(kills, &[], rules);
    wrong.iter().map(ToString::to_string).collect()
}

#[test]
fn so_many_die_in_any_minute() {
    let rules = of_budget(KillBudget {
        victims_per_minute: Some(2),
        ..KillBudget::default()
    });
    let [a, b] = [kill("a", 0, 0), kill("b", 30, 1)];
    let at = |seconds| [a.clone(), b.clone(), kill("c", seconds, 2)];
    assert_eq!(wrong_kills(&at(60), &rules), RIGHT);
    assert_eq!(
        wrong_kills(&at(59), &rules),
        ["pod default/high-2 preempts on node n1: 3 victims in a minute, 2 allowed"]
    );
    // What nodes cannot do without is held back by no budget, but counts.
    let mut exempt = at(59);
    exempt[2].preemptor_priority = 2_000_001_000;
    assert_eq!(wrong_kills(&exempt, &rules), RIGHT);
}

#[test]
fn so_many_die_at_once() {
    let rules = of_budget(KillBudget {
        namespace: Some("default".to_owned()),
        victims_per_decision: Some(1),
        ..KillBudget::default()
    });
    assert_eq!(
        wrong_kills(&[kill("a", 0, 0), kill("b", 0, 1)], &rules),
        RIGHT
    );
    assert_eq!(
        wrong_kills(&[kill("a", 0, 0), kill("b", 0, 0)], &rules),
        ["pod default/high-0 preempts on node n1: \
          2 victims in namespace default in a decision, 1 allowed"]
    );
    let others = of_budget(KillBudget {
        priority_class_name: Some("batch".to_owned()),
        victims_per_decision: Some(0),
        ..KillBudget::default()
    });
    assert_eq!(wrong_kills(&[kill("a", 0, 0)], &others), RIGHT);
}

#[test]
fn nobody_dies_if_kills_are_off_and_nobody_who_is_not_lower_ever() {
    let off = PreemptionRules {
        kills_nobody: true,
        ..PreemptionRules::default()
    };
    assert_eq!(wrong_kills(&[kill("a", 0, 0)], &off).len(), 1);
    let mut not_lower = kill("a", 0, 0);
    not_lower.preemptor_priority = 1;
    assert_eq!(
        wrong_kills(&[not_lower], &PreemptionRules::default()).len(),
        1
    );
}

#[test]
fn a_preemption_that_would_be_right_is_missed() {
    let missed = |world: &World| {
        let before = world.before();
        missed_preemption(&before, "default/high", &world.rules, &world.options)
            .map(|it| format!("{} {}", it.node, it.victims.join(" ")))
    };
    let mut world = World::new(1).pod("a", "n1", 1, 4).pod("high", "", 10, 4);
    assert_eq!(missed(&world).as_deref(), Some("n1 default/a"));
    world.rules = of_budget(KillBudget {
        victims_per_decision: Some(0),
        ..KillBudget::default()
    });
    assert_eq!(missed(&world), None);
    // Who is on its way already is not killed again.
    world.pods[0].metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    assert_eq!(missed(&world).as_deref(), Some("n1 default/a"));
    world.rules.kills_nobody = true;
    assert_eq!(missed(&world), None);
    let fits = World::new(1).pod("a", "n1", 1, 2).pod("high", "", 10, 2);
    assert_eq!(missed(&fits), None);
    let not_lower = World::new(1).pod("a", "n1", 10, 4).pod("high", "", 10, 4);
    assert_eq!(missed(&not_lower), None);
}

/// A node on which a budget forbids the kills is no cheaper one.
#[test]
fn a_cheaper_node_that_is_forbidden_does_not_count() {
    let world = World::new(2)
        .pod("a", "n1", 5, 4)
        .pod("b", "n2", 1, 2)
        .pod("b2", "n2", 1, 2)
        .pod("high", "", 10, 4);
    assert_eq!(world.faults("n1", &["a"], &[]).len(), 1);
    let one = of_budget(KillBudget {
        victims_per_decision: Some(1),
        ..KillBudget::default()
    });
    let world = world.rules(one);
    assert_eq!(world.faults("n1", &["a"], &[]), RIGHT);
    assert_eq!(
        world.faults("n2", &["b", "b2"], &[]),
        ["2 victims in a decision, 1 allowed"]
    );
}

/// A search that may end early may miss cheaper nodes, but not so many that it must have seen one.
#[test]
fn a_cheaper_node_may_be_missed_if_enough_candidates_are_dearer() {
    let enough = |percentage, absolute| {
        Some(EnoughCandidates {
            percentage,
            absolute,
        })
    };
    let mut world = World::new(3)
        .pod("a", "n1", 3, 4)
        .pod("b", "n2", 2, 4)
        .pod("c", "n3", 1, 4)
        .pod("high", "", 10, 4);
    for (limit, fine) in [
        (None, &["c"][..]),
        (enough(0, 3), &["c"]),
        (enough(0, 2), &["b", "c"]),
        (enough(67, 0), &["b", "c"]),
        (enough(0, 1), &["a", "b", "c"]),
        (enough(0, 0), &["a", "b", "c"]),
        (enough(100, 1), &["c"]),
    ] {
        world.options.enough_candidates = limit;
        for (victim, node) in [("a", "n1"), ("b", "n2"), ("c", "n3")] {
            let faults = world.faults(node, &[victim], &[]);
            let is_fine = fine.contains(&victim);
            assert_eq!(faults.is_empty(), is_fine, "{limit:?} {victim}: {faults:?}");
        }
    }
    // One that violates a budget is chosen only if all others do, too.
    world.options.enough_candidates = enough(0, 1);
    let world = world.budget(&["a"], 0);
    assert_eq!(world.faults("n1", &["a"], &["a"]).len(), 1);
}

fn share(limit: ShareLimit) -> Vec<Share> {
    vec![Share {
        pods: SharePods::Priorities { least: 1, most: 10 },
        namespace: None,
        resource: "cpu".to_owned(),
        limit,
    }]
}

#[test]
fn a_share_is_not_overdrawn_by_who_is_placed() {
    let world = World::new(2)
        .pod("a", "n1", 1, 2)
        .pod("b", "n2", 10, 2)
        .pod("c", "n2", 11, 2);
    for (limit, allowed) in [
        (ShareLimit::Percent(50), true),
        (ShareLimit::Percent(49), false),
        (ShareLimit::Amount(4000), true),
        (ShareLimit::Amount(3999), false),
    ] {
        let options = Options {
            shares: share(limit),
            ..Options::default()
        };
        let found = check(&world.nodes, &world.pods, &options);
        assert_eq!(found.is_empty(), allowed, "{limit:?}: {found:?}");
        // Who was there before stays, whatever the limit.
        let before = Options {
            shares: share(limit),
            ..Options::starting_from(&world.pods)
        };
        assert_eq!(check(&world.nodes, &world.pods, &before), []);
    }
    let options = Options {
        shares: share(ShareLimit::Percent(49)),
        ..Options::starting_from(&world.pods[..1])
    };
    assert_eq!(
        check(&world.nodes, &world.pods, &options)[0].to_string(),
        "pod default/b on node n2: requests 2 cpu, \
         but the others of priorities 1 to 10 use 2 of 3920m"
    );
}

#[test]
fn a_pod_over_its_share_waits_and_kills_nobody() {
    let mut world = World::new(2).pod("a", "n1", 1, 4).pod("high", "", 10, 4);
    world.options.shares = share(ShareLimit::Amount(7000));
    assert_eq!(
        wrongly_pending(&world.nodes, &world.pods, &world.options),
        []
    );
    assert_eq!(
        world.faults("n1", &["a"], &[])[0],
        "no kill helps: it requests 4 cpu, but the others of priorities 1 to 10 use 4 of 7"
    );
    world.options.shares = share(ShareLimit::Amount(8000));
    assert_eq!(
        wrongly_pending(&world.nodes, &world.pods, &world.options).len(),
        1
    );
}
