//! Requests that are not quite right, and what they are told, as Kubernetes 1.36 tells it.

use bytes::Bytes;
use outrank_admission::{AdmissionChain, ClassRules, PluginFlags};
use outrank_apiserver::answer::Body;
use outrank_apiserver::authentication::User;
use outrank_apiserver::clock::Clock;
use outrank_apiserver::front::Front;
use outrank_apiserver::handler::{Request, handle};
use outrank_apiserver::server::{ApiServer, Settings};
use outrank_store::{Options, Store};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const MAP: &str = "/api/v1/namespaces/shop/configmaps/m";

/// A server with a namespace `shop`, in which there is a ConfigMap `m`.
struct Cluster(Front);

impl Cluster {
    fn new() -> Self {
        let settings = Settings {
            chain: AdmissionChain::default_plugins(&PluginFlags::default()).unwrap(),
            classes: ClassRules::default(),
            has_quotas: true,
            limited_resources: Vec::new(),
            clock: Clock::system(),
        };
        let server = ApiServer::new(Store::in_memory(Options::default()), settings);
        let cluster = Self(Front::new(server, None, &[]).unwrap());
        let namespace = json!({"metadata": {"name": "shop"}});
        assert_eq!(
            cluster
                .send("POST", "/api/v1/namespaces", JSON, &namespace)
                .0,
            201
        );
        let map = json!({"metadata": {"name": "m"}, "data": {"a": "b"}});
        assert_eq!(cluster.send("POST", MAPS, JSON, &map).0, 201);
        cluster
    }

    fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        self.send_text(method, path, content_type, &body.to_string())
    }

    fn send_text(&self, method: &str, path: &str, content_type: &str, body: &str) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let user = User::new("admin", ["system:masters"]);
        let request = Request {
            method,
            path,
            query,
            accept: JSON,
            content_type,
            user_agent: "test",
            if_none_match: "",
            user: &user,
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        let answer = handle(&self.0, &request);
        let Body::Whole(bytes) = answer.body else {
            return (answer.code, Value::Null);
        };
        (answer.code, serde_json::from_slice(&bytes).unwrap())
    }

    fn is_there(&self, path: &str) -> bool {
        self.send_text("GET", path, JSON, "").0 == 200
    }
}

fn check((code, answer): &(u16, Value), expected: u16, message: &str) {
    assert_eq!(
        (*code, answer["message"].as_str().unwrap_or_default()),
        (expected, message),
        "{answer}"
    );
}

#[test]
fn nothing_is_deleted_by_options_that_are_wrong() {
    let cluster = Cluster::new();
    let delete = |path: &str, body: Value| cluster.send("DELETE", path, JSON, &body);
    check(
        &delete(MAP, json!({"dryRun": "All"})),
        400,
        "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
    );
    let unsupported = |value: &str| {
        format!(
            "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [{value:?}]: \
             supported values: \"All\""
        )
    };
    for value in ["foo", "all"] {
        let answer = delete(MAP, json!({"dryRun": [value]}));
        check(&answer, 422, &unsupported(value));
        let answer = delete(MAPS, json!({"dryRun": [value]}));
        check(&answer, 422, &unsupported(value));
    }
    let path = format!("{MAP}?gracePeriodSeconds=abc");
    let message = "strconv.ParseInt: parsing \"abc\": invalid syntax";
    check(&cluster.send_text("DELETE", &path, JSON, ""), 400, message);
    let path = format!("{MAP}?dryRun=foo");
    check(
        &cluster.send_text("DELETE", &path, JSON, ""),
        422,
        &unsupported("foo"),
    );
    assert_eq!(delete(MAP, json!({"dryRun": ["All"]})).0, 200);
    assert!(cluster.is_there(MAP));
    assert_eq!(delete(MAP, json!({"dryRun": []})).0, 200);
    assert!(!cluster.is_there(MAP));
}

#[test]
fn nobody_is_evicted_by_options_that_are_wrong() {
    let cluster = Cluster::new();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers":
        [{"name": "c", "image": "i"}], "automountServiceAccountToken": false}});
    let pods = "/api/v1/namespaces/shop/pods";
    let account = json!({"metadata": {"name": "default"}});
    let accounts = "/api/v1/namespaces/shop/serviceaccounts";
    assert_eq!(cluster.send("POST", accounts, JSON, &account).0, 201);
    let (code, answer) = cluster.send("POST", pods, JSON, &pod);
    assert_eq!(code, 201, "{answer}");
    let eviction = format!("{pods}/p/eviction");
    let evict = |api_version: &str, options: Value| {
        let body = json!({"apiVersion": api_version, "kind": "Eviction",
            "metadata": {"name": "p"}, "deleteOptions": options});
        cluster.send("POST", &eviction, JSON, &body)
    };
    check(
        &evict("policy/v1", json!({"dryRun": "All"})),
        400,
        "Eviction in version \"v1\" cannot be handled as a Eviction: json: cannot unmarshal \
         string into Go struct field DeleteOptions.deleteOptions.dryRun of type []string",
    );
    assert_eq!(evict("policy/v1beta1", json!({"dryRun": ["All"]})).0, 201);
    assert!(cluster.is_there(&format!("{pods}/p")));
}

#[test]
fn parameters_of_lists_are_what_they_should_be() {
    let cluster = Cluster::new();
    for (query, value) in [
        ("timeoutSeconds=abc", "abc"),
        ("limit=abc", "abc"),
        ("limit=", ""),
        ("watch=1&timeoutSeconds=abc", "abc"),
    ] {
        let message = format!("strconv.ParseInt: parsing {value:?}: invalid syntax");
        let path = format!("{MAPS}?{query}");
        check(&cluster.send_text("GET", &path, JSON, ""), 400, &message);
    }
    // Whatever is not false is true: this is a watch.
    for path in [&*format!("{MAPS}?watch=maybe"), "/api/v1/watch/nodes"] {
        assert_eq!(cluster.send_text("GET", path, JSON, ""), (200, Value::Null));
    }
    let (_, list) = cluster.send_text("GET", &format!("{MAPS}?watch=FALSE"), JSON, "");
    assert_eq!(list["kind"], "ConfigMapList");
}

#[test]
fn bytes_that_are_none_are_not_stored() {
    let cluster = Cluster::new();
    let secrets = "/api/v1/namespaces/shop/secrets";
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "data": {"a": "%%%"}});
    let message = "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at \
                   input byte 0";
    check(&cluster.send("POST", secrets, JSON, &secret), 400, message);
    let yaml = "metadata: {name: s}\ndata: {a: '%%%'}";
    let answer = cluster.send_text("POST", secrets, "application/yaml", yaml);
    check(&answer, 400, message);
    let path = format!("{secrets}/s?fieldManager=me");
    let (code, answer) = cluster.send("PATCH", &path, APPLY, &secret);
    assert!(code >= 400, "{answer}");
    let end = "illegal base64 data at input byte 0";
    assert!(
        answer["message"].as_str().unwrap().ends_with(end),
        "{answer}"
    );
    let patch = json!({"binaryData": {"a": "%%%"}});
    let (code, answer) = cluster.send("PATCH", MAP, MERGE, &patch);
    assert_eq!(code, 422, "{answer}");
    assert!(!cluster.is_there(&format!("{secrets}/s")));
}

#[test]
fn new_objects_have_no_past() {
    let cluster = Cluster::new();
    let map = |name: &str, field: &str, value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, field: value}})
    };
    let message = "resourceVersion should not be set on objects to be created";
    let body = map("new", "resourceVersion", "5");
    for path in [MAPS, &format!("{MAPS}?dryRun=All")] {
        check(&cluster.send("POST", path, JSON, &body), 500, message);
    }
    assert!(!cluster.is_there(&format!("{MAPS}/new")));
    let body = map("m", "resourceVersion", "5");
    let (code, _) = cluster.send("POST", &format!("{MAPS}?dryRun=All"), JSON, &body);
    assert_eq!(code, 409);
    let body = map("zero", "resourceVersion", "0");
    assert_eq!(cluster.send("POST", MAPS, JSON, &body).0, 201);
    let path = format!("{MAPS}/applied?fieldManager=me");
    check(
        &cluster.send("PATCH", &path, APPLY, &map("applied", "uid", "u-1")),
        409,
        "Operation cannot be fulfilled on configmaps \"applied\": uid mismatch: the provided object \
         specified uid u-1, and no existing object was found",
    );
}

#[test]
fn patches_are_told_what_is_wrong_with_them() {
    let cluster = Cluster::new();
    let patch = |content_type: &str, body: Value| cluster.send("PATCH", MAP, content_type, &body);
    let (code, answer) = patch(MERGE, json!({"kind": "Pod"}));
    assert_eq!(code, 422);
    let end = "converting (v1.Pod) to (core.ConfigMap): unknown conversion";
    assert!(
        answer["message"].as_str().unwrap().ends_with(end),
        "{answer}"
    );
    check(
        &patch(MERGE, json!({"apiVersion": null})),
        400,
        "the name of the object (m based on URL) was undeterminable: name must be provided",
    );
    for operations in [
        json!([{"op": "burn", "path": "/data"}]),
        json!([{"path": "/data"}]),
    ] {
        let message = "the server rejected our request due to an error in our request";
        check(&patch(OPERATIONS, operations), 422, message);
    }
    let message = "error decoding patch: json: cannot unmarshal object into Go value of type \
                   []handlers.jsonPatchOp";
    check(&patch(OPERATIONS, json!({})), 400, message);
    assert_eq!(patch(OPERATIONS, Value::Null).0, 200);
    let path = format!("{MAP}?fieldManager={}", "m".repeat(129));
    check(
        &cluster.send("PATCH", &path, APPLY, &json!({})),
        422,
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 \
         bytes",
    );
}

#[test]
fn collections_are_not_changed_as_a_whole() {
    let cluster = Cluster::new();
    let message = "the server does not allow this method on the requested resource";
    for (method, path) in [("PATCH", MAPS), ("PUT", MAPS), ("POST", MAP)] {
        check(&cluster.send(method, path, MERGE, &json!({})), 405, message);
    }
}

#[test]
fn half_a_pair_is_no_character() {
    let cluster = Cluster::new();
    let body = r#"{"metadata":{"name":"half"},"data":{"a":"\\ud800\ud800x\udc00\ud83d\ude00"}}"#;
    let (code, answer) = cluster.send_text("POST", MAPS, JSON, body);
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["data"]["a"], "\\ud800\u{fffd}x\u{fffd}\u{1f600}");
}

#[test]
fn a_scale_is_applied_and_owned() {
    let cluster = Cluster::new();
    let deployments = "/apis/apps/v1/namespaces/shop/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d"}, "spec": {"replicas": 1, "template": template,
            "selector": {"matchLabels": {"a": "b"}}}});
    let path = format!("{deployments}/d?fieldManager=owner");
    let (code, answer) = cluster.send("PATCH", &path, APPLY, &deployment);
    assert_eq!(code, 201, "{answer}");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3}});
    let path = format!("{deployments}/d/scale?fieldManager=scaler");
    check(
        &cluster.send("PATCH", &path, APPLY, &scale),
        409,
        "Apply failed with 1 conflict: conflict with \"owner\": .spec.replicas",
    );
    let (code, answer) = cluster.send("PATCH", &format!("{path}&force=true"), APPLY, &scale);
    assert_eq!(code, 200, "{answer}");
    assert_eq!(
        (&answer["kind"], &answer["spec"]["replicas"]),
        (&json!("Scale"), &json!(3))
    );
    let (_, stored) = cluster.send_text("GET", &format!("{deployments}/d"), JSON, "");
    assert_eq!(stored["spec"]["replicas"], 3);
    let owners = stored["metadata"]["managedFields"].as_array().unwrap();
    let scaler = owners.iter().find(|it| it["manager"] == "scaler").unwrap();
    assert_eq!(
        (
            &scaler["operation"],
            &scaler["apiVersion"],
            &scaler["subresource"],
            &scaler["fieldsV1"]
        ),
        (
            &json!("Apply"),
            &json!("apps/v1"),
            &json!("scale"),
            &json!({"f:spec": {"f:replicas": {}}})
        )
    );
    let wrong = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    check(
        &cluster.send("PATCH", &path, APPLY, &wrong),
        400,
        "invalid object type: apps/v1, Kind=Deployment",
    );
}
