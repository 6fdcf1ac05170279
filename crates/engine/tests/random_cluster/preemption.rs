//! Histories in which preemption is what matters: small nodes full of pods of several
//! priorities, which start at different times, and budgets that change.

use outrank_api::types::{PodDisruptionBudget, PriorityClass};
use outrank_engine::TimeNanos;
use outrank_engine::preemption::safety::{PreemptionBudget, PreemptionMode, PreemptionSafetyArgs};
use outrank_engine::profile::{MinimumCandidates, ProfileConfig};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::storage::Claims;
use super::{FEW_NODES, NodeShape, Step, Template, container, node_shape};

const BUDGET_NAMES: [&str; 3] = ["first", "second", "third"];

/// A budget, mostly for the pods that budgets of its name always select, else for none, which
/// allows up to two to go.
pub(super) fn budget() -> impl Strategy<Value = PodDisruptionBudget> {
    let is_empty = prop::bool::weighted(0.15);
    let disrupted = prop::option::weighted(0.2, 1..9usize);
    let all = (budget_name(), is_empty, 0..3, disrupted);
    all.prop_map(|(name, is_empty, allowed, disrupted)| {
        let selector = match name {
            _ if is_empty => json!({}),
            "first" => json!({"matchLabels": {"app": "a"}}),
            "second" => json!({"matchLabels": {"app": "b"}}),
            _ => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        };
        let disrupted = disrupted.map(|number| (format!("p{number}"), json!(null)));
        let disrupted: serde_json::Map<_, _> = disrupted.into_iter().collect();
        let budget = json!({"metadata": {"namespace": "default", "name": name},
            "spec": {"selector": selector},
            "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted}});
        serde_json::from_value(budget).expect("a budget")
    })
}

pub(super) fn budget_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(BUDGET_NAMES.to_vec())
}

/// Mostly the default profile: others have pods evaluated from scratch.
pub(super) fn profile(name: &'static str) -> impl Strategy<Value = ProfileConfig> {
    let default = ProfileConfig {
        scheduler_name: name.into(),
        ..ProfileConfig::default()
    };
    prop_oneof![3 => Just(default), 1 => super::profile(name)]
}

/// A template of pods about which hardly more is particular than priority and requests.
pub(super) fn template() -> impl Strategy<Value = Template> {
    let app = prop::sample::select(vec!["a", "b"]);
    let scheduler = prop_oneof![6 => Just(""), 1 => Just("second")];
    let policy = prop::option::weighted(0.1, Just("Never"));
    let nominated = prop::option::weighted(0.1, prop::sample::select(FEW_NODES.to_vec()));
    let disk = prop::option::weighted(0.1, prop::sample::select(vec!["ssd", "hdd"]));
    let all = (app, -2..5, container(), scheduler, policy, nominated, disk);
    all.prop_map(
        |(app, priority, container, scheduler, policy, nominated, disk)| {
            let mut spec = json!({"schedulerName": scheduler, "priority": priority * 10,
                "containers": [container]});
            if let Some(policy) = policy {
                spec["preemptionPolicy"] = policy.into();
            }
            if let Some(disk) = disk {
                spec["nodeSelector"] = json!({"disk": disk});
            }
            Template {
                app,
                spec,
                claims: Claims::default(),
                nominated,
            }
        },
    )
}

/// The start of 2026, in whose first seconds pods start.
pub(super) const START: TimeNanos = 1_767_225_600_000_000_000;

const CLASS_NAMES: [&str; 3] = ["one", "two", "three"];

fn class_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(CLASS_NAMES.to_vec())
}

/// A priority class with a rule of its own, or without.
fn priority_class() -> impl Strategy<Value = PriorityClass> {
    let prefix = "preemption-toleration.scheduling.x-k8s.io";
    let toleration = (-1..12i64, prop::option::of(0..5i32));
    let toleration = toleration.prop_map(move |(seconds, minimum)| {
        let mut annotations = json!({format!("{prefix}/toleration-seconds"): seconds.to_string()});
        if let Some(minimum) = minimum {
            let key = format!("{prefix}/minimum-preemptable-priority");
            annotations[key] = (minimum * 10).to_string().into();
        }
        annotations
    });
    let policy = json!({"scheduling.outrank.dev/preemption-policy": "NonPreemptible"});
    let annotations = prop_oneof![
        1 => Just(json!({})),
        1 => Just(policy),
        3 => toleration,
    ];
    (class_name(), annotations).prop_map(|(name, annotations)| {
        let class = json!({"metadata": {"name": name, "annotations": annotations}, "value": 10});
        serde_json::from_value(class).expect("a class")
    })
}

fn preemption_budget() -> impl Strategy<Value = PreemptionBudget> {
    let name = prop::option::of(class_name());
    let limit = || prop::option::of(0..4usize);
    let all = (name, prop::option::of(Just("default")), limit(), limit());
    all.prop_map(
        |(class, namespace, victims_per_minute, victims_per_decision)| PreemptionBudget {
            priority_class_name: class.map(String::from),
            namespace: namespace.map(String::from),
            victims_per_minute,
            victims_per_decision,
        },
    )
}

fn safety() -> impl Strategy<Value = PreemptionSafetyArgs> {
    let mode = prop_oneof![
        6 => Just(PreemptionMode::Enforce),
        2 => Just(PreemptionMode::DryRun),
        1 => Just(PreemptionMode::Off),
    ];
    let budgets = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(preemption_budget(), 1..=2),
    ];
    let exempt = prop_oneof![3 => Just(2_000_001_000), 1 => Just(30)];
    let seconds = |most: u64| prop_oneof![2 => Just(0), 1 => 0..most];
    let flags = (any::<bool>(), any::<bool>());
    (mode, exempt, budgets, seconds(20), seconds(30), flags).prop_map(
        |(mode, exempt_priority, budgets, delay_seconds, minimum_run_seconds, flags)| {
            let (prefers_least_lost_work, strict_pdb) = flags;
            PreemptionSafetyArgs {
                mode,
                exempt_priority,
                budgets,
                delay_seconds,
                minimum_run_seconds,
                prefers_least_lost_work,
                strict_pdb,
            }
        },
    )
}

/// The same with rules that make preemption safe, or a search that ends early, or both.
pub(super) fn safe_profile(name: &'static str) -> impl Strategy<Value = ProfileConfig> {
    let minimum = (0..=100u8, 0..4usize).prop_map(|(percentage, absolute)| MinimumCandidates {
        percentage,
        absolute,
    });
    let minimum = prop::option::weighted(0.4, minimum);
    let all = (
        profile(name),
        prop::option::weighted(0.8, safety()),
        minimum,
    );
    all.prop_map(
        |(profile, preemption_safety, minimum_candidates)| ProfileConfig {
            preemption_safety,
            minimum_candidates,
            ..profile
        },
    )
}

/// A template of pods of a priority class.
pub(super) fn template_of_a_class() -> impl Strategy<Value = Template> {
    (template(), prop::option::weighted(0.8, class_name())).prop_map(|(mut template, class)| {
        if let Some(class) = class {
            template.spec["priorityClassName"] = class.into();
        }
        template
    })
}

pub(super) fn step_with_rules() -> impl Strategy<Value = Step> {
    prop_oneof![
        14 => step(),
        1 => priority_class().prop_map(|class| Step::SetPriorityClass(Box::new(class))),
        1 => class_name().prop_map(Step::RemovePriorityClass),
        1 => (0..4_000_000_000u64).prop_map(Step::PassTime),
    ]
}

/// A node with room for a few pods, mostly without taints.
pub(super) fn node() -> impl Strategy<Value = NodeShape> {
    let shape = (node_shape(), 1..4u32, 2..6u32, prop::bool::weighted(0.2));
    shape.prop_map(|(shape, cpu, pods, is_special)| NodeShape {
        cpu_half_cores: cpu,
        memory_gib: 4,
        pods,
        taints: if is_special { shape.taints } else { Vec::new() },
        cordoned: is_special && shape.cordoned,
        ..shape
    })
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(FEW_NODES.to_vec());
    prop_oneof![
        3 => (name(), node()).prop_map(|(name, shape)| Step::SetNode(name, shape)),
        1 => any::<Index>().prop_map(Step::RemoveNode),
        10 => any::<Index>().prop_map(Step::AddPod),
        10 => (any::<Index>(), name()).prop_map(|(pod, node)| Step::AddBoundPod(pod, node)),
        5 => (any::<Index>(), 0..4u8).prop_map(|(pod, second)| Step::StartPod(pod, second)),
        5 => budget().prop_map(|budget| Step::SetBudget(Box::new(budget))),
        1 => budget_name().prop_map(Step::RemoveBudget),
        1 => any::<(Index, Index)>().prop_map(|(pod, template)| Step::ChangePod(pod, template)),
        2 => any::<Index>().prop_map(Step::RemovePod),
        1 => any::<Index>().prop_map(Step::ConfirmPod),
        2 => any::<Index>().prop_map(Step::StartDeletion),
        1 => (any::<Index>(), name()).prop_map(|(pod, node)| Step::BindPod(pod, node)),
        2 => (0..20_000_000_000u64).prop_map(Step::PassTime),
        16 => Just(Step::Decide),
        8 => any::<Index>().prop_map(Step::DecidePod),
    ]
}
