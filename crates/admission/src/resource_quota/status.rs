//! What a quota's status says: counted anew from all objects of the namespace.
//!
//! Admission only ever adds to what is used. That pods have ended or are gone, that a claim
//! has shrunk, that the quota limits something else now: all this the quota controller finds
//! by counting again. Source: `CalculateUsage` in `k8s.io/apiserver/pkg/quota/v1/resources.go`
//! and `syncResourceQuota` in `pkg/controller/resourcequota/resource_quota_controller.go`,
//! Kubernetes 1.36.

use std::collections::BTreeSet;

use outrank_api::types::{ResourceList, ResourceQuota, ResourceQuotaStatus};

use super::amounts::{self, count};
use super::evaluator::Evaluator;
use super::{GroupResource, QuotaObject, is_in_scopes};

/// What the objects of a namespace use of the quota, at a point in time: of each resource that
/// it limits and that somebody measures, zero included.
///
/// `countable` are the resources whose objects are in `objects`, if any exist: a limit
/// `count/RESOURCE.GROUP` on another one stays unknown. Pods, services, claims and the
/// resources with old names are always countable.
pub fn usage<'o>(
    quota: &ResourceQuota,
    countable: &BTreeSet<GroupResource>,
    objects: impl IntoIterator<Item = (&'o GroupResource, QuotaObject<'o>)>,
    now_unix_nanos: i64,
) -> ResourceList {
    let hard = &quota.spec.hard;
    let mut evaluators: BTreeSet<Evaluator> = Evaluator::built_in().into_iter().collect();
    evaluators.extend(countable.iter().filter_map(Evaluator::of));
    evaluators.retain(|evaluator| hard.keys().any(|name| evaluator.is_limited_by(name)));
    let is_measured = |name: &String| evaluators.iter().any(|it| it.is_limited_by(name));
    let measured = hard.keys().filter(|name| is_measured(name));
    let mut used: ResourceList = measured.map(|name| (name.clone(), count(0))).collect();
    for (resource, object) in objects {
        let evaluator = Evaluator::of(resource).filter(|it| evaluators.contains(it));
        if let Some(evaluator) = evaluator
            && !evaluator.limits(hard, &object).is_empty()
            && is_in_scopes(quota, &object)
        {
            let added = evaluator.usage(&object, now_unix_nanos);
            used = amounts::sum(&used, &amounts::of_names_in(&added, &used));
        }
    }
    used
}

/// The status that the quota should have; `None` if it has it. What is used of a resource that
/// nobody measures stays as it was.
pub fn status<'o>(
    quota: &ResourceQuota,
    countable: &BTreeSet<GroupResource>,
    objects: impl IntoIterator<Item = (&'o GroupResource, QuotaObject<'o>)>,
    now_unix_nanos: i64,
) -> Option<ResourceQuotaStatus> {
    let mut used = amounts::of_names_in(&quota.status.used, &quota.spec.hard);
    used.extend(usage(quota, countable, objects, now_unix_nanos));
    let status = ResourceQuotaStatus {
        hard: quota.spec.hard.clone(),
        used,
    };
    (status != quota.status).then_some(status)
}
