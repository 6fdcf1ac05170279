//! Preemptions, carried out: victims go, budgets shrink, controllers make pods anew.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use outrank_api::decode::{Object, ObjectKey, ObjectKind};
use outrank_api::defaults::TERMINATION_GRACE_PERIOD_SECONDS;
use outrank_api::labels::Selector;
use outrank_api::pod_resources::gpus;
use outrank_api::time::unix_nanos;
use outrank_api::types::{OwnerReference, Pod, PodDisruptionBudget};
use outrank_controllers::disruption::{Selected, budget_status, is_healthy};
use outrank_controllers::replacement;
use outrank_engine::ids::PodId;
use outrank_engine::preemption::Preemption;
use outrank_engine::{Event, PodState};

use super::Run;
use crate::report::{PreemptionLoop, Replacement, ReplacementState, Victim};
use crate::scenario::{RefusedPod, owner_of};

/// Why a pod is killed for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The scheduler preempts it, perhaps against a budget.
    Preemption { pdb_violated: bool },
    /// The kubelet makes room for a critical pod. It knows no budgets.
    Kubelet,
}

/// What became of a pod that was made in place of a victim.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// The first of the pods that came one in place of the other, as `namespace/name`.
    origin: String,
    /// How often one of them was killed.
    kills: usize,
    /// How many kills led to it, each of a pod by the replacement of another.
    chain_length: usize,
}

/// How many replicas controllers ask for, by kind, namespace and name.
pub(crate) fn scales<'o>(objects: impl Iterator<Item = &'o Object>) -> HashMap<ObjectKey, i32> {
    let scale = |object: &Object| match object {
        Object::Deployment(it) => it.spec.replicas,
        Object::ReplicaSet(it) => it.spec.replicas,
        Object::ReplicationController(it) => it.spec.replicas,
        Object::StatefulSet(it) => it.spec.replicas,
        _ => None,
    };
    objects
        .filter_map(|object| Some((object.key(), scale(object)?)))
        .collect()
}

/// The budgets of a cluster, kept in step as pods go and start.
#[derive(Debug, Default)]
pub(super) struct BudgetBook {
    by_namespace: BTreeMap<String, Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    budget: PodDisruptionBudget,
    selector: Selector,
}

impl BudgetBook {
    /// Budgets with the status that their controller gives them, if they have none yet.
    pub(super) fn new<'p>(
        budgets: &[PodDisruptionBudget],
        pods: impl Iterator<Item = &'p Pod>,
        scales: &HashMap<ObjectKey, i32>,
    ) -> Self {
        let mut book = Self::default();
        for budget in budgets {
            // A selector that cannot be read selects nobody.
            let selector = Selector::from_label_selector(budget.spec.selector.as_ref());
            let selector = selector.unwrap_or_else(|_| Selector::nothing());
            let entry = Entry {
                budget: budget.clone(),
                selector,
            };
            let namespace = budget.metadata.namespace.clone();
            book.by_namespace.entry(namespace).or_default().push(entry);
        }
        if !book.by_namespace.is_empty() {
            book.count(pods, scales);
        }
        book
    }

    fn count<'p>(&mut self, pods: impl Iterator<Item = &'p Pod>, scales: &HashMap<ObjectKey, i32>) {
        let mut by_namespace: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in pods {
            let namespace = pod.metadata.namespace.as_str();
            by_namespace.entry(namespace).or_default().push(pod);
        }
        for (namespace, entries) in &mut self.by_namespace {
            let scale = |owner: &OwnerReference| {
                let kind = ObjectKind::find(&owner.api_version, &owner.kind)?;
                let key = (kind, namespace.clone(), owner.name.clone());
                scales.get(&key).copied()
            };
            let pods = by_namespace.get(namespace.as_str());
            for entry in entries.iter_mut().filter(|entry| !entry.has_status()) {
                let pods = pods.into_iter().flatten().copied();
                let selected = pods.filter(|pod| entry.selector.matches(&pod.metadata.labels));
                let selected = Selected::of(selected);
                entry.budget.status = budget_status(&entry.budget, &selected, &scale);
            }
        }
    }

    /// All budgets.
    pub(super) fn all(&self) -> impl Iterator<Item = &PodDisruptionBudget> {
        let entries = self.by_namespace.values().flatten();
        entries.map(|entry| &entry.budget)
    }

    /// Counts a healthy pod less (`by` is -1) or more (1); returns the budgets that changed.
    fn move_healthy(&mut self, pod: &Pod, by: i32) -> Vec<PodDisruptionBudget> {
        let entries = self.by_namespace.get_mut(&pod.metadata.namespace);
        let entries = entries.into_iter().flatten();
        let concerned = entries.filter(|it| it.selector.matches(&pod.metadata.labels));
        let changed = concerned.map(|entry| {
            let status = &mut entry.budget.status;
            status.current_healthy = status.current_healthy.saturating_add(by);
            let allowed = status
                .current_healthy
                .saturating_sub(status.desired_healthy);
            status.disruptions_allowed = match status.expected_pods {
                ..=0 => 0,
                _ => allowed.max(0),
            };
            entry.budget.clone()
        });
        changed.collect()
    }
}

impl Entry {
    /// Whether the cluster has counted for the budget already.
    fn has_status(&self) -> bool {
        let status = &self.budget.status;
        status.observed_generation > 0 || status.expected_pods > 0
    }
}

impl<'s> Run<'s> {
    /// Lets the victims of a preemption go at once, and has their controllers make new pods.
    pub(super) fn carry_out(&mut self, preemptor: PodId, preemption: &Preemption) {
        let node = self.engine.cluster().name(preemption.node).to_owned();
        for victim in &preemption.victims.pods {
            let violates = preemption.victims.violating.contains(victim);
            let cause = Cause::Preemption {
                pdb_violated: violates,
            };
            self.kill(*victim, preemptor, &node, cause);
        }
    }

    pub(super) fn kill(&mut self, victim: PodId, preemptor: PodId, node: &str, cause: Cause) {
        let Some(pod) = self.pods.remove(&victim) else {
            return;
        };
        self.scores.remove(&victim);
        let life = self.lives.remove(&victim);
        let was_healthy = self.healthy.remove(&victim);
        let metadata = &pod.metadata;
        self.engine.handle(
            Event::PodGone {
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
            },
            self.now,
        );
        if was_healthy {
            self.move_healthy(&pod, -1);
        }
        if metadata.deletion_timestamp.is_some() {
            // It was on its way already: nobody kills it.
            return;
        }
        let mut record = self.victim(&pod, preemptor, node, cause);
        record.chain_length = 1 + self.lives.get(&preemptor).map_or(0, |it| it.chain_length);
        self.replace(&pod, life, &mut record);
        self.report.victims.push(record);
    }

    fn victim(&self, pod: &Pod, preemptor: PodId, node: &str, cause: Cause) -> Victim {
        let started = pod.status.start_time.as_deref().and_then(unix_nanos);
        let running = started.map(|started| self.as_of_nanos.saturating_sub(started).max(0));
        let killer = self.pods.get(&preemptor);
        Victim {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            owner: owner_of(pod),
            priority: pod.spec.priority.unwrap_or(0),
            priority_class_name: pod.spec.priority_class_name.clone(),
            node: node.to_owned(),
            gpus: gpus(pod),
            running_seconds: running.map(|nanos| nanos as u64 / 1_000_000_000),
            grace_seconds: (pod.spec.termination_grace_period_seconds)
                .unwrap_or(TERMINATION_GRACE_PERIOD_SECONDS),
            killed_by: killer.map(|pod| pod.key()).unwrap_or_default(),
            killed_by_priority: killer.and_then(|pod| pod.spec.priority).unwrap_or(0),
            pdb_violated: cause == Cause::Preemption { pdb_violated: true },
            by_kubelet: cause == Cause::Kubelet,
            chain_length: 1,
            replacement: Replacement::default(),
            without_change: false,
        }
    }

    /// Has the controller of a victim make a new pod, unless that goes round in circles.
    fn replace(&mut self, pod: &Pod, life: Option<Life>, record: &mut Victim) {
        let mut life = life.unwrap_or_else(|| Life {
            origin: pod.key(),
            kills: 0,
            chain_length: 0,
        });
        life.kills += 1;
        life.chain_length = record.chain_length;
        if life.kills > self.loop_limit {
            record.replacement.state = ReplacementState::Loop;
            self.given_up.push((pod.clone(), record.killed_by.clone()));
            self.report.loops.push(PreemptionLoop {
                pod: life.origin,
                owner: record.owner.clone(),
                last_pod: pod.key(),
                kills: life.kills,
                killed_by: record.killed_by.clone(),
            });
            return;
        }
        self.replaced += 1;
        self.quotas.release(pod);
        let Some(new) = replacement(pod, self.replaced) else {
            record.replacement.state = ReplacementState::Nobody;
            return;
        };
        record.replacement.pod = Some(new.key());
        // The mirror of a static pod is its kubelet's, and was there before it was asked for.
        if new.spec.node_name.is_empty()
            && let Err(message) = self.quotas.admit(&new)
        {
            record.replacement.state = ReplacementState::Refused;
            self.report.refused.push(RefusedPod {
                pod: new.key(),
                owner: owner_of(&new),
                message,
            });
            return;
        }
        record.replacement.state = ReplacementState::Waiting;
        if let Some(id) = self.add(Cow::Owned(new)) {
            self.lives.insert(id, life);
        }
    }

    /// Tells what became of the pods that were made in place of victims.
    pub(super) fn follow_replacements(&mut self) {
        let mut victims = std::mem::take(&mut self.report.victims);
        let mut last_kill: HashMap<String, usize> = HashMap::new();
        for (index, victim) in victims.iter().enumerate() {
            last_kill.insert(format!("{}/{}", victim.namespace, victim.name), index);
        }
        for (index, victim) in victims.iter_mut().enumerate() {
            let Some(pod) = &victim.replacement.pod else {
                continue;
            };
            // A StatefulSet's pod has the name of its victim.
            if last_kill.get(pod).is_some_and(|killed| *killed > index) {
                victim.replacement.state = ReplacementState::Killed;
                continue;
            }
            let (namespace, name) = pod.split_once('/').unwrap_or_default();
            let id = self.engine.pod(namespace, name);
            if let Some(PodState::Placed(node)) = id.and_then(|id| self.engine.pod_state(id)) {
                victim.replacement.state = ReplacementState::Placed;
                victim.replacement.node = Some(self.engine.cluster().name(*node).to_owned());
            }
        }
        self.report.victims = victims;
    }

    /// Pods that got their place start: from now on they count for their budgets.
    pub(super) fn start(&mut self, placed: &[PodId]) {
        for id in placed {
            let is_placed = matches!(self.engine.pod_state(*id), Some(PodState::Placed(_)));
            if is_placed
                && let Some(pod) = self.pods.get(id).cloned()
                && self.healthy.insert(*id)
            {
                self.move_healthy(&pod, 1);
            }
        }
    }

    /// Counts a pod that is there from the start, if it is healthy.
    pub(super) fn note_healthy(&mut self, id: PodId) {
        if self.pods.get(&id).is_some_and(|pod| is_healthy(pod)) {
            self.healthy.insert(id);
        }
    }

    fn move_healthy(&mut self, pod: &Pod, by: i32) {
        for budget in self.budgets.move_healthy(pod, by) {
            self.engine.handle(Event::BudgetChanged(budget), self.now);
        }
    }
}
