//! `kubectl apply`: what becomes of an object when a manifest of it is applied.
//!
//! A manifest says what its author cares about; what others wrote (the scheduler a pod's
//! `nodeName`, a kubelet its `status`, a volume controller a claim's `volumeName`) stays.
//! Three documents meet: the object as it is, the manifest, and the manifest that was
//! applied before it, which kubectl keeps in the annotation [`LAST_APPLIED`]. What was in
//! the last one and is not in the new one is taken out.
//!
//! Maps are merged key by key. Lists are replaced, but for those whose elements have a
//! key of their own (containers have names), which are merged element by element; which
//! these are stands in `schema/rules.txt`. Source: strategic merge patch,
//! `k8s.io/apimachinery/pkg/util/strategicpatch`, Kubernetes 1.36.
//!
//! ```
//! use outrank_api::apply::apply;
//! use outrank_api::decode::{LoadedObject, Object, decode_value};
//! use serde_json::json;
//!
//! let live = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
//!                   "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "a"}});
//! let manifest = json!({"apiVersion": "v1", "kind": "Pod",
//!                       "metadata": {"name": "p", "labels": {"app": "web"}},
//!                       "spec": {"containers": [{"name": "c", "image": "i"}]}});
//! let live = LoadedObject::from(decode_value(&live).unwrap());
//! let Object::Pod(pod) = apply(&live, &manifest).unwrap().object else {
//!     panic!("a pod stays a pod");
//! };
//! assert_eq!(pod.spec.node_name, "a");
//! assert_eq!(pod.metadata.labels["app"], "web");
//! ```

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::decode::{LoadedObject, decode_changed};
use crate::diagnostic::Finding;
use crate::schema::{self, FieldType};

/// The annotation in which kubectl keeps the manifest that was applied last, as JSON.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The object after a manifest of it was applied: merged and defaulted. `status` counts as
/// any other field, so that a manifest can say what a node has. Time and memory are linear
/// in the documents.
///
/// If the object was not kept as it was written, what is not typed of it is lost.
///
/// # Errors
/// What is wrong with the outcome and was not wrong before, as
/// [`decode_whole`](crate::decode::decode_whole) says it.
pub fn apply(live: &LoadedObject, manifest: &Value) -> Result<LoadedObject, Vec<Finding>> {
    let kind = live.object.kind();
    let annotations = &live.object.metadata().annotations;
    // What cannot be read was not applied; kubectl, too, goes on without it.
    let last: Value = annotations
        .get(LAST_APPLIED)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let last = without_status(last);
    let before = match &live.raw {
        Value::Null => live.object.to_value(),
        raw => raw.clone(),
    };
    let mut merged = before.clone();
    if let Some(type_name) = schema::type_of(kind.api_version(), kind.name()) {
        merge(Some(type_name), &mut merged, &last, manifest);
    }
    if let Value::Object(fields) = &mut merged {
        // Either may name a version that is gone.
        fields.insert("apiVersion".to_owned(), kind.api_version().into());
    }
    keep_what_the_server_gave(&mut merged, live);
    Ok(LoadedObject {
        object: decode_changed(merged.clone(), &before)?,
        raw: merged,
        origin: live.origin.clone(),
    })
}

/// What was applied last, without what an application never takes out.
fn without_status(mut last: Value) -> Value {
    if let Value::Object(fields) = &mut last {
        fields.remove("status");
    }
    last
}

/// Puts back what only the API server gives to objects, whatever a manifest says of it.
fn keep_what_the_server_gave(merged: &mut Value, live: &LoadedObject) {
    let metadata = live.object.metadata();
    let given = [
        ("uid", Some(&metadata.uid).filter(|uid| !uid.is_empty())),
        ("creationTimestamp", metadata.creation_timestamp.as_ref()),
        ("deletionTimestamp", metadata.deletion_timestamp.as_ref()),
    ];
    let Some(Value::Object(fields)) = merged.get_mut("metadata") else {
        return;
    };
    for (name, value) in given {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value.as_str().into());
        }
    }
}

/// Puts `new` on top of `live`; what is in `last` alone goes. `type_name` is `None` in maps
/// whose keys are anything.
fn merge(type_name: Option<&str>, live: &mut Value, last: &Value, new: &Value) {
    let (Value::Object(live), Value::Object(new)) = (&mut *live, new) else {
        *live = without_nulls(new);
        return;
    };
    if let Value::Object(last) = last {
        live.retain(|key, _| new.contains_key(key) || !last.contains_key(key));
    }
    for (key, value) in new {
        if value.is_null() {
            live.remove(key);
            continue;
        }
        let Some(before) = live.get_mut(key) else {
            live.insert(key.clone(), without_nulls(value));
            continue;
        };
        let last = last.get(key).unwrap_or(&Value::Null);
        let Some(field) = type_name.and_then(|type_name| schema::field(type_name, key)) else {
            merge(None, before, last, value);
            continue;
        };
        match (&field.field_type, field.merge_key) {
            (FieldType::List(element), Some(key)) => {
                let list = MergedList {
                    key,
                    element: element.object(),
                    retains_keys: field.retains_keys,
                };
                list.merge(before, last, value);
            }
            (field_type, _) => merge(field_type.object(), before, last, value),
        }
        if field.retains_keys {
            retain_keys(before, value);
        }
    }
}

/// A value that is new: `null` means absent in it, too.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect()
        }
        Value::Array(elements) => elements.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Leaves the keys that the new value has.
fn retain_keys(merged: &mut Value, new: &Value) {
    if let (Value::Object(merged), Value::Object(new)) = (merged, new) {
        merged.retain(|key, _| new.contains_key(key));
    }
}

/// A list whose elements are told apart by a key.
struct MergedList<'s> {
    key: &'s str,
    /// The type of the elements.
    element: Option<&'s str>,
    retains_keys: bool,
}

impl MergedList<'_> {
    /// Elements of the new list come in its order; those that somebody else added follow
    /// the one that they followed before.
    fn merge(&self, live: &mut Value, last: &Value, new: &Value) {
        let (Value::Array(elements), Value::Array(new)) = (&mut *live, new) else {
            *live = new.clone();
            return;
        };
        let last = last.as_array().map_or(&[][..], Vec::as_slice);
        let last: HashMap<String, &Value> = last.iter().map(|it| (self.key_of(it), it)).collect();
        let mut before: Vec<Option<Value>> = elements.drain(..).map(Some).collect();
        // By key, the places of elements that are not taken, the last one first.
        let mut free: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, element) in before.iter().enumerate().rev() {
            let key = self.key_of(element.as_ref().unwrap_or(&Value::Null));
            free.entry(key).or_default().push(place);
        }
        // What others added, by the place of the element that it follows.
        let mut followers: BTreeMap<Option<usize>, Vec<Value>> = BTreeMap::new();
        let mut merged = Vec::new();
        for element in new {
            let key = self.key_of(element);
            let place = free.get_mut(&key).and_then(Vec::pop);
            let live = place.and_then(|place| before[place].take());
            merged.push((
                place,
                self.merge_element(live, last.get(&key).copied(), element),
            ));
        }
        let mut previous = None;
        for (place, element) in before.into_iter().enumerate() {
            match element {
                None => previous = Some(place),
                Some(element) if last.contains_key(&self.key_of(&element)) => {}
                Some(element) => followers.entry(previous).or_default().push(element),
            }
        }
        elements.extend(followers.remove(&None).unwrap_or_default());
        for (place, element) in merged {
            elements.push(element);
            let after = place.and_then(|place| followers.remove(&Some(place)));
            elements.extend(after.unwrap_or_default());
        }
    }

    fn merge_element(&self, live: Option<Value>, last: Option<&Value>, new: &Value) -> Value {
        let Some(mut merged) = live else {
            return without_nulls(new);
        };
        merge(self.element, &mut merged, last.unwrap_or(&Value::Null), new);
        if self.retains_keys {
            retain_keys(&mut merged, new);
        }
        merged
    }

    /// The key of an element, as text.
    fn key_of(&self, element: &Value) -> String {
        element
            .get(self.key)
            .map(Value::to_string)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::{Object, decode_value};

    fn applied(live: Value, last: Option<Value>, manifest: Value) -> Object {
        let mut live = decode_value(&live).expect("an object");
        if let Some(last) = last {
            let annotations = &mut live.metadata_mut().annotations;
            annotations.insert(LAST_APPLIED.to_owned(), last.to_string());
        }
        apply(&live.into(), &manifest).expect("applied").object
    }

    fn deployment(spec: Value) -> Value {
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            }},
        });
        for (key, value) in spec.as_object().expect("fields") {
            object["spec"][key] = value.clone();
        }
        object
    }

    fn replicas(object: &Object) -> Option<i32> {
        match object {
            Object::Deployment(object) => object.spec.replicas,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_others_wrote_stays_and_what_the_author_took_out_goes() {
        let live = deployment(json!({"replicas": 7}));
        let new = deployment(json!({}));
        // Scaled by somebody else.
        let kept = applied(live.clone(), Some(deployment(json!({}))), new.clone());
        assert_eq!(replicas(&kept), Some(7));
        let unknown = applied(live.clone(), None, new.clone());
        assert_eq!(replicas(&unknown), Some(7));
        // Taken out, so it is the default again.
        let last = deployment(json!({"replicas": 3}));
        assert_eq!(replicas(&applied(live.clone(), Some(last), new)), Some(1));
        let null = deployment(json!({"replicas": null}));
        assert_eq!(replicas(&applied(live, None, null)), Some(1));
    }

    fn pod(spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    }

    fn container(name: &str) -> Value {
        json!({"name": name, "image": "i"})
    }

    #[test]
    fn containers_are_merged_by_name() {
        let live = pod(json!({"containers": [
            container("old"),
            {"name": "web", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            container("injected"),
        ]}));
        let last = pod(json!({"containers": [container("old"), container("web")]}));
        let new = pod(json!({"containers": [
            container("first"),
            {"name": "web", "image": "i", "resources": {"requests": {"cpu": "2"}}},
        ]}));
        let Object::Pod(merged) = applied(live, Some(last), new) else {
            panic!("a pod")
        };
        let names: Vec<&str> = merged.spec.containers.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["first", "web", "injected"]);
        let requests = &merged.spec.containers[1].resources.requests;
        assert_eq!(requests["cpu"].milli_value(), 2000);
        assert_eq!(requests["memory"].value(), 1 << 30);
    }

    #[test]
    fn a_volume_has_the_source_that_was_applied() {
        let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let live = pod(json!({"containers": [container("c")], "volumes": [claim]}));
        let disk = json!({"name": "v", "emptyDir": {}});
        let new = pod(json!({"containers": [container("c")], "volumes": [disk]}));
        let Object::Pod(merged) = applied(live, None, new) else {
            panic!("a pod")
        };
        assert_eq!(merged.spec.volumes.len(), 1);
        assert_eq!(merged.spec.volumes[0].persistent_volume_claim, None);
    }

    #[test]
    fn nothing_is_less_than_there_was() {
        let live = json!({"apiVersion": "v1", "kind": "Node",
                          "metadata": {"name": "n", "uid": "u",
                                       "creationTimestamp": "2026-01-01T00:00:00Z"},
                          "status": {"allocatable": {"cpu": "4"}}});
        let last = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}});
        let new = json!({"apiVersion": "v1", "kind": "Node",
                         "metadata": {"name": "n", "creationTimestamp": null, "uid": "other"},
                         "spec": {"taints": null}});
        let Object::Node(node) = applied(live, Some(last), new) else {
            panic!("a node")
        };
        assert_eq!(node.status.allocatable["cpu"].value(), 4);
        assert_eq!(node.metadata.uid, "u");
        assert!(node.metadata.creation_timestamp.is_some());
        // Absent is what `null` means, also in a map that is new.
        let live = pod(json!({"containers": [container("c")]}));
        let mut new = live.clone();
        new["spec"]["nodeSelector"] = json!({"disk": null});
        let Object::Pod(merged) = applied(live, None, new) else {
            panic!("a pod")
        };
        assert!(merged.spec.node_selector.is_empty());
    }

    #[test]
    fn taints_and_tolerations_are_replaced() {
        let toleration = |key: &str| json!({"key": key, "operator": "Exists"});
        let spec = |keys: &[&str]| {
            let tolerations: Vec<Value> = keys.iter().map(|key| toleration(key)).collect();
            pod(json!({"containers": [container("c")], "tolerations": tolerations}))
        };
        let Object::Pod(merged) = applied(spec(&["a", "b"]), None, spec(&["c"])) else {
            panic!("a pod")
        };
        assert_eq!(merged.spec.tolerations.len(), 1);
        assert_eq!(merged.spec.tolerations[0].key, "c");
    }

    #[test]
    fn what_does_not_fit_together_is_told() {
        let live = json!({"requests": {"cpu": "4"}});
        let live = pod(json!({"containers": [{"name": "c", "image": "i", "resources": live}]}));
        let new = json!({"limits": {"cpu": "1"}});
        let new = pod(json!({"containers": [{"name": "c", "image": "i", "resources": new}]}));
        let wrong =
            apply(&decode_value(&live).expect("a pod").into(), &new).expect_err("over the limit");
        assert!(wrong[0].to_string().contains("resources"), "{}", wrong[0]);
    }
}
