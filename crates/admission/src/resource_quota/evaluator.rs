//! Who measures which objects, and when.

use outrank_api::types::ResourceList;

use super::amounts::count;
use super::{GroupResource, Operation, QuotaObject, QuotaRequest};
use super::{claims, devices, pods, scopes, services};

/// Resources that are not stored, and events, which no quota ever counted
/// (`pkg/quota/v1/install/registry.go`).
const NOT_COUNTED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

/// Resources that quotas counted by their mere name before there was `count/`.
const OLD_NAMES: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// Who measures the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evaluator {
    Pods,
    Services,
    PersistentVolumeClaims,
    ResourceClaims,
    /// Objects that merely count, under these names.
    Objects(Vec<String>),
}

impl Evaluator {
    /// Those that measure more than the number of objects, and those with old names: a quota
    /// is held against them whatever else there is.
    pub(super) fn built_in() -> Vec<Evaluator> {
        let core = ["persistentvolumeclaims", "pods", "services"].into_iter();
        let core = core
            .chain(OLD_NAMES)
            .map(|name| GroupResource::new("", name));
        let claims = GroupResource::new("resource.k8s.io", "resourceclaims");
        let all = core.chain([claims]);
        all.filter_map(|resource| Evaluator::of(&resource))
            .collect()
    }

    /// Who measures the objects of this resource; nobody those that quotas never count.
    pub(super) fn of(resource: &GroupResource) -> Option<Evaluator> {
        let key = (resource.group.as_str(), resource.resource.as_str());
        Some(match key {
            key if NOT_COUNTED.contains(&key) => return None,
            ("", "pods") => Evaluator::Pods,
            ("", "services") => Evaluator::Services,
            ("", "persistentvolumeclaims") => Evaluator::PersistentVolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Evaluator::ResourceClaims,
            (group, name) => {
                let mut names = vec![format!("count/{resource}")];
                if group.is_empty() && OLD_NAMES.contains(&name) {
                    names.push(name.to_owned());
                }
                Evaluator::Objects(names)
            }
        })
    }

    /// Whether the request can change what is used.
    pub(super) fn handles(&self, request: &QuotaRequest<'_>) -> bool {
        let is_create = request.operation == Operation::Create;
        match (self, request.subresource) {
            (Evaluator::Pods, "") => is_create || moves_between_scopes(request),
            (Evaluator::Pods, "resize") => !is_create,
            // Upstream compares addresses here, not amounts, and finds every change of the
            // status worth a look.
            (Evaluator::PersistentVolumeClaims, "status") => !is_create,
            (Evaluator::Objects(_), "") => is_create,
            (_, subresource) => subresource.is_empty(),
        }
    }

    /// Whether a quota's limit under this name is one on these objects.
    pub(super) fn is_limited_by(&self, name: &str) -> bool {
        match self {
            Evaluator::Pods => pods::is_limited_by(name),
            Evaluator::Services => services::is_limited_by(name),
            Evaluator::PersistentVolumeClaims => claims::is_limited_by(name),
            Evaluator::ResourceClaims => devices::is_limited_by(name),
            Evaluator::Objects(names) => names.iter().any(|known| known == name),
        }
    }

    /// Those of a quota's limits that are on this object.
    pub(super) fn limits(&self, hard: &ResourceList, object: &QuotaObject<'_>) -> ResourceList {
        let mut limits = hard.clone();
        limits.retain(|name, _| match object {
            QuotaObject::ResourceClaim(claimed) => claimed.is_limited_by(name),
            _ => self.is_limited_by(name),
        });
        limits
    }

    /// What an object of these uses, at a point in time; nothing if it is of another kind.
    pub(super) fn usage(&self, object: &QuotaObject<'_>, now_unix_nanos: i64) -> ResourceList {
        match (self, object) {
            (Evaluator::Pods, QuotaObject::Pod(pod)) => pods::usage(pod, now_unix_nanos),
            (Evaluator::Services, QuotaObject::Service(service)) => services::usage(service),
            (Evaluator::PersistentVolumeClaims, QuotaObject::PersistentVolumeClaim(claim)) => {
                claims::usage(claim)
            }
            (Evaluator::ResourceClaims, QuotaObject::ResourceClaim(claim)) => devices::usage(claim),
            (Evaluator::Objects(names), _) => {
                let names = names.iter().cloned();
                names.map(|name| (name, count(1))).collect()
            }
            _ => ResourceList::new(),
        }
    }

    /// Whether the object states what these limits demand.
    ///
    /// # Errors
    /// What it does not state, in upstream's words.
    pub(super) fn check_stated(
        object: &QuotaObject<'_>,
        limits: &ResourceList,
    ) -> Result<(), String> {
        match object {
            QuotaObject::Pod(pod) => pods::check_stated(pod, limits),
            _ => Ok(()),
        }
    }
}

/// Whether an update gives a pod a deadline: it then counts in other quotas.
fn moves_between_scopes(request: &QuotaRequest<'_>) -> bool {
    match (&request.object, &request.old_object) {
        (QuotaObject::Pod(new), Some(QuotaObject::Pod(old))) => {
            scopes::has_deadline(new) != scopes::has_deadline(old)
        }
        _ => false,
    }
}
