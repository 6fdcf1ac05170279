//! Which pods are meant: label selectors and affinity terms over pods, compiled.
//!
//! Pods with equal namespace and labels share one [`PodIdentity`]; selectors are asked
//! once an identity, not once a pod. Pods with equal affinity terms share one
//! [`AffinityTerms`].

use outrank_api::labels::{Operator, Requirement, Selector};
use outrank_api::types::{LabelSelector, Pod, PodAffinity, PodAffinityTerm, StringMap};

use crate::ids::{Symbol, Symbols};

/// Labels, sorted by key.
pub type Labels = Box<[(Symbol, Symbol)]>;

/// What selectors can see of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodIdentity {
    /// Namespace.
    pub namespace: Symbol,
    /// Labels.
    pub labels: Labels,
}

/// Compiles labels.
pub(crate) fn compile_labels(labels: &StringMap, symbols: &mut Symbols) -> Labels {
    let labels = labels
        .iter()
        .map(|(key, value)| (symbols.intern(key), symbols.intern(value)));
    let mut labels: Vec<(Symbol, Symbol)> = labels.collect();
    labels.sort_unstable();
    labels.into()
}

/// The value of a label; `labels` are sorted by key. O(log labels).
pub fn label_value(labels: &[(Symbol, Symbol)], key: Symbol) -> Option<Symbol> {
    let found = labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    Some(labels[found].1)
}

/// One requirement on labels, of pods, namespaces or nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LabelRequirement {
    /// The label has one of the values.
    In(Symbol, Box<[Symbol]>),
    /// The label is absent or has none of the values.
    NotIn(Symbol, Box<[Symbol]>),
    /// The label is there.
    Exists(Symbol),
    /// The label is not there.
    DoesNotExist(Symbol),
    /// Never fulfilled. Numbers are compared by node selectors only.
    Never,
}

impl LabelRequirement {
    /// Compiles a requirement.
    pub(crate) fn compile(requirement: &Requirement, symbols: &mut Symbols) -> Self {
        let key = symbols.intern(&requirement.key);
        let values = requirement
            .values
            .iter()
            .map(|value| symbols.intern(value))
            .collect();
        match requirement.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => Self::In(key, values),
            Operator::NotIn | Operator::NotEquals => Self::NotIn(key, values),
            Operator::Exists => Self::Exists(key),
            Operator::DoesNotExist => Self::DoesNotExist(key),
            Operator::GreaterThan | Operator::LessThan => Self::Never,
        }
    }

    /// Whether labels fulfil it; `labels` are sorted by key. O(log labels + values).
    pub fn matches(&self, labels: &[(Symbol, Symbol)]) -> bool {
        let value = |key: &Symbol| label_value(labels, *key);
        match self {
            Self::In(key, values) => value(key).is_some_and(|value| values.contains(&value)),
            Self::NotIn(key, values) => value(key).is_none_or(|value| !values.contains(&value)),
            Self::Exists(key) => value(key).is_some(),
            Self::DoesNotExist(key) => value(key).is_none(),
            Self::Never => false,
        }
    }
}

/// A label selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelMatch(Option<Box<[LabelRequirement]>>);

impl LabelMatch {
    /// Selects nothing.
    pub const NOTHING: Self = Self(None);

    /// Compiles a selector of an object: absent selects nothing, empty everything. One
    /// that cannot be read selects nothing (the API server lets none in).
    pub fn compile(selector: Option<&LabelSelector>, symbols: &mut Symbols) -> Self {
        let selector =
            Selector::from_label_selector(selector).unwrap_or_else(|_| Selector::nothing());
        let requirements = selector.requirements().map(|requirements| {
            requirements
                .iter()
                .map(|requirement| LabelRequirement::compile(requirement, symbols))
                .collect()
        });
        Self(requirements)
    }

    /// What must hold; `None` if nothing is selected.
    pub fn requirements(&self) -> Option<&[LabelRequirement]> {
        self.0.as_deref()
    }

    /// Selects exactly these labels.
    pub fn of_labels(labels: &[(Symbol, Symbol)]) -> Self {
        let requirements = labels
            .iter()
            .map(|(key, value)| LabelRequirement::In(*key, Box::new([*value])));
        Self(Some(requirements.collect()))
    }

    /// Selects what both select.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        match (self.0, &other.0) {
            (Some(one), Some(other)) => {
                Self(Some(one.into_iter().chain(other.iter().cloned()).collect()))
            }
            _ => Self::NOTHING,
        }
    }

    /// Narrows the selector to pods that have `key` with one of `values`, or not.
    fn narrow(self, key: Symbol, value: Symbol, equal: bool) -> Self {
        let values = Box::new([value]);
        let requirement = match equal {
            true => LabelRequirement::In(key, values),
            false => LabelRequirement::NotIn(key, values),
        };
        self.and(&Self(Some(Box::new([requirement]))))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|requirements| requirements.is_empty())
    }

    /// Whether it selects these labels. O(requirements × log labels).
    pub fn matches(&self, labels: &[(Symbol, Symbol)]) -> bool {
        let requirements = self.0.as_ref();
        requirements.is_some_and(|all| all.iter().all(|it| it.matches(labels)))
    }
}

/// Pods, by labels and namespace, and what "near" means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// The pods, by labels.
    pub selector: LabelMatch,
    /// Their namespaces, sorted.
    pub namespaces: Box<[Symbol]>,
    /// Their namespaces, by labels.
    pub namespace_selector: LabelMatch,
    /// The node label whose equal values mean the same place.
    pub topology_key: Symbol,
}

impl AffinityTerm {
    /// Whether the term means a pod whose namespace has these labels.
    pub fn matches(&self, pod: &PodIdentity, namespace_labels: &[(Symbol, Symbol)]) -> bool {
        (self.namespaces.contains(&pod.namespace)
            || self.namespace_selector.matches(namespace_labels))
            && self.selector.matches(&pod.labels)
    }
}

/// The affinity of a pod to other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AffinityTerms {
    /// Pods that must be near.
    pub required_affinity: Box<[AffinityTerm]>,
    /// Pods that must not be near.
    pub required_anti_affinity: Box<[AffinityTerm]>,
    /// Pods that should be near, with weights; of anti-affinity, the weights are negative.
    pub preferred: Box<[(i64, AffinityTerm)]>,
}

impl AffinityTerms {
    /// Compiles the affinity of a pod. `matchLabelKeys` and `mismatchLabelKeys` narrow the
    /// selectors to the pod's own labels, as the API server does when a pod is created.
    pub fn compile(pod: &Pod, symbols: &mut Symbols) -> Self {
        let Some(affinity) = &pod.spec.affinity else {
            return Self::default();
        };
        let mut compile = |term: &PodAffinityTerm| compile_term(term, pod, symbols);
        let near = affinity.pod_affinity.as_ref();
        let apart = affinity.pod_anti_affinity.as_ref();
        let mut required = |affinity: Option<&PodAffinity>| {
            affinity
                .iter()
                .flat_map(|affinity| &affinity.required)
                .map(&mut compile)
                .collect()
        };
        let (required_affinity, required_anti_affinity) = (required(near), required(apart));
        let mut preferred = Vec::new();
        for (affinity, sign) in [(near, 1), (apart, -1)] {
            for term in affinity.iter().flat_map(|affinity| &affinity.preferred) {
                preferred.push((
                    sign * i64::from(term.weight),
                    compile(&term.pod_affinity_term),
                ));
            }
        }
        Self {
            required_affinity,
            required_anti_affinity,
            preferred: preferred.into(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.required_affinity.is_empty()
            && self.required_anti_affinity.is_empty()
            && self.preferred.is_empty()
    }
}

fn compile_term(term: &PodAffinityTerm, pod: &Pod, symbols: &mut Symbols) -> AffinityTerm {
    let mut selector = LabelMatch::compile(term.label_selector.as_ref(), symbols);
    for (keys, equal) in [
        (&term.match_label_keys, true),
        (&term.mismatch_label_keys, false),
    ] {
        for key in keys {
            if let Some(value) = pod.metadata.labels.get(key) {
                selector = selector.narrow(symbols.intern(key), symbols.intern(value), equal);
            }
        }
    }
    let own = [pod.metadata.namespace.clone()];
    let namespaces = match (&term.namespaces, &term.namespace_selector) {
        (namespaces, None) if namespaces.is_empty() => own.as_slice(),
        (namespaces, _) => namespaces.as_slice(),
    };
    let mut namespaces: Vec<Symbol> = namespaces
        .iter()
        .map(|namespace| symbols.intern(namespace))
        .collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    AffinityTerm {
        selector,
        namespaces: namespaces.into(),
        namespace_selector: LabelMatch::compile(term.namespace_selector.as_ref(), symbols),
        topology_key: symbols.intern(&term.topology_key),
    }
}

/// How evenly a pod and its like are spread over the values of a node label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// How many more the fullest domain may have than the emptiest.
    pub max_skew: i64,
    /// The node label whose values are the domains.
    pub topology_key: Symbol,
    /// Whether nodes that would break it are refused; else it only makes their score worse.
    pub is_hard: bool,
    /// The pods that are counted, of the pod's own namespace.
    pub selector: LabelMatch,
    /// With fewer domains than this the emptiest counts as having none.
    pub min_domains: usize,
    /// Whether nodes that the pod's selector and affinity rule out are left out.
    pub honors_affinity: bool,
    /// Whether nodes whose taints the pod does not tolerate are left out.
    pub honors_taints: bool,
}

impl SpreadConstraint {
    /// Compiles constraints as a pod, or the configuration, states them.
    pub fn compile_all(
        constraints: &[outrank_api::types::TopologySpreadConstraint],
        pod_labels: &StringMap,
        symbols: &mut Symbols,
    ) -> Box<[Self]> {
        let compile = |constraint: &outrank_api::types::TopologySpreadConstraint| {
            let mut selector = LabelMatch::compile(constraint.label_selector.as_ref(), symbols);
            for key in &constraint.match_label_keys {
                if let Some(value) = pod_labels.get(key) {
                    selector = selector.narrow(symbols.intern(key), symbols.intern(value), true);
                }
            }
            let honors = |policy: &Option<String>, default| {
                policy
                    .as_deref()
                    .map_or(default, |policy| policy == "Honor")
            };
            Self {
                max_skew: i64::from(constraint.max_skew),
                topology_key: symbols.intern(&constraint.topology_key),
                is_hard: constraint.when_unsatisfiable == "DoNotSchedule",
                selector,
                min_domains: constraint
                    .min_domains
                    .map_or(1, |domains| usize::try_from(domains).unwrap_or(0)),
                honors_affinity: honors(&constraint.node_affinity_policy, true),
                honors_taints: honors(&constraint.node_taints_policy, false),
            }
        };
        constraints.iter().map(compile).collect()
    }
}
