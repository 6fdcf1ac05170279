//! What runs on other nodes, kept as counts by domain: inter-pod affinity and topology
//! spreading without looking at every pod again.
//!
//! The plugins that look at the whole cluster do so through a few kinds of counts: "pods
//! like these, by zone". A [`CrossPlan`] says what is counted for a pod and how counts
//! refuse and rate nodes; [`CrossCounts`] keeps the counts up to date as nodes change.
//! Nodes with the same domains get the same answer, so the answer is worked out once a
//! group of nodes ([`crate::verdicts`]). The domain of `kubernetes.io/hostname` is the node
//! itself: there, nodes with equal counts share a group instead.
//!
//! Pods with equal plans share one set of counts, whatever their labels are.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::cluster::Cluster;
use crate::framework::{Code, Reason, Refusal};
use crate::ids::{NodeId, Symbol};
use crate::plugins::inter_pod_affinity::InterPodAffinity;
use crate::plugins::pod_topology_spread::PodTopologySpread;
use crate::plugins::taint_toleration::TaintToleration;
use crate::pod_class::PodClass;
use crate::pod_match::{AffinityTerm, LabelMatch};
use crate::release::Release;

/// What is counted for a pod, and how counts refuse and rate nodes. Counters are named by
/// their place in `counters`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CrossPlan {
    /// Whose words refusals are in, and whose roundings scores.
    pub release: Release,
    /// What every node gets, weights included: the scores of plugins that rate all alike.
    pub constant_score: i64,
    /// What is counted.
    pub counters: Vec<Counter>,
    /// What refuses nodes, in the profile's order.
    pub filters: Vec<CrossFilter>,
    /// What rates nodes, with weights.
    pub scores: Vec<(CrossScore, i64)>,
}

impl CrossPlan {
    /// Whether other nodes do not matter.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.scores.is_empty()
    }

    /// The place of a counter, a new one if it is not there yet.
    pub fn counter(&mut self, counter: Counter) -> usize {
        let known = self.counters.iter().position(|other| *other == counter);
        known.unwrap_or_else(|| {
            self.counters.push(counter);
            self.counters.len() - 1
        })
    }
}

/// Something that is counted by the values of a node label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    /// The node label.
    pub topology_key: Symbol,
    /// What a pod on a node adds.
    pub source: Source,
    /// Nodes without one of these labels do not count.
    pub needs_labels: Box<[Symbol]>,
    /// Whether nodes that the pod's selector and affinity rule out do not count.
    pub honors_affinity: bool,
    /// Whether nodes whose taints the pod does not tolerate do not count.
    pub honors_taints: bool,
}

/// What a pod that is there adds to a count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// One if it is of the namespace, not terminating, and the selector, which is not
    /// empty, matches.
    Selected(Symbol, LabelMatch),
    /// One if all of these terms mean it.
    MeantByAll(Box<[AffinityTerm]>),
    /// The weights of those of these terms that mean it.
    MeantBy(Box<[(i64, AffinityTerm)]>),
    /// A weight for having affinity terms of this number.
    HasTerms(Box<[(u32, i64)]>),
}

/// What refuses a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CrossFilter {
    /// A hard topology spread constraint.
    Spread {
        /// Counter of the pods that are spread.
        counter: usize,
        /// `maxSkew`.
        max_skew: i64,
        /// One if the pod itself is counted, else zero.
        counts_itself: i64,
        /// `minDomains`.
        min_domains: usize,
    },
    /// Required affinity: there must be such pods in every one of these domains.
    Affinity {
        /// Counters of the terms.
        counters: Box<[usize]>,
        /// Whether the pod may be the first of its group.
        matches_itself: bool,
    },
    /// Required anti-affinity of the pod: there must be none in any of these domains.
    AntiAffinity(Box<[usize]>),
    /// Required anti-affinity of pods that are there.
    ExistingAntiAffinity(Box<[usize]>),
}

/// What rates a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CrossScore {
    /// Inter-pod affinity: the sum of the counts.
    InterPodAffinity(Box<[usize]>),
    /// Soft topology spread constraints.
    Spread {
        /// Counters with `maxSkew`.
        constraints: Box<[(usize, i64)]>,
        /// Nodes without one of these labels are not rated.
        needs_labels: Box<[Symbol]>,
    },
}

/// Counts for one plan.
pub(crate) struct CrossCounts {
    hostname: Option<Symbol>,
    /// The topology keys other than hostname, in order: each is a column of group keys.
    keys: Vec<Symbol>,
    states: Vec<CounterState>,
    /// What each node adds to each counter, and where: by slot, then counter.
    parts: Vec<Part>,
    /// Nodes by the value of the hostname label; more than one is too many.
    hostnames: FxHashMap<Symbol, u32>,
    shared_hostnames: usize,
    /// The hostname of each slot.
    slot_hostnames: Vec<Option<Symbol>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Part {
    domain: Option<Symbol>,
    amount: i64,
}

struct CounterState {
    domains: FxHashMap<Symbol, Domain>,
    /// How many domains have each count.
    histogram: BTreeMap<i64, usize>,
    /// How many pods are counted, wherever.
    total: i64,
    /// What pods add, by the number of what decides it, identity or terms, if it is not
    /// nothing.
    known: FxHashMap<u32, i64>,
    /// The column of group keys that tells the domain, or, for hostname, the count.
    column: usize,
    is_hostname: bool,
}

#[derive(Clone, Copy, Default)]
struct Domain {
    count: i64,
    nodes: usize,
}

/// A domain as a group key tells it: zero is none.
fn domain_key(domain: Option<Symbol>) -> i64 {
    domain.map_or(0, |domain| i64::from(domain.0) + 1)
}

fn key_domain(key: i64) -> Option<Symbol> {
    u32::try_from(key - 1).ok().map(Symbol)
}

impl CrossCounts {
    pub(crate) fn new(plan: &CrossPlan, cluster: &Cluster, slots: usize) -> Self {
        let hostname = cluster.symbols.find("kubernetes.io/hostname");
        let mut keys: Vec<Symbol> = plan
            .counters
            .iter()
            .map(|counter| counter.topology_key)
            .filter(|key| Some(*key) != hostname)
            .collect();
        for (score, _) in &plan.scores {
            if let CrossScore::Spread { needs_labels, .. } = score {
                keys.extend(needs_labels.iter().filter(|key| Some(**key) != hostname));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let mut hostname_columns = keys.len() + 1..;
        let states = plan.counters.iter().map(|counter| {
            let is_hostname = Some(counter.topology_key) == hostname;
            let of_key = keys.iter().position(|key| *key == counter.topology_key);
            CounterState {
                domains: FxHashMap::default(),
                histogram: BTreeMap::new(),
                total: 0,
                known: FxHashMap::default(),
                column: match of_key {
                    Some(column) => column,
                    None => hostname_columns.next().unwrap_or(usize::MAX),
                },
                is_hostname,
            }
        });
        let states: Vec<CounterState> = states.collect();
        let mut counts = Self {
            hostname,
            keys,
            parts: Vec::new(),
            states,
            hostnames: FxHashMap::default(),
            shared_hostnames: 0,
            slot_hostnames: Vec::new(),
        };
        counts.resize(slots);
        counts
    }

    /// Whether counts tell the whole truth: not if nodes share a hostname.
    pub(crate) fn is_usable(&self) -> bool {
        self.shared_hostnames == 0 || !self.states.iter().any(|state| state.is_hostname)
    }

    /// How many counters there are.
    pub(crate) fn counter_count(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn resize(&mut self, slots: usize) {
        self.parts
            .resize(slots * self.states.len(), Part::default());
        self.slot_hostnames.resize(slots, None);
    }

    /// Counts a node anew; returns whether its group key may have changed. `is_object`
    /// tells whether the node object may have changed.
    pub(crate) fn recount(
        &mut self,
        plan: &CrossPlan,
        class: &PodClass,
        cluster: &Cluster,
        slot: u32,
        is_object: bool,
    ) -> bool {
        let node = NodeId(slot);
        let is_present = cluster.is_present(node);
        if is_object {
            self.note_hostname(cluster, node, is_present);
        }
        let mut moved = is_object;
        let width = self.states.len();
        for (index, counter) in plan.counters.iter().enumerate() {
            let place = slot as usize * width + index;
            let before = self.parts[place];
            let domain = match (is_object, is_present) {
                (true, true) => counter.domain(class, cluster, node),
                (true, false) => None,
                (false, _) => before.domain,
            };
            let state = &mut self.states[index];
            let amount = match domain {
                Some(_) => state.amount(&counter.source, cluster, node),
                None => 0,
            };
            let after = Part { domain, amount };
            if after == before {
                continue;
            }
            state.replace(before, after);
            self.parts[place] = after;
            moved |= state.is_hostname;
        }
        moved
    }

    /// The part of a node's group key that tells its domains.
    pub(crate) fn group_key(&self, cluster: &Cluster, slot: u32) -> Vec<i64> {
        let node = NodeId(slot);
        let mut key: Vec<i64> = self
            .keys
            .iter()
            .map(|key| domain_key(cluster.label(node, *key)))
            .collect();
        key.push(i64::from(self.slot_hostnames[slot as usize].is_some()));
        let width = self.states.len();
        for (index, state) in self.states.iter().enumerate() {
            if state.is_hostname {
                key.push(self.parts[slot as usize * width + index].amount);
            }
        }
        key
    }

    /// The refusal of a group of nodes, if a filter refuses them.
    pub(crate) fn refuse(&self, plan: &CrossPlan, group: &[i64]) -> Option<Refusal> {
        plan.filters
            .iter()
            .find_map(|filter| self.refuse_by(filter, plan.release, group))
    }

    fn refuse_by(&self, filter: &CrossFilter, release: Release, group: &[i64]) -> Option<Refusal> {
        let spread = PodTopologySpread::NAME;
        let affinity = |reason| InterPodAffinity::refusal(release, reason);
        let count = |counter: &usize| self.count(*counter, group);
        let any = |counters: &[usize]| counters.iter().any(|it| count(it).is_some_and(|c| c > 0));
        match filter {
            CrossFilter::Spread {
                counter,
                max_skew,
                counts_itself,
                min_domains,
            } => {
                let Some(count) = count(counter) else {
                    let code = Code::UnschedulableAndUnresolvable;
                    return Some(Refusal::new(spread, code, Reason::SpreadLabelMissing));
                };
                let state = &self.states[*counter];
                let least = match state.histogram.first_key_value() {
                    _ if state.domains.len() < *min_domains => 0,
                    Some((least, _)) => *least,
                    None => i64::from(i32::MAX),
                };
                (count + counts_itself - least > *max_skew).then(|| {
                    Refusal::new(
                        spread,
                        Code::Unschedulable,
                        Reason::SpreadConstraintsMismatch,
                    )
                })
            }
            CrossFilter::Affinity {
                counters,
                matches_itself,
            } => {
                let counts: Option<Vec<i64>> = counters.iter().map(count).collect();
                let is_met = counts.is_some_and(|counts| {
                    let first = *matches_itself
                        && counters
                            .iter()
                            .all(|counter| self.states[*counter].total == 0);
                    first || counts.iter().all(|count| *count > 0)
                });
                (!is_met).then(|| affinity(Reason::PodAffinityMismatch))
            }
            CrossFilter::AntiAffinity(counters) => {
                any(counters).then(|| affinity(Reason::PodAntiAffinityMismatch))
            }
            CrossFilter::ExistingAntiAffinity(counters) => {
                any(counters).then(|| affinity(Reason::ExistingPodsAntiAffinityMismatch))
            }
        }
    }

    /// What the scores add to each of some groups of feasible nodes, given with their
    /// numbers of nodes.
    pub(crate) fn rate(&self, plan: &CrossPlan, groups: &[(&[i64], usize)]) -> Vec<i64> {
        let mut sums = vec![0; groups.len()];
        for (score, weight) in &plan.scores {
            let scores = match score {
                CrossScore::InterPodAffinity(counters) => {
                    self.rate_affinity(plan.release, counters, groups)
                }
                CrossScore::Spread {
                    constraints,
                    needs_labels,
                } => self.rate_spread(plan, constraints, needs_labels, groups),
            };
            for (sum, score) in sums.iter_mut().zip(scores) {
                *sum += score * weight;
            }
        }
        sums
    }

    fn rate_affinity(
        &self,
        release: Release,
        counters: &[usize],
        groups: &[(&[i64], usize)],
    ) -> Vec<i64> {
        let raw = |(group, _): &(&[i64], usize)| {
            counters
                .iter()
                .filter_map(|counter| self.count(*counter, group))
                .sum()
        };
        let mut scores: Vec<i64> = groups.iter().map(raw).collect();
        InterPodAffinity::normalize(release, &mut scores);
        scores
    }

    fn rate_spread(
        &self,
        plan: &CrossPlan,
        constraints: &[(usize, i64)],
        needs_labels: &[Symbol],
        groups: &[(&[i64], usize)],
    ) -> Vec<i64> {
        let rated: Vec<bool> = groups
            .iter()
            .map(|(group, _)| self.has_labels(needs_labels, group))
            .collect();
        let of_rated = || groups.iter().zip(&rated).filter(|(_, rated)| **rated);
        let weights = constraints.iter().map(|(counter, _)| {
            let state = &self.states[*counter];
            let size = if state.is_hostname {
                of_rated().map(|((_, nodes), _)| nodes).sum()
            } else {
                let mut domains: Vec<i64> = of_rated()
                    .map(|((group, _), _)| group[state.column])
                    .collect();
                domains.sort_unstable();
                domains.dedup();
                domains.len()
            };
            PodTopologySpread::domain_weight(size)
        });
        let weights: Vec<f64> = weights.collect();
        let raw = |((group, _), rated): (&(&[i64], usize), &bool)| {
            if !rated {
                return 0;
            }
            let mut score = 0.0;
            for ((counter, max_skew), weight) in constraints.iter().zip(&weights) {
                if !self.has_label(plan.counters[*counter].topology_key, group) {
                    continue;
                }
                let count = self.count(*counter, group).unwrap_or(0);
                score += count as f64 * weight + (max_skew - 1) as f64;
            }
            PodTopologySpread::round(plan.release, score)
        };
        let mut scores: Vec<i64> = groups.iter().zip(&rated).map(raw).collect();
        PodTopologySpread::normalize(&rated, &mut scores);
        scores
    }

    fn has_labels(&self, keys: &[Symbol], group: &[i64]) -> bool {
        keys.iter().all(|key| self.has_label(*key, group))
    }

    fn has_label(&self, key: Symbol, group: &[i64]) -> bool {
        match self.keys.iter().position(|other| *other == key) {
            Some(column) => group[column] != 0,
            None => Some(key) == self.hostname && group[self.keys.len()] != 0,
        }
    }

    /// The count in the domain of a group; `None` if its nodes lack the label.
    fn count(&self, counter: usize, group: &[i64]) -> Option<i64> {
        let state = &self.states[counter];
        if state.is_hostname {
            return (group[self.keys.len()] != 0).then(|| group[state.column]);
        }
        let domain = key_domain(group[state.column])?;
        Some(state.domains.get(&domain).map_or(0, |domain| domain.count))
    }

    fn note_hostname(&mut self, cluster: &Cluster, node: NodeId, is_present: bool) {
        let key = self.hostname.filter(|_| is_present);
        let after = key.and_then(|key| cluster.label(node, key));
        let before = std::mem::replace(&mut self.slot_hostnames[node.index()], after);
        if before == after {
            return;
        }
        if let Some(count) = before.and_then(|before| self.hostnames.get_mut(&before)) {
            *count -= 1;
            self.shared_hostnames -= usize::from(*count > 0);
        }
        if let Some(after) = after {
            let count = self.hostnames.entry(after).or_insert(0);
            self.shared_hostnames += usize::from(*count > 0);
            *count += 1;
        }
    }
}

impl Counter {
    /// The domain where the node counts, if it counts.
    fn domain(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> Option<Symbol> {
        let has_labels = self
            .needs_labels
            .iter()
            .all(|key| cluster.label(node, *key).is_some());
        let counts = has_labels
            && (!self.honors_affinity || class.required_nodes.matches(cluster, node))
            && !(self.honors_taints && TaintToleration::repels(class, cluster, node));
        if counts {
            cluster.label(node, self.topology_key)
        } else {
            None
        }
    }
}

impl CounterState {
    /// What the pods of a node add up to.
    fn amount(&mut self, source: &Source, cluster: &Cluster, node: NodeId) -> i64 {
        let mut amount = 0;
        for pod in cluster.pods(node) {
            let info = cluster.pod_info(*pod);
            let number = match source {
                Source::Selected(..) if info.is_terminating => continue,
                Source::HasTerms(_) => info.terms,
                _ => info.identity,
            };
            amount += self.known.get(&number).copied().unwrap_or_else(|| {
                let amount = source.amount_of(cluster, number);
                // Most pods add nothing to most counters: that is worked out anew, so that
                // memory is not the product of counters and kinds of pods.
                if amount != 0 {
                    self.known.insert(number, amount);
                }
                amount
            });
        }
        amount
    }

    fn replace(&mut self, before: Part, after: Part) {
        self.total += after.amount - before.amount;
        if before.domain == after.domain {
            if let Some(value) = after.domain {
                self.change(value, after.amount - before.amount, 0);
            }
            return;
        }
        if let Some(value) = before.domain {
            self.change(value, -before.amount, -1);
        }
        if let Some(value) = after.domain {
            self.change(value, after.amount, 1);
        }
    }

    fn change(&mut self, value: Symbol, amount: i64, nodes: isize) {
        let domain = self.domains.entry(value).or_default();
        if domain.nodes > 0
            && let Some(domains) = self.histogram.get_mut(&domain.count)
        {
            *domains -= 1;
            if *domains == 0 {
                self.histogram.remove(&domain.count);
            }
        }
        domain.count += amount;
        domain.nodes = domain.nodes.saturating_add_signed(nodes);
        if domain.nodes > 0 {
            *self.histogram.entry(domain.count).or_insert(0) += 1;
        } else {
            self.domains.remove(&value);
        }
    }
}

impl Source {
    /// What a pod of that identity (of those terms) adds.
    fn amount_of(&self, cluster: &Cluster, number: u32) -> i64 {
        match self {
            Self::Selected(namespace, selector) => {
                let identity = cluster.identity(number);
                i64::from(identity.namespace == *namespace && selector.matches(&identity.labels))
            }
            Self::MeantByAll(terms) => {
                let identity = cluster.identity(number);
                i64::from(terms.iter().all(|term| term.matches(identity, &[])))
            }
            Self::MeantBy(terms) => {
                let identity = cluster.identity(number);
                let meaning = terms.iter().filter(|(_, term)| term.matches(identity, &[]));
                meaning.map(|(weight, _)| weight).sum()
            }
            Self::HasTerms(weights) => {
                let own = weights.iter().filter(|(terms, _)| *terms == number);
                own.map(|(_, weight)| weight).sum()
            }
        }
    }
}
