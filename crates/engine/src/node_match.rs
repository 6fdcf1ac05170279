//! Requirements on nodes, compiled: label and field requirements over interned symbols.
//!
//! The rules are those of node selectors (`component-helpers/scheduling/corev1/nodeaffinity`,
//! Kubernetes 1.36): a selector matches if one of its terms does, a term if all of its
//! requirements do; a term without requirements, or with one that cannot be parsed,
//! matches nothing.

use outrank_api::labels::{Operator, Requirement};
use outrank_api::node_selector::{ParsedTerm, is_empty_term, parse_term};
use outrank_api::types::{NodeSelector, PreferredSchedulingTerm, StringMap};

use crate::cluster::Cluster;
use crate::ids::{NodeId, Symbol, Symbols};
use crate::pod_match::LabelRequirement;

/// One requirement on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeRequirement {
    /// On the node's labels, as selectors of pods have them.
    Label(LabelRequirement),
    /// The label is an integer above the bound.
    GreaterThan(Symbol, i64),
    /// The label is an integer below the bound.
    LessThan(Symbol, i64),
    /// The node has this name.
    Named(Symbol),
    /// The node has another name.
    NotNamed(Symbol),
}

impl NodeRequirement {
    /// Never fulfilled: on a field that nodes do not have, or with a bound that is no number.
    const NEVER: Self = Self::Label(LabelRequirement::Never);

    /// Whether the node fulfils the requirement. O(log labels + values).
    pub fn matches(&self, cluster: &Cluster, node: NodeId) -> bool {
        let integer = |key| {
            let value = cluster.label(node, key)?;
            cluster.symbols.text(value).parse::<i64>().ok()
        };
        match self {
            Self::Label(requirement) => requirement.matches(cluster.labels(node)),
            Self::GreaterThan(key, bound) => integer(*key).is_some_and(|value| value > *bound),
            Self::LessThan(key, bound) => integer(*key).is_some_and(|value| value < *bound),
            Self::Named(name) => cluster.name_symbol(node) == *name,
            Self::NotNamed(name) => cluster.name_symbol(node) != *name,
        }
    }
}

/// Requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm(pub Box<[NodeRequirement]>);

impl NodeTerm {
    /// Whether the node fulfils every requirement.
    pub fn matches(&self, cluster: &Cluster, node: NodeId) -> bool {
        self.0
            .iter()
            .all(|requirement| requirement.matches(cluster, node))
    }
}

/// What a node must match for a pod: its node selector and its required affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodes {
    /// `spec.nodeSelector`.
    pub selector: NodeTerm,
    /// Terms of the required node affinity, of which one must match, if there is any.
    pub terms: Option<Box<[NodeTerm]>>,
}

impl RequiredNodes {
    /// Compiles a node selector and a required node affinity.
    pub fn compile(
        selector: &StringMap,
        required: Option<&NodeSelector>,
        symbols: &mut Symbols,
    ) -> Self {
        let selector = selector.iter().map(|(key, value)| {
            let values = Box::new([symbols.intern(value)]);
            NodeRequirement::Label(LabelRequirement::In(symbols.intern(key), values))
        });
        let selector = NodeTerm(selector.collect());
        Self {
            selector,
            terms: required.map(|required| compile_terms(required, symbols)),
        }
    }

    /// Whether there is nothing to match.
    pub fn is_empty(&self) -> bool {
        self.selector.0.is_empty() && self.terms.is_none()
    }

    /// Whether the node matches.
    pub fn matches(&self, cluster: &Cluster, node: NodeId) -> bool {
        self.selector.matches(cluster, node)
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| any_matches(terms, cluster, node))
    }
}

/// Whether one of the terms matches the node.
pub fn any_matches(terms: &[NodeTerm], cluster: &Cluster, node: NodeId) -> bool {
    terms.iter().any(|term| term.matches(cluster, node))
}

/// Compiles the terms of a node selector; those that cannot match are left out.
pub fn compile_terms(selector: &NodeSelector, symbols: &mut Symbols) -> Box<[NodeTerm]> {
    let terms = selector
        .node_selector_terms
        .iter()
        .filter(|term| !is_empty_term(term));
    let parsed = terms.filter_map(|term| parse_term(term, "").ok());
    parsed.map(|term| compile_term(&term, symbols)).collect()
}

/// A preference of nodes: the sum of the weights of the terms that a node matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PreferredNodes(pub Box<[(i64, NodeTerm)]>);

impl PreferredNodes {
    /// Compiles preferred terms. Terms of weight 0 and empty terms are left out.
    ///
    /// # Errors
    /// Upstream's text if a requirement cannot be parsed; several are joined as upstream does.
    pub fn compile(
        preferred: &[PreferredSchedulingTerm],
        symbols: &mut Symbols,
    ) -> Result<Self, String> {
        let mut terms = Vec::new();
        let mut errors = Vec::new();
        for (index, preferred) in preferred.iter().enumerate() {
            if preferred.weight == 0 || is_empty_term(&preferred.preference) {
                continue;
            }
            match parse_term(&preferred.preference, &format!("[{index}]")) {
                Ok(term) => {
                    terms.push((i64::from(preferred.weight), compile_term(&term, symbols)));
                }
                Err(term_errors) => errors.extend(term_errors),
            }
        }
        if errors.is_empty() {
            Ok(Self(terms.into()))
        } else {
            Err(join_errors(&errors))
        }
    }

    /// The sum of the weights of the terms that the node matches.
    pub fn score(&self, cluster: &Cluster, node: NodeId) -> i64 {
        let matching = self
            .0
            .iter()
            .filter(|(_, term)| term.matches(cluster, node));
        matching.map(|(weight, _)| weight).sum()
    }
}

/// Joins error texts as Go's aggregate errors print: one alone, several in brackets,
/// each text once.
fn join_errors(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [only] => (*only).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn compile_term(term: &ParsedTerm, symbols: &mut Symbols) -> NodeTerm {
    let mut requirements = Vec::new();
    for requirement in term.expressions.iter().flatten() {
        requirements.push(compile_requirement(requirement, symbols));
    }
    for field in term.fields.iter().flatten() {
        let value = symbols.intern(&field.value);
        // A field that nodes do not have reads as the empty string.
        let named = field.key == "metadata.name";
        requirements.push(match (named, field.equal, field.value.is_empty()) {
            (true, true, _) => NodeRequirement::Named(value),
            (true, false, _) => NodeRequirement::NotNamed(value),
            (false, equal, empty) if equal == empty => continue,
            (false, _, _) => NodeRequirement::NEVER,
        });
    }
    NodeTerm(requirements.into())
}

fn compile_requirement(requirement: &Requirement, symbols: &mut Symbols) -> NodeRequirement {
    let compare = match requirement.operator {
        Operator::GreaterThan => NodeRequirement::GreaterThan,
        Operator::LessThan => NodeRequirement::LessThan,
        _ => return NodeRequirement::Label(LabelRequirement::compile(requirement, symbols)),
    };
    let bound = requirement
        .values
        .first()
        .and_then(|bound| bound.parse().ok());
    bound.map_or(NodeRequirement::NEVER, |bound| {
        compare(symbols.intern(&requirement.key), bound)
    })
}
