//! InterPodAffinity: pods that want to be near other pods, or not.
//!
//! "Near" means on nodes with the same value of a label (the term's topology key). A node
//! is refused if required affinity is not met there, if a pod near it matches the required
//! anti-affinity of the incoming pod, or if the incoming pod matches that of a pod near it
//! (anti-affinity works both ways). A pod that matches its own affinity terms may be the
//! first of its group: then any node with the labels will do.
//!
//! Preferred terms, of the incoming pod and of those that are there, add their weights to
//! the nodes near; required affinity terms of pods that are there add
//! `hardPodAffinityWeight` each. Scores are normalized between the lowest and the highest.
//! Source: `plugins/interpodaffinity/{filtering,scoring}.go`, Kubernetes 1.36.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::alone::RefusesAll;
use crate::cluster::{Cluster, PodInfo};
use crate::cross::{Counter, CrossFilter, CrossPlan, CrossScore, Source};
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, ClusterScorePlugin, Code, IncomingPod, MAX_NODE_SCORE,
    NodeFilter, NodeScore, Plugin, ReadsVolumes, Reason, Refusal,
};
use crate::ids::{NodeId, PodId, Symbol};
use crate::pod_match::{AffinityTerm, AffinityTerms, LabelMatch, PodIdentity};
use crate::release::Release;

/// See the module.
pub struct InterPodAffinity {
    release: Release,
    /// What a required affinity term of a pod that is there counts.
    hard_pod_affinity_weight: i64,
    /// Whether preferred terms of pods that are there count for pods without any.
    ignore_preferred_terms_of_existing_pods: bool,
}

impl InterPodAffinity {
    /// Name in configurations.
    pub const NAME: &'static str = "InterPodAffinity";

    /// The plugin as of a release, with its arguments; the weight is from 0 to 100.
    pub fn new(
        release: Release,
        hard_pod_affinity_weight: i64,
        ignore_preferred_terms: bool,
    ) -> Self {
        Self {
            release,
            hard_pod_affinity_weight,
            ignore_preferred_terms_of_existing_pods: ignore_preferred_terms,
        }
    }

    /// The refusal for a reason, as a release words it.
    pub(crate) fn refusal(release: Release, reason: Reason) -> Refusal {
        let code = match reason {
            Reason::PodAffinityMismatch => Code::UnschedulableAndUnresolvable,
            _ => Code::Unschedulable,
        };
        let mut refusal = Refusal::new(Self::NAME, code, reason);
        if release == Release::V1_20 {
            let general = Reason::Fixed("node(s) didn't match pod affinity/anti-affinity");
            refusal.reasons.insert(0, general);
        }
        refusal
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn reads_volumes(&self) -> ReadsVolumes {
        ReadsVolumes::Nothing
    }
}

/// Counts by topology key and value.
type DomainCounts = FxHashMap<(Symbol, Symbol), i64>;

/// The incoming pod as terms of pods that are there see it.
struct Seen<'c> {
    identity: &'c PodIdentity,
    namespace_labels: &'c [(Symbol, Symbol)],
}

impl<'c> Seen<'c> {
    fn new(pod: &IncomingPod<'_>, cluster: &'c Cluster) -> Self {
        let identity = cluster.identity(pod.info.identity);
        Self {
            identity,
            namespace_labels: cluster.namespace_labels(identity.namespace),
        }
    }

    fn matches(&self, term: &AffinityTerm) -> bool {
        term.matches(self.identity, self.namespace_labels)
    }
}

/// A term of the incoming pod with the namespaces that its selector finds added.
///
/// The selector stays, and is then asked of no labels at all, as upstream does (it clears
/// the selector on a copy): one that only excludes (`NotIn`, `DoesNotExist`) thereby means
/// every namespace.
fn resolve<'c>(term: &'c AffinityTerm, cluster: &Cluster) -> Cow<'c, AffinityTerm> {
    if term.namespace_selector.is_empty() || term.namespace_selector == LabelMatch::NOTHING {
        return Cow::Borrowed(term);
    }
    let mut namespaces = term.namespaces.to_vec();
    namespaces.extend(cluster.namespaces_matching(&term.namespace_selector));
    Cow::Owned(AffinityTerm {
        namespaces: namespaces.into(),
        ..term.clone()
    })
}

/// Whether a term matches each identity, worked out once.
struct Matcher<'t> {
    terms: Vec<Cow<'t, AffinityTerm>>,
    known: FxHashMap<u32, Box<[bool]>>,
}

impl<'t> Matcher<'t> {
    fn new(terms: impl Iterator<Item = &'t AffinityTerm>, cluster: &Cluster) -> Self {
        Self {
            terms: terms.map(|term| resolve(term, cluster)).collect(),
            known: FxHashMap::default(),
        }
    }

    /// For each term, whether it means pods of that identity.
    fn matches(&mut self, identity: u32, cluster: &Cluster) -> &[bool] {
        let terms = &self.terms;
        self.known.entry(identity).or_insert_with(|| {
            let identity = cluster.identity(identity);
            terms
                .iter()
                .map(|term| term.matches(identity, &[]))
                .collect()
        })
    }
}

/// The filter, with counts of the cluster as it is.
struct Filter<'c> {
    release: Release,
    cluster: &'c Cluster,
    seen: Seen<'c>,
    terms: &'c AffinityTerms,
    near: Matcher<'c>,
    apart: Matcher<'c>,
    affinity: DomainCounts,
    /// By the number of the term among the pod's.
    anti_affinity: DomainCounts,
    existing_anti_affinity: DomainCounts,
    existing_keys: Vec<Symbol>,
    matches_itself: bool,
}

impl ClusterFilterPlugin for InterPodAffinity {
    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        let terms = cluster.affinity_terms(pod.info.terms);
        let mut filter = Filter {
            release: self.release,
            cluster,
            seen: Seen::new(pod, cluster),
            terms,
            near: Matcher::new(terms.required_affinity.iter(), cluster),
            apart: Matcher::new(terms.required_anti_affinity.iter(), cluster),
            affinity: DomainCounts::default(),
            anti_affinity: DomainCounts::default(),
            existing_anti_affinity: DomainCounts::default(),
            existing_keys: Vec::new(),
            matches_itself: matches_all(&terms.required_affinity, pod.info.identity, cluster),
        };
        filter.count_existing();
        filter.count_own();
        let has_terms =
            !terms.required_affinity.is_empty() || !terms.required_anti_affinity.is_empty();
        (has_terms || !filter.existing_anti_affinity.is_empty())
            .then(|| Box::new(filter) as Box<dyn NodeFilter>)
    }

    fn prepare_filter_alone<'c>(
        &'c self,
        _: &IncomingPod<'c>,
        _: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        let text = "error reading \"PreFilterInterPodAffinity\" from cycleState: not found";
        Some(RefusesAll::failing(Self::NAME, text))
    }

    fn lower_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster, plan: &mut CrossPlan) -> bool {
        let terms = cluster.affinity_terms(pod.info.terms);
        let near: Box<[AffinityTerm]> = terms
            .required_affinity
            .iter()
            .map(|it| resolve(it, cluster).into_owned())
            .collect();
        if !near.is_empty() {
            let counters = near.iter().map(|term| {
                let source = Source::MeantByAll(near.clone());
                plan.counter(everywhere(term.topology_key, source))
            });
            let counters = counters.collect();
            let matches_itself = matches_all(&terms.required_affinity, pod.info.identity, cluster);
            plan.filters.push(CrossFilter::Affinity {
                counters,
                matches_itself,
            });
        }
        let apart = terms.required_anti_affinity.iter().map(|term| {
            let source = Source::MeantBy(Box::new([(1, resolve(term, cluster).into_owned())]));
            plan.counter(everywhere(term.topology_key, source))
        });
        let apart: Box<[usize]> = apart.collect();
        if !apart.is_empty() {
            plan.filters.push(CrossFilter::AntiAffinity(apart));
        }
        let seen = Seen::new(pod, cluster);
        let existing = count_existing(cluster, plan, |terms| {
            let apart = terms.required_anti_affinity.iter();
            apart
                .filter(|term| seen.matches(term))
                .map(|term| (term.topology_key, 1))
                .collect()
        });
        if !existing.is_empty() {
            plan.filters
                .push(CrossFilter::ExistingAntiAffinity(existing));
        }
        true
    }

    fn may_help(&self, pod: &IncomingPod<'_>, event: &ClusterEvent<'_>, cluster: &Cluster) -> bool {
        let terms = cluster.affinity_terms(pod.info.terms);
        let means = |terms: &[AffinityTerm], other: PodInfo| {
            let mut matcher = Matcher::new(terms.iter(), cluster);
            matcher.matches(other.identity, cluster).contains(&true)
        };
        match event {
            ClusterEvent::PodCame(other) => means(&terms.required_affinity, *other),
            ClusterEvent::PodLeft(other) => {
                let seen = Seen::new(pod, cluster);
                let others = &cluster.affinity_terms(other.terms).required_anti_affinity;
                // Affinity too: the last pod that matched is gone, and this one may be the
                // first.
                means(&terms.required_anti_affinity, *other)
                    || means(&terms.required_affinity, *other)
                    || others.iter().any(|term| seen.matches(term))
            }
            ClusterEvent::Node {
                labels_before,
                labels_after,
            } => {
                let own = terms.required_affinity.iter();
                let own = own.chain(&terms.required_anti_affinity);
                // What others dislike stays away from other labels now.
                let others = cluster.placed_terms();
                let others = others
                    .flat_map(|number| &cluster.affinity_terms(number).required_anti_affinity);
                let mut all = own.chain(others);
                labels_before != labels_after && all.any(|term| event.moves_node(term.topology_key))
            }
            ClusterEvent::Namespace => true,
            ClusterEvent::Storage { .. } | ClusterEvent::Selection => false,
        }
    }
}

/// A counter of pods on all nodes that have the label.
fn everywhere(topology_key: Symbol, source: Source) -> Counter {
    Counter {
        topology_key,
        source,
        needs_labels: Box::default(),
        honors_affinity: false,
        honors_taints: false,
    }
}

/// Counters of pods by their own affinity terms: `weigh` says by which keys, and how much,
/// each terms matter.
fn count_existing(
    cluster: &Cluster,
    plan: &mut CrossPlan,
    weigh: impl Fn(&AffinityTerms) -> Vec<(Symbol, i64)>,
) -> Box<[usize]> {
    let mut by_key: BTreeMap<Symbol, BTreeMap<u32, i64>> = BTreeMap::new();
    for number in 1..cluster.affinity_terms_count() {
        for (key, weight) in weigh(cluster.affinity_terms(number)) {
            *by_key.entry(key).or_default().entry(number).or_insert(0) += weight;
        }
    }
    let counters = by_key.into_iter().map(|(key, weights)| {
        plan.counter(everywhere(
            key,
            Source::HasTerms(weights.into_iter().collect()),
        ))
    });
    counters.collect()
}

fn matches_all(terms: &[AffinityTerm], identity: u32, cluster: &Cluster) -> bool {
    let mut matcher = Matcher::new(terms.iter(), cluster);
    !terms.is_empty() && !matcher.matches(identity, cluster).contains(&false)
}

impl Filter<'_> {
    /// The keys by which pods with these terms keep away from the incoming pod.
    fn repelling_keys(&self, terms: u32) -> Vec<Symbol> {
        let terms = &self.cluster.affinity_terms(terms).required_anti_affinity;
        let meant = terms.iter().filter(|term| self.seen.matches(term));
        meant.map(|term| term.topology_key).collect()
    }

    fn count_existing(&mut self) {
        let cluster = self.cluster;
        let mut keys_of: FxHashMap<u32, Vec<Symbol>> = FxHashMap::default();
        for number in cluster.placed_terms() {
            let keys = self.repelling_keys(number);
            if !keys.is_empty() {
                self.existing_keys.extend(&keys);
                keys_of.insert(number, keys);
            }
        }
        if keys_of.is_empty() {
            return;
        }
        self.existing_keys.sort_unstable();
        self.existing_keys.dedup();
        for node in cluster.nodes() {
            for pod in cluster.pods(node) {
                let Some(keys) = keys_of.get(&cluster.pod_info(*pod).terms) else {
                    continue;
                };
                for key in keys {
                    count(&mut self.existing_anti_affinity, cluster, node, *key, 1);
                }
            }
        }
    }

    fn count_own(&mut self) {
        let (cluster, terms) = (self.cluster, self.terms);
        if terms.required_affinity.is_empty() && terms.required_anti_affinity.is_empty() {
            return;
        }
        for node in cluster.nodes() {
            for pod in cluster.pods(node) {
                self.count_meant(cluster.pod_info(*pod).identity, node, 1);
            }
        }
    }

    /// Counts a pod by the terms of the incoming pod that mean it.
    fn count_meant(&mut self, identity: u32, node: NodeId, by: i64) {
        let (cluster, terms) = (self.cluster, self.terms);
        let is_near = self.near.matches(identity, cluster);
        if !is_near.is_empty() && !is_near.contains(&false) {
            for term in &terms.required_affinity {
                count(&mut self.affinity, cluster, node, term.topology_key, by);
            }
        }
        let matched = self.apart.matches(identity, cluster).iter();
        for (term, matched) in terms.required_anti_affinity.iter().zip(matched) {
            if *matched {
                count(
                    &mut self.anti_affinity,
                    cluster,
                    node,
                    term.topology_key,
                    by,
                );
            }
        }
    }

    fn is_counted(&self, counts: &DomainCounts, node: NodeId, key: Symbol) -> bool {
        let value = self.cluster.label(node, key);
        value.is_some_and(|value| counts.get(&(key, value)).is_some_and(|count| *count > 0))
    }

    fn meets_affinity(&self, node: NodeId) -> bool {
        let terms = self.terms.required_affinity.iter();
        let mut keys = terms.clone().map(|term| term.topology_key);
        if keys.any(|key| self.cluster.label(node, key).is_none()) {
            return false;
        }
        let mut keys = terms.map(|term| term.topology_key);
        keys.all(|key| self.is_counted(&self.affinity, node, key))
            || (self.affinity.is_empty() && self.matches_itself)
    }
}

fn count(counts: &mut DomainCounts, cluster: &Cluster, node: NodeId, key: Symbol, by: i64) {
    if let Some(value) = cluster.label(node, key) {
        let domain = counts.entry((key, value)).or_insert(0);
        *domain += by;
        if *domain == 0 {
            counts.remove(&(key, value));
        }
    }
}

impl NodeFilter for Filter<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        let apart = self.terms.required_anti_affinity.iter();
        let reason = if !self.meets_affinity(node) {
            Reason::PodAffinityMismatch
        } else if apart
            .map(|term| term.topology_key)
            .any(|key| self.is_counted(&self.anti_affinity, node, key))
        {
            Reason::PodAntiAffinityMismatch
        } else if self
            .existing_keys
            .iter()
            .any(|key| self.is_counted(&self.existing_anti_affinity, node, *key))
        {
            Reason::ExistingPodsAntiAffinityMismatch
        } else {
            return Ok(());
        };
        Err(InterPodAffinity::refusal(self.release, reason))
    }

    fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        let info = self.cluster.pod_info(pod);
        if info.terms != 0 {
            for key in self.repelling_keys(info.terms) {
                if !self.existing_keys.contains(&key) {
                    self.existing_keys.push(key);
                }
                let counts = &mut self.existing_anti_affinity;
                count(counts, self.cluster, node, key, by);
            }
        }
        self.count_meant(info.identity, node, by);
    }
}

/// The rating, with weights by topology key and value.
struct Score<'c> {
    release: Release,
    cluster: &'c Cluster,
    weights: DomainCounts,
    keys: Vec<Symbol>,
}

impl ClusterScorePlugin for InterPodAffinity {
    fn prepare_score<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
        _: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let own = &cluster.affinity_terms(pod.info.terms).preferred;
        if self.ignore_preferred_terms_of_existing_pods && own.is_empty() {
            return None;
        }
        // 1.20 rates every pod, those that no term means 0 everywhere.
        let rates_all = self.release == Release::V1_20;
        let of_existing = self.weights_of_existing(&Seen::new(pod, cluster), cluster);
        if own.is_empty() && of_existing.is_empty() && !rates_all {
            return None;
        }
        let mut matcher = Matcher::new(own.iter().map(|(_, term)| term), cluster);
        let mut weights = DomainCounts::default();
        for node in cluster.nodes() {
            for other in cluster.pods(node) {
                let info = cluster.pod_info(*other);
                let matched = matcher.matches(info.identity, cluster).iter();
                for ((weight, term), matched) in own.iter().zip(matched) {
                    if *matched {
                        count(&mut weights, cluster, node, term.topology_key, *weight);
                    }
                }
                for (key, weight) in of_existing.get(&info.terms).into_iter().flatten() {
                    count(&mut weights, cluster, node, *key, *weight);
                }
            }
        }
        if weights.is_empty() && !rates_all {
            return None;
        }
        let mut keys: Vec<Symbol> = weights.keys().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        Some(Box::new(Score {
            release: self.release,
            cluster,
            weights,
            keys,
        }))
    }

    fn prepare_score_alone<'c>(
        &'c self,
        _: &IncomingPod<'c>,
        _: &'c Cluster,
        _: &[NodeId],
    ) -> Result<Box<dyn NodeScore + 'c>, String> {
        Err("failed to read \"PreScoreInterPodAffinity\" from cycleState: not found".into())
    }

    fn lower_score(
        &self,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
        weight: i64,
        plan: &mut CrossPlan,
    ) -> bool {
        let own = &cluster.affinity_terms(pod.info.terms).preferred;
        if self.ignore_preferred_terms_of_existing_pods && own.is_empty() {
            return true;
        }
        let mut by_key: BTreeMap<Symbol, Vec<(i64, AffinityTerm)>> = BTreeMap::new();
        for (weight, term) in own {
            let term = resolve(term, cluster).into_owned();
            by_key
                .entry(term.topology_key)
                .or_default()
                .push((*weight, term));
        }
        let mut counters: Vec<usize> = by_key
            .into_iter()
            .map(|(key, terms)| plan.counter(everywhere(key, Source::MeantBy(terms.into()))))
            .collect();
        let seen = Seen::new(pod, cluster);
        counters.extend(count_existing(cluster, plan, |terms| {
            self.weights_of(terms, &seen)
        }));
        if !counters.is_empty() {
            plan.scores
                .push((CrossScore::InterPodAffinity(counters.into()), weight));
        }
        true
    }
}

impl InterPodAffinity {
    /// What pods that are there add to the nodes near them, by the number of their terms.
    fn weights_of_existing(
        &self,
        seen: &Seen<'_>,
        cluster: &Cluster,
    ) -> FxHashMap<u32, Vec<(Symbol, i64)>> {
        let weights = cluster.placed_terms().map(|number| {
            (
                number,
                self.weights_of(cluster.affinity_terms(number), seen),
            )
        });
        weights.filter(|(_, weights)| !weights.is_empty()).collect()
    }

    /// What a pod with these terms adds to the nodes near it.
    fn weights_of(&self, terms: &AffinityTerms, seen: &Seen<'_>) -> Vec<(Symbol, i64)> {
        let hard = terms.required_affinity.iter();
        let hard = hard.map(|term| (self.hard_pod_affinity_weight, term));
        let preferred = terms.preferred.iter().map(|(weight, term)| (*weight, term));
        let meant = hard.chain(preferred).filter(|(weight, _)| *weight != 0);
        let meant = meant.filter(|(_, term)| seen.matches(term));
        meant
            .map(|(weight, term)| (term.topology_key, weight))
            .collect()
    }

    /// Normalizes ratings between the lowest and the highest, in 1.20 0 among them.
    pub(crate) fn normalize(release: Release, scores: &mut [i64]) {
        let mut lowest = scores.iter().copied().min().unwrap_or(0);
        let mut highest = scores.iter().copied().max().unwrap_or(0);
        if release == Release::V1_20 {
            lowest = lowest.min(0);
            highest = highest.max(0);
        }
        let range = highest - lowest;
        for score in scores {
            let share = if range > 0 {
                (*score - lowest) as f64 / range as f64
            } else {
                0.0
            };
            *score = (MAX_NODE_SCORE as f64 * share) as i64;
        }
    }
}

impl NodeScore for Score<'_> {
    fn score_node(&self, node: NodeId) -> i64 {
        let of_key = |key: &Symbol| {
            let value = self.cluster.label(node, *key)?;
            self.weights.get(&(*key, value)).copied()
        };
        self.keys.iter().filter_map(of_key).sum()
    }

    fn normalize(&self, _: &[NodeId], scores: &mut [i64]) {
        InterPodAffinity::normalize(self.release, scores);
    }
}
