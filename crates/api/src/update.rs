//! What of an object cannot be changed once it is there.
//!
//! Of most fields the API server takes any change; some it refuses, and then an object has
//! to be deleted and created anew.

use serde_json::Value;

use crate::decode::{LoadedObject, Object, whole};
use crate::defaults;
use crate::resource_type::ResourceType;
use crate::validation;
use crate::written_form;

/// The path of the first field whose change the API server would refuse, both objects being
/// of one kind and defaulted; `None` if it takes the change. Fields that are not typed count
/// if both objects were kept as they were written. The rules are those of
/// [`validation::update_errors`]; statuses are not compared.
pub fn refused_change(before: &LoadedObject, after: &LoadedObject) -> Option<String> {
    if let (Object::PriorityClass(old), Object::PriorityClass(new)) =
        (&before.object, &after.object)
    {
        // The API server asks admission, which has its own rules for these.
        let fields = [
            ("value", old.value == new.value),
            (
                "preemptionPolicy",
                old.preemption_policy == new.preemption_policy,
            ),
        ];
        let mut changed = fields.iter().filter(|(_, is_same)| !is_same);
        return changed.next().map(|(path, _)| (*path).to_owned());
    }
    let resource: &ResourceType = before.object.kind().into();
    let are_whole = !before.raw.is_null() && !after.raw.is_null();
    let old = as_stored(before, are_whole);
    let mut new = as_stored(after, are_whole);
    new["status"] = old["status"].clone();
    let errors = validation::changes_refused(resource, &new, &old);
    let first = errors.first()?;
    Some(match (&before.object, first.path.to_string().as_str()) {
        (Object::Pod(_), "spec") => {
            "spec of a pod, but for images and a few fields more".to_owned()
        }
        (_, "spec") => first_difference(&old["spec"], &new["spec"]),
        (_, path) => path.to_owned(),
    })
}

/// The first field of a spec that differs, but for those that every kind lets change.
fn first_difference(old: &Value, new: &Value) -> String {
    const MUTABLE: [&str; 4] = ["replicas", "template", "updateStrategy", "minReadySeconds"];
    let names = |spec: &Value| -> Vec<String> {
        let fields = spec.as_object().into_iter().flatten();
        fields.map(|(name, _)| name.clone()).collect()
    };
    let mut all = names(old);
    all.extend(names(new));
    let differs = |name: &&String| {
        !MUTABLE.contains(&name.as_str()) && old.get(name.as_str()) != new.get(name.as_str())
    };
    match all.iter().find(differs) {
        Some(name) => format!("spec.{name}"),
        None => "spec".to_owned(),
    }
}

/// An object as the API server would keep it.
fn as_stored(loaded: &LoadedObject, is_whole: bool) -> Value {
    let resource: &ResourceType = loaded.object.kind().into();
    let mut value = match is_whole {
        true => whole(&loaded.object, &loaded.raw),
        false => loaded.object.to_value(),
    };
    written_form::tidy(resource, &mut value);
    defaults::fill_in(resource, &mut value);
    // A claim that has its volume is bound, whether its status says so or not.
    if let Object::PersistentVolumeClaim(claim) = &loaded.object
        && !claim.spec.volume_name.is_empty()
    {
        value["status"]["phase"] = "Bound".into();
        if value.pointer("/status/capacity").is_none() {
            value["status"]["capacity"] = value["spec"]["resources"]["requests"].clone();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::{Origin, decode_value};

    fn refused(before: Value, after: Value) -> Option<String> {
        let [before, after] = [before, after].map(|raw| LoadedObject {
            object: decode_value(&raw).expect("an object"),
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
        let changed = refused(set("a", 1), set("b", 1));
        assert_eq!(changed.as_deref(), Some("spec.serviceName"));
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
        assert_eq!(unbound.as_deref(), Some("spec.resources"));
        let shrunk = refused(claim("2Gi", "v"), claim("1Gi", "v"));
        assert_eq!(shrunk.as_deref(), Some("spec.resources.requests.storage"));
        let moved = refused(claim("1Gi", "v"), claim("1Gi", "w"));
        assert_eq!(moved.as_deref(), Some("spec.volumeName"));
    }
}
