//! What a rehearsal leaves out when templates change.
//!
//! Rollouts are not modelled: a Deployment's counts as complete, and pods of StatefulSets
//! and DaemonSets stay as they are. A rollout that hangs on the way would go unnoticed, so
//! every one is pointed out.

use std::collections::{BTreeMap, HashMap, HashSet};

use outrank_api::decode::{Object, ObjectKey};
use outrank_api::types::{Container, Pod, PodSpec};

/// What to tell people about the rollouts that these objects bring about.
pub(super) fn warnings(
    objects: &[Object],
    new_templates: &HashSet<ObjectKey>,
    kept: &[Pod],
    deleted: &[Pod],
    created: &[Pod],
) -> Vec<String> {
    let mut owned: HashMap<[&str; 3], Vec<&Pod>> = HashMap::new();
    for pod in kept {
        if let Some(owner) = pod.metadata.controller() {
            let key = [&*owner.kind, &*pod.metadata.namespace, &*owner.name];
            owned.entry(key).or_default().push(pod);
        }
    }
    let mut warnings = Vec::new();
    for object in objects {
        let template = match object {
            Object::StatefulSet(set) => &set.spec.template.spec,
            Object::DaemonSet(set) => &set.spec.template.spec,
            _ => continue,
        };
        let (kind, metadata) = (object.kind().name(), object.metadata());
        let (namespace, name) = (&*metadata.namespace, &*metadata.name);
        let pods = owned.get(&[kind, namespace, name]).into_iter().flatten();
        let is_new = new_templates.contains(&object.key());
        let differing: Vec<_> = pods
            .filter(|pod| is_new || differs(&pod.spec, template))
            .collect();
        if let [first, ..] = differing.as_slice() {
            warnings.push(format!(
                "{kind} {namespace}/{name}: its template differs from {} running pods ({}, ...); \
                 they are taken to stay as they are, a rollout is not rehearsed",
                differing.len(),
                first.metadata.name
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
