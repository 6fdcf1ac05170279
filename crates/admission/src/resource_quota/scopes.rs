//! Scopes: which objects a quota counts.
//!
//! A quota may name scopes, and conditions on scopes; an object counts if it is in all of
//! them. Of pods there are the scopes
//!
//! * `Terminating` (it has an `activeDeadlineSeconds`) and `NotTerminating`,
//! * `BestEffort` (its class of service) and `NotBestEffort`,
//! * `PriorityClass`: the name of its class, with all four operators,
//! * `CrossNamespacePodAffinity`: it names other namespaces in its (anti-)affinity;
//!
//! of claims to volumes there is
//!
//! * `VolumeAttributesClass`: the class that it has, wants, or is being given.
//!
//! No other object is in any scope, so a quota with scopes never counts those.
//!
//! Source: `pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go`, Kubernetes 1.36.

use std::collections::BTreeSet;
use std::fmt;

use outrank_api::labels::Selector;
use outrank_api::names::quoted;
use outrank_api::qos::{QosClass, qos_class};
use outrank_api::types::{
    LabelSelector, LabelSelectorRequirement, PersistentVolumeClaim, Pod, PodAffinityTerm,
    ResourceQuota, ScopedResourceSelectorRequirement, StringMap,
};

use super::QuotaObject;

const PRIORITY_CLASS: &str = "PriorityClass";
const VOLUME_ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";
const EXISTS: &str = "Exists";

/// All conditions of a quota. A scope that is only named is one that must be there.
pub(super) fn requirements(quota: &ResourceQuota) -> Vec<ScopedResourceSelectorRequirement> {
    let named = quota.spec.scopes.iter();
    let named = named.map(|scope| ScopedResourceSelectorRequirement {
        scope_name: scope.clone(),
        operator: EXISTS.to_owned(),
        values: Vec::new(),
    });
    let selector = quota.spec.scope_selector.iter();
    let selected = selector.flat_map(|selector| selector.match_expressions.iter().cloned());
    named.chain(selected).collect()
}

/// Those of the conditions that the object fulfils; none if it is of a kind without scopes.
///
/// # Errors
/// If a condition is not valid, in upstream's words.
pub(super) fn fulfilled<'r>(
    object: &QuotaObject<'_>,
    requirements: &'r [ScopedResourceSelectorRequirement],
) -> Result<Vec<&'r ScopedResourceSelectorRequirement>, String> {
    let mut fulfilled = Vec::new();
    for requirement in requirements {
        let is_fulfilled = is_fulfilled(object, requirement)
            .map_err(|error| format!("error on matching scope {}: {error}", Shown(requirement)))?;
        if is_fulfilled {
            fulfilled.push(requirement);
        }
    }
    Ok(fulfilled)
}

/// Whether the object fulfils the condition.
///
/// # Errors
/// If the condition is not valid.
pub(super) fn is_fulfilled(
    object: &QuotaObject<'_>,
    requirement: &ScopedResourceSelectorRequirement,
) -> Result<bool, String> {
    match object {
        QuotaObject::Pod(pod) => pod_fulfils(pod, requirement),
        QuotaObject::PersistentVolumeClaim(claim) => claim_fulfils(claim, requirement),
        QuotaObject::Service(_) | QuotaObject::ResourceClaim(_) | QuotaObject::Other(_) => {
            Ok(false)
        }
    }
}

fn pod_fulfils(pod: &Pod, requirement: &ScopedResourceSelectorRequirement) -> Result<bool, String> {
    Ok(match requirement.scope_name.as_str() {
        "Terminating" => has_deadline(pod),
        "NotTerminating" => !has_deadline(pod),
        "BestEffort" => qos_class(pod) == QosClass::BestEffort,
        "NotBestEffort" => qos_class(pod) != QosClass::BestEffort,
        "CrossNamespacePodAffinity" => names_other_namespaces(pod),
        PRIORITY_CLASS => {
            let class = pod.spec.priority_class_name.as_str();
            return value_fulfils(Some(class).filter(|class| !class.is_empty()), requirement);
        }
        _ => false,
    })
}

fn claim_fulfils(
    claim: &PersistentVolumeClaim,
    requirement: &ScopedResourceSelectorRequirement,
) -> Result<bool, String> {
    if requirement.scope_name != VOLUME_ATTRIBUTES_CLASS {
        return Ok(false);
    }
    let classes = volume_attributes_classes(claim);
    if classes.is_empty() {
        return value_fulfils(None, requirement);
    }
    for class in classes {
        if value_fulfils(Some(class), requirement)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a value that an object has in the scope, or has not, is one that is wanted.
fn value_fulfils(
    value: Option<&str>,
    requirement: &ScopedResourceSelectorRequirement,
) -> Result<bool, String> {
    if requirement.operator == EXISTS {
        // Values that do not belong there are passed over.
        return Ok(value.is_some());
    }
    let selector = selector(requirement)
        .map_err(|error| format!("failed to parse and convert selector: {error}"))?;
    let scope = requirement.scope_name.clone();
    let labels: StringMap = value
        .map(|value| (scope, value.to_owned()))
        .into_iter()
        .collect();
    Ok(selector.matches(&labels))
}

fn selector(requirement: &ScopedResourceSelectorRequirement) -> Result<Selector, String> {
    if !matches!(
        requirement.operator.as_str(),
        "In" | "NotIn" | "DoesNotExist"
    ) {
        let operator = quoted(&requirement.operator);
        return Err(format!("{operator} is not a valid scope selector operator"));
    }
    Selector::from_label_selector(Some(&LabelSelector {
        match_labels: StringMap::new(),
        match_expressions: vec![LabelSelectorRequirement {
            key: requirement.scope_name.clone(),
            operator: requirement.operator.clone(),
            values: requirement.values.clone(),
        }],
    }))
}

/// Whether the pod ends by itself, after a time that it states.
pub(super) fn has_deadline(pod: &Pod) -> bool {
    pod.spec
        .active_deadline_seconds
        .is_some_and(|seconds| seconds >= 0)
}

fn names_other_namespaces(pod: &Pod) -> bool {
    let Some(affinity) = &pod.spec.affinity else {
        return false;
    };
    let names_others =
        |term: &PodAffinityTerm| !term.namespaces.is_empty() || term.namespace_selector.is_some();
    let both = [&affinity.pod_affinity, &affinity.pod_anti_affinity];
    both.into_iter().flatten().any(|affinity| {
        let required = &affinity.required;
        let preferred = &affinity.preferred;
        let preferred = preferred.iter().map(|weighted| &weighted.pod_affinity_term);
        required.iter().chain(preferred).any(names_others)
    })
}

fn volume_attributes_classes(claim: &PersistentVolumeClaim) -> BTreeSet<&str> {
    let (spec, status) = (&claim.spec, &claim.status);
    let target = status.modify_volume_status.as_ref();
    let names = [
        spec.volume_attributes_class_name.as_deref(),
        status.current_volume_attributes_class_name.as_deref(),
        target.map(|modify| modify.target_volume_attributes_class_name.as_str()),
    ];
    let names = names.into_iter().flatten();
    names.filter(|name| !name.is_empty()).collect()
}

/// A condition as upstream's messages show it: `{PriorityClass In [high]}`.
pub(super) struct Shown<'r>(pub(super) &'r ScopedResourceSelectorRequirement);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScopedResourceSelectorRequirement {
            scope_name,
            operator,
            values,
        } = self.0;
        write!(f, "{{{scope_name} {operator} [{}]}}", values.join(" "))
    }
}
