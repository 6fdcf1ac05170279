//! ReplicaSets that a dump left out.
//!
//! A dump of Deployments and pods without ReplicaSets does not say which pods are the
//! Deployments': their owner is missing. Taken literally, every Deployment would get its
//! pods a second time. So the ReplicaSets are made up again from what the pods say.

use std::collections::BTreeMap;

use outrank_api::decode::{LoadedObject, Object};
use outrank_api::labels::Selector;
use outrank_api::types::{Deployment, LabelSelector, OwnerReference, Pod, ReplicaSet};

const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";

/// The ReplicaSets that pods name as their controllers, that are not among the objects,
/// and that must be a Deployment's. If a Deployment has several, only the one of its
/// newest pods has the Deployment's template; the others are older and go down to none.
pub(crate) fn missing(objects: &[LoadedObject]) -> Vec<ReplicaSet> {
    let objects: Vec<&Object> = objects.iter().map(|loaded| &loaded.object).collect();
    let present = |namespace: &str, name: &str| {
        objects.iter().any(|object| match object {
            Object::ReplicaSet(set) => {
                set.metadata.namespace == namespace && set.metadata.name == name
            }
            _ => false,
        })
    };
    let mut orphans: BTreeMap<(&str, &str), Vec<&Pod>> = BTreeMap::new();
    for object in &objects {
        if let Object::Pod(pod) = object
            && let Some(owner) = pod.metadata.controller()
            && owner.kind == "ReplicaSet"
            && !pod.is_finished()
        {
            orphans
                .entry((&pod.metadata.namespace, &owner.name))
                .or_default()
                .push(pod);
        }
    }
    orphans.retain(|(namespace, name), _| !present(namespace, name));
    let mut made = Vec::new();
    for object in &objects {
        if let Object::Deployment(deployment) = object {
            made.extend(of_deployment(deployment, &orphans));
        }
    }
    made
}

/// What to tell people about a made-up ReplicaSet.
pub(crate) fn warning(set: &ReplicaSet) -> String {
    let metadata = &set.metadata;
    let deployment = metadata
        .controller()
        .map_or("", |owner| owner.name.as_str());
    format!(
        "ReplicaSet {}/{} is not in the input, but pods name it as their owner; it is taken to be \
         of Deployment {deployment}. Dump replicasets too, to be sure",
        metadata.namespace, metadata.name
    )
}

fn of_deployment(
    deployment: &Deployment,
    orphans: &BTreeMap<(&str, &str), Vec<&Pod>>,
) -> Vec<ReplicaSet> {
    let Ok(selector) = Selector::from_label_selector(deployment.spec.selector.as_ref()) else {
        return Vec::new();
    };
    let prefix = format!("{}-", deployment.metadata.name);
    let is_own = |((namespace, name), pods): &(&(&str, &str), &Vec<&Pod>)| {
        *namespace == deployment.metadata.namespace
            && name.starts_with(&prefix)
            && pods
                .iter()
                .all(|pod| selector.matches(&pod.metadata.labels))
    };
    let mut own: Vec<_> = orphans.iter().filter(is_own).collect();
    // The newest pods last: theirs is the template of today.
    own.sort_by_key(|(_, pods)| {
        pods.iter()
            .filter_map(|pod| pod.metadata.creation_timestamp.as_deref())
            .max()
    });
    let current = own.len().checked_sub(1);
    own.iter()
        .enumerate()
        .map(|(index, ((_, name), pods))| {
            replica_set(deployment, name, pods, Some(index) == current)
        })
        .collect()
}

fn replica_set(deployment: &Deployment, name: &str, pods: &[&Pod], is_current: bool) -> ReplicaSet {
    let mut set = ReplicaSet::default();
    set.metadata.name = name.to_owned();
    set.metadata.namespace = deployment.metadata.namespace.clone();
    set.metadata.owner_references.push(OwnerReference {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: deployment.metadata.name.clone(),
        uid: deployment.metadata.uid.clone(),
        controller: Some(true),
        ..OwnerReference::default()
    });
    set.spec.replicas = i32::try_from(pods.len()).ok();
    let mut selector: LabelSelector = deployment.spec.selector.clone().unwrap_or_default();
    let mut template = deployment.spec.template.clone();
    let hashes = pods
        .iter()
        .filter_map(|pod| pod.metadata.labels.get(TEMPLATE_HASH_LABEL));
    if let Some(hash) = hashes.into_iter().next() {
        selector
            .match_labels
            .insert(TEMPLATE_HASH_LABEL.into(), hash.clone());
        template
            .metadata
            .labels
            .insert(TEMPLATE_HASH_LABEL.into(), hash.clone());
    }
    if !is_current {
        // Any template that is not today's: what it was is not known.
        template
            .metadata
            .annotations
            .insert("outrank.dev/unknown-template".into(), name.into());
    }
    set.spec.selector = Some(selector);
    set.spec.template = template;
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::scenario_of;

    const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
";

    fn pod(name: &str, hash: &str, created: &str) -> String {
        format!(
            "---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: web, pod-template-hash: {hash}}}
  creationTimestamp: {created}
  ownerReferences:
  - {{apiVersion: apps/v1, kind: ReplicaSet, name: web-{hash}, uid: u-{hash}, controller: true}}
spec: {{nodeName: n1, containers: [{{name: c, image: i}}]}}
"
        )
    }

    #[test]
    fn pods_without_their_replica_set_stay_their_deployments() {
        let text = format!(
            "{DEPLOYMENT}{}{}",
            pod("web-1", "aaa", "2026-01-01T00:00:00Z"),
            pod("web-2", "aaa", "2026-01-01T00:00:00Z")
        );
        let scenario = scenario_of(&text);
        assert_eq!(scenario.pods.len(), 2, "no pod is made twice");
        assert!(scenario.deleted.is_empty());
        assert_eq!(scenario.warnings.len(), 1);
    }

    #[test]
    fn only_the_newest_replica_set_has_todays_template() {
        let text = format!(
            "{DEPLOYMENT}{}{}",
            pod("web-old", "old", "2026-01-01T00:00:00Z"),
            pod("web-new", "new", "2026-02-01T00:00:00Z")
        );
        let scenario = scenario_of(&text);
        let deleted: Vec<String> = scenario.deleted.iter().map(Pod::key).collect();
        assert_eq!(deleted, ["default/web-old"]);
        assert_eq!(scenario.pods.len(), 2, "one is there, one is created");
    }
}
