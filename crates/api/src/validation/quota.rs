//! Quotas: which resources may be limited, in which scopes, and by how much.
//!
//! The messages are upstream's, word for word, since people search for them. Source:
//! `ValidateResourceQuota` and its kin in `pkg/apis/core/validation/validation.go`, and the
//! lists of names in `pkg/apis/core/helper/helpers.go`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::diagnostic::{Findings, Here};
use crate::names::{label_key_errors, quoted, quoted_json, quoted_list};
use crate::pod_resources::is_extended_resource_name;
use crate::types::{
    ResourceList, ResourceQuotaSpec, ResourceQuotaStatus, ScopeSelector,
    ScopedResourceSelectorRequirement,
};

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

/// Names without a slash that a quota may limit, beside hugepages.
const STANDARD_RESOURCES: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// Names that stand for numbers of objects.
const COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
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
pub(super) fn check_quota(spec: &ResourceQuotaSpec, here: &Here<'_>, findings: &mut Findings) {
    check_amounts(&spec.hard, &here.field("hard"), findings);
    check_scopes(spec, &here.field("scopes"), findings);
    if let Some(selector) = &spec.scope_selector {
        let selector_here = here.field("scopeSelector");
        let expressions = selector_here.field("matchExpressions");
        check_selector(selector, &spec.hard, &expressions, findings);
    }
}

/// Checks the status of a quota, as a controller writes it.
pub(super) fn check_quota_status(
    status: &ResourceQuotaStatus,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    check_amounts(&status.hard, &here.field("hard"), findings);
    check_amounts(&status.used, &here.field("used"), findings);
}

fn check_amounts(amounts: &ResourceList, here: &Here<'_>, findings: &mut Findings) {
    for (name, amount) in amounts {
        let here = here.key(name);
        check_resource_name(name, &here, findings);
        if amount.sign() < 0 {
            let value = quoted(&amount.to_string());
            invalid(
                &here,
                &value,
                "must be greater than or equal to 0",
                findings,
            );
        }
        let is_count = COUNTS.contains(&name.as_str()) || is_extended_resource_name(name);
        if is_count && amount.milli_value() % 1000 != 0 {
            invalid(
                &here,
                &quoted(&amount.to_string()),
                "must be an integer",
                findings,
            );
        }
    }
}

fn check_resource_name(name: &str, here: &Here<'_>, findings: &mut Findings) {
    let value = quoted_json(name);
    let problems = label_key_errors(name);
    for problem in &problems {
        invalid(here, &value, problem, findings);
    }
    if name.contains('/') || is_standard_resource(name) {
        return;
    }
    // A volume's size has a name, too, though no quota limits it under that.
    if problems.is_empty() && name != "storage" {
        let rule = "must be a standard resource type or fully qualified";
        invalid(here, &value, rule, findings);
    }
    invalid(
        here,
        &value,
        "must be a standard resource for quota",
        findings,
    );
}

fn check_scopes(spec: &ResourceQuotaSpec, here: &Here<'_>, findings: &mut Findings) {
    let value = quoted_list(&spec.scopes);
    for scope in &spec.scopes {
        if !QUOTA_SCOPES.contains(&scope.as_str()) {
            invalid(here, &value, "unsupported scope", findings);
        }
        check_applies(scope, &spec.hard, here, &value, findings);
    }
    if have_conflict(spec.scopes.iter().map(String::as_str)) {
        invalid(here, &value, "conflicting scopes", findings);
    }
}

fn check_selector(
    selector: &ScopeSelector,
    hard: &ResourceList,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let value = selector_json(selector);
    for requirement in &selector.match_expressions {
        let scope = requirement.scope_name.as_str();
        if !QUOTA_SCOPES.contains(&scope) {
            let here = here.field("scopeName");
            invalid(&here, &quoted_json(scope), "unsupported scope", findings);
        }
        check_applies(scope, hard, here, &value, findings);
        check_requirement(requirement, here, findings);
    }
    let scopes = selector.match_expressions.iter();
    if have_conflict(scopes.map(|requirement| requirement.scope_name.as_str())) {
        invalid(here, &value, "conflicting scopes", findings);
    }
}

/// Whether operator and values fit the scope and each other.
fn check_requirement(
    requirement: &ScopedResourceSelectorRequirement,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let operator = requirement.operator.as_str();
    let (operator_here, values_here) = (here.field("operator"), here.field("values"));
    if SCOPES_WITHOUT_VALUES.contains(&requirement.scope_name.as_str()) && operator != "Exists" {
        let rule = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                    ResourceQuotaScopeNotBestEffort or \
                    ResourceQuotaScopeCrossNamespacePodAffinity";
        invalid(&operator_here, &quoted_json(operator), rule, findings);
    }
    let has_values = !requirement.values.is_empty();
    match operator {
        "In" | "NotIn" if !has_values => {
            let rule = "must be at least one value when `operator` is 'In' or 'NotIn' for scope \
                        selector";
            findings.error(&values_here, format!("Required value: {rule}"));
        }
        "Exists" | "DoesNotExist" if has_values => {
            let rule = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope \
                        selector";
            let value = quoted_list(&requirement.values);
            invalid(&values_here, &value, rule, findings);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => {
            let rule = "not a valid selector operator";
            invalid(&operator_here, &quoted_json(operator), rule, findings);
        }
    }
}

fn invalid(here: &Here<'_>, value: &str, rule: &str, findings: &mut Findings) {
    findings.error(here, format!("Invalid value: {value}: {rule}"));
}

/// Refuses the scope once for each resource that the quota limits and that cannot be limited in
/// it. The texts are equal; the API server says so as often, too.
fn check_applies(
    scope: &str,
    hard: &ResourceList,
    here: &Here<'_>,
    value: &str,
    findings: &mut Findings,
) {
    for name in hard.keys().filter(|name| is_standard_resource(name)) {
        if !applies_to(scope, name) {
            invalid(
                here,
                value,
                "unsupported scope applied to resource",
                findings,
            );
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

fn is_standard_resource(name: &str) -> bool {
    STANDARD_RESOURCES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn have_conflict<'s>(scopes: impl Iterator<Item = &'s str>) -> bool {
    let scopes: BTreeSet<&str> = scopes.collect();
    let mut pairs = CONFLICTING_SCOPES.iter();
    pairs.any(|pair| pair.iter().all(|scope| scopes.contains(scope)))
}

/// A selector as upstream shows it: JSON with the names that the fields have in its code.
fn selector_json(selector: &ScopeSelector) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Shown<'s> {
        scope_name: &'s str,
        operator: &'s str,
        values: Option<&'s [String]>,
    }
    let shown: Vec<Shown<'_>> = selector
        .match_expressions
        .iter()
        .map(|requirement| Shown {
            scope_name: &requirement.scope_name,
            operator: &requirement.operator,
            values: Some(requirement.values.as_slice()).filter(|values| !values.is_empty()),
        })
        .collect();
    let shown = Some(shown).filter(|shown| !shown.is_empty());
    let shown = serde_json::to_string(&BTreeMap::from([("MatchExpressions", shown)]));
    // Texts always have a JSON form.
    let json = shown.unwrap_or_default();
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
