//! Small clusters with storage, for the tests of the plugins that look at it.

use std::collections::BTreeMap;

use outrank_api::decode::{Object, decode_value};
use outrank_api::defaults::default_object;
use serde_json::{Value, json};

use crate::{Engine, EngineConfig, Event, Outcome};

/// An engine with the default profile that knows these objects.
pub(crate) fn engine(objects: impl IntoIterator<Item = Value>) -> Engine {
    let mut engine = Engine::new(&EngineConfig::default()).expect("the default profile");
    objects
        .into_iter()
        .for_each(|object| tell(&mut engine, object));
    engine
}

/// Tells an engine that an object is new or has changed.
pub(crate) fn tell(engine: &mut Engine, object: Value) {
    let mut object = decode_value(&object).expect("an object");
    default_object(&mut object);
    let event = match object {
        Object::Node(node) => Event::NodeChanged(*node),
        Object::Pod(pod) => Event::PodChanged(*pod),
        other => Event::of_storage(other).expect("an object of storage"),
    };
    engine.handle(event, 0);
}

/// Why a pod is refused: by node, or under an empty name for all nodes.
pub(crate) fn refusals(engine: &Engine, pod: &str) -> BTreeMap<String, Vec<String>> {
    let cluster = engine.cluster();
    let pod = engine.pod("default", pod).expect("a pod");
    let evaluation = engine.evaluate(pod).expect("a pod");
    let for_all = evaluation
        .pre_filter
        .iter()
        .map(|refusal| (String::new(), refusal));
    let by_node = evaluation.refused.iter();
    let by_node = by_node.map(|(node, refusal)| (cluster.name(*node).to_owned(), refusal));
    let texts = for_all.chain(by_node).map(|(node, refusal)| {
        let texts = refusal.reasons.iter().map(|reason| reason.text(cluster));
        (node, texts.collect())
    });
    texts.collect()
}

/// Decides a pod and says where it goes, or why nowhere.
pub(crate) fn decide(engine: &mut Engine, pod: &str) -> String {
    let pod = engine.pod("default", pod).expect("a pod");
    let decision = engine.decide_pod(pod, 0).expect("a pod that waits");
    match decision.outcome {
        Outcome::Scheduled { node, .. } => engine.cluster().name(node).to_owned(),
        Outcome::Unschedulable(diagnosis) => diagnosis.filter_message(engine.cluster()),
        Outcome::Error(error) => error.to_string(),
    }
}

pub(crate) fn node(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}})
}

/// A pod with volumes, on a node unless its name is empty.
pub(crate) fn pod(name: &str, node: &str, volumes: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"nodeName": node, "containers": [{"name": "c"}], "volumes": volumes}})
}

/// A pod that waits and uses claims.
pub(crate) fn pod_with_claims(name: &str, claims: &[&str]) -> Value {
    let volumes = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    pod(name, "", volumes.collect())
}

/// A claim of one gibibyte that is not bound.
pub(crate) fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}}})
}

/// A claim that is bound.
pub(crate) fn bound_claim(name: &str, volume: &str) -> Value {
    let mut claim = claim(name, "");
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"]["volumeName"] = volume.into();
    claim
}

/// A volume that nodes of one zone can reach.
pub(crate) fn volume(name: &str, class: &str, size: &str, zone: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "csi": {"driver": "csi.example.com", "volumeHandle": format!("handle-{name}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "zone", "operator": "In", "values": [zone]}]}]}}},
        "status": {"phase": "Available"}})
}

/// A volume of a gibibyte and no class that every node can reach.
pub(crate) fn volume_everywhere(name: &str) -> Value {
    let mut volume = volume(name, "", "1Gi", "");
    volume["spec"]["nodeAffinity"] = json!(null);
    volume
}

/// A class whose claims wait for their first pod.
pub(crate) fn waiting_class(name: &str, provisioner: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
}
