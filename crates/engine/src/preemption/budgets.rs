//! PodDisruptionBudgets, as preemption reads them.

use std::collections::BTreeMap;

use outrank_api::types::PodDisruptionBudget;

use crate::ids::{Symbol, Symbols};
use crate::pod_match::{LabelMatch, PodIdentity};

/// All budgets, by namespace and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budgets {
    by_namespace: BTreeMap<Symbol, BTreeMap<Symbol, Budget>>,
    epochs: BudgetEpochs,
}

/// Grow when budgets change, for whoever keeps what depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BudgetEpochs {
    /// When other pods than before may be selected: a budget came or went, or its selector
    /// changed.
    pub(crate) selection: u64,
    /// When some budget allows more or less than before.
    pub(crate) status: u64,
    /// When pods were killed before the budget could say so, which counts if PodDisruptionBudgets
    /// are never violated.
    pub(crate) in_flight: u64,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Budget {
    selector: LabelMatch,
    disruptions_allowed: i64,
    /// Names of pods whose disruption is already counted, sorted.
    disrupted_pods: Box<[Symbol]>,
    /// Pods that were killed here since the status last said something new.
    in_flight: i64,
}

impl Budgets {
    /// Takes in a budget that is new or has changed.
    pub(crate) fn set(&mut self, object: &PodDisruptionBudget, symbols: &mut Symbols) {
        let disrupted = object.status.disrupted_pods.keys();
        let mut disrupted: Vec<Symbol> = disrupted.map(|name| symbols.intern(name)).collect();
        disrupted.sort_unstable();
        let budget = Budget {
            selector: LabelMatch::compile(object.spec.selector.as_ref(), symbols),
            disruptions_allowed: object.status.disruptions_allowed.into(),
            disrupted_pods: disrupted.into(),
            in_flight: 0,
        };
        let namespace = symbols.intern(&object.metadata.namespace);
        let name = symbols.intern(&object.metadata.name);
        let of_namespace = self.by_namespace.entry(namespace).or_default();
        match of_namespace.get_mut(&name) {
            Some(known) if known.selector == budget.selector => {
                let is_new = known.disruptions_allowed != budget.disruptions_allowed;
                let in_flight = match is_new {
                    true => 0,
                    // The status has not caught up yet.
                    false => known.in_flight,
                };
                let budget = Budget {
                    in_flight,
                    ..budget
                };
                self.epochs.status += u64::from(*known != budget);
                *known = budget;
            }
            _ => {
                self.epochs.selection += 1;
                of_namespace.insert(name, budget);
            }
        }
    }

    /// Notes a pod that is killed before any budget can say so.
    pub(crate) fn note_kill(&mut self, pod: &PodIdentity) {
        let budgets = self.by_namespace.get_mut(&pod.namespace);
        for budget in budgets.into_iter().flat_map(BTreeMap::values_mut) {
            if budget.selects(pod) {
                budget.in_flight += 1;
                self.epochs.in_flight += 1;
            }
        }
    }

    /// Forgets a budget.
    pub(crate) fn remove(&mut self, namespace: Symbol, name: Symbol) {
        if let Some(of_namespace) = self.by_namespace.get_mut(&namespace) {
            let was_there = of_namespace.remove(&name).is_some();
            self.epochs.selection += u64::from(was_there);
        }
    }

    /// What tells whether budgets changed; `is_strict` as in [`Budgets::count`].
    pub(crate) fn epochs(&self, is_strict: bool) -> BudgetEpochs {
        BudgetEpochs {
            in_flight: if is_strict { self.epochs.in_flight } else { 0 },
            ..self.epochs
        }
    }

    /// Starts to count who would go. Strictly, pods that were killed before the budgets could
    /// say so count, too; upstream does not count these.
    pub(crate) fn count(&self, is_strict: bool) -> BudgetCount<'_> {
        BudgetCount {
            budgets: self,
            is_strict,
            taken: BTreeMap::new(),
            has_selected: false,
        }
    }
}

impl Budget {
    /// Whether it is about a pod. A pod without labels has no budget, and a budget whose
    /// selector is empty no pods.
    fn selects(&self, pod: &PodIdentity) -> bool {
        !pod.labels.is_empty() && !self.selector.is_empty() && self.selector.matches(&pod.labels)
    }
}

/// What is left of budgets while some pods go, one after the other.
pub(crate) struct BudgetCount<'b> {
    budgets: &'b Budgets,
    is_strict: bool,
    taken: BTreeMap<(Symbol, Symbol), i64>,
    has_selected: bool,
}

impl BudgetCount<'_> {
    /// Counts a pod that goes; returns whether some budget does not allow that
    /// (`default_preemption.go` filterPodsWithPDBViolation, Kubernetes 1.36).
    pub(crate) fn take(&mut self, pod: &PodIdentity, name: Symbol) -> bool {
        let Some(budgets) = self.budgets.by_namespace.get(&pod.namespace) else {
            return false;
        };
        let mut is_violated = false;
        for (budget_name, budget) in budgets {
            let selects = budget.selects(pod);
            self.has_selected |= selects;
            if !selects || budget.disrupted_pods.binary_search(&name).is_ok() {
                continue;
            }
            let taken = self.taken.entry((pod.namespace, *budget_name)).or_insert(0);
            *taken += 1;
            let in_flight = if self.is_strict { budget.in_flight } else { 0 };
            is_violated |= *taken > budget.disruptions_allowed - in_flight;
        }
        is_violated
    }

    /// Whether some budget selects a pod that was counted.
    pub(crate) fn has_selected(&self) -> bool {
        self.has_selected
    }
}
