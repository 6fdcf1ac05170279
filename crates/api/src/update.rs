//! What of an object cannot be changed once it is there.
//!
//! Of most fields the API server takes any change; some it refuses, and then an object has
//! to be deleted and created anew. Source: the `Validate...Update` functions of
//! `pkg/apis/{core,apps,batch,storage,scheduling}/validation`, Kubernetes 1.36, for the
//! fields that decisions read.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::decode::{LoadedObject, Object, unread};
use crate::types::{NodeSelector, PersistentVolumeClaimSpec, Pod, PodSpec, ResourceQuota};

/// The path of the first field whose change the API server would refuse, both objects being
/// of one kind and defaulted; `None` if it takes the change. Fields that are not typed count
/// if both objects were kept as they were written.
pub fn refused_change(before: &LoadedObject, after: &LoadedObject) -> Option<&'static str> {
    let first = |fields: &[(&'static str, bool)]| {
        let mut changed = fields.iter().filter(|(_, is_same)| !is_same);
        changed.next().map(|(path, _)| *path)
    };
    match (&before.object, &after.object) {
        (Object::Pod(a), Object::Pod(b)) => {
            let is_allowed = may_become(a, b) && unread_spec(before) == unread_spec(after);
            (!is_allowed).then_some("spec of a pod, but for images and a few fields more")
        }
        (Object::PriorityClass(a), Object::PriorityClass(b)) => first(&[
            ("value", a.value == b.value),
            (
                "preemptionPolicy",
                a.preemption_policy == b.preemption_policy,
            ),
        ]),
        (Object::Deployment(a), Object::Deployment(b)) => {
            first(&[("spec.selector", a.spec.selector == b.spec.selector)])
        }
        (Object::ReplicaSet(a), Object::ReplicaSet(b)) => {
            first(&[("spec.selector", a.spec.selector == b.spec.selector)])
        }
        (Object::DaemonSet(a), Object::DaemonSet(b)) => {
            first(&[("spec.selector", a.spec.selector == b.spec.selector)])
        }
        (Object::StatefulSet(a), Object::StatefulSet(b)) => first(&[
            (
                "spec.serviceName",
                written(before, "/spec/serviceName") == written(after, "/spec/serviceName"),
            ),
            ("spec.selector", a.spec.selector == b.spec.selector),
            (
                "spec.podManagementPolicy",
                a.spec.pod_management_policy == b.spec.pod_management_policy,
            ),
            (
                "spec.volumeClaimTemplates",
                a.spec.volume_claim_templates == b.spec.volume_claim_templates,
            ),
        ]),
        // A job that is held may still be told where its pods go.
        (Object::Job(a), Object::Job(b)) => first(&[
            (
                "spec.completionMode",
                a.spec.completion_mode == b.spec.completion_mode,
            ),
            (
                "spec.completions",
                a.spec.completions == b.spec.completions
                    || a.spec.completion_mode.as_deref() == Some("Indexed"),
            ),
            (
                "spec.template",
                a.spec.template == b.spec.template || a.spec.suspend == Some(true),
            ),
        ]),
        (Object::PersistentVolumeClaim(a), Object::PersistentVolumeClaim(b)) => first(&[
            (
                "spec.accessModes",
                a.spec.access_modes == b.spec.access_modes,
            ),
            ("spec.selector", a.spec.selector == b.spec.selector),
            (
                "spec.storageClassName",
                a.spec.storage_class_name.is_none()
                    || a.spec.storage_class_name == b.spec.storage_class_name,
            ),
            ("spec.volumeMode", a.spec.volume_mode == b.spec.volume_mode),
            (
                "spec.volumeName",
                a.spec.volume_name.is_empty() || a.spec.volume_name == b.spec.volume_name,
            ),
            ("spec.resources.requests", may_resize(&a.spec, &b.spec)),
        ]),
        (Object::PersistentVolume(a), Object::PersistentVolume(b)) => first(&[
            ("spec.volumeMode", a.spec.volume_mode == b.spec.volume_mode),
            ("spec.csi", a.spec.csi == b.spec.csi),
            (
                "spec.nodeAffinity",
                a.spec.node_affinity.is_none() || a.spec.node_affinity == b.spec.node_affinity,
            ),
        ]),
        (Object::StorageClass(a), Object::StorageClass(b)) => first(&[
            ("provisioner", a.provisioner == b.provisioner),
            (
                "volumeBindingMode",
                a.volume_binding_mode == b.volume_binding_mode,
            ),
        ]),
        (Object::ResourceQuota(a), Object::ResourceQuota(b)) => {
            let scopes = |quota: &ResourceQuota| -> BTreeSet<String> {
                quota.spec.scopes.iter().cloned().collect()
            };
            first(&[("spec.scopes", scopes(a) == scopes(b))])
        }
        (Object::CSIStorageCapacity(a), Object::CSIStorageCapacity(b)) => first(&[
            ("nodeTopology", a.node_topology == b.node_topology),
            (
                "storageClassName",
                a.storage_class_name == b.storage_class_name,
            ),
        ]),
        _ => None,
    }
}

/// A field that is not typed, as it was written; nothing is empty.
fn written<'o>(object: &'o LoadedObject, pointer: &str) -> &'o str {
    let value = object.raw.pointer(pointer);
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Whether a claim may be given another size: a larger one, once it is bound.
fn may_resize(before: &PersistentVolumeClaimSpec, after: &PersistentVolumeClaimSpec) -> bool {
    let size = |claim: &PersistentVolumeClaimSpec| claim.resources.requests.get("storage").cloned();
    let (before_size, after_size) = (size(before), size(after));
    before_size == after_size || before_size < after_size && !before.volume_name.is_empty()
}

/// Stands for what the spec of a pod says beside the fields that are typed.
fn unread_spec(pod: &LoadedObject) -> u64 {
    let spec = pod.raw.get("spec");
    spec.map_or(0, unread::<PodSpec>)
}

/// Whether a pod may be changed like this: images, an earlier deadline, more tolerations, fewer
/// scheduling gates, and while there are gates also a narrower choice of nodes.
fn may_become(before: &Pod, after: &Pod) -> bool {
    let (old, new) = (&before.spec, &after.spec);
    if Arc::ptr_eq(old, new) || old == new {
        return true;
    }
    let tolerations_grow = old
        .tolerations
        .iter()
        .all(|it| new.tolerations.contains(it));
    let deadlines = (old.active_deadline_seconds, new.active_deadline_seconds);
    let deadline_nears = match deadlines {
        (Some(old), Some(new)) => new <= old,
        (old, _) => old.is_none(),
    };
    let gates_go = (new.scheduling_gates.iter()).all(|it| old.scheduling_gates.contains(it));
    let is_gated = !old.scheduling_gates.is_empty();
    let mut allowed = PodSpec::clone(old);
    let mut wanted = PodSpec::clone(new);
    for spec in [&mut allowed, &mut wanted] {
        let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
        containers.for_each(|container| container.image.clear());
        spec.tolerations.clear();
        spec.scheduling_gates.clear();
        spec.active_deadline_seconds = None;
    }
    if is_gated && narrows_nodes(old, new) {
        for spec in [&mut allowed, &mut wanted] {
            spec.node_selector.clear();
            if let Some(affinity) = &mut spec.affinity {
                affinity.node_affinity = None;
            }
            let is_empty = |it: &mut _| *it == Default::default();
            spec.affinity.take_if(is_empty);
        }
    }
    tolerations_grow && deadline_nears && gates_go && allowed == wanted
}

/// Whether every node that the new spec admits was admitted by the old one, as can be seen
/// from requirements having been added only.
fn narrows_nodes(old: &PodSpec, new: &PodSpec) -> bool {
    let selector_grows =
        (old.node_selector.iter()).all(|(key, value)| new.node_selector.get(key) == Some(value));
    let required = |spec: &PodSpec| -> Option<NodeSelector> {
        let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
        affinity.required.clone()
    };
    let terms_grow = match (required(old), required(new)) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(old), Some(new)) => {
            let (old, new) = (old.node_selector_terms, new.node_selector_terms);
            old.len() == new.len()
                && old.iter().zip(&new).all(|(old, new)| {
                    let has = |it| new.match_expressions.contains(it);
                    old.match_expressions.iter().all(has)
                        && old
                            .match_fields
                            .iter()
                            .all(|it| new.match_fields.contains(it))
                        && (old != &Default::default() || new == old)
                })
        }
    };
    selector_grows && terms_grow
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::{Origin, decode_value};

    fn refused(before: Value, after: Value) -> Option<&'static str> {
        let [before, after] = [before, after].map(|raw| LoadedObject {
            object: decode_value(raw.clone()).expect("an object"),
            raw,
            origin: Origin::default(),
        });
        refused_change(&before, &after)
    }

    fn pod(spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    }

    #[test]
    fn of_a_pod_little_may_change() {
        let spec = json!({"containers": [{"name": "c", "image": "i:1"}],
                          "tolerations": [{"key": "a", "operator": "Exists"}]});
        let mut newer = spec.clone();
        newer["containers"][0]["image"] = "i:2".into();
        let more = json!({"key": "b", "operator": "Exists"});
        newer["tolerations"]
            .as_array_mut()
            .expect("a list")
            .push(more);
        assert_eq!(refused(pod(spec.clone()), pod(newer.clone())), None);
        assert!(refused(pod(newer), pod(spec.clone())).is_some());
        let mut told = spec.clone();
        told["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]);
        assert!(refused(pod(spec.clone()), pod(told)).is_some());
        let mut limited = spec.clone();
        limited["activeDeadlineSeconds"] = 60.into();
        assert_eq!(refused(pod(spec.clone()), pod(limited.clone())), None);
        assert!(refused(pod(limited), pod(spec.clone())).is_some());
        let mut larger = spec.clone();
        larger["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        assert!(refused(pod(spec), pod(larger)).is_some());
    }

    #[test]
    fn a_gated_pod_may_be_told_where_to_go() {
        let spec = json!({"containers": [{"name": "c", "image": "i"}],
                          "schedulingGates": [{"name": "quota"}],
                          "nodeSelector": {"zone": "a"}});
        let mut free = spec.clone();
        free["schedulingGates"] = json!([]);
        free["nodeSelector"]["disk"] = "ssd".into();
        let requirement = json!({"key": "gpu", "operator": "Exists"});
        let term = json!({"matchExpressions": [requirement]});
        free["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [term]});
        assert_eq!(refused(pod(spec.clone()), pod(free.clone())), None);
        // Without a gate, or wider than it was, this is refused.
        let mut wider = spec.clone();
        wider["nodeSelector"] = json!({});
        assert!(refused(pod(spec.clone()), pod(wider)).is_some());
        let mut open = spec;
        open["schedulingGates"] = json!([]);
        assert!(refused(pod(open), pod(free)).is_some());
    }

    #[test]
    fn the_service_of_a_stateful_set_stays() {
        let set = |service: &str, replicas: i32| {
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"},
                   "spec": {"serviceName": service, "replicas": replicas}})
        };
        assert_eq!(refused(set("a", 1), set("a", 2)), None);
        assert_eq!(refused(set("a", 1), set("b", 1)), Some("spec.serviceName"));
    }

    #[test]
    fn a_claim_may_grow() {
        let claim = |size: &str, volume: &str| {
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
                   "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": volume,
                            "resources": {"requests": {"storage": size}}}})
        };
        assert_eq!(refused(claim("1Gi", "v"), claim("2Gi", "v")), None);
        assert_eq!(refused(claim("1Gi", ""), claim("1Gi", "v")), None);
        let unbound = refused(claim("1Gi", ""), claim("2Gi", ""));
        assert_eq!(unbound, Some("spec.resources.requests"));
        let shrunk = refused(claim("2Gi", "v"), claim("1Gi", "v"));
        assert_eq!(shrunk, Some("spec.resources.requests"));
        let moved = refused(claim("1Gi", "v"), claim("1Gi", "w"));
        assert_eq!(moved, Some("spec.volumeName"));
    }
}
