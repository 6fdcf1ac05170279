//! Decisions of random histories, judged by the checker: a placement obeys the rules, and who
//! is killed is lower, needed, and the least that can be lost.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::types::{Node, Pod, PodDisruptionBudget, PriorityClass};
use outrank_checker::{
    Before, EnoughCandidates, Fault, Kill, Options, Preemption, PreemptionRules, Share, ShareLimit,
    SharePods, Violation, check, check_preemption, missed_preemption,
};
use outrank_engine::plugins::priority_share::{self, LimitedShare};
use outrank_engine::profile::ProfileConfig;
use outrank_engine::{Decision, Outcome, PodState, TimeNanos, shares};

use super::{World, bound};
use crate::words_of_checker::rules_of;

/// What there is before a decision.
pub(crate) struct Snapshot {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    budgets: Vec<PodDisruptionBudget>,
    priority_classes: Vec<PriorityClass>,
    kills: Vec<Kill>,
    kills_counted: BTreeMap<String, usize>,
    now: TimeNanos,
}

/// What the checker judges the pods of a profile by.
struct Law {
    options: Options,
    rules: PreemptionRules,
}

impl World {
    /// What there is now: pods where the engine put them, and nodes promised as it says.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let cluster = self.engine.cluster();
        let pod_as_it_is = |(name, pod): (&String, &Pod)| {
            let id = self.engine.pod("default", name).expect("a known pod");
            let node = match self.engine.pod_state(id) {
                Some(PodState::Placed(node)) => cluster.name(*node),
                // Not what the pod says: it may name another node than it was put on.
                Some(PodState::OnUnknownNode(name)) => cluster.symbols.text(*name),
                _ => "",
            };
            let mut pod = bound(pod.clone(), node);
            let promised = self.engine.nominated_node(id).unwrap_or_default();
            pod.status.nominated_node_name = promised.to_owned();
            pod
        };
        Snapshot {
            nodes: self.nodes.values().cloned().collect(),
            pods: self.pods.iter().map(pod_as_it_is).collect(),
            budgets: self.budgets.values().cloned().collect(),
            priority_classes: self.priority_classes.values().cloned().collect(),
            kills: self.kills.clone(),
            kills_counted: self.kills_counted.clone(),
            now: self.now,
        }
    }

    /// Takes in a budget. Its status counts the kills until now if it says something new.
    pub(super) fn note_budget(&mut self, budget: PodDisruptionBudget) {
        let known = self.budgets.get(&budget.metadata.name);
        let is_new = known.is_none_or(|known| {
            known.spec.selector != budget.spec.selector
                || known.status.disruptions_allowed != budget.status.disruptions_allowed
        });
        if is_new {
            let key = format!("default/{}", budget.metadata.name);
            self.kills_counted.insert(key, self.kills.len());
        }
        self.budgets.insert(budget.metadata.name.clone(), budget);
    }

    /// Takes in who is killed by a decision. Those on their way are not.
    pub(super) fn note_kills(&mut self, preemption: &Preemption) {
        let decision = self.kills.len();
        let pod = |key: &str| &self.pods[key.trim_start_matches("default/")];
        let preemptor_priority = pod(&preemption.preemptor).spec.priority.unwrap_or(0);
        let victims = preemption.victims.iter().map(|victim| pod(victim));
        let victims = victims.filter(|victim| victim.metadata.deletion_timestamp.is_none());
        let kills = victims.map(|victim| Kill {
            at_nanos: self.now,
            victim: bound(victim.clone(), &preemption.node),
            preemptor: preemption.preemptor.clone(),
            preemptor_priority,
            decision,
        });
        let kills: Vec<Kill> = kills.collect();
        self.kills.extend(kills);
    }

    /// Notes whether pods have the same host port on some node. Once one of them has gone, the
    /// port is free for upstream although it is not, and the checker knows better.
    pub(crate) fn note_ports(&mut self) {
        if self.had_ports_twice || !self.pods.values().any(has_host_port) {
            return;
        }
        let snapshot = self.snapshot();
        let mut taken = BTreeSet::new();
        for pod in snapshot
            .pods
            .iter()
            .filter(|pod| !pod.spec.node_name.is_empty())
        {
            let ports: BTreeSet<_> = host_ports(pod).collect();
            for port in ports {
                self.had_ports_twice |= !taken.insert((&pod.spec.node_name, port));
            }
        }
    }

    /// Has the checker look at a decision; returns whether there was a preemption to be judged.
    pub(crate) fn check_decision(&self, before: &Snapshot, decision: &Decision) -> bool {
        let name = self.name_of(decision.pod);
        let pod = &self.pods[&name];
        let profile = self.profile_of(pod);
        // Pods that name their node before they have it are for NodeName.
        let is_judged = profile.is_some_and(is_judged) && pod.spec.node_name.is_empty();
        if !is_judged || (self.had_ports_twice && has_host_port(pod)) {
            return false;
        }
        let law = Law::of(profile.expect("is judged"), &before.pods);
        if let Outcome::Scheduled { node, .. } = &decision.outcome {
            let node = self.engine.cluster().name(*node);
            let violations = before.violations(&name, node, &law.options);
            assert!(violations.is_empty(), "{violations:#?}");
        }
        let Some(preemption) = self.told(decision) else {
            let is_refused = matches!(decision.outcome, Outcome::Unschedulable(_));
            if is_refused && !may_be_delayed(profile.expect("is judged"), pod) {
                let missed = before.missed(&pod.key(), &law);
                assert_eq!(missed, None, "nobody is killed");
            }
            return false;
        };
        let faults = before.faults(&preemption, &law);
        assert!(faults.is_empty(), "{preemption:?}: {faults:#?}");
        for (mutation, why) in before.mutations(&preemption) {
            let faults = before.faults(&mutation, &law);
            assert!(!faults.is_empty(), "{why} is accepted: {mutation:?}");
        }
        true
    }

    fn name_of(&self, pod: outrank_engine::ids::PodId) -> String {
        let name = self.engine.pod_name(pod).expect("a known pod");
        name.1.to_owned()
    }

    fn profile_of(&self, pod: &Pod) -> Option<&ProfileConfig> {
        let name = match pod.spec.scheduler_name.as_str() {
            "" => "default-scheduler",
            name => name,
        };
        let mut profiles = self.profiles.iter();
        profiles.find(|profile| profile.scheduler_name == name)
    }

    /// A preemption by names.
    pub(super) fn told(&self, decision: &Decision) -> Option<Preemption> {
        let preemption = decision.preemption.as_ref()?;
        let key = |pod| format!("default/{}", self.name_of(pod));
        let victims = &preemption.victims;
        Some(Preemption {
            preemptor: key(decision.pod),
            node: self.engine.cluster().name(preemption.node).to_owned(),
            victims: victims.pods.iter().map(|pod| key(*pod)).collect(),
            violating: victims.violating.iter().map(|pod| key(*pod)).collect(),
        })
    }
}

impl Snapshot {
    /// What is wrong with placing a pod.
    fn violations(&self, name: &str, node: &str, options: &Options) -> Vec<Violation> {
        let pods = self.pods.iter().cloned();
        let pods = pods.map(|pod| match pod.metadata.name == name {
            true => bound(pod, node),
            false => pod,
        });
        check(&self.nodes, &pods.collect::<Vec<_>>(), options)
    }

    /// What there is, in the words of the checker.
    fn before(&self) -> Before<'_> {
        Before {
            nodes: &self.nodes,
            pods: &self.pods,
            budgets: &self.budgets,
            priority_classes: &self.priority_classes,
            kills: &self.kills,
            kills_counted: &self.kills_counted,
            now_nanos: self.now,
        }
    }

    /// Who could have been killed for a pod.
    fn missed(&self, preemptor: &str, law: &Law) -> Option<Preemption> {
        missed_preemption(&self.before(), preemptor, &law.rules, &law.options)
    }

    fn faults(&self, preemption: &Preemption, law: &Law) -> Vec<Fault> {
        let wrong = check_preemption(&self.before(), preemption, &law.rules, &law.options);
        wrong.into_iter().map(|wrong| wrong.fault).collect()
    }

    /// The same preemption done wrong in ways that must be refused whatever else holds.
    fn mutations(&self, preemption: &Preemption) -> Vec<(Preemption, &'static str)> {
        let with = |more: &Pod| {
            let mut wrong = preemption.clone();
            wrong.victims.push(more.key());
            wrong
        };
        let preemptor = self
            .pods
            .iter()
            .find(|pod| pod.key() == preemption.preemptor);
        let priority = |pod: &Pod| pod.spec.priority.unwrap_or(0);
        let limit = preemptor.map_or(0, priority);
        let mut here = self.pods.iter().filter(|pod| {
            pod.spec.node_name == preemption.node && !preemption.victims.contains(&pod.key())
        });
        let higher = here.clone().find(|pod| priority(pod) >= limit);
        let elsewhere = self
            .pods
            .iter()
            .find(|pod| !pod.spec.node_name.is_empty() && pod.spec.node_name != preemption.node);
        let nobody = Preemption {
            victims: Vec::new(),
            ..preemption.clone()
        };
        let mut mutations = vec![(nobody, "nobody")];
        mutations.extend(higher.map(|pod| (with(pod), "a pod that is not lower")));
        mutations.extend(elsewhere.map(|pod| (with(pod), "a pod of another node")));
        let finds_all = self.pods.iter().all(|pod| pod.spec.affinity.is_none());
        if finds_all && preemptor.is_some_and(is_plain) {
            let more = here.find(|pod| priority(pod) < limit);
            mutations.extend(more.map(|pod| (with(pod), "a victim too many")));
            let mut less = preemption.clone();
            less.victims.pop();
            mutations.push((less, "a victim too few"));
        }
        mutations
    }
}

fn has_host_port(pod: &Pod) -> bool {
    host_ports(pod).next().is_some()
}

fn host_ports(pod: &Pod) -> impl Iterator<Item = i32> + '_ {
    let ports = pod.spec.containers.iter().flat_map(|it| &it.ports);
    ports.map(|port| port.host_port).filter(|port| *port > 0)
}

fn is_plain(pod: &Pod) -> bool {
    pod.spec.topology_spread_constraints.is_empty() && pod.spec.volumes.is_empty()
}

/// Whether the checker knows all that a profile has filters for, and nothing else refuses pods.
fn is_judged(profile: &ProfileConfig) -> bool {
    let default = ProfileConfig::default();
    let mut filters = default.filter.iter();
    filters.all(|name| profile.filter.contains(name))
        && profile.release == default.release
        && profile.pre_filter.is_none()
        && profile.added_affinity.is_none()
        && profile
            .node_resources_fit
            .ignored_resource_groups
            .is_empty()
}

/// Whether a rule has a pod wait before anybody is killed for it.
fn may_be_delayed(profile: &ProfileConfig, pod: &Pod) -> bool {
    let safety = profile.preemption_safety.as_ref();
    safety.is_some_and(|it| {
        it.delay_seconds > 0 && pod.spec.priority.unwrap_or(0) < it.exempt_priority
    })
}

impl Law {
    fn of(profile: &ProfileConfig, placed_before: &[Pod]) -> Self {
        let enough = profile.minimum_candidates.map(|it| EnoughCandidates {
            percentage: it.percentage,
            absolute: it.absolute,
        });
        Self {
            options: Options {
                scheduler_names: ["default-scheduler", "second"].map(String::from).into(),
                shares: profile.priority_shares.iter().map(share).collect(),
                enough_candidates: enough,
                ..Options::starting_from(placed_before)
            },
            rules: profile
                .preemption_safety
                .as_ref()
                .map(rules_of)
                .unwrap_or_default(),
        }
    }
}

fn share(limited: &LimitedShare) -> Share {
    Share {
        pods: match &limited.pods {
            shares::SharePods::PriorityClass(name) => SharePods::PriorityClass(name.clone()),
            shares::SharePods::Priorities { least, most } => SharePods::Priorities {
                least: *least,
                most: *most,
            },
        },
        namespace: limited.namespace.clone(),
        resource: limited.resource.clone(),
        limit: match limited.limit {
            priority_share::ShareLimit::Percent(percent) => ShareLimit::Percent(percent),
            priority_share::ShareLimit::Amount(amount) => ShareLimit::Amount(amount),
        },
    }
}
