//! Where pods may and would like to go: affinities, tolerations, spread.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::errors::{Errors, dns_label};
use super::selector::{label_selector, node_selector, node_selector_term};
use crate::diagnostic::Here;
use crate::fields_of::FieldsOf;
use crate::names::{label_key_errors, label_value_errors};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const NOT_POSITIVE: &str = "must be greater than zero";
const BOTH_SELECTED: &str = "exists in both matchLabelKeys and labelSelector";

/// The effects of taints.
pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the affinity of a pod.
pub(super) fn affinity(affinity: &Value, here: &Here<'_>, errors: &mut Errors) {
    if let Some(nodes) = affinity.part("nodeAffinity") {
        node_affinity(nodes, &here.field("nodeAffinity"), errors);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        if let Some(pods) = affinity.part(field) {
            pod_affinity(pods, &here.field(field), errors);
        }
    }
}

fn node_affinity(affinity: &Value, here: &Here<'_>, errors: &mut Errors) {
    if let Some(required) = affinity.part(REQUIRED) {
        node_selector(required, &here.field(REQUIRED), errors);
    }
    let preferred = here.field(PREFERRED);
    for (index, term) in affinity.list(PREFERRED).iter().enumerate() {
        let here = preferred.index(index);
        weight(term, &here, errors);
        let preference = term.part("preference").unwrap_or(&Value::Null);
        node_selector_term(preference, false, &here.field("preference"), errors);
    }
}

fn weight(term: &Value, here: &Here<'_>, errors: &mut Errors) {
    let weight = term.number("weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(&here.field("weight"), weight, "must be in the range 1-100");
    }
}

fn pod_affinity(affinity: &Value, here: &Here<'_>, errors: &mut Errors) {
    let required = here.field(REQUIRED);
    for (index, term) in affinity.list(REQUIRED).iter().enumerate() {
        pod_affinity_term(term, &required.index(index), errors);
    }
    let preferred = here.field(PREFERRED);
    for (index, weighted) in affinity.list(PREFERRED).iter().enumerate() {
        let here = preferred.index(index);
        weight(weighted, &here, errors);
        let term = weighted.part("podAffinityTerm").unwrap_or(&Value::Null);
        pod_affinity_term(term, &here.field("podAffinityTerm"), errors);
    }
}

fn pod_affinity_term(term: &Value, here: &Here<'_>, errors: &mut Errors) {
    label_selector(term, "labelSelector", here, errors);
    label_selector(term, "namespaceSelector", here, errors);
    for namespace in term.texts("namespaces") {
        errors.text(dns_label, namespace, &here.field("namespace"));
    }
    keys_of_the_pod(term, here, errors);
    let key = term.text("topologyKey");
    let here = here.field("topologyKey");
    if key.is_empty() {
        errors.required(&here, "can not be empty");
    }
    errors.text(label_key_errors, key, &here);
}

/// Label keys whose values are those of the pod that the term belongs to.
fn keys_of_the_pod(term: &Value, here: &Here<'_>, errors: &mut Errors) {
    let selector = term.part("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let here = here.field(field);
        if selector.is_none() && !term.list(field).is_empty() {
            let detail = "must not be specified when labelSelector is not set";
            errors.forbidden(&here, detail);
            continue;
        }
        for (index, key) in term.texts(field).enumerate() {
            errors.text(label_key_errors, key, &here.index(index));
        }
    }
    let keys: Vec<&str> = term.texts("matchLabelKeys").collect();
    if let Some(selector) = selector {
        let places = keys.iter().enumerate();
        let places: BTreeMap<&str, usize> = places.map(|(index, key)| (*key, index)).collect();
        // The server adds a requirement for each of the keys; one more is a mistake.
        let mut selected: BTreeSet<&str> = selector.entries("matchLabels").map(|it| it.0).collect();
        for requirement in selector.list("matchExpressions") {
            let key = requirement.text("key");
            if let Some(index) = places.get(key).filter(|_| selected.contains(key)) {
                errors.invalid(&here.index(*index), key, BOTH_SELECTED);
            }
            selected.insert(key);
        }
    }
    let mismatched: BTreeSet<&str> = term.texts("mismatchLabelKeys").collect();
    let here = here.field("matchLabelKeys");
    for (index, key) in keys.iter().enumerate() {
        if mismatched.contains(key) {
            let rule = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&here.index(index), *key, rule);
        }
    }
}

/// Checks what a pod tolerates.
pub(super) fn tolerations(tolerations: &[Value], here: &Here<'_>, errors: &mut Errors) {
    for (index, one) in tolerations.iter().enumerate() {
        toleration(one, &here.index(index), errors);
    }
}

fn toleration(toleration: &Value, here: &Here<'_>, errors: &mut Errors) {
    let (key, operator) = (toleration.text("key"), toleration.text("operator"));
    let (value, effect) = (toleration.text("value"), toleration.text("effect"));
    let (operator_here, effect_here) = (here.field("operator"), here.field("effect"));
    errors.optional_text(label_key_errors, key, &here.field("key"));
    if key.is_empty() && operator != "Exists" {
        let rule = "operator must be Exists when `key` is empty, which means \"match all values \
                    and all keys\"";
        errors.invalid(&operator_here, operator, rule);
    }
    if toleration.part("tolerationSeconds").is_some() && effect != "NoExecute" {
        let rule = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&effect_here, effect, rule);
    }
    match operator {
        "" | "Equal" => {
            let broken = label_value_errors(value);
            if !broken.is_empty() {
                errors.invalid(&operator_here, value, broken.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                let rule = "value must be empty when `operator` is 'Exists'";
                errors.invalid(&operator_here, value, rule);
            }
        }
        // Known, but behind a gate that is off.
        "Lt" | "Gt" => {
            let supported = ["Equal", "Exists", "Lt", "Gt"];
            errors.not_supported(&operator_here, operator, &supported);
        }
        _ => errors.not_supported(&operator_here, operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        errors.word(effect, &EFFECTS, &effect_here);
    }
}

/// Checks how pods are spread.
pub(super) fn spread(constraints: &[Value], here: &Here<'_>, errors: &mut Errors) {
    let pair = |of: &Value| {
        let (key, action) = (of.text("topologyKey"), of.text("whenUnsatisfiable"));
        format!("{{{key}, {action}}}")
    };
    let pairs = constraints.iter().map(pair).enumerate();
    let last: BTreeMap<String, usize> = pairs.map(|(index, pair)| (pair, index)).collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let here = here.index(index);
        let max_skew = constraint.number("maxSkew").unwrap_or(0);
        if max_skew <= 0 {
            errors.invalid(&here.field("maxSkew"), max_skew, NOT_POSITIVE);
        }
        if constraint.text("topologyKey").is_empty() {
            errors.required(&here.field("topologyKey"), "can not be empty");
        }
        let action = constraint.text("whenUnsatisfiable");
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        errors.word(action, &actions, &here.field("whenUnsatisfiable"));
        let own = pair(constraint);
        if last.get(&own).is_some_and(|last| *last > index) {
            let here = here.field("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&here, own.as_str());
        }
        min_domains(constraint, action, &here, errors);
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint.some_text(field) {
                errors.word(policy, &["Honor", "Ignore"], &here.field(field));
            }
        }
        match_label_keys(constraint, &here, errors);
        label_selector(constraint, "labelSelector", &here, errors);
    }
}

fn min_domains(constraint: &Value, action: &str, here: &Here<'_>, errors: &mut Errors) {
    let Some(min_domains) = constraint.number("minDomains") else {
        return;
    };
    let here = here.field("minDomains");
    if min_domains <= 0 {
        errors.invalid(&here, min_domains, NOT_POSITIVE);
    }
    if action != "DoNotSchedule" {
        let rule =
            format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.invalid(&here, min_domains, rule);
    }
}

fn match_label_keys(constraint: &Value, here: &Here<'_>, errors: &mut Errors) {
    let here = here.field("matchLabelKeys");
    if constraint.list("matchLabelKeys").is_empty() {
        return;
    }
    let selector = constraint.part("labelSelector");
    if selector.is_none() {
        let detail = "must not be specified when labelSelector is not set";
        errors.forbidden(&here, detail);
    }
    let mut selected: BTreeSet<&str> = BTreeSet::new();
    if let Some(selector) = selector {
        selected.extend(selector.entries("matchLabels").map(|it| it.0));
        let expressions = selector.list("matchExpressions").iter();
        selected.extend(expressions.map(|it| it.text("key")));
    }
    for (index, key) in constraint.texts("matchLabelKeys").enumerate() {
        errors.text(label_key_errors, key, &here.index(index));
        if selected.contains(key) {
            errors.invalid(&here.index(index), key, BOTH_SELECTED);
        }
    }
}
