//! What a rehearsal leaves out when templates change.
//!
//! Rollouts are not modelled: a Deployment's counts as complete, and pods of StatefulSets
//! and DaemonSets stay as they are. A rollout that hangs on the way would go unnoticed, so
//! every one is pointed out.

use std::collections::BTreeMap;

use outrank_api::decode::Object;
use outrank_api::types::{Container, Pod, PodSpec};

/// What to tell people about the rollouts that these objects bring about.
pub(super) fn warnings(
    objects: &[Object],
    kept: &[Pod],
    deleted: &[Pod],
    created: &[Pod],
) -> Vec<String> {
    let mut warnings = Vec::new();
    for object in objects {
        let metadata = object.metadata();
        let name = format!(
            "{} {}/{}",
            object.kind().name(),
            metadata.namespace,
            metadata.name
        );
        let owned = |pod: &&Pod| {
            pod.metadata.namespace == metadata.namespace
                && pod.metadata.controller().is_some_and(|owner| {
                    owner.kind == object.kind().name() && owner.name == metadata.name
                })
        };
        let template = match object {
            Object::StatefulSet(set) => &set.spec.template.spec,
            Object::DaemonSet(set) => &set.spec.template.spec,
            _ => continue,
        };
        let differing = kept
            .iter()
            .filter(owned)
            .filter(|pod| differs(&pod.spec, template));
        let pods: Vec<&str> = differing.map(|pod| pod.metadata.name.as_str()).collect();
        if let [first, ..] = pods.as_slice() {
            warnings.push(format!(
                "{name}: its template differs from {} running pods ({first}, ...); they are \
                 taken to stay as they are, a rollout is not rehearsed",
                pods.len()
            ));
        }
    }
    warnings.extend(of_deployments(deleted, created));
    warnings
}

/// Deployments that replace pods: the ReplicaSets of pods that go and of those that come
/// have the name of the Deployment and a hash.
fn of_deployments(deleted: &[Pod], created: &[Pod]) -> Vec<String> {
    let deployment = |pod: &Pod| {
        let owner = pod
            .metadata
            .controller()
            .filter(|owner| owner.kind == "ReplicaSet")?;
        let (name, _) = owner.name.rsplit_once('-')?;
        Some((pod.metadata.namespace.clone(), name.to_owned()))
    };
    let mut replaced: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    for key in deleted.iter().filter_map(deployment) {
        replaced.entry(key).or_default().0 += 1;
    }
    for key in created.iter().filter_map(deployment) {
        replaced.entry(key).or_default().1 += 1;
    }
    let both = replaced
        .into_iter()
        .filter(|(_, (gone, new))| *gone > 0 && *new > 0);
    both.map(|((namespace, name), (gone, new))| {
        format!(
            "Deployment {namespace}/{name} replaces {gone} pods by {new} new ones; the rollout \
             is taken to be complete, room for its surge is not rehearsed"
        )
    })
    .collect()
}

/// Whether a pod's containers are not those of a template. Containers that only the pod has
/// were added when it was created.
fn differs(pod: &PodSpec, template: &PodSpec) -> bool {
    let is_same = |wanted: &Container, containers: &[Container]| {
        let own = containers
            .iter()
            .find(|container| container.name == wanted.name);
        own.is_some_and(|own| {
            let asks = |resource: &String| {
                let requests = &wanted.resources.requests;
                requests
                    .get(resource)
                    .or_else(|| wanted.resources.limits.get(resource))
            };
            let requested = wanted
                .resources
                .requests
                .keys()
                .chain(wanted.resources.limits.keys());
            own.image == wanted.image
                && requested
                    .into_iter()
                    .all(|name| own.resources.requests.get(name) == asks(name))
        })
    };
    !template
        .containers
        .iter()
        .all(|wanted| is_same(wanted, &pod.containers))
        || !template
            .init_containers
            .iter()
            .all(|wanted| is_same(wanted, &pod.init_containers))
}
