//! PodTopologySpread: pods of one kind are spread evenly over zones, nodes or the like.
//!
//! A constraint names a node label; its values are the domains. In each domain the pods
//! that the selector matches are counted. A hard constraint (`DoNotSchedule`) refuses
//! nodes of domains that would have more than `maxSkew` pods above the emptiest domain; a
//! soft one (`ScheduleAnyway`) makes them score lower. Which nodes count at all can depend
//! on the pod's node affinity and tolerations.
//!
//! Pods without constraints of their own get defaults from the configuration, for the pods
//! that their Services and controller select (KEP-1258).
//! Source: `plugins/podtopologyspread/{common,filtering,scoring}.go`, Kubernetes 1.36.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::alone::RefusesAll;
use crate::cluster::Cluster;
use crate::cross::{Counter, CrossFilter, CrossPlan, CrossScore, Source};
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, ClusterScorePlugin, Code, IncomingPod, MAX_NODE_SCORE,
    NodeFilter, NodeScore, Plugin, ReadsVolumes, Reason, Refusal,
};
use crate::ids::{NodeId, PodId, Symbol, Symbols};
use crate::plugins::taint_toleration::TaintToleration;
use crate::pod_match::{LabelMatch, SpreadConstraint, label_value};
use crate::release::Release;

/// See the module.
pub struct PodTopologySpread {
    release: Release,
    default_constraints: Box<[SpreadConstraint]>,
    /// Whether the defaults are the built-in ones, which tolerate nodes without a zone.
    is_system_default: bool,
    hostname: Symbol,
}

impl PodTopologySpread {
    /// Name in configurations.
    pub const NAME: &'static str = "PodTopologySpread";

    /// The plugin as of a release, with default constraints of the configuration; `None`
    /// takes the built-in ones: spread softly over nodes (skew 3) and zones (skew 5).
    pub fn new(
        release: Release,
        defaults: Option<&[outrank_api::types::TopologySpreadConstraint]>,
        symbols: &mut Symbols,
    ) -> Self {
        let system = [
            ("kubernetes.io/hostname", 3),
            ("topology.kubernetes.io/zone", 5),
        ];
        let system = system.map(
            |(key, max_skew)| outrank_api::types::TopologySpreadConstraint {
                max_skew,
                topology_key: key.into(),
                when_unsatisfiable: "ScheduleAnyway".into(),
                ..Default::default()
            },
        );
        let constraints = defaults.unwrap_or(&system);
        Self {
            release,
            default_constraints: SpreadConstraint::compile_all(
                constraints,
                &Default::default(),
                symbols,
            ),
            is_system_default: defaults.is_none(),
            hostname: symbols.intern("kubernetes.io/hostname"),
        }
    }

    /// The constraints of one kind that hold for a pod.
    fn constraints<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &Cluster,
        is_hard: bool,
    ) -> Vec<Cow<'c, SpreadConstraint>> {
        let own = &pod.class.spread_constraints;
        if !own.is_empty() {
            let of_kind = own
                .iter()
                .filter(|constraint| constraint.is_hard == is_hard);
            return of_kind.map(Cow::Borrowed).collect();
        }
        let of_kind = self
            .default_constraints
            .iter()
            .filter(|it| it.is_hard == is_hard);
        let defaults: Vec<&SpreadConstraint> = of_kind.collect();
        if defaults.is_empty() {
            return Vec::new();
        }
        let selector = match self.release {
            Release::V1_36 => default_selector(pod, cluster),
            Release::V1_20 => default_selector_of_1_20(pod, cluster),
        };
        if selector.is_empty() {
            return Vec::new();
        }
        let with_selector = defaults.into_iter().map(|constraint| {
            Cow::Owned(SpreadConstraint {
                selector: selector.clone(),
                ..constraint.clone()
            })
        });
        with_selector.collect()
    }
}

impl PodTopologySpread {
    /// Whether nodes that lack one of the labels are not rated.
    fn needs_all_labels(&self, pod: &IncomingPod<'_>) -> bool {
        !pod.class.spread_constraints.is_empty()
            || !self.is_system_default
            || self.release == Release::V1_20
    }

    /// Whether pods without soft constraints are rated too: the same everywhere.
    fn rates_without_constraints(&self) -> bool {
        self.release == Release::V1_20
    }

    /// A rating as a whole number.
    pub(crate) fn round(release: Release, score: f64) -> i64 {
        match release {
            Release::V1_36 => score.round() as i64,
            Release::V1_20 => score as i64,
        }
    }

    /// What a pod more in a domain weighs, given the number of domains.
    pub(crate) fn domain_weight(domains: usize) -> f64 {
        ((domains + 2) as f64).ln()
    }

    /// Normalizes ratings, the lowest best; those of nodes that are not rated become 0.
    pub(crate) fn normalize(rated: &[bool], scores: &mut [i64]) {
        let of_rated = || scores.iter().zip(rated).filter(|(_, rated)| **rated);
        let lowest = of_rated()
            .map(|(score, _)| *score)
            .min()
            .unwrap_or(i64::MAX);
        let highest = of_rated()
            .map(|(score, _)| *score)
            .max()
            .unwrap_or(0)
            .max(0);
        for (score, rated) in scores.iter_mut().zip(rated) {
            *score = match (rated, highest) {
                (false, _) => 0,
                (true, 0) => MAX_NODE_SCORE,
                (true, highest) => MAX_NODE_SCORE * (highest + lowest - *score) / highest,
            };
        }
    }
}

/// Which pods a constraint counts; an empty selector means none, in 1.20 all.
fn source(release: Release, constraint: &SpreadConstraint, namespace: Symbol) -> Source {
    let selector = match constraint.selector.is_empty() && release > Release::V1_20 {
        true => LabelMatch::NOTHING,
        false => constraint.selector.clone(),
    };
    Source::Selected(namespace, selector)
}

/// The pods that are counted for default constraints: those that the pod's services and
/// its controller select.
fn default_selector(pod: &IncomingPod<'_>, cluster: &Cluster) -> LabelMatch {
    let identity = cluster.identity(pod.info.identity);
    let selector = LabelMatch::of_labels(&cluster.service_labels(identity));
    match pod.owner.and_then(|owner| cluster.owner_selector(owner)) {
        Some(owners) if *owners != LabelMatch::NOTHING => selector.and(owners),
        _ => selector,
    }
}

/// The same in 1.20: those that services and controllers select which select the pod,
/// whoever controls it (`plugins/helper/spread.go`).
fn default_selector_of_1_20(pod: &IncomingPod<'_>, cluster: &Cluster) -> LabelMatch {
    let identity = cluster.identity(pod.info.identity);
    let selector = LabelMatch::of_labels(&cluster.service_labels(identity));
    let owners = cluster.selectors_of_owners(identity);
    owners.fold(selector, |selector, owner| selector.and(owner))
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn reads_volumes(&self) -> ReadsVolumes {
        ReadsVolumes::Nothing
    }
}

/// What constraints need to know of nodes and pods.
struct Census<'c> {
    release: Release,
    cluster: &'c Cluster,
    pod: IncomingPod<'c>,
    constraints: Vec<Cow<'c, SpreadConstraint>>,
    /// For each constraint, whether pods of an identity are counted.
    counted: std::cell::RefCell<FxHashMap<u32, Box<[bool]>>>,
}

impl<'c> Census<'c> {
    fn new(
        release: Release,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
        constraints: Vec<Cow<'c, SpreadConstraint>>,
    ) -> Self {
        Self {
            release,
            cluster,
            pod: *pod,
            constraints,
            counted: Default::default(),
        }
    }

    fn has_all_labels(&self, node: NodeId) -> bool {
        let mut keys = self
            .constraints
            .iter()
            .map(|constraint| constraint.topology_key);
        keys.all(|key| self.cluster.label(node, key).is_some())
    }

    /// Whether a constraint counts the pods of a node at all.
    fn includes(&self, constraint: &SpreadConstraint, node: NodeId) -> bool {
        let class = self.pod.class;
        if constraint.honors_affinity && !class.required_nodes.matches(self.cluster, node) {
            return false;
        }
        !(constraint.honors_taints && TaintToleration::repels(class, self.cluster, node))
    }

    /// For each constraint, how many pods it counts in each domain.
    fn domains(&self) -> Vec<FxHashMap<Symbol, i64>> {
        let mut domains = vec![FxHashMap::default(); self.constraints.len()];
        let nodes = self.cluster.nodes();
        for node in nodes.filter(|node| self.has_all_labels(*node)) {
            let counts = self.count(node);
            let counted = self.constraints.iter().zip(&mut domains).zip(counts);
            for ((constraint, domains), count) in counted {
                if self.includes(constraint, node)
                    && let Some(value) = self.cluster.label(node, constraint.topology_key)
                {
                    *domains.entry(value).or_insert(0) += count;
                }
            }
        }
        domains
    }

    /// The same in 1.20: a domain is one of nodes that count, but then the pods of all its
    /// nodes do (`podtopologyspread/filtering.go` calPreFilterState).
    fn domains_of_1_20(&self) -> Vec<FxHashMap<Symbol, i64>> {
        let mut domains = vec![FxHashMap::default(); self.constraints.len()];
        let nodes = || self.cluster.nodes();
        for node in nodes().filter(|node| self.has_all_labels(*node)) {
            for (constraint, domains) in self.constraints.iter().zip(&mut domains) {
                if self.includes(constraint, node)
                    && let Some(value) = self.cluster.label(node, constraint.topology_key)
                {
                    domains.insert(value, 0);
                }
            }
        }
        for node in nodes() {
            let counts = self.count(node);
            let counted = self.constraints.iter().zip(&mut domains).zip(counts);
            for ((constraint, domains), count) in counted {
                let value = self.cluster.label(node, constraint.topology_key);
                if let Some(domain) = value.and_then(|value| domains.get_mut(&value)) {
                    *domain += count;
                }
            }
        }
        domains
    }

    /// For each constraint, how many pods of the node it counts.
    fn count(&self, node: NodeId) -> Vec<i64> {
        let mut counts = vec![0; self.constraints.len()];
        let mut counted = self.counted.borrow_mut();
        for pod in self.cluster.pods(node) {
            let info = self.cluster.pod_info(*pod);
            if info.is_terminating {
                continue;
            }
            let counted = counted
                .entry(info.identity)
                .or_insert_with(|| self.counts_identity(info.identity));
            for (count, counted) in counts.iter_mut().zip(counted.iter()) {
                *count += i64::from(*counted);
            }
        }
        counts
    }

    fn counts_identity(&self, number: u32) -> Box<[bool]> {
        let identity = self.cluster.identity(number);
        let own = self.cluster.identity(self.pod.info.identity);
        let counts = |constraint: &Cow<'_, SpreadConstraint>| {
            identity.namespace == own.namespace
                && (!constraint.selector.is_empty() || self.release == Release::V1_20)
                && constraint.selector.matches(&identity.labels)
        };
        self.constraints.iter().map(counts).collect()
    }
}

struct Filter<'c> {
    census: Census<'c>,
    domains: Vec<FxHashMap<Symbol, i64>>,
    /// The pods of the domain with the least.
    least: Vec<i64>,
    counts_itself: Vec<i64>,
}

/// The pods of the domain with the least.
fn least(domains: &FxHashMap<Symbol, i64>) -> i64 {
    let least = domains.values().copied().min();
    least.unwrap_or(i64::from(i32::MAX))
}

impl ClusterFilterPlugin for PodTopologySpread {
    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        let constraints = self.constraints(pod, cluster, true);
        if constraints.is_empty() {
            return None;
        }
        let census = Census::new(self.release, pod, cluster, constraints);
        let domains = match self.release {
            Release::V1_36 => census.domains(),
            Release::V1_20 => census.domains_of_1_20(),
        };
        let least = domains.iter().map(least).collect();
        let labels = &cluster.identity(pod.info.identity).labels;
        let itself = census
            .constraints
            .iter()
            .map(|it| i64::from(it.selector.matches(labels)));
        let counts_itself = itself.collect();
        Some(Box::new(Filter {
            census,
            domains,
            least,
            counts_itself,
        }))
    }

    fn prepare_filter_alone<'c>(
        &'c self,
        _: &IncomingPod<'c>,
        _: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        let text = "reading \"PreFilterPodTopologySpread\" from cycleState: not found";
        Some(RefusesAll::failing(Self::NAME, text))
    }

    fn lower_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster, plan: &mut CrossPlan) -> bool {
        let constraints = self.constraints(pod, cluster, true);
        if self.release == Release::V1_20 && !constraints.is_empty() {
            // What 1.20 counts is not what a counter counts.
            return false;
        }
        let keys: Box<[Symbol]> = constraints.iter().map(|it| it.topology_key).collect();
        let identity = cluster.identity(pod.info.identity);
        for constraint in &constraints {
            let counter = plan.counter(Counter {
                topology_key: constraint.topology_key,
                source: source(self.release, constraint, identity.namespace),
                needs_labels: keys.clone(),
                honors_affinity: constraint.honors_affinity,
                honors_taints: constraint.honors_taints,
            });
            plan.filters.push(CrossFilter::Spread {
                counter,
                max_skew: constraint.max_skew,
                counts_itself: i64::from(constraint.selector.matches(&identity.labels)),
                min_domains: constraint.min_domains,
            });
        }
        true
    }

    fn may_help(&self, pod: &IncomingPod<'_>, event: &ClusterEvent<'_>, cluster: &Cluster) -> bool {
        let constraints = || self.constraints(pod, cluster, true);
        match event {
            ClusterEvent::PodCame(other) | ClusterEvent::PodLeft(other) => {
                let (own, other) = (
                    cluster.identity(pod.info.identity),
                    cluster.identity(other.identity),
                );
                own.namespace == other.namespace
                    && (constraints().iter()).any(|it| it.selector.matches(&other.labels))
            }
            ClusterEvent::Node {
                labels_before,
                labels_after,
            } => {
                let has = |labels: &[(Symbol, Symbol)], key| label_value(labels, key).is_some();
                constraints().iter().any(|it| {
                    has(labels_before, it.topology_key) || has(labels_after, it.topology_key)
                })
            }
            ClusterEvent::Selection => pod.class.spread_constraints.is_empty(),
            ClusterEvent::Storage { .. } | ClusterEvent::Namespace => false,
        }
    }
}

impl NodeFilter for Filter<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        let refuse = |code, reason| Err(Refusal::new(PodTopologySpread::NAME, code, reason));
        for (index, constraint) in self.census.constraints.iter().enumerate() {
            let Some(value) = self.census.cluster.label(node, constraint.topology_key) else {
                let code = Code::UnschedulableAndUnresolvable;
                return refuse(code, Reason::SpreadLabelMissing);
            };
            let domains = &self.domains[index];
            let count = domains.get(&value).copied().unwrap_or(0);
            let least = match domains.len() < constraint.min_domains {
                true => 0,
                false => self.least[index],
            };
            let skew = count + self.counts_itself[index] - least;
            if skew > constraint.max_skew {
                return refuse(Code::Unschedulable, Reason::SpreadConstraintsMismatch);
            }
        }
        Ok(())
    }

    /// Unlike the census this also counts pods that are being deleted, and an empty selector
    /// means every pod, as upstream has it (`filtering.go` updateWithPod): the dry run of a
    /// preemption is an approximation there.
    fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        let census = &self.census;
        let cluster = census.cluster;
        let own = cluster.identity(census.pod.info.identity);
        let other = cluster.identity(cluster.pod_info(pod).identity);
        if own.namespace != other.namespace || !census.has_all_labels(node) {
            return;
        }
        for (index, constraint) in census.constraints.iter().enumerate() {
            let Some(value) = cluster.label(node, constraint.topology_key) else {
                continue;
            };
            if !constraint.selector.matches(&other.labels) || !census.includes(constraint, node) {
                continue;
            }
            let domain = self.domains[index].entry(value).or_insert(0);
            let before = *domain;
            *domain += by;
            let now = *domain;
            if now <= self.least[index] {
                self.least[index] = now;
            } else if before == self.least[index] {
                self.least[index] = least(&self.domains[index]);
            }
        }
    }
}

struct Score<'c> {
    release: Release,
    census: Census<'c>,
    hostname: Symbol,
    domains: Vec<FxHashMap<Symbol, i64>>,
    weights: Vec<f64>,
    ignores_nodes_without_labels: bool,
}

impl ClusterScorePlugin for PodTopologySpread {
    fn prepare_score<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
        feasible: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let constraints = self.constraints(pod, cluster, false);
        if constraints.is_empty() && !self.rates_without_constraints() {
            return None;
        }
        let needs_all_labels = self.needs_all_labels(pod);
        let mut score = Score {
            release: self.release,
            census: Census::new(self.release, pod, cluster, constraints),
            hostname: self.hostname,
            domains: Vec::new(),
            weights: Vec::new(),
            ignores_nodes_without_labels: needs_all_labels,
        };
        score.find_domains(feasible);
        score.count_pods();
        Some(Box::new(score))
    }

    fn prepare_score_alone<'c>(
        &'c self,
        _: &IncomingPod<'c>,
        _: &'c Cluster,
        _: &[NodeId],
    ) -> Result<Box<dyn NodeScore + 'c>, String> {
        Err("error reading \"PreScorePodTopologySpread\" from cycleState: not found".into())
    }

    fn lower_score(
        &self,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
        weight: i64,
        plan: &mut CrossPlan,
    ) -> bool {
        let constraints = self.constraints(pod, cluster, false);
        if constraints.is_empty() {
            if self.rates_without_constraints() {
                plan.constant_score += MAX_NODE_SCORE * weight;
            }
            return true;
        }
        let needs_labels: Box<[Symbol]> = match self.needs_all_labels(pod) {
            true => constraints.iter().map(|it| it.topology_key).collect(),
            false => Box::default(),
        };
        let namespace = cluster.identity(pod.info.identity).namespace;
        let counters = constraints.iter().map(|constraint| {
            // The pods of a node itself are counted whatever the policies say.
            let is_domain = constraint.topology_key != self.hostname;
            let counter = plan.counter(Counter {
                topology_key: constraint.topology_key,
                source: source(self.release, constraint, namespace),
                needs_labels: if is_domain {
                    needs_labels.clone()
                } else {
                    Box::default()
                },
                honors_affinity: is_domain && constraint.honors_affinity,
                honors_taints: is_domain && constraint.honors_taints,
            });
            (counter, constraint.max_skew)
        });
        let constraints = counters.collect();
        plan.scores.push((
            CrossScore::Spread {
                constraints,
                needs_labels,
            },
            weight,
        ));
        true
    }
}

impl Score<'_> {
    fn is_ignored(&self, node: NodeId) -> bool {
        self.ignores_nodes_without_labels && !self.census.has_all_labels(node)
    }

    /// The domains of feasible nodes, and what a pod more in a domain weighs.
    fn find_domains(&mut self, feasible: &[NodeId]) {
        let cluster = self.census.cluster;
        let rated: Vec<NodeId> = feasible
            .iter()
            .copied()
            .filter(|node| !self.is_ignored(*node))
            .collect();
        for constraint in &self.census.constraints {
            let mut domains = FxHashMap::default();
            if constraint.topology_key == self.hostname {
                // Domains of one node each: their pods are counted when they are rated.
                self.weights
                    .push(PodTopologySpread::domain_weight(rated.len()));
            } else {
                let mut has_nameless = false;
                for node in &rated {
                    match cluster.label(*node, constraint.topology_key) {
                        Some(value) => _ = domains.entry(value).or_insert(0),
                        None => has_nameless = true,
                    }
                }
                // Nodes without the label make up one domain more, as upstream counts.
                let size = domains.len() + usize::from(has_nameless);
                self.weights.push(PodTopologySpread::domain_weight(size));
            }
            self.domains.push(domains);
        }
    }

    fn count_pods(&mut self) {
        let cluster = self.census.cluster;
        for node in cluster.nodes() {
            if self.is_ignored(node) {
                continue;
            }
            let counts = self.census.count(node);
            let counted = self
                .census
                .constraints
                .iter()
                .zip(&mut self.domains)
                .zip(counts);
            for ((constraint, domains), count) in counted {
                if let Some(value) = cluster.label(node, constraint.topology_key)
                    && let Some(domain) = domains.get_mut(&value)
                    && self.census.includes(constraint, node)
                {
                    *domain += count;
                }
            }
        }
    }
}

impl NodeScore for Score<'_> {
    fn score_node(&self, node: NodeId) -> i64 {
        if self.is_ignored(node) {
            return 0;
        }
        let mut own: Option<Vec<i64>> = None;
        let mut score = 0.0;
        for (index, constraint) in self.census.constraints.iter().enumerate() {
            let Some(value) = self.census.cluster.label(node, constraint.topology_key) else {
                continue;
            };
            let count = if constraint.topology_key == self.hostname {
                own.get_or_insert_with(|| self.census.count(node))[index]
            } else {
                self.domains[index].get(&value).copied().unwrap_or(0)
            };
            score += count as f64 * self.weights[index] + (constraint.max_skew - 1) as f64;
        }
        PodTopologySpread::round(self.release, score)
    }

    fn normalize(&self, feasible: &[NodeId], scores: &mut [i64]) {
        let rated: Vec<bool> = feasible
            .iter()
            .map(|node| !self.is_ignored(*node))
            .collect();
        PodTopologySpread::normalize(&rated, scores);
    }
}
