//! The ResourceQuota admission plugin: how much the objects of a namespace may use together.
//!
//! A ResourceQuota limits resources (`spec.hard`) for the objects that are in its scopes
//! ([scopes](self#scopes)). Its status says which limits are in force and what is used of
//! each. When an object is created, or changed in a way that matters, the plugin
//!
//! 1. finds the quotas of the namespace that count the object;
//! 2. demands that containers state cpu and memory where such a quota limits them, and that
//!    the quota's status is known;
//! 3. demands that what the configuration says is limited (`limitedResources`) is covered by
//!    some quota: a priority class can so be kept to namespaces that limit its use;
//! 4. adds what the object uses, of an update only the increase, and refuses the request if
//!    the sum is over a limit; the first quota that refuses is the one that is named.
//!
//! What comes of it is a list of changes to the quotas' statuses, to be written *before* the
//! object is, with the version of the quota that was read. Whoever loses that race tries
//! again. Usage that was added for an object which then was not stored is found by counting
//! again ([`status`]).
//!
//! Refusals have HTTP code 403, but a scope that no quota covers has 500 and no reason, as
//! upstream answers.
//!
//! # Scopes
//!
//! `Terminating`, `NotTerminating`, `BestEffort`, `NotBestEffort`, `PriorityClass`,
//! `CrossNamespacePodAffinity` of pods; `VolumeAttributesClass` of claims to volumes. Objects
//! of other kinds are in none.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go` (`CheckRequest`)
//! and `pkg/quota/v1/evaluator/core`, Kubernetes 1.36.

mod amounts;
mod claims;
mod devices;
mod evaluator;
mod pods;
mod request;
mod scopes;
mod services;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::decode::ObjectKind;
use outrank_api::names::quoted;
use outrank_api::types::{
    LimitedResource, ResourceList, ResourceQuota, ScopedResourceSelectorRequirement,
};

pub use devices::DevicesClaimed;
pub use pods::is_charged;
pub use request::{Charge, GroupResource, Operation, QuotaObject, QuotaRequest, Refusal};
pub use status::{status, usage};

use evaluator::Evaluator;

/// What one object uses, at a point in time, of all that quotas could limit.
pub fn object_usage(
    resource: &GroupResource,
    object: &QuotaObject<'_>,
    now_unix_nanos: i64,
) -> ResourceList {
    let evaluator = Evaluator::of(resource);
    evaluator.map_or_else(ResourceList::new, |it| it.usage(object, now_unix_nanos))
}

/// Whether the quota, as its spec says, counts the object.
pub fn selects(quota: &ResourceQuota, resource: &GroupResource, object: &QuotaObject<'_>) -> bool {
    let limits = |evaluator: Evaluator| evaluator.limits(&quota.spec.hard, object);
    let limits = Evaluator::of(resource).map(limits);
    limits.is_some_and(|limits| !limits.is_empty()) && is_in_scopes(quota, object)
}

/// Decides on a request. `quotas` are those of the namespace, in the order in which they are to
/// be asked. Returns what is to be written to them before the object is; nothing if the request
/// is dry.
///
/// # Errors
/// If the request is refused.
pub fn admit(
    quotas: &[ResourceQuota],
    limited_resources: &[LimitedResource],
    request: &QuotaRequest<'_>,
    now_unix_nanos: i64,
) -> Result<Vec<Charge>, Refusal> {
    let makes_namespace = request.operation == Operation::Create
        && *request.resource == GroupResource::from(ObjectKind::Namespace);
    if request.namespace.is_empty() || makes_namespace {
        return Ok(Vec::new());
    }
    if quotas.is_empty() && limited_resources.is_empty() {
        return Ok(Vec::new());
    }
    let evaluator = Evaluator::of(request.resource).filter(|it| it.handles(request));
    let Some(evaluator) = evaluator else {
        return Ok(Vec::new());
    };
    let decision = Decision {
        evaluator,
        request,
        now_unix_nanos,
    };
    let charges = decision.decide(quotas, limited_resources)?;
    Ok(if request.dry_run { Vec::new() } else { charges })
}

/// One decision in the making.
struct Decision<'d> {
    evaluator: Evaluator,
    request: &'d QuotaRequest<'d>,
    now_unix_nanos: i64,
}

/// What the quotas of the namespace have to do with the object.
#[derive(Default)]
struct Covered {
    /// Those that count it, by index.
    quotas: Vec<usize>,
    /// All resources that they limit.
    resources: BTreeSet<String>,
    /// Scopes of quotas, counting or not, that the object is in.
    scopes: BTreeSet<String>,
}

impl Decision<'_> {
    fn decide(
        &self,
        quotas: &[ResourceQuota],
        limited: &[LimitedResource],
    ) -> Result<Vec<Charge>, Refusal> {
        let Ok(limited_scopes) = self.limited_scopes(limited) else {
            // So it is upstream: a configuration that makes no sense limits nothing.
            return Ok(Vec::new());
        };
        let usage = self
            .evaluator
            .usage(&self.request.object, self.now_unix_nanos);
        let covered = self.cover(quotas)?;
        let negative = usage.iter().filter(|(_, amount)| amount.sign() < 0);
        let negative: Vec<&str> = negative.map(|(name, _)| name.as_str()).collect();
        if !negative.is_empty() {
            let names = negative.join(",");
            return Err(
                self.forbidden(&format!("quota usage is negative for resource(s): {names}"))
            );
        }
        let increases = self.increases(&usage, quotas, &covered)?;
        if increases.values().all(ResourceList::is_empty) {
            return Ok(Vec::new());
        }
        self.check_covered(limited, &usage, &limited_scopes, &covered)?;
        let mut charges = Vec::new();
        for index in &covered.quotas {
            if let (Some(quota), Some(increase)) =
                (quotas.get(*index), increases.get(&Some(*index)))
            {
                charges.extend(self.charge(*index, quota, increase)?);
            }
        }
        Ok(charges)
    }

    /// The scopes that must be covered since the object is in them. Whose objects the limits
    /// are on does not matter: only objects that have a scope can be in it.
    fn limited_scopes<'l>(
        &self,
        limited: &'l [LimitedResource],
    ) -> Result<Vec<&'l ScopedResourceSelectorRequirement>, String> {
        let mut scopes = Vec::new();
        for limited in limited {
            scopes.extend(scopes::fulfilled(
                &self.request.object,
                &limited.match_scopes,
            )?);
        }
        Ok(scopes)
    }

    fn cover(&self, quotas: &[ResourceQuota]) -> Result<Covered, Refusal> {
        let object = &self.request.object;
        let mut covered = Covered::default();
        for (index, quota) in quotas.iter().enumerate() {
            let name = &quota.metadata.name;
            let requirements = scopes::requirements(quota);
            let fulfilled = scopes::fulfilled(object, &requirements).map_err(|error| {
                Refusal::Internal(format!(
                    "error matching scopes of quota {name}, err: {error}"
                ))
            })?;
            let scopes = fulfilled.iter().map(|it| it.scope_name.clone());
            covered.scopes.extend(scopes);
            let limits = self.evaluator.limits(&quota.status.hard, object);
            if fulfilled.len() < requirements.len() || limits.is_empty() {
                continue;
            }
            if let Err(problem) = Evaluator::check_stated(object, &limits) {
                return Err(self.forbidden(&format!("failed quota: {name}: {problem}")));
            }
            if limits
                .keys()
                .any(|limit| !quota.status.used.contains_key(limit))
            {
                let limits: Vec<&str> = limits.keys().map(String::as_str).collect();
                let limits = limits.join(",");
                let problem = format!("status unknown for quota: {name}, resources: {limits}");
                return Err(self.forbidden(&problem));
            }
            covered.quotas.push(index);
            covered.resources.extend(limits.into_keys());
        }
        Ok(covered)
    }

    /// What the request adds in the eyes of each quota that counts the object, or in nobody's
    /// (`None`) if there is none.
    fn increases(
        &self,
        usage: &ResourceList,
        quotas: &[ResourceQuota],
        covered: &Covered,
    ) -> Result<BTreeMap<Option<usize>, ResourceList>, Refusal> {
        let old = match (self.request.operation, &self.request.old_object) {
            (Operation::Create, _) => None,
            (Operation::Update, None) => {
                let problem = "unable to get previous usage since prior version of object was not \
                               found";
                return Err(self.forbidden(problem));
            }
            // Without a version the update may be what creates the object.
            (Operation::Update, Some(old)) => {
                Some(old).filter(|old| !old.metadata().resource_version.is_empty())
            }
        };
        let increase = old.map(|old| {
            let before = self.evaluator.usage(old, self.now_unix_nanos);
            amounts::increase(usage, &before)
        });
        let mut increases = BTreeMap::new();
        if covered.quotas.is_empty() {
            increases.insert(None, increase.as_ref().unwrap_or(usage));
        }
        for index in &covered.quotas {
            let counted_before = match (old, quotas.get(*index)) {
                (Some(old), Some(quota)) => is_in_scopes(quota, old),
                _ => false,
            };
            let increase = increase.as_ref().filter(|_| counted_before);
            increases.insert(Some(*index), increase.unwrap_or(usage));
        }
        let increases = increases.into_iter();
        Ok(increases
            .map(|(quota, increase)| (quota, amounts::without_zeros(increase)))
            .collect())
    }

    /// Whether quotas cover all that must not be used where none does.
    fn check_covered(
        &self,
        limited: &[LimitedResource],
        usage: &ResourceList,
        limited_scopes: &[&ScopedResourceSelectorRequirement],
        covered: &Covered,
    ) -> Result<(), Refusal> {
        let resource = self.request.resource;
        let limited = limited.iter().filter(|limited| {
            limited.api_group == resource.group && limited.resource == resource.resource
        });
        let parts: Vec<&String> = limited.flat_map(|it| &it.match_contains).collect();
        let uncovered = usage.iter().filter(|(name, amount)| {
            amount.sign() > 0
                && parts.iter().any(|part| name.contains(part.as_str()))
                && !covered.resources.contains(*name)
        });
        let uncovered: Vec<&str> = uncovered.map(|(name, _)| name.as_str()).collect();
        if !uncovered.is_empty() {
            let names = uncovered.join(",");
            return Err(self.forbidden(&format!("insufficient quota to consume: {names}")));
        }
        let uncovered = limited_scopes
            .iter()
            .filter(|scope| !covered.scopes.contains(&scope.scope_name));
        let uncovered: Vec<String> = uncovered.map(|it| scopes::Shown(it).to_string()).collect();
        if !uncovered.is_empty() {
            let scopes = uncovered.join(" ");
            let message = format!("insufficient quota to match these scopes: [{scopes}]");
            return Err(Refusal::Internal(message));
        }
        Ok(())
    }

    /// Adds to one quota; nothing if none of it is limited by that.
    fn charge(
        &self,
        index: usize,
        quota: &ResourceQuota,
        increase: &ResourceList,
    ) -> Result<Option<Charge>, Refusal> {
        let status = &quota.status;
        let requested = amounts::of_names_in(increase, &status.hard);
        let used = amounts::sum(&status.used, &requested);
        let is_over = |name: &String| match (used.get(name), status.hard.get(name)) {
            (Some(used), Some(hard)) => used > hard,
            _ => false,
        };
        let mut exceeded = requested.clone();
        exceeded.retain(|name, _| is_over(name));
        // What a status says has happened already.
        if !exceeded.is_empty() && self.request.subresource != "status" {
            let shown = |amounts| amounts::shown(&amounts::of_names_in(amounts, &exceeded));
            return Err(self.forbidden(&format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.metadata.name,
                shown(&requested),
                shown(&status.used),
                shown(&status.hard),
            )));
        }
        let is_changed = used != status.used;
        Ok(is_changed.then_some(Charge { quota: index, used }))
    }

    fn forbidden(&self, problem: &str) -> Refusal {
        let metadata = self.request.object.metadata();
        let names = [&metadata.name, &metadata.generate_name];
        let name = names.into_iter().find(|name| !name.is_empty());
        let name = quoted(name.map_or("Unknown", String::as_str));
        let resource = self.request.resource;
        Refusal::Forbidden(format!("{resource} {name} is forbidden: {problem}"))
    }
}

/// Whether the object is in all scopes of the quota.
fn is_in_scopes(quota: &ResourceQuota, object: &QuotaObject<'_>) -> bool {
    let requirements = scopes::requirements(quota);
    let mut requirements = requirements.iter();
    requirements.all(|it| scopes::is_fulfilled(object, it).unwrap_or(false))
}
