//! The LimitRanger admission plugin: how large pods, containers and claims of a namespace may
//! be, and how large they are if they do not say.
//!
//! A LimitRange has limits of three types. `Container` limits give requests and limits to
//! containers that have none and bound each container, init containers and sidecars included;
//! `Pod` limits bound the pod as a whole; `PersistentVolumeClaim` limits bound what claims
//! request. For each resource there may be a `min`, a `max` and a `maxLimitRequestRatio`.
//!
//! Pods are looked at when they are created and when they are resized, claims also when they
//! are updated. All that is wrong with an object by one LimitRange is told at once.
//!
//! Source: `plugin/pkg/admission/limitranger/admission.go`, Kubernetes 1.36. There, several
//! mistakes come in no fixed order; here they are sorted by resource.
//!
//! ```
//! use outrank_admission::limit_ranger::pod_problems;
//! use outrank_api::types::{LimitRange, Pod};
//!
//! let range: LimitRange = serde_json::from_str(
//!     r#"{"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}"#,
//! ).unwrap();
//! let pod: Pod = serde_json::from_str(
//!     r#"{"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}}"#,
//! ).unwrap();
//! assert_eq!(
//!     pod_problems(&range, &pod),
//!     ["maximum cpu usage per Container is 1, but limit is 2"],
//! );
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::pod_resources::{PodResourcesOptions, pod_limits, pod_requests};
use outrank_api::quantity::Quantity;
use outrank_api::status::Status;
use outrank_api::types::{
    Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, ResourceList,
    ResourceRequirements,
};

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};

/// The annotation that says what the plugin filled in.
pub const LIMIT_RANGER: &str = "kubernetes.io/limit-ranger";

/// The plugin `LimitRanger`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitRanger;

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        if let Some(Object::Pod(pod)) = object
            && is_concerned(attributes)
        {
            for range in cluster.limit_ranges(attributes.namespace) {
                fill_in(range, pod);
            }
        }
        Ok(())
    }

    fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let Some(object) = object.filter(|_| is_concerned(attributes)) else {
            return Ok(());
        };
        let problems_by = |range: &LimitRange| match object {
            Object::Pod(pod) => pod_problems(range, pod),
            Object::PersistentVolumeClaim(claim) => claim_problems(range, claim),
            _ => Vec::new(),
        };
        for range in cluster.limit_ranges(attributes.namespace) {
            let problems = problems_by(range);
            if !problems.is_empty() {
                return Err(attributes.forbidden(Some(object.metadata()), message(&problems)));
            }
        }
        Ok(())
    }
}

/// Problems as they are told together.
pub fn message(problems: &[String]) -> String {
    match problems {
        [problem] => problem.clone(),
        problems => format!("[{}]", problems.join(", ")),
    }
}

/// Whether the plugin has a say: not where the containers of a pod cannot change, and not for
/// what is being deleted.
fn is_concerned(attributes: &Attributes<'_>) -> bool {
    let goes = |old: &Object| old.metadata().deletion_timestamp.is_some();
    if attributes.old.is_some_and(goes) {
        return false;
    }
    match (
        attributes.operation,
        attributes.kind(),
        attributes.subresource,
    ) {
        (Operation::Update, Some(ObjectKind::Pod), subresource) => subresource == "resize",
        (Operation::Delete, ..) => false,
        (_, Some(ObjectKind::Pod | ObjectKind::PersistentVolumeClaim), "") => true,
        _ => false,
    }
}

/// Gives requests and limits to containers that have none of a resource, and notes it in the
/// annotation [`LIMIT_RANGER`]. A pod that needs nothing keeps its spec shared.
pub fn fill_in(range: &LimitRange, pod: &mut Pod) {
    let defaults = container_defaults(range);
    let spec = &pod.spec;
    let mut all = spec.containers.iter().chain(&spec.init_containers);
    if !all.any(|container| lacks(container, &defaults)) {
        return;
    }
    let spec = Arc::make_mut(&mut pod.spec);
    let containers = spec.containers.iter_mut().map(|it| ("container", it));
    let init_containers = spec
        .init_containers
        .iter_mut()
        .map(|it| ("init container", it));
    let notes = containers
        .chain(init_containers)
        .flat_map(|(what, container)| fill_in_container(container, what, &defaults));
    let notes: Vec<String> = notes.collect();
    let note = format!("LimitRanger plugin set: {}", notes.join("; "));
    pod.metadata
        .annotations
        .insert(LIMIT_RANGER.to_owned(), note);
}

/// What containers get that do not say; of several limits the last counts.
fn container_defaults(range: &LimitRange) -> ResourceRequirements {
    let mut defaults = ResourceRequirements::default();
    for limit in limits_of_type(range, "Container") {
        defaults.requests.extend(limit.default_request.clone());
        defaults.limits.extend(limit.default.clone());
    }
    defaults
}

fn lacks(container: &Container, defaults: &ResourceRequirements) -> bool {
    let resources = &container.resources;
    let is_missing = |own: &ResourceList, defaults: &ResourceList| {
        defaults.keys().any(|resource| !own.contains_key(resource))
    };
    is_missing(&resources.requests, &defaults.requests)
        || is_missing(&resources.limits, &defaults.limits)
}

/// Fills in one container; returns what was done, in words.
fn fill_in_container(
    container: &mut Container,
    what: &str,
    defaults: &ResourceRequirements,
) -> Vec<String> {
    let resources = &mut container.resources;
    let limits = add_missing(&mut resources.limits, &defaults.limits);
    let requests = add_missing(&mut resources.requests, &defaults.requests);
    let notes = [("request", requests), ("limit", limits)].into_iter();
    let notes = notes.filter(|(_, added)| !added.is_empty());
    let notes = notes
        .map(|(side, added)| format!("{} {side} for {what} {}", added.join(", "), container.name));
    notes.collect()
}

/// Adds amounts of resources that are not there; returns their names.
fn add_missing(amounts: &mut ResourceList, defaults: &ResourceList) -> Vec<String> {
    let missing = defaults
        .iter()
        .filter(|(resource, _)| !amounts.contains_key(*resource));
    let missing: ResourceList = missing
        .map(|(name, it)| (name.clone(), it.clone()))
        .collect();
    let names = missing.keys().cloned().collect();
    amounts.extend(missing);
    names
}

/// What is wrong with a pod by a LimitRange, in upstream's words.
pub fn pod_problems(range: &LimitRange, pod: &Pod) -> Vec<String> {
    let mut problems = Vec::new();
    for limit in &range.spec.limits {
        match limit.type_.as_str() {
            "Container" => {
                let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
                for container in containers {
                    problems.extend(problems_of(limit, &container.resources));
                }
            }
            "Pod" => problems.extend(problems_of(limit, &whole(pod))),
            _ => {}
        }
    }
    unique(problems)
}

/// What is wrong with a claim by a LimitRange, in upstream's words. Limits of claims count for
/// nothing.
pub fn claim_problems(range: &LimitRange, claim: &PersistentVolumeClaim) -> Vec<String> {
    let requests = &claim.spec.resources.requests;
    let mut problems = Vec::new();
    for limit in limits_of_type(range, "PersistentVolumeClaim") {
        let min = limit.min.iter().filter_map(|(resource, min)| {
            let bound = Bound::new(limit, resource, min);
            bound.min(requests.get(resource), None)
        });
        problems.extend(min);
        let max = limit.max.iter().filter_map(|(resource, max)| {
            let bound = Bound::new(limit, resource, max);
            bound.max_request(requests.get(resource))
        });
        problems.extend(max);
    }
    unique(problems)
}

fn limits_of_type<'r>(
    range: &'r LimitRange,
    limit_type: &str,
) -> impl Iterator<Item = &'r LimitRangeItem> {
    let limits = range.spec.limits.iter();
    limits.filter(move |limit| limit.type_ == limit_type)
}

/// The same problem, of several containers, is told once.
fn unique(mut problems: Vec<String>) -> Vec<String> {
    let mut told = HashSet::with_capacity(problems.len());
    problems.retain(|problem| told.insert(problem.clone()));
    problems
}

/// What a pod requests and may use as a whole: that of its containers, or what the pod itself
/// says of cpu and memory. The overhead does not count.
fn whole(pod: &Pod) -> ResourceRequirements {
    let options = PodResourcesOptions {
        exclude_overhead: true,
        skip_pod_level_resources: true,
        ..PodResourcesOptions::default()
    };
    let mut whole = ResourceRequirements {
        requests: pod_requests(pod, &options),
        limits: pod_limits(pod, &options),
    };
    if let Some(own) = &pod.spec.resources {
        let sides = [
            (&mut whole.requests, &own.requests),
            (&mut whole.limits, &own.limits),
        ];
        for (whole, own) in sides {
            let counted = own
                .iter()
                .filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
            whole.extend(counted.map(|(name, amount)| (name.clone(), amount.clone())));
        }
    }
    whole
}

fn problems_of(limit: &LimitRangeItem, resources: &ResourceRequirements) -> Vec<String> {
    let (requests, limits) = (&resources.requests, &resources.limits);
    let min = limit.min.iter().filter_map(|(resource, min)| {
        let bound = Bound::new(limit, resource, min);
        bound.min(requests.get(resource), limits.get(resource))
    });
    let max = limit.max.iter().filter_map(|(resource, max)| {
        let bound = Bound::new(limit, resource, max);
        bound.max(requests.get(resource), limits.get(resource))
    });
    let ratio = limit
        .max_limit_request_ratio
        .iter()
        .filter_map(|(resource, ratio)| {
            let bound = Bound::new(limit, resource, ratio);
            bound.ratio(requests.get(resource), limits.get(resource))
        });
    min.chain(max).chain(ratio).collect()
}

/// One bound of one resource.
struct Bound<'l> {
    limit_type: &'l str,
    resource: &'l str,
    bound: &'l Quantity,
}

impl<'l> Bound<'l> {
    fn new(limit: &'l LimitRangeItem, resource: &'l str, bound: &'l Quantity) -> Self {
        Self {
            limit_type: &limit.type_,
            resource,
            bound,
        }
    }

    fn min(&self, request: Option<&Quantity>, limit: Option<&Quantity>) -> Option<String> {
        let [request_value, limit_value, bound] = self.at_one_precision(request, limit);
        match (request, limit) {
            (None, _) => Some(format!(
                "{}.  No request is specified",
                self.text("minimum")
            )),
            (Some(request), _) if request_value < bound => Some(format!(
                "{}, but request is {request}",
                self.text("minimum")
            )),
            (_, Some(limit)) if limit_value < bound => {
                Some(format!("{}, but limit is {limit}", self.text("minimum")))
            }
            _ => None,
        }
    }

    fn max(&self, request: Option<&Quantity>, limit: Option<&Quantity>) -> Option<String> {
        let [request_value, limit_value, bound] = self.at_one_precision(request, limit);
        match (request, limit) {
            (_, None) => Some(format!("{}.  No limit is specified", self.text("maximum"))),
            (_, Some(limit)) if limit_value > bound => {
                Some(format!("{}, but limit is {limit}", self.text("maximum")))
            }
            (Some(request), _) if request_value > bound => Some(format!(
                "{}, but request is {request}",
                self.text("maximum")
            )),
            _ => None,
        }
    }

    fn max_request(&self, request: Option<&Quantity>) -> Option<String> {
        let [request_value, _, bound] = self.at_one_precision(request, None);
        match request {
            None => Some(format!(
                "{}.  No request is specified",
                self.text("maximum")
            )),
            Some(request) if request_value > bound => Some(format!(
                "{}, but request is {request}",
                self.text("maximum")
            )),
            Some(_) => None,
        }
    }

    fn ratio(&self, request: Option<&Quantity>, limit: Option<&Quantity>) -> Option<String> {
        let Self {
            limit_type,
            resource,
            bound,
        } = self;
        let text = format!("{resource} max limit to request ratio per {limit_type} is {bound}");
        let [request, limit, _] = self.at_one_precision(request, limit);
        if request == 0 {
            return Some(format!(
                "{text}, but no request is specified or request is 0"
            ));
        }
        if limit == 0 {
            return Some(format!("{text}, but no limit is specified or limit is 0"));
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "upstream divides them as floats"
        )]
        let (ratio, bound, scale) = {
            let ratio = limit as f64 / request as f64;
            match bound.value() <= MAX_MILLI_VALUE {
                true => (ratio, bound.milli_value() as f64, 1000.0),
                false => (ratio, bound.value() as f64, 1.0),
            }
        };
        (ratio * scale > bound).then(|| format!("{text}, but provided ratio is {ratio:.6}"))
    }

    fn text(&self, which: &str) -> String {
        let Self {
            limit_type,
            resource,
            bound,
        } = self;
        format!("{which} {resource} usage per {limit_type} is {bound}")
    }

    /// Request, limit and bound as integers: in thousandths if all of them are small enough.
    /// What is absent is 0.
    fn at_one_precision(&self, request: Option<&Quantity>, limit: Option<&Quantity>) -> [i64; 3] {
        let zero = Quantity::default();
        let all = [request.unwrap_or(&zero), limit.unwrap_or(&zero), self.bound];
        match all.iter().all(|it| it.value() <= MAX_MILLI_VALUE) {
            true => all.map(Quantity::milli_value),
            false => all.map(Quantity::value),
        }
    }
}

/// The largest amount whose thousandths can be counted.
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;
