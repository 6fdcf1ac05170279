//! Node selectors: on which nodes a pod may run, by their labels and name.
//!
//! A node selector is a list of terms of which one must hold; a term is a list of
//! requirements on labels (`matchExpressions`) and fields (`matchFields`, in practice
//! `metadata.name`) that must all hold. An empty term selects nothing. A term that cannot
//! be read selects nothing either, and is an error only if no other term selects the node.
//!
//! Source, with error texts: `k8s.io/component-helpers/scheduling/corev1/nodeaffinity`,
//! Kubernetes 1.36.

use crate::fields::FieldRequirement;
use crate::labels::{Operator, Requirement, Selector};
use crate::names;
use crate::types::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, StringMap};

/// The only field of a node that upstream offers to `matchFields`.
const NODE_NAME_FIELD: &str = "metadata.name";

/// A readable, non-empty [`NodeSelectorTerm`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ParsedTerm {
    /// Requirements on the labels, ordered by key; `None` if the term has none.
    pub expressions: Option<Vec<Requirement>>,
    /// Requirements on the fields, in the term's order; `None` if the term has none.
    pub fields: Option<Vec<FieldRequirement>>,
}

impl ParsedTerm {
    /// Whether the term selects a node. A node without a name is not asked for its fields.
    pub fn matches(&self, node_name: &str, labels: &StringMap) -> bool {
        let field = |requirement: &FieldRequirement| {
            let name = if requirement.key == NODE_NAME_FIELD {
                node_name
            } else {
                ""
            };
            (name == requirement.value) == requirement.equal
        };
        self.expressions
            .iter()
            .flatten()
            .all(|requirement| requirement.matches(labels))
            && (node_name.is_empty() || self.fields.iter().flatten().all(field))
    }
}

/// Whether a term has no requirements, and thus selects nothing.
pub fn is_empty_term(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

/// Reads a term, or lists all that is wrong in upstream's words. `path` is the field
/// that holds the term, as named in the errors.
pub fn parse_term(term: &NodeSelectorTerm, path: &str) -> Result<ParsedTerm, Vec<String>> {
    let mut errors = Vec::new();
    let mut expressions = Vec::new();
    for (i, requirement) in term.match_expressions.iter().enumerate() {
        match parse_expression(requirement, &format!("{path}.matchExpressions[{i}]")) {
            Ok(expression) => expressions.push(expression),
            Err(mut more) => errors.append(&mut more),
        }
    }
    let mut fields = Vec::new();
    for (i, requirement) in term.match_fields.iter().enumerate() {
        match parse_field(requirement, &format!("{path}.matchFields[{i}]")) {
            Ok(field) => fields.push(field),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    expressions.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(ParsedTerm {
        expressions: (!expressions.is_empty()).then_some(expressions),
        fields: (!fields.is_empty()).then_some(fields),
    })
}

/// What a pod requires of its node: `spec.nodeSelector` and the required part of
/// `spec.affinity.nodeAffinity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredNodeAffinity {
    node_selector: Selector,
    /// `None` if the pod has no required node affinity.
    terms: Option<Vec<Result<ParsedTerm, Vec<String>>>>,
}

impl RequiredNodeAffinity {
    /// Reads a pod's requirements. Terms that cannot be read are kept for [`Self::matches`].
    pub fn of(spec: &PodSpec) -> Self {
        let affinity = spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref());
        let terms = affinity
            .and_then(|affinity| affinity.required.as_ref())
            .map(|required| {
                let terms = required.node_selector_terms.iter().enumerate();
                terms
                    .filter(|(_, term)| !is_empty_term(term))
                    .map(|(i, term)| parse_term(term, &format!("nodeSelectorTerms[{i}]")))
                    .collect()
            });
        Self {
            node_selector: Selector::from_set(&spec.node_selector),
            terms,
        }
    }

    /// The labels that `spec.nodeSelector` requires; all of them.
    pub fn node_selector(&self) -> &Selector {
        &self.node_selector
    }

    /// The terms of the required node affinity, without the empty ones, of which one must
    /// hold; `None` if the pod has no required node affinity.
    pub fn terms(&self) -> Option<&[Result<ParsedTerm, Vec<String>>]> {
        self.terms.as_deref()
    }

    /// Whether a node fulfils the requirements. It is an error if no term selects the
    /// node and some cannot be read.
    pub fn matches(&self, node_name: &str, labels: &StringMap) -> Result<bool, String> {
        if !self.node_selector.matches(labels) {
            return Ok(false);
        }
        let Some(terms) = &self.terms else {
            return Ok(true);
        };
        let mut errors = Vec::new();
        for term in terms {
            match term {
                Ok(term) if term.matches(node_name, labels) => return Ok(true),
                Ok(_) => {}
                Err(more) => errors.extend_from_slice(more),
            }
        }
        if errors.is_empty() {
            Ok(false)
        } else {
            Err(names::joined_errors(&errors))
        }
    }
}

fn parse_expression(
    requirement: &NodeSelectorRequirement,
    path: &str,
) -> Result<Requirement, Vec<String>> {
    let operator = match requirement.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        other => {
            let supported = r#""In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt""#;
            return Err(vec![unsupported_operator(path, other, supported)]);
        }
    };
    Requirement::new(&requirement.key, operator, requirement.values.clone(), path)
}

fn parse_field(
    requirement: &NodeSelectorRequirement,
    path: &str,
) -> Result<FieldRequirement, String> {
    let equal = match requirement.operator.as_str() {
        "In" => true,
        "NotIn" => false,
        other => return Err(unsupported_operator(path, other, r#""In", "NotIn""#)),
    };
    match requirement.values.as_slice() {
        [value] => Ok(FieldRequirement {
            key: requirement.key.clone(),
            equal,
            value: value.clone(),
        }),
        values => {
            let values = names::quoted_list(values);
            Err(format!(
                "{path}.values: Invalid value: {values}: must have one element"
            ))
        }
    }
}

fn unsupported_operator(path: &str, operator: &str, supported: &str) -> String {
    let operator = names::quoted_json(operator);
    format!("{path}.operator: Unsupported value: {operator}: supported values: {supported}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affinity(terms: serde_json::Value) -> RequiredNodeAffinity {
        let required = serde_json::json!({ "nodeSelectorTerms": terms });
        let spec = serde_json::json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required
        }}});
        RequiredNodeAffinity::of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn no_terms_select_nothing() {
        let labels = StringMap::new();
        assert_eq!(
            affinity(serde_json::json!([])).matches("n", &labels),
            Ok(false)
        );
        assert_eq!(
            affinity(serde_json::json!([{}])).matches("n", &labels),
            Ok(false)
        );
        let unrestricted = RequiredNodeAffinity::of(&PodSpec::default());
        assert_eq!(unrestricted.matches("n", &labels), Ok(true));
    }

    #[test]
    fn another_term_hides_an_error() {
        let affinity = affinity(serde_json::json!([
            { "matchExpressions": [{ "key": "a", "operator": "Bogus" }] },
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] },
        ]));
        assert_eq!(affinity.matches("n", &StringMap::new()), Ok(true));
        let error = affinity.matches("other", &StringMap::new()).unwrap_err();
        assert!(
            error.starts_with("nodeSelectorTerms[0].matchExpressions[0].operator"),
            "{error}"
        );
    }
}
