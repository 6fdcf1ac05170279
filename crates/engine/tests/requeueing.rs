//! A pod that waits is tried again when something happened that may help it, and not
//! before: for each plugin, events that do not concern the pod, and then one that does.

use outrank_api::decode::{Object, ObjectKind, decode_value};
use outrank_api::defaults::default_object;
use outrank_engine::{Engine, EngineConfig, Event, Outcome, TimeNanos};
use serde_json::{Value, json};

/// Longer than any backoff.
const A_WHILE: TimeNanos = 1_000_000_000_000;

struct Scenario {
    engine: Engine,
    now: TimeNanos,
}

impl Scenario {
    /// A cluster, and the pod `p`, which does not fit.
    fn new(cluster: impl IntoIterator<Item = Value>, pod: Value) -> Self {
        let engine = Engine::new(&EngineConfig::default()).expect("the default profile");
        let mut scenario = Self { engine, now: 0 };
        cluster.into_iter().for_each(|object| scenario.tell(object));
        scenario.tell(pod);
        assert_eq!(scenario.tried(), ["p waits"]);
        scenario
    }

    fn tell(&mut self, object: Value) {
        let mut object = decode_value(&object).expect("an object");
        default_object(&mut object);
        let event = match object {
            Object::Node(node) => Event::NodeChanged(*node),
            Object::Pod(pod) => Event::PodChanged(*pod),
            Object::Namespace(namespace) => Event::NamespaceChanged(*namespace),
            other => Event::of_storage(other).expect("an object of storage"),
        };
        self.engine.handle(event, self.now);
    }

    /// What is tried within a while, and how that ends.
    fn tried(&mut self) -> Vec<String> {
        self.now += A_WHILE;
        let mut tried = Vec::new();
        while let Some(decision) = self.engine.next(self.now) {
            let (_, name) = self.engine.pod_name(decision.pod).expect("a pod");
            let is_placed = matches!(decision.outcome, Outcome::Scheduled { .. });
            let outcome = if is_placed { "is placed" } else { "waits" };
            tried.push(format!("{name} {outcome}"));
            assert!(tried.len() < 10, "{tried:?}");
        }
        tried
    }

    /// What does not concern the pod.
    #[track_caller]
    fn ignores(mut self, object: Value) -> Self {
        self.tell(object.clone());
        assert_eq!(self.tried(), Vec::<String>::new(), "after {object}");
        self
    }

    #[track_caller]
    fn ignores_gone(mut self, pod: &str) -> Self {
        self.pod_gone(pod);
        assert_eq!(self.tried(), Vec::<String>::new(), "after {pod} is gone");
        self
    }

    #[track_caller]
    fn then_placed_after(mut self, object: Value) {
        self.tell(object.clone());
        assert_eq!(self.tried(), ["p is placed"], "after {object}");
    }

    #[track_caller]
    fn then_placed_after_gone(mut self, pod: &str) {
        self.pod_gone(pod);
        assert_eq!(self.tried(), ["p is placed"], "after {pod} is gone");
    }

    fn pod_gone(&mut self, name: &str) {
        let event = Event::PodGone {
            namespace: "default".to_owned(),
            name: name.to_owned(),
        };
        self.engine.handle(event, self.now);
    }
}

fn node_with(name: &str, cpu: &str, labels: Value, more: Value) -> Value {
    let mut labels = labels;
    labels["kubernetes.io/hostname"] = name.into();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
           "spec": more, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}})
}

fn node(name: &str, cpu: &str) -> Value {
    node_with(name, cpu, json!({}), json!({}))
}

fn zoned(name: &str, zone: &str) -> Value {
    node_with(name, "4", json!({"zone": zone}), json!({}))
}

fn pod_of(name: &str, labels: Value, cpu: &str, more: Value) -> Value {
    let mut spec = json!({"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
    for (key, value) in more.as_object().expect("fields") {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"namespace": "default", "name": name, "labels": labels,
                        "uid": format!("uid-{name}")},
           "spec": spec})
}

fn pod(cpu: &str, more: Value) -> Value {
    pod_of("p", json!({}), cpu, more)
}

/// Another pod, which runs.
fn other(name: &str, node: &str, cpu: &str) -> Value {
    labelled(name, node, cpu, json!({}))
}

fn labelled(name: &str, node: &str, cpu: &str, labels: Value) -> Value {
    pod_of(name, labels, cpu, json!({"nodeName": node}))
}

#[test]
fn resources() {
    let full = || {
        let cluster = [
            node("a", "4"),
            other("large", "a", "3"),
            other("small", "a", "1"),
        ];
        Scenario::new(cluster, pod("3", json!({})))
            // A heartbeat, another label, a node that is too small, room that does not do.
            .ignores(node("a", "4"))
            .ignores(node_with("a", "4", json!({"disk": "ssd"}), json!({})))
            .ignores(node("b", "2"))
            .ignores_gone("small")
    };
    full().then_placed_after_gone("large");
    full().then_placed_after(node("c", "3"));
    full().then_placed_after(node("a", "7"));
}

#[test]
fn node_affinity_and_names() {
    let selects = json!({"nodeSelector": {"disk": "ssd"}});
    Scenario::new([node("a", "4"), other("x", "a", "1")], pod("1", selects))
        .ignores(node_with("a", "4", json!({"disk": "hdd"}), json!({})))
        .ignores(node("a", "8"))
        .ignores(node("b", "8"))
        .ignores_gone("x")
        .then_placed_after(node_with("a", "8", json!({"disk": "ssd"}), json!({})));
}

#[test]
fn taints_and_cordons() {
    let taint = |key: &str| json!({"taints": [{"key": key, "effect": "NoSchedule"}]});
    let tainted = |key| node_with("a", "4", json!({}), taint(key));
    Scenario::new([tainted("x"), other("x", "a", "1")], pod("1", json!({})))
        .ignores(tainted("y"))
        .ignores_gone("x")
        .then_placed_after(node("a", "4"));
    let cordoned = |cpu| node_with("a", cpu, json!({}), json!({"unschedulable": true}));
    Scenario::new([cordoned("4")], pod("1", json!({})))
        .ignores(cordoned("8"))
        .then_placed_after(node("a", "4"));
}

#[test]
fn host_ports() {
    let uses = |port: u16| {
        json!({"containers": [{"name": "c", "image": "i",
                               "ports": [{"containerPort": port, "hostPort": port}]}]})
    };
    let on_a = |name: &str, port| {
        let mut pod = pod_of(name, json!({}), "1", uses(port));
        pod["spec"]["nodeName"] = "a".into();
        pod
    };
    let cluster = [node("a", "4"), on_a("x", 80), on_a("y", 81)];
    Scenario::new(cluster, pod("1", uses(80)))
        .ignores(node("a", "8"))
        .ignores_gone("y")
        .then_placed_after_gone("x");
}

#[test]
fn gates() {
    let gated = json!({"schedulingGates": [{"name": "quota"}]});
    let engine = Engine::new(&EngineConfig::default()).expect("the default profile");
    let mut scenario = Scenario { engine, now: 0 };
    scenario.tell(pod("1", gated));
    assert_eq!(scenario.tried(), Vec::<String>::new());
    scenario
        .ignores(node("a", "4"))
        .then_placed_after(pod("1", json!({})));
}

fn term(labels: Value, key: &str, more: Value) -> Value {
    let mut term = json!({"labelSelector": {"matchLabels": labels}, "topologyKey": key});
    for (key, value) in more.as_object().expect("fields") {
        term[key] = value.clone();
    }
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]})
}

#[test]
fn affinity() {
    let web = json!({"app": "web"});
    let near = json!({"affinity": {"podAffinity": term(web.clone(), "zone", json!({}))}});
    let scenario = || {
        let cluster = [
            zoned("a", "one"),
            node("b", "4"),
            labelled("w", "b", "1", web.clone()),
        ];
        Scenario::new(cluster, pod("1", near.clone()))
            .ignores(other("x", "a", "1"))
            .ignores(zoned("a", "one"))
            .ignores_gone("x")
    };
    scenario().then_placed_after(labelled("y", "a", "1", web.clone()));
    // The node of the other pod comes to the zone.
    scenario().then_placed_after(zoned("b", "one"));
}

#[test]
fn anti_affinity_of_the_pod_and_of_others() {
    let web = json!({"app": "web"});
    let away = json!({"affinity": {"podAntiAffinity": term(web.clone(), "zone", json!({}))}});
    let cluster = [
        zoned("a", "one"),
        zoned("b", "one"),
        labelled("w", "b", "1", web.clone()),
        other("x", "a", "1"),
    ];
    let scenario = |cluster, pod| {
        Scenario::new(cluster, pod)
            .ignores_gone("x")
            .ignores(other("y", "a", "1"))
            .ignores(zoned("b", "one"))
    };
    let own = || scenario(cluster.clone(), pod("1", away.clone()));
    own().then_placed_after_gone("w");
    own().then_placed_after(zoned("a", "two"));

    // The other way round: who is there does not want the pod.
    let mut hermit = pod_of("w", json!({}), "1", away.clone());
    hermit["spec"]["nodeName"] = "b".into();
    let others = [
        zoned("a", "one"),
        zoned("b", "one"),
        hermit,
        other("x", "a", "1"),
    ];
    let theirs = || scenario(others.clone(), pod_of("p", web.clone(), "1", json!({})));
    theirs().then_placed_after_gone("w");
    theirs().then_placed_after(zoned("a", "two"));
}

#[test]
fn namespaces_selected_by_label() {
    let namespace = |name: &str, team: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
               "metadata": {"name": name, "labels": {"team": team}}})
    };
    let web = json!({"app": "web"});
    let selector = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
    let near = json!({"affinity": {"podAffinity": term(web.clone(), "zone", selector)}});
    let mut there = labelled("w", "a", "1", web);
    there["metadata"]["namespace"] = "shop".into();
    Scenario::new(
        [zoned("a", "one"), namespace("shop", "b"), there],
        pod("1", near),
    )
    .ignores(other("x", "a", "1"))
    .then_placed_after(namespace("shop", "a"));
}

#[test]
fn topology_spread() {
    let web = json!({"app": "web"});
    let spread = json!({"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": web}}]});
    let full = node_with("b", "0", json!({"zone": "two"}), json!({}));
    let cluster = [
        zoned("a", "one"),
        full.clone(),
        labelled("w1", "a", "1", web.clone()),
        other("x", "a", "1"),
    ];
    let spread_pod = pod_of("p", web.clone(), "1", spread);
    let scenario = || {
        Scenario::new(cluster.clone(), spread_pod.clone())
            .ignores_gone("x")
            .ignores(other("y", "a", "1"))
            .ignores(full.clone())
    };
    scenario().then_placed_after_gone("w1");
    scenario().then_placed_after(zoned("d", "two"));
    scenario().then_placed_after(labelled("w2", "b", "0", web.clone()));
}

fn claim(name: &str, class: &str, volume: &str) -> Value {
    let annotations = match volume {
        "" => json!({}),
        _ => json!({"pv.kubernetes.io/bind-completed": "yes"}),
    };
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
           "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"),
                        "annotations": annotations},
           "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                    "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}})
}

fn class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
           "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"})
}

fn local_class(name: &str) -> Value {
    let mut class = class(name);
    class["provisioner"] = "kubernetes.io/no-provisioner".into();
    class
}

fn volume(name: &str, class: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
           "metadata": {"name": name, "labels": labels},
           "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "storageClassName": class,
                    "csi": {"driver": "csi.example.com", "volumeHandle": name}},
           "status": {"phase": "Available"}})
}

fn with_claim(claim: &str) -> Value {
    let source = json!({"claimName": claim});
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": source}]})
}

#[test]
fn claims_and_volumes() {
    // Without its claim.
    Scenario::new([node("a", "4"), class("s")], pod("1", with_claim("c")))
        .ignores(claim("d", "s", ""))
        .ignores(class("t"))
        .ignores(volume("v", "t", json!({})))
        .ignores(node("a", "8"))
        .then_placed_after(claim("c", "s", ""));
    // Without its class.
    Scenario::new(
        [node("a", "4"), claim("c", "s", "")],
        pod("1", with_claim("c")),
    )
    .ignores(class("t"))
    .ignores(claim("d", "s", ""))
    .then_placed_after(class("s"));
    // Without a volume.
    let cluster = [node("a", "4"), local_class("s"), claim("c", "s", "")];
    Scenario::new(cluster, pod("1", with_claim("c")))
        .ignores(volume("v", "t", json!({})))
        .ignores(other("x", "a", "1"))
        .then_placed_after(volume("w", "s", json!({})));
}

#[test]
fn nodes_that_reach_a_volume() {
    let mut there = volume("v", "s", json!({}));
    let zone = json!({"key": "zone", "operator": "In", "values": ["two"]});
    there["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] =
        json!([{"matchExpressions": [zone]}]);
    let cluster = [zoned("a", "one"), there, claim("c", "s", "v")];
    Scenario::new(cluster, pod("1", with_claim("c")))
        .ignores(zoned("a", "one"))
        .ignores(node_with("a", "8", json!({"zone": "one"}), json!({})))
        .then_placed_after(zoned("a", "two"));
}

#[test]
fn capacity_that_drivers_tell() {
    let capacity = |name: &str, class: &str, size: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
               "metadata": {"namespace": "default", "name": name}, "storageClassName": class,
               "nodeTopology": {}, "capacity": size})
    };
    let driver = |name: &str, tells: bool| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name},
               "spec": {"storageCapacity": tells}})
    };
    let cluster = [
        node("a", "4"),
        class("s"),
        claim("c", "s", ""),
        driver("csi.example.com", true),
    ];
    let scenario = || {
        Scenario::new(cluster.clone(), pod("1", with_claim("c")))
            .ignores(capacity("x", "t", "9Gi"))
            .ignores(driver("other.example.com", false))
    };
    scenario().then_placed_after(capacity("y", "s", "9Gi"));
    scenario().then_placed_after(driver("csi.example.com", false));
}

#[test]
fn zones_of_volumes() {
    let zone = |zone: &str| json!({"topology.kubernetes.io/zone": zone});
    let cluster = [
        node_with("a", "4", zone("one"), json!({})),
        volume("v", "s", zone("two")),
        claim("c", "s", "v"),
    ];
    let scenario = || {
        Scenario::new(cluster.clone(), pod("1", with_claim("c")))
            .ignores(volume("w", "s", zone("one")))
            .ignores(claim("d", "s", "v"))
            .ignores(node_with("a", "8", zone("one"), json!({})))
    };
    scenario().then_placed_after(volume("v", "s", zone("one")));
    scenario().then_placed_after(node_with("a", "8", zone("two"), json!({})));
}

#[test]
fn volume_limits() {
    let limit = |count: u32| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"},
               "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "a",
                                     "allocatable": {"count": count}}]}})
    };
    let mut user = pod_of("x", json!({}), "1", with_claim("d"));
    user["spec"]["nodeName"] = "a".into();
    let cluster = [
        node("a", "4"),
        limit(1),
        volume("v", "s", json!({})),
        volume("w", "s", json!({})),
        claim("c", "s", "v"),
        claim("d", "s", "w"),
        user,
        other("y", "a", "1"),
    ];
    let scenario = || {
        Scenario::new(cluster.clone(), pod("1", with_claim("c")))
            .ignores(node("a", "8"))
            .ignores(claim("e", "s", "w"))
            .ignores_gone("y")
    };
    scenario().then_placed_after(limit(2));
    scenario().then_placed_after_gone("x");
}

#[test]
fn claims_for_one_pod() {
    let mut exclusive = claim("c", "s", "v");
    exclusive["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    let mut user = pod_of("x", json!({}), "1", with_claim("c"));
    user["spec"]["nodeName"] = "a".into();
    let cluster = [
        node("a", "4"),
        volume("v", "s", json!({})),
        exclusive,
        user,
        other("y", "a", "1"),
    ];
    Scenario::new(cluster, pod("1", with_claim("c")))
        .ignores_gone("y")
        .ignores(node("a", "8"))
        .ignores(claim("d", "s", ""))
        .then_placed_after_gone("x");
}

#[test]
fn what_is_gone_may_help_too() {
    // A claim that is in the way goes: the pod has no claim then, and waits on.
    let cluster = [node("a", "4"), local_class("s"), claim("c", "s", "")];
    let mut scenario = Scenario::new(cluster, pod("1", with_claim("c")));
    let gone = |kind, name: &str| Event::StorageGone {
        kind,
        namespace: "default".to_owned(),
        name: name.to_owned(),
    };
    let now = scenario.now;
    scenario
        .engine
        .handle(gone(ObjectKind::PersistentVolumeClaim, "d"), now);
    assert_eq!(scenario.tried(), Vec::<String>::new());
    let now = scenario.now;
    scenario
        .engine
        .handle(gone(ObjectKind::PersistentVolumeClaim, "c"), now);
    assert_eq!(scenario.tried(), ["p waits"]);
}
