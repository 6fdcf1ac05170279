//! Small objects of the kinds to which the recorded requests go.

use serde_json::{Value, json};

use crate::api::Api;

/// The namespace of the samples.
pub(crate) const NAMESPACE: &str = "walk";
/// What each of them is called.
pub(crate) const NAME: &str = "it";

/// Makes the namespace, and the account without which there are no pods.
pub(crate) fn make_surroundings(api: &Api) {
    for namespace in [NAMESPACE, "default"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace}});
        api.write("POST", "/api/v1/namespaces", &object);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let (status, answer) = api.write("POST", &path, &account);
        assert_eq!(status, 201, "{answer}");
    }
}

/// Makes the object that a path leads to, if it leads to one that is not there.
pub(crate) fn ensure(api: &Api, path: &str) -> Result<(), String> {
    let Some((collection, _)) = path.split_once("/{name}") else {
        return Ok(());
    };
    let collection = collection.replace("{ns}", NAMESPACE);
    let object = sample(&collection)?;
    let (status, answer) = api.write("POST", &collection, &object);
    match status {
        201 | 409 => Ok(()),
        _ => Err(format!("the sample was not taken: {status} {answer}")),
    }
}

/// What to post at a path.
pub(crate) fn to_post(api: &Api, path: &str) -> Result<Value, String> {
    ensure(api, path)?;
    if path.ends_with("/binding") {
        return Ok(
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": NAME},
            "target": {"kind": "Node", "name": "somewhere"}}),
        );
    }
    if path.ends_with("/eviction") {
        return Ok(json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": NAME, "namespace": NAMESPACE}}));
    }
    let mut object = sample(&path.replace("{ns}", NAMESPACE))?;
    if path.ends_with("reviews") {
        // Reviews are questions, not objects that have names.
        object["metadata"] = json!({});
        return Ok(object);
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("name");
        metadata.insert("generateName".to_owned(), "sample-".into());
    }
    Ok(object)
}

/// A patch of a media type for the object at a path.
pub(crate) fn patch(path: &str, media_type: &str) -> Value {
    match media_type {
        "json-patch+json" => {
            json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}])
        }
        "apply-patch+yaml" => {
            let collection = path.split("/{name}").next().unwrap_or_default();
            let whole = sample(&collection.replace("{ns}", NAMESPACE)).unwrap_or_default();
            json!({"apiVersion": whole["apiVersion"], "kind": whole["kind"],
                "metadata": {"name": NAME}})
        }
        _ if path.ends_with("/scale") => json!({"spec": {"replicas": 2}}),
        _ => json!({"metadata": {"labels": {"a": "b"}}}),
    }
}

/// A small object for a collection.
fn sample(collection: &str) -> Result<Value, String> {
    let plural = collection.rsplit('/').next().unwrap_or_default();
    let version = match collection.strip_prefix("/apis/") {
        None => "v1".to_owned(),
        Some(rest) => rest.split('/').take(2).collect::<Vec<_>>().join("/"),
    };
    let containers = json!([{"name": "app", "image": "registry.example/app:1"}]);
    let selector = json!({"matchLabels": {"app": "it"}});
    let template =
        json!({"metadata": {"labels": {"app": "it"}}, "spec": {"containers": containers}});
    let (kind, rest) = match plural {
        "namespaces" => ("Namespace", json!({})),
        "nodes" => ("Node", json!({})),
        "configmaps" => ("ConfigMap", json!({"data": {"a": "b"}})),
        "serviceaccounts" => ("ServiceAccount", json!({})),
        "pods" => ("Pod", json!({"spec": {"containers": containers}})),
        "endpoints" => ("Endpoints", json!({})),
        "services" => ("Service", json!({"spec": {"ports": [{"port": 80}]}})),
        "resourcequotas" => ("ResourceQuota", json!({"spec": {"hard": {"pods": "1000"}}})),
        "events" if version == "v1" => (
            "Event",
            json!({"involvedObject": {"namespace": NAMESPACE, "name": NAME, "kind": "Pod"},
                "reason": "Sampled", "message": "a sample", "type": "Normal"}),
        ),
        "events" => (
            "Event",
            json!({"regarding": {"namespace": NAMESPACE, "name": NAME, "kind": "Pod"},
                "reason": "Sampled", "note": "a sample", "type": "Normal", "action": "Sampling",
                "reportingController": "tests", "reportingInstance": "tests-1",
                "eventTime": "2026-01-01T00:00:00.000000Z"}),
        ),
        "deployments" => (
            "Deployment",
            json!({"spec": {"selector": selector, "template": template}}),
        ),
        "replicasets" => (
            "ReplicaSet",
            json!({"spec": {"selector": selector, "template": template}}),
        ),
        "jobs" => {
            let mut template = template;
            template["spec"]["restartPolicy"] = "Never".into();
            ("Job", json!({"spec": {"template": template}}))
        }
        "horizontalpodautoscalers" => (
            "HorizontalPodAutoscaler",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef":
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}}}),
        ),
        "leases" => ("Lease", json!({"spec": {"holderIdentity": "it"}})),
        "endpointslices" => (
            "EndpointSlice",
            json!({"addressType": "IPv4", "endpoints": []}),
        ),
        "poddisruptionbudgets" => (
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "other"}}}}),
        ),
        "clusterroles" => ("ClusterRole", json!({"rules": []})),
        "priorityclasses" => ("PriorityClass", json!({"value": 7})),
        "servicecidrs" => ("ServiceCIDR", json!({"spec": {"cidrs": ["10.200.0.0/24"]}})),
        "selfsubjectreviews" => ("SelfSubjectReview", json!({})),
        "selfsubjectaccessreviews" => (
            "SelfSubjectAccessReview",
            json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}),
        ),
        _ => return Err(format!("there is no sample for {collection}")),
    };
    let mut object = rest;
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": NAME});
    Ok(object)
}
