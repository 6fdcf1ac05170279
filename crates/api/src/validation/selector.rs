//! Selectors: of labels, and of nodes.

use serde_json::Value;

use super::errors::{Errors, dns_subdomain};
use crate::diagnostic::Here;
use crate::field_error::BadValue;
use crate::fields_of::FieldsOf;
use crate::labels::Selector;
use crate::names::{label_key_errors, label_value_errors};
use crate::types::{LabelSelector, StringMap};

const NOT_AN_OPERATOR: &str = "not a valid selector operator";

/// Checks a label selector, if there is one in the field.
pub(super) fn label_selector(object: &Value, field: &str, here: &Here<'_>, errors: &mut Errors) {
    let Some(selector) = object.part(field) else {
        return;
    };
    let here = here.field(field);
    errors.labels(selector, "matchLabels", &here);
    let expressions = here.field("matchExpressions");
    for (index, requirement) in selector.list("matchExpressions").iter().enumerate() {
        let here = expressions.index(index);
        let known = ["In", "NotIn", "Exists", "DoesNotExist"];
        operator_and_values(requirement, &known, &here, errors);
        key_and_values(requirement, true, &here, errors);
    }
}

/// Whether an operator is known and has as many values as it takes.
fn operator_and_values(requirement: &Value, known: &[&str], here: &Here<'_>, errors: &mut Errors) {
    let operator = requirement.text("operator");
    let count = requirement.list("values").len();
    let values = here.field("values");
    match operator {
        operator if !known.contains(&operator) => {
            errors.invalid(&here.field("operator"), operator, NOT_AN_OPERATOR);
        }
        "In" | "NotIn" if count == 0 => {
            errors.required(
                &values,
                "must be specified when `operator` is 'In' or 'NotIn'",
            );
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&values, detail);
        }
        "Gt" | "Lt" if count != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(&values, detail);
        }
        _ => {}
    }
}

fn key_and_values(requirement: &Value, with_values: bool, here: &Here<'_>, errors: &mut Errors) {
    errors.text(
        label_key_errors,
        requirement.text("key"),
        &here.field("key"),
    );
    let here = here.field("values");
    for (index, value) in requirement.texts("values").enumerate() {
        if with_values {
            errors.text(label_value_errors, value, &here.index(index));
        }
    }
}

/// A label selector as it is applied; `None` if that cannot be. An absent one selects nothing.
pub(super) fn compiled(selector: Option<&Value>) -> Option<Selector> {
    let selector = selector.map(|it| serde_json::from_value::<LabelSelector>(it.clone()));
    let selector = selector.transpose().ok()?;
    Selector::from_label_selector(selector.as_ref()).ok()
}

/// Whether a selector has no requirement at all.
pub(super) fn is_empty(selector: &Value) -> bool {
    selector.entries("matchLabels").next().is_none() && selector.list("matchExpressions").is_empty()
}

/// The labels in the metadata of a template.
pub(super) fn labels_of(template: &Value) -> StringMap {
    let labels = template.part("metadata").unwrap_or(&Value::Null);
    let labels = labels.entries("labels");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    labels
        .map(|(key, value)| (key.to_owned(), text(value)))
        .collect()
}

/// A label selector as it is shown.
pub(super) fn shown(selector: Option<&Value>) -> BadValue {
    BadValue::from(selector.unwrap_or(&Value::Null))
}

/// Checks the terms of a node selector.
pub(super) fn node_selector(selector: &Value, here: &Here<'_>, errors: &mut Errors) {
    let here = here.field("nodeSelectorTerms");
    let terms = selector.list("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&here, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_selector_term(term, true, &here.index(index), errors);
    }
}

/// Checks one term. Preferences may have values that no label can have.
pub(super) fn node_selector_term(
    term: &Value,
    with_values: bool,
    here: &Here<'_>,
    errors: &mut Errors,
) {
    let expressions = here.field("matchExpressions");
    for (index, requirement) in term.list("matchExpressions").iter().enumerate() {
        let here = expressions.index(index);
        let known = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        operator_and_values(requirement, &known, &here, errors);
        key_and_values(requirement, with_values, &here, errors);
    }
    let fields = here.field("matchFields");
    for (index, requirement) in term.list("matchFields").iter().enumerate() {
        node_field(requirement, &fields.index(index), errors);
    }
}

fn node_field(requirement: &Value, here: &Here<'_>, errors: &mut Errors) {
    let values = here.field("values");
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if requirement.list("values").len() != 1 {
                let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node \
                              field selector";
                errors.required(&values, detail);
            }
        }
        operator => errors.invalid(&here.field("operator"), operator, NOT_AN_OPERATOR),
    }
    match requirement.text("key") {
        "metadata.name" => {
            for (index, value) in requirement.texts("values").enumerate() {
                errors.text(dns_subdomain, value, &values.index(index));
            }
        }
        key => errors.invalid(&here.field("key"), key, "not a valid field selector key"),
    }
}
