//! Histories in which preemption is what matters: small nodes full of pods of several
//! priorities, which start at different times, and budgets that change.

use outrank_api::types::PodDisruptionBudget;
use outrank_engine::profile::ProfileConfig;
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
        1 => (any::<Index>(), name()).prop_map(|(pod, node)| Step::BindPod(pod, node)),
        2 => (0..20_000_000_000u64).prop_map(Step::PassTime),
        16 => Just(Step::Decide),
        8 => any::<Index>().prop_map(Step::DecidePod),
    ]
}
