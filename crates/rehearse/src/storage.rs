//! Storage as controllers leave it before pods are placed: claims made for pods, claims given
//! the default class, volumes made available.
//!
//! Whoever binds claims and makes volumes does so once pods are placed, or at once for
//! classes that do not wait; neither is rehearsed here.

use std::collections::{BTreeSet, HashMap, HashSet};

use outrank_api::decode::Object;
use outrank_api::defaults::default_persistent_volume_claim;
use outrank_api::types::{
    OwnerReference, PersistentVolumeClaim, Pod, StatefulSet, StorageClass, VolumeClaimTemplate,
};
use outrank_engine::Event;

/// By namespace and name.
type StatefulSets<'o> = HashMap<(&'o str, &'o str), &'o StatefulSet>;

/// Everything about storage: what is among the objects, and the claims that are missing of
/// those that controllers make for pods which want a place. Claims for which pods wait
/// that would not wait in a real cluster, or that may be missing by mistake, are told in
/// `warnings`.
pub(crate) fn events(objects: &[Object], pods: &[Pod], warnings: &mut Vec<String>) -> Vec<Event> {
    let default_class = default_class(objects);
    let mut known: HashSet<(&str, String)> = HashSet::new();
    let mut stored: Vec<Object> = Vec::new();
    let mut sets: StatefulSets<'_> = HashMap::new();
    for object in objects {
        match object {
            Object::PersistentVolumeClaim(claim) => {
                known.insert((&claim.metadata.namespace, claim.metadata.name.clone()));
                stored.push(object.clone());
            }
            Object::StatefulSet(set) => {
                sets.insert((&set.metadata.namespace, &set.metadata.name), set);
            }
            object if object.kind().is_storage() => stored.push(object.clone()),
            _ => {}
        }
    }
    for pod in pods.iter().filter(|pod| pod.spec.node_name.is_empty()) {
        for claim in claims_of(pod, &sets) {
            if known.insert((&pod.metadata.namespace, claim.metadata.name.clone())) {
                stored.push(Object::PersistentVolumeClaim(Box::new(claim)));
            }
        }
    }
    for object in &mut stored {
        match object {
            Object::PersistentVolumeClaim(claim) => give_class(claim, default_class),
            // Nobody has looked at it yet; the controller finds nothing wrong with it.
            Object::PersistentVolume(volume) if volume.status.phase == "Pending" => {
                volume.status.phase = "Available".to_owned();
            }
            _ => {}
        }
    }
    warnings.extend(doubtful_claims(&stored, pods));
    stored.into_iter().filter_map(Event::of_storage).collect()
}

/// Claims of pods which want a place that are not in the input, or that wait to be bound
/// by someone whom nobody plays here.
fn doubtful_claims(stored: &[Object], pods: &[Pod]) -> Vec<String> {
    let waiting_classes = stored.iter().filter_map(|object| match object {
        Object::StorageClass(it) => (it.volume_binding_mode.as_deref()
            == Some("WaitForFirstConsumer"))
        .then_some(it.metadata.name.as_str()),
        _ => None,
    });
    let waiting_classes: HashSet<&str> = waiting_classes.collect();
    let claims = stored.iter().filter_map(|object| match object {
        Object::PersistentVolumeClaim(it) => Some((
            (it.metadata.namespace.as_str(), it.metadata.name.as_str()),
            it,
        )),
        _ => None,
    });
    let claims: HashMap<(&str, &str), _> = claims.collect();
    let mut used: BTreeSet<(&str, &str)> = BTreeSet::new();
    for pod in pods.iter().filter(|pod| pod.spec.node_name.is_empty()) {
        let sources = pod
            .spec
            .volumes
            .iter()
            .filter_map(|it| it.persistent_volume_claim.as_ref());
        used.extend(sources.map(|it| (pod.metadata.namespace.as_str(), it.claim_name.as_str())));
    }
    let mut warnings = Vec::new();
    for (namespace, name) in used {
        let Some(claim) = claims.get(&(namespace, name)) else {
            warnings.push(format!(
                "PersistentVolumeClaim {namespace}/{name} is not in the input, so its pods wait; \
                 a dump should have persistentvolumeclaims, persistentvolumes and storageclasses"
            ));
            continue;
        };
        let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
        if claim.spec.volume_name.is_empty() && !waiting_classes.contains(class) {
            warnings.push(format!(
                "PersistentVolumeClaim {namespace}/{name} is bound to no volume, and no \
                 StorageClass {class:?} that waits for pods is in the input, so its pods wait; \
                 binding and provisioning at once are not rehearsed"
            ));
        }
    }
    warnings
}

/// The claims that controllers make for a pod: those of its StatefulSet, and those of its
/// ephemeral volumes.
fn claims_of(pod: &Pod, sets: &StatefulSets<'_>) -> Vec<PersistentVolumeClaim> {
    if pod.spec.volumes.is_empty() {
        return Vec::new();
    }
    let set = pod
        .metadata
        .controller()
        .filter(|owner| owner.kind == "StatefulSet");
    let set = set.and_then(|owner| sets.get(&(&*pod.metadata.namespace, &*owner.name)));
    let templates = set.iter().flat_map(|set| &set.spec.volume_claim_templates);
    let mut claims: Vec<PersistentVolumeClaim> = templates
        .map(|template| {
            let name = format!("{}-{}", template.metadata.name, pod.metadata.name);
            new_claim(template, name, &pod.metadata.namespace)
        })
        .collect();
    for volume in &pod.spec.volumes {
        let ephemeral = volume.ephemeral.as_ref();
        let Some(template) = ephemeral.and_then(|it| it.volume_claim_template.as_ref()) else {
            continue;
        };
        let name = format!("{}-{}", pod.metadata.name, volume.name);
        let mut claim = new_claim(template, name, &pod.metadata.namespace);
        claim.metadata.owner_references = vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }];
        claims.push(claim);
    }
    claims
}

fn new_claim(
    template: &VolumeClaimTemplate,
    name: String,
    namespace: &str,
) -> PersistentVolumeClaim {
    let mut claim = PersistentVolumeClaim {
        metadata: template.metadata.clone(),
        spec: template.spec.clone(),
        ..PersistentVolumeClaim::default()
    };
    claim.metadata.name = name;
    claim.metadata.namespace = namespace.to_owned();
    default_persistent_volume_claim(&mut claim);
    claim
}

/// The class of claims that name none: of those marked so the newest, and of equals the
/// first by name (`pkg/volume/util/storageclass.go`, Kubernetes 1.36).
fn default_class(objects: &[Object]) -> Option<&str> {
    let is_default = |class: &&StorageClass| {
        let annotations = &class.metadata.annotations;
        let keys = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        keys.iter()
            .any(|key| annotations.get(*key).is_some_and(|value| value == "true"))
    };
    let classes = objects.iter().filter_map(|object| match object {
        Object::StorageClass(class) => Some(&**class),
        _ => None,
    });
    let age = |class: &&StorageClass| {
        let created = class.metadata.creation_timestamp.clone();
        (created, std::cmp::Reverse(class.metadata.name.clone()))
    };
    let newest = classes.filter(is_default).max_by_key(age)?;
    Some(&newest.metadata.name)
}

fn give_class(claim: &mut PersistentVolumeClaim, default_class: Option<&str>) {
    let annotation = "volume.beta.kubernetes.io/storage-class";
    let has_class = claim.metadata.annotations.contains_key(annotation);
    if !has_class && claim.spec.volume_name.is_empty() {
        let class = &mut claim.spec.storage_class_name;
        *class = class.take().or(default_class.map(ToOwned::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use crate::run::run;
    use crate::scenario::scenario_of;

    const CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: a, labels: {zone: one}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx}]
      volumes:
      - name: scratch
        ephemeral:
          volumeClaimTemplate:
            spec:
              accessModes: [ReadWriteOnce]
              resources: {requests: {storage: 1Gi}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
"#;

    fn pending(manifest: &str) -> Vec<String> {
        let scenario = scenario_of(manifest);
        let report = run(&scenario, &Default::default(), &mut |_, _| {});
        let pending = report.expect("a report").pending.into_iter();
        pending
            .map(|pod| format!("{}: {}", pod.name, pod.message))
            .collect()
    }

    #[test]
    fn controllers_make_the_claims_of_pods_in_the_default_class() {
        assert_eq!(pending(CLUSTER), Vec::<String>::new());
        let without_class = CLUSTER.replace("is-default-class: \"true\"", "is-default-class: \"\"");
        let message = "0/1 nodes are available: pod has unbound immediate \
                       PersistentVolumeClaims.";
        let told = [format!("web-0: {message}"), format!("web-1: {message}")];
        assert_eq!(pending(&without_class), told);
    }

    #[test]
    fn claims_that_hold_pods_back_are_told() {
        assert_eq!(scenario_of(CLUSTER).warnings, Vec::<String>::new());
        let at_once = CLUSTER.replace("WaitForFirstConsumer", "Immediate");
        let told = scenario_of(&at_once).warnings;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("default/data-web-0 is bound to no volume"));
        let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  \
                   containers: [{name: c, image: i}]\n  volumes:\n  - name: v\n    \
                   persistentVolumeClaim: {claimName: lost}\n";
        let told = scenario_of(&format!("{CLUSTER}{pod}")).warnings;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("default/lost is not in the input"));
    }

    #[test]
    fn a_volume_nobody_looked_at_is_available() {
        let local = CLUSTER.replace("csi.example.com", "kubernetes.io/no-provisioner");
        assert_eq!(pending(&local).len(), 2);
        let volume = |name: &str| {
            format!(
                "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}}}\nspec:\n  \
                 capacity: {{storage: 2Gi}}\n  accessModes: [ReadWriteOnce]\n  \
                 storageClassName: standard\n  local: {{path: /disk}}\n"
            )
        };
        let with_volumes = format!("{local}{}{}", volume("v1"), volume("v2"));
        assert_eq!(pending(&with_volumes).len(), 1);
    }
}
