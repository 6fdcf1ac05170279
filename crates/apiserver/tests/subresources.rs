//! Bindings and evictions: what they do, and how they are refused.

use outrank_admission::{AdmissionChain, ClassRules, PluginFlags};
use outrank_api::status::Status;
use outrank_apiserver::clock::Clock;
use outrank_apiserver::server::delete::DeleteOptions;
use outrank_apiserver::server::{ApiServer, Settings, Target, WriteOptions};
use outrank_store::{Options, Store};
use serde_json::{Value, json};

/// A server with the namespace `shop`, in which there is the pod `p`.
struct Shop {
    server: ApiServer,
}

impl Shop {
    fn new() -> Self {
        let chain = AdmissionChain::default_plugins(&PluginFlags::default());
        let settings = Settings {
            chain: chain.expect("no flags, no mistakes"),
            classes: ClassRules::default(),
            has_quotas: true,
            limited_resources: Vec::new(),
            clock: Clock::system(),
        };
        let store = Store::in_memory(Options::default());
        let shop = Self {
            server: ApiServer::new(store, settings),
        };
        shop.create("v1", "Namespace", json!({"metadata": {"name": "shop"}}));
        shop.create(
            "v1",
            "Pod",
            json!({"metadata": {"name": "p", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        );
        shop
    }

    fn target(&self, api_version: &str, kind: &str, name: &str, subresource: &str) -> Target {
        let types = self.server.types();
        let served = types.of_kind(api_version, kind).expect("a kind").clone();
        let is_namespaced = served.resource.is_namespaced;
        Target {
            served,
            namespace: if is_namespaced { "shop" } else { "" }.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    fn create(&self, api_version: &str, kind: &str, mut body: Value) {
        body["apiVersion"] = api_version.into();
        body["kind"] = kind.into();
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let target = self.target(api_version, kind, name, "");
        let written = self.server.create(&target, body, &WriteOptions::default());
        written.expect("created");
    }

    fn get(&self, api_version: &str, kind: &str, name: &str) -> Value {
        let target = self.target(api_version, kind, name, "");
        let entry = self.server.get(&target).expect("an object");
        entry.value.to_value(&target.served.stored)
    }

    fn set_status(&self, api_version: &str, kind: &str, name: &str, status: Value) {
        let mut body = self.get(api_version, kind, name);
        body["status"] = status;
        let target = self.target(api_version, kind, name, "status");
        let written = self.server.update(&target, body, &WriteOptions::default());
        written.expect("updated");
    }

    fn pod(&self) -> Value {
        self.get("v1", "Pod", "p")
    }

    /// Binds the pod to a node that has a zone.
    fn bind(&self, binding: Value) -> Result<(), Status> {
        let target = self.target("v1", "Pod", "p", "binding");
        let bound = self
            .server
            .bind(&target, &binding, &WriteOptions::default());
        bound.map(|_| ())
    }

    fn bound_and_running(self) -> Self {
        let target = json!({"kind": "Node", "name": "node-1"});
        let bound = self.bind(json!({"metadata": {"name": "p"}, "target": target}));
        bound.expect("bound");
        self.set_status("v1", "Pod", "p", json!({"phase": "Running"}));
        self
    }

    fn evict(&self, eviction: Value) -> Result<(), Status> {
        let target = self.target("v1", "Pod", "p", "eviction");
        self.server.evict(&target, &eviction, false)
    }

    fn evict_if(&self, preconditions: Value) -> Result<(), Status> {
        self.evict(json!({"metadata": {"name": "p"},
            "deleteOptions": {"preconditions": preconditions}}))
    }

    fn disruption_target(&self) -> Value {
        let pod = self.pod();
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let found = conditions.find(|it| it["type"] == "DisruptionTarget");
        found.map_or(Value::Null, |it| it["reason"].clone())
    }
}

fn refused(answer: Result<(), Status>) -> (u16, String) {
    let status = answer.expect_err("refused");
    (status.code, status.message)
}

#[test]
fn a_binding_takes_its_labels_and_those_of_the_place_to_the_pod() {
    let shop = Shop::new();
    let zone = json!({"topology.kubernetes.io/zone": "a"});
    shop.create(
        "v1",
        "Node",
        json!({"metadata": {"name": "node-1", "labels": zone}}),
    );
    let target = json!({"kind": "Node", "name": "node-1"});
    let labels = json!({"mine": "yes", "topology.kubernetes.io/zone": "b"});
    let metadata = json!({"name": "p", "labels": labels, "annotations": {"why": "fits"}});
    let bound = shop.bind(json!({"metadata": metadata, "target": target}));
    bound.expect("bound");
    let pod = shop.pod();
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert_eq!(pod["metadata"]["annotations"]["why"], "fits");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "mine": "yes", "topology.kubernetes.io/zone": "a"})
    );
}

#[test]
fn a_binding_that_cannot_be_is_refused_as_upstream_does() {
    let shop = Shop::new();
    let target = json!({"kind": "Node", "name": "node-1"});
    assert_eq!(
        refused(shop.bind(json!({"target": target}))),
        (
            400,
            "name in URL does not match name in Binding object".to_owned()
        )
    );
    let wrong = json!({"metadata": {"name": "p"}, "target": {"kind": "Pod"}});
    let text = "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \
                \"<empty>\", target.name: Required value]";
    assert_eq!(refused(shop.bind(wrong)), (500, text.to_owned()));
    let other = json!({"metadata": {"name": "p", "uid": "other"}, "target": target});
    let (code, text) = refused(shop.bind(other));
    assert_eq!(code, 409);
    let start =
        "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4";
    assert!(text.starts_with(start), "{text}");
    let binding = json!({"metadata": {"name": "p"}, "target": target});
    shop.bind(binding.clone()).expect("bound");
    let text = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to \
                node \"node-1\"";
    assert_eq!(refused(shop.bind(binding)), (409, text.to_owned()));
}

#[test]
fn who_evicts_names_the_pod_and_may_mean_a_version_of_it() {
    let shop = Shop::new().bound_and_running();
    assert_eq!(
        refused(shop.evict(json!({}))),
        (
            400,
            "name in URL does not match name in Eviction object".to_owned()
        )
    );
    let (code, text) = refused(shop.evict_if(json!({"uid": "other"})));
    assert_eq!(code, 409);
    let start = "Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (other)";
    assert!(text.starts_with(start), "{text}");
    assert_eq!(shop.disruption_target(), Value::Null, "it is not to go");
    let version = shop.pod()["metadata"]["resourceVersion"].clone();
    shop.evict_if(json!({"resourceVersion": version}))
        .expect("evicted");
    assert_eq!(shop.disruption_target(), "EvictionByEvictionAPI");
    assert!(shop.pod()["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn a_pod_that_is_going_is_told_that_it_is_evicted_too() {
    let shop = Shop::new().bound_and_running();
    let pod = shop.target("v1", "Pod", "p", "");
    let deleted = shop.server.delete(&pod, &DeleteOptions::default());
    deleted.expect("deleted");
    assert_eq!(shop.disruption_target(), Value::Null);
    shop.evict(json!({"metadata": {"name": "p"}}))
        .expect("evicted");
    assert_eq!(shop.disruption_target(), "EvictionByEvictionAPI");
}

#[test]
fn a_budget_that_is_not_counted_yet_says_when_to_try_again() {
    let shop = Shop::new().bound_and_running();
    let budget = ("policy/v1", "PodDisruptionBudget");
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    shop.create(
        budget.0,
        budget.1,
        json!({"metadata": {"name": "b"}, "spec": spec}),
    );
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let running = json!({"phase": "Running", "conditions": ready});
    shop.set_status("v1", "Pod", "p", running);
    let told = |shop: &Shop| {
        let answer = shop.evict(json!({"metadata": {"name": "p"}}));
        let status = answer.expect_err("refused");
        let details = status.details.expect("details");
        let cause = details.causes[0].message.clone();
        (status.code, details.retry_after_seconds, cause)
    };
    let text = "The disruption budget b is still being processed by the server.";
    assert_eq!(told(&shop), (429, 10, text.to_owned()));
    let counted = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "expectedPods": 1,
        "currentHealthy": 1, "desiredHealthy": 1});
    shop.set_status(budget.0, budget.1, "b", counted);
    let text = "The disruption budget b needs 1 healthy pods and has 1 currently";
    assert_eq!(told(&shop), (429, 0, text.to_owned()));
}

#[test]
fn nothing_is_made_of_a_pod_whose_namespace_is_going() {
    let shop = Shop::new();
    let namespace = shop.target("v1", "Namespace", "shop", "");
    let deleted = shop.server.delete(&namespace, &DeleteOptions::default());
    deleted.expect("deleted");
    let text = "pods \"p\" is forbidden: unable to create new content in namespace shop because it \
                is being terminated";
    let target = json!({"kind": "Node", "name": "node-1"});
    let bound = shop.bind(json!({"metadata": {"name": "p"}, "target": target}));
    assert_eq!(refused(bound), (403, text.to_owned()));
    let evicted = shop.evict(json!({"metadata": {"name": "p"}}));
    assert_eq!(refused(evicted), (403, text.to_owned()));
}
