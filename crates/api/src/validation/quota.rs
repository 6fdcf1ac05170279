//! Quotas: which resources may be limited, in which scopes, and by how much.
//!
//! Source: `ValidateResourceQuota` and its kin in `pkg/apis/core/validation/validation.go`, and the
//! lists of names in `pkg/apis/core/helper/helpers.go`, Kubernetes 1.36.

use std::collections::BTreeSet;

use serde_json::Value;

use super::errors::{Errors, IMMUTABLE};
use super::resources::{Place, amount, is_standard, resource_name};
use super::workload::go_struct;
use crate::diagnostic::Here;
use crate::field_error::{BadValue, go_json};
use crate::fields_of::FieldsOf;

/// The scopes that Kubernetes knows.
pub const QUOTA_SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// Scopes that an object is in or not; there are no values to choose from.
const SCOPES_WITHOUT_VALUES: [&str; 5] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
];

/// Scopes of which a quota may have one.
const CONFLICTING_SCOPES: [[&str; 2]; 2] = [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
];

/// What pods use while they run, and can be limited in a scope of pods.
const POD_COMPUTE_RESOURCES: [&str; 6] = [
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];

/// Checks the spec of a quota.
pub(super) fn quota(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    amounts(spec, "hard", here, errors);
    scopes(spec, &here.field("scopes"), errors);
    if let Some(selector) = spec.part("scopeSelector") {
        let here = here.field("scopeSelector");
        let here = here.field("matchExpressions");
        scope_selector(selector, spec, &here, errors);
    }
}

/// Checks the status of a quota, as a controller writes it.
pub(super) fn quota_status(status: &Value, here: &Here<'_>, errors: &mut Errors) {
    amounts(status, "hard", here, errors);
    amounts(status, "used", here, errors);
}

/// The scopes of a quota may not change, but their order may.
pub(super) fn same_scopes(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    let set = |spec: &Value| -> BTreeSet<String> {
        let scopes = spec.texts("scopes");
        scopes.map(str::to_owned).collect()
    };
    if set(new) != set(old) {
        let value = new.part("scopes").unwrap_or(&Value::Null);
        errors.invalid(&here.field("scopes"), value, IMMUTABLE);
    }
}

fn amounts(object: &Value, field: &str, here: &Here<'_>, errors: &mut Errors) {
    let here = here.field(field);
    for (name, value) in object.amounts(field) {
        let here = here.key(name);
        resource_name(name, Place::Quota, &here, errors);
        amount(name, &value, &here, errors);
    }
}

fn scopes(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let value = spec.part("scopes").unwrap_or(&Value::Null);
    for scope in spec.texts("scopes") {
        if !QUOTA_SCOPES.contains(&scope) {
            errors.invalid(here, value, "unsupported scope");
        }
        refuse_other_resources(scope, spec, || value.into(), here, errors);
    }
    if have_conflict(spec.texts("scopes")) {
        errors.invalid(here, value, "conflicting scopes");
    }
}

fn scope_selector(selector: &Value, spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let shown = || BadValue::json(shown_selector(selector));
    let requirements = selector.list("matchExpressions");
    for requirement in requirements {
        let scope = requirement.text("scopeName");
        if !QUOTA_SCOPES.contains(&scope) {
            errors.invalid(&here.field("scopeName"), scope, "unsupported scope");
        }
        refuse_other_resources(scope, spec, shown, here, errors);
        operator_and_values(requirement, here, errors);
    }
    if have_conflict(requirements.iter().map(|it| it.text("scopeName"))) {
        let value = spec.part("scopes").unwrap_or(&Value::Null);
        errors.invalid(here, value, "conflicting scopes");
    }
}

/// Whether operator and values fit the scope and each other.
fn operator_and_values(requirement: &Value, here: &Here<'_>, errors: &mut Errors) {
    let operator = requirement.text("operator");
    let has_values = !requirement.list("values").is_empty();
    let (operator_here, values_here) = (here.field("operator"), here.field("values"));
    if SCOPES_WITHOUT_VALUES.contains(&requirement.text("scopeName")) && operator != "Exists" {
        let rule = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                    ResourceQuotaScopeNotBestEffort or \
                    ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(&operator_here, operator, rule);
    }
    match operator {
        "In" | "NotIn" if !has_values => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope \
                          selector";
            errors.required(&values_here, detail);
        }
        "Exists" | "DoesNotExist" if has_values => {
            let rule = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope \
                        selector";
            let value = requirement.part("values").unwrap_or(&Value::Null);
            errors.invalid(&values_here, value, rule);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.invalid(&operator_here, operator, "not a valid selector operator"),
    }
}

/// Refuses the scope once for each resource that the quota limits and that cannot be limited in
/// it. The texts are equal; the API server says so as often, too.
fn refuse_other_resources(
    scope: &str,
    spec: &Value,
    shown: impl Fn() -> BadValue,
    here: &Here<'_>,
    errors: &mut Errors,
) {
    for (name, _) in spec.entries("hard") {
        let is_of_quotas = is_standard(name) && name != "storage";
        if is_of_quotas && !applies_to(scope, name) {
            errors.invalid(here, shown(), "unsupported scope applied to resource");
        }
    }
}

fn applies_to(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => {
            resource == "pods" || POD_COMPUTE_RESOURCES.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => true,
    }
}

fn have_conflict<'s>(scopes: impl Iterator<Item = &'s str>) -> bool {
    let scopes: BTreeSet<&str> = scopes.collect();
    let mut pairs = CONFLICTING_SCOPES.iter();
    pairs.any(|pair| pair.iter().all(|scope| scopes.contains(scope)))
}

/// A selector as upstream shows it.
fn shown_selector(selector: &Value) -> String {
    let requirement = |requirement: &Value| {
        let fields = ["scopeName", "operator", "values"];
        let mut whole = requirement.clone();
        if let Value::Object(whole) = &mut whole {
            whole.entry("scopeName").or_insert_with(|| "".into());
            whole.entry("operator").or_insert_with(|| "".into());
        }
        go_struct(&whole, &fields, |_, value| go_json(value))
    };
    go_struct(selector, &["matchExpressions"], |_, requirements| {
        let requirements = requirements.as_array().into_iter().flatten();
        let requirements: Vec<String> = requirements.map(requirement).collect();
        format!("[{}]", requirements.join(","))
    })
}
