//! Amounts of resources: their names, and what may be asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::errors::{Errors, NOT_NEGATIVE, dns_label};
use crate::diagnostic::Here;
use crate::field_error::FieldError;
use crate::fields_of::FieldsOf;
use crate::names::label_key_errors;
use crate::pod_resources::is_extended_resource_name;
use crate::quantity::Quantity;

/// Names without a slash that stand for numbers of objects.
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

/// Names without a slash that some object or other may have a use for.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Where resources are named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a container.
    Container,
    /// In a pod as a whole.
    Pod,
    /// In a quota.
    Quota,
}

/// Checks the name of a resource.
pub(super) fn resource_name(name: &str, place: Place, here: &Here<'_>, errors: &mut Errors) {
    let broken = label_key_errors(name);
    let is_qualified = name.contains('/');
    let is_known = is_qualified || is_standard(name);
    let is_name = broken.is_empty() && is_known;
    for rule in broken.iter() {
        errors.invalid(here, name, rule.as_str());
    }
    if broken.is_empty() && !is_known {
        errors.invalid(
            here,
            name,
            "must be a standard resource type or fully qualified",
        );
    }
    match place {
        Place::Container if !is_qualified => {
            if !is_compute(name) {
                errors.invalid(here, name, "must be a standard resource for containers");
            }
        }
        Place::Container => {
            if !is_native(name) && !is_extended_resource_name(name) {
                errors.invalid(here, name, "doesn't follow extended resource name standard");
            }
        }
        Place::Pod => {
            let supported = ["cpu", "hugepages-", "memory"];
            if is_name && !matches!(name, "cpu" | "memory") && !is_hugepages(name) {
                errors.not_supported(here, name, &supported);
            }
        }
        Place::Quota => {
            if !is_qualified && (!is_standard(name) || name == "storage") && !is_quota_pages(name) {
                errors.invalid(here, name, "must be a standard resource for quota");
            }
        }
    }
}

/// Whether a name without a slash is one of those that are known.
pub(super) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_quota_pages(name)
}

fn is_quota_pages(name: &str) -> bool {
    is_hugepages(name) || name.starts_with("requests.hugepages-")
}

fn is_compute(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_hugepages(name)
}

pub(super) fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether it is one of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether limits may be above requests: not for huge pages and extended resources.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Checks an amount: not negative and, where only whole ones exist, whole.
pub(super) fn amount(name: &str, amount: &Quantity, here: &Here<'_>, errors: &mut Errors) {
    if amount.sign() < 0 {
        errors.invalid(here, amount, NOT_NEGATIVE);
    }
    let is_count = COUNTS.contains(&name) || is_extended_resource_name(name);
    if is_count && amount.milli_value() % 1000 != 0 {
        errors.invalid(here, amount, "must be an integer");
    }
}

/// Checks the requests and limits of a container, or of a pod as a whole. `claims` are the names
/// of the pod's resource claims.
pub(super) fn requirements(
    resources: &Value,
    place: Place,
    claims: &BTreeSet<&str>,
    here: &Here<'_>,
    errors: &mut Errors,
) {
    let (limits, requests) = (here.field("limits"), here.field("requests"));
    for (name, limit) in resources.amounts("limits") {
        let here = limits.key(name);
        resource_name(name, place, &here, errors);
        amount(name, &limit, &here, errors);
        pages(name, &limit, &here, errors);
    }
    let bounds: BTreeMap<&str, Quantity> = resources.amounts("limits").collect();
    for (name, request) in resources.amounts("requests") {
        let here = requests.key(name);
        resource_name(name, place, &here, errors);
        amount(name, &request, &here, errors);
        match bounds.get(name) {
            Some(limit) if request != *limit && !may_overcommit(name) => {
                let rule = format!("must be equal to {name} limit of {limit}");
                errors.invalid(&requests, &request, rule);
            }
            Some(limit) if request > *limit => {
                let rule = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(&requests, &request, rule);
            }
            None if !may_overcommit(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.required(&limits, detail);
            }
            _ => {}
        }
        pages(name, &request, &here, errors);
    }
    let names = || {
        ["limits", "requests"]
            .into_iter()
            .flat_map(|it| resources.entries(it))
    };
    if names().any(|(name, _)| is_hugepages(name))
        && !names().any(|(name, _)| matches!(name, "cpu" | "memory"))
    {
        errors.forbidden(here, "HugePages require cpu or memory");
    }
    claim_names(resources, claims, &here.field("claims"), errors);
}

fn pages(name: &str, amount: &Quantity, here: &Here<'_>, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-") else {
        return;
    };
    let size = size.parse::<Quantity>().map(|size| size.value());
    let size = size.unwrap_or_default();
    let is_multiple = size > 0 && amount.milli_value() % 1000 == 0 && amount.value() % size == 0;
    if !is_multiple {
        let rule = format!("{amount} is not positive integer multiple of {name}");
        errors.invalid(here, amount, rule);
    }
}

/// Which claims of its pod a container uses.
fn claim_names(resources: &Value, known: &BTreeSet<&str>, here: &Here<'_>, errors: &mut Errors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in resources.list("claims").iter().enumerate() {
        let here = here.index(index);
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.required(&here, "");
            continue;
        }
        if seen.contains(name) {
            errors.duplicate(&here, name);
        } else {
            errors.optional_text(dns_label, request, &here.field("request"));
            let key = match request {
                "" => name.to_owned(),
                request => format!("{name}/{request}"),
            };
            let prefix = format!("{name}/");
            let next = seen.range(prefix.clone()..).next();
            let follows = next.is_some_and(|next| next.starts_with(&prefix));
            let overlaps = request.is_empty() && follows;
            if overlaps || seen.contains(&key) {
                errors.duplicate(&here, key.as_str());
            }
            seen.insert(key);
        }
        if !known.contains(name) {
            let names: Vec<&str> = known.iter().copied().collect();
            let which = match names.is_empty() {
                true => " which is empty".to_owned(),
                false => format!(": {}", names.join(", ")),
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{which}");
            errors.0.push(FieldError::not_found(&here, name, detail));
        }
    }
}
