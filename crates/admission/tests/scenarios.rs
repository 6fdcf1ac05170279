//! What happens to pods, claims and classes on their way into a cluster.

use std::collections::BTreeMap;

use outrank_admission::namespace_lifecycle::NamespacePhase;
use outrank_admission::priority::{CriticalPods, Priority};
use outrank_admission::{
    AdmissionChain, AdmissionPlugin, Attributes, Cluster, Operation, PluginFlags, PriorityResolver,
};
use outrank_api::decode::{Object, ObjectKind, decode_value};
use outrank_api::defaults::default_object;
use outrank_api::status::Status;
use outrank_api::types::{LimitRange, PriorityClass, RuntimeClass};
use serde_json::{Value, json};

/// A cluster in which things were set up.
struct TestCluster {
    classes: PriorityResolver,
    ranges: Vec<LimitRange>,
    runtime_classes: BTreeMap<String, RuntimeClass>,
    terminating: Vec<&'static str>,
}

impl Cluster for TestCluster {
    fn priority_classes(&self) -> &PriorityResolver {
        &self.classes
    }

    fn namespace(&self, name: &str) -> Option<NamespacePhase> {
        match name {
            "nowhere" => None,
            name if self.terminating.contains(&name) => Some(NamespacePhase::Terminating),
            _ => Some(NamespacePhase::Active),
        }
    }

    fn limit_ranges(&self, _namespace: &str) -> Vec<&LimitRange> {
        self.ranges.iter().collect()
    }

    fn runtime_class(&self, name: &str) -> Option<&RuntimeClass> {
        self.runtime_classes.get(name)
    }
}

fn cluster() -> TestCluster {
    TestCluster {
        classes: PriorityResolver::new([]),
        ranges: Vec::new(),
        runtime_classes: BTreeMap::new(),
        terminating: Vec::new(),
    }
}

fn with_classes(classes: Value) -> TestCluster {
    let classes: Vec<PriorityClass> = serde_json::from_value(classes).expect("classes");
    TestCluster {
        classes: PriorityResolver::new(&classes),
        ..cluster()
    }
}

fn with_limits(limits: Value) -> TestCluster {
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
        "spec": {"limits": limits},
    });
    let mut range = decode_value(&range).expect("a LimitRange");
    default_object(&mut range);
    let Object::LimitRange(range) = range else {
        panic!("{range:?}")
    };
    TestCluster {
        ranges: vec![*range],
        ..cluster()
    }
}

fn pod(spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    for (name, value) in spec.as_object().expect("fields") {
        whole[name] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": whole})
}

/// A pod of one container with these resources.
fn pod_of(resources: Value) -> Value {
    pod(json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}))
}

/// The object after both phases, or the answer.
fn created_in(namespace: &str, cluster: &TestCluster, object: Value) -> Result<Value, Status> {
    let mut object = decode_value(&object).expect("an object");
    namespace.clone_into(&mut object.metadata_mut().namespace);
    default_object(&mut object);
    let chain = AdmissionChain::default_plugins(&PluginFlags::default()).expect("a chain");
    let attributes = Attributes {
        namespace,
        ..Attributes::of(Operation::Create, object.kind())
    };
    chain.admit(&attributes, Some(&mut object), cluster)?;
    chain.validate(&attributes, Some(&object), cluster)?;
    Ok(object.to_value())
}

fn created(cluster: &TestCluster, object: Value) -> Result<Value, Status> {
    created_in("shop", cluster, object)
}

fn refusal(cluster: &TestCluster, object: Value) -> String {
    let refused = created(cluster, object).expect_err("the object is refused");
    assert_eq!(refused.code, 403);
    refused.message
}

#[test]
fn a_pod_may_not_choose_never_by_itself() {
    let cluster = with_classes(json!([
        {"metadata": {"name": "c"}, "value": 1000, "preemptionPolicy": "PreemptLowerPriority"},
        {"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"},
    ]));
    let never = json!({"priorityClassName": "c", "preemptionPolicy": "Never"});
    assert_eq!(
        refusal(&cluster, pod(never)),
        "pods \"p\" is forbidden: the string value of PreemptionPolicy (Never) must not be \
         provided in pod spec; priority admission controller computed PreemptLowerPriority from \
         the given PriorityClass name"
    );
    let number = json!({"priorityClassName": "c", "priority": 1001});
    assert_eq!(
        refusal(&cluster, pod(number)),
        "pods \"p\" is forbidden: the integer value of priority (1001) must not be provided in \
         pod spec; priority admission controller computed 1000 from the given PriorityClass name"
    );
    let same = json!({"priorityClassName": "c", "priority": 1000,
                      "preemptionPolicy": "PreemptLowerPriority"});
    assert!(created(&cluster, pod(same)).is_ok());
    let patient = created(&cluster, pod(json!({"priorityClassName": "patient"})));
    let patient = patient.expect("the class says it");
    assert_eq!(patient["spec"]["preemptionPolicy"], "Never");
    assert_eq!(patient["spec"]["priority"], 1000);
}

#[test]
fn a_refusal_of_a_pod_without_a_name_calls_it_by_the_beginning() {
    let mut nameless = pod(json!({"priorityClassName": "nope"}));
    nameless["metadata"] = json!({"generateName": "web-"});
    let refused = created(&cluster(), nameless).expect_err("refused");
    assert_eq!(
        serde_json::to_value(refused).expect("JSON"),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "pods \"web-\" is forbidden: no PriorityClass with name nope was found",
            "reason": "Forbidden", "details": {"name": "web-", "kind": "pods"}, "code": 403,
        })
    );
}

#[test]
fn an_update_that_forgets_the_priority_keeps_it() {
    let stored = created(&cluster(), pod(json!({}))).expect("created");
    let old = decode_value(&stored).expect("a pod");
    let mut new = decode_value(&pod(json!({}))).expect("a pod");
    let attributes = Attributes {
        old: Some(&old),
        ..Attributes::of(Operation::Update, ObjectKind::Pod)
    };
    let plugin = Priority::default();
    plugin
        .admit(&attributes, Some(&mut new), &cluster())
        .expect("admitted");
    assert_eq!(new.to_value()["spec"]["priority"], 0);
    assert_eq!(
        new.to_value()["spec"]["preemptionPolicy"],
        "PreemptLowerPriority"
    );
}

#[test]
fn critical_pods_as_old_releases_knew_them() {
    let marked = |namespace: &str| {
        let mut pod = pod(json!({}));
        pod["metadata"] = json!({"name": "p", "namespace": namespace,
            "annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}});
        decode_value(&pod).expect("a pod")
    };
    let admitted = |plugin: Priority, mut pod: Object| {
        let namespace = pod.metadata().namespace.clone();
        let attributes = Attributes {
            namespace: &namespace,
            ..Attributes::of(Operation::Create, ObjectKind::Pod)
        };
        let admitted = plugin.admit(&attributes, Some(&mut pod), &cluster());
        admitted.map(|()| pod.to_value()["spec"]["priority"].clone())
    };
    let old = Priority {
        critical_pods: CriticalPods {
            by_annotation: true,
            only_where_allowed: true,
        },
    };
    assert_eq!(
        admitted(old, marked("kube-system")),
        Ok(json!(2_000_000_000))
    );
    assert_eq!(admitted(old, marked("shop")), Ok(json!(0)));
    assert_eq!(
        admitted(Priority::default(), marked("kube-system")),
        Ok(json!(0))
    );
    let class = |namespace: &str| {
        let mut pod = pod(json!({"priorityClassName": "system-node-critical"}));
        pod["metadata"]["namespace"] = json!(namespace);
        decode_value(&pod).expect("a pod")
    };
    assert_eq!(
        admitted(old, class("kube-system")),
        Ok(json!(2_000_001_000))
    );
    assert_eq!(
        admitted(old, class("shop")).expect_err("refused").message,
        "pods \"p\" is forbidden: pods with system-node-critical priorityClass is not permitted in \
         shop namespace"
    );
    assert_eq!(
        admitted(Priority::default(), class("shop")),
        Ok(json!(2_000_001_000))
    );
}

#[test]
fn containers_that_do_not_say_get_what_the_limit_range_says() {
    let cluster = with_limits(json!([{
        "type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
        "defaultRequest": {"cpu": "500m"},
    }]));
    let pod = created(
        &cluster,
        pod(json!({
            "containers": [
                {"name": "a", "image": "i"},
                {"name": "b", "image": "i", "resources": {"requests": {"cpu": "2"}}},
            ],
            "initContainers": [
                {"name": "side", "image": "i", "restartPolicy": "Always",
                 "resources": {"limits": {"cpu": "3", "memory": "1Mi"}}},
            ],
        })),
    );
    let pod = pod.expect("created");
    assert_eq!(
        pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for \
         container a; memory request for container b; cpu, memory limit for container b"
    );
    let containers = &pod["spec"]["containers"];
    assert_eq!(
        containers[0]["resources"],
        json!({"requests": {"cpu": "500m", "memory": "1Gi"},
               "limits": {"cpu": "1", "memory": "1Gi"}})
    );
    assert_eq!(containers[1]["resources"]["requests"]["cpu"], "2");
    assert_eq!(
        pod["spec"]["initContainers"][0]["resources"],
        json!({"requests": {"cpu": "3", "memory": "1Mi"}, "limits": {"cpu": "3", "memory": "1Mi"}})
    );
}

#[test]
fn containers_stay_within_bounds() {
    let bounds = |limit: Value| {
        let mut limit = limit;
        limit["type"] = json!("Container");
        with_limits(json!([limit]))
    };
    let forbidden = "pods \"p\" is forbidden: ";
    let cases = [
        (
            json!({"min": {"cpu": "100m"}}),
            json!({"requests": {"cpu": "50m"}}),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            json!({"max": {"cpu": "1"}}),
            json!({"limits": {"cpu": "1500m"}}),
            "maximum cpu usage per Container is 1, but limit is 1500m",
        ),
        (
            json!({"max": {"memory": "1Gi"}}),
            json!({"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}),
            "maximum memory usage per Container is 1Gi, but request is 2Gi",
        ),
        (
            json!({"maxLimitRequestRatio": {"cpu": "2"}}),
            json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            json!({"maxLimitRequestRatio": {"cpu": "2"}}),
            json!({"requests": {"memory": "1"}}),
            "cpu max limit to request ratio per Container is 2, but no request is specified or \
             request is 0",
        ),
        (
            json!({"maxLimitRequestRatio": {"cpu": "2"}}),
            json!({"requests": {"cpu": "1"}}),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or \
             limit is 0",
        ),
        (
            json!({"min": {"cpu": "2", "memory": "2Gi"}}),
            json!({"requests": {"cpu": "1", "memory": "1Gi"}}),
            "[minimum cpu usage per Container is 2, but request is 1, minimum memory usage per \
             Container is 2Gi, but request is 1Gi]",
        ),
    ];
    for (limit, resources, message) in cases {
        assert_eq!(
            refusal(&bounds(limit), pod_of(resources)),
            format!("{forbidden}{message}")
        );
    }
    let fits = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
    let limit =
        json!({"min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}});
    assert!(created(&bounds(limit), pod_of(fits)).is_ok());
}

#[test]
fn a_pod_is_bounded_as_a_whole() {
    let cluster =
        with_limits(json!([{"type": "Pod", "max": {"cpu": "3"}, "min": {"memory": "1Gi"}}]));
    let container = |name: &str, cpu: &str, extra: Value| {
        let mut container = json!({"name": name, "image": "i",
            "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}});
        for (name, value) in extra.as_object().expect("fields") {
            container[name] = value.clone();
        }
        container
    };
    // Two containers and a sidecar run at once; the init container before them counts alone.
    let whole = |init_cpu: &str, cpu: &str| {
        pod(json!({
            "initContainers": [
                container("init", init_cpu, json!({})),
                container("side", "1", json!({"restartPolicy": "Always"})),
            ],
            "containers": [container("a", "1", json!({})), container("b", cpu, json!({}))],
        }))
    };
    assert!(created(&cluster, whole("3", "1")).is_ok());
    assert_eq!(
        refusal(&cluster, whole("1", "2")),
        "pods \"p\" is forbidden: maximum cpu usage per Pod is 3, but limit is 4"
    );
    assert_eq!(
        refusal(&cluster, whole("5", "1")),
        "pods \"p\" is forbidden: maximum cpu usage per Pod is 3, but limit is 5"
    );
    assert_eq!(
        refusal(&cluster, pod(json!({}))),
        "pods \"p\" is forbidden: [minimum memory usage per Pod is 1Gi.  No request is specified, \
         maximum cpu usage per Pod is 3.  No limit is specified]"
    );
    // What the pod says of itself counts in place of its containers.
    let own = json!({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}});
    assert!(created(&cluster, pod(own)).is_ok());
}

#[test]
fn claims_are_bounded_by_what_they_request() {
    let cluster = with_limits(json!([{
        "type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"},
    }]));
    let claim = |size: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
        })
    };
    assert!(created(&cluster, claim("5Gi")).is_ok());
    let forbidden = "persistentvolumeclaims \"data\" is forbidden: ";
    assert_eq!(
        refusal(&cluster, claim("512Mi")),
        format!(
            "{forbidden}minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"
        )
    );
    assert_eq!(
        refusal(&cluster, claim("11Gi")),
        format!(
            "{forbidden}maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi"
        )
    );
}

#[test]
fn a_runtime_class_says_what_a_pod_costs_and_where_it_goes() {
    let class = json!({
        "metadata": {"name": "vm"}, "handler": "vm",
        "overhead": {"podFixed": {"memory": "120Mi"}},
        "scheduling": {
            "nodeSelector": {"vm": "yes"},
            "tolerations": [{"key": "vm", "operator": "Exists"},
                            {"key": "vm", "operator": "Exists", "effect": "NoSchedule"}],
        },
    });
    let mut cluster = cluster();
    let class = serde_json::from_value(class).expect("a RuntimeClass");
    cluster.runtime_classes.insert("vm".to_owned(), class);
    let made = created(&cluster, pod(json!({"runtimeClassName": "vm"}))).expect("created");
    assert_eq!(made["spec"]["overhead"], json!({"memory": "120Mi"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"vm": "yes"}));
    let tolerations = made["spec"]["tolerations"].as_array().expect("a list");
    // Those of the node's taints, and one of two, as the other covers it.
    assert_eq!(tolerations.len(), 3);
    for (spec, why) in [
        (
            json!({"runtimeClassName": "nope"}),
            "pod rejected: RuntimeClass \"nope\" not found",
        ),
        (
            json!({"runtimeClassName": "vm", "overhead": {"memory": "1Mi"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"overhead": {"memory": "1Mi"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
        ),
    ] {
        assert_eq!(
            refusal(&cluster, pod(spec)),
            format!("pods \"p\" is forbidden: {why}")
        );
    }
}

#[test]
fn nothing_is_made_where_everything_goes() {
    let cluster = TestCluster {
        terminating: vec!["going"],
        ..cluster()
    };
    let refused = created_in("going", &cluster, pod(json!({}))).expect_err("refused");
    assert_eq!(
        refused.message,
        "pods \"p\" is forbidden: unable to create new content in namespace going because it is \
         being terminated"
    );
    let causes = refused
        .details
        .map(|details| details.causes)
        .unwrap_or_default();
    assert_eq!(causes[0].reason, "NamespaceTerminating");
    let refused = created_in("nowhere", &cluster, pod(json!({}))).expect_err("refused");
    assert_eq!(refused.message, "namespaces \"nowhere\" not found");
    let chain = AdmissionChain::default_plugins(&PluginFlags::default()).expect("a chain");
    let attributes = Attributes {
        name: "kube-system",
        ..Attributes::of(Operation::Delete, ObjectKind::Namespace)
    };
    let refused = chain
        .admit(&attributes, None, &cluster)
        .expect_err("refused");
    assert_eq!(
        refused.message,
        "namespaces \"kube-system\" is forbidden: this namespace may not be deleted"
    );
}

/// Stands for a plugin that others bring.
#[derive(Debug)]
struct Quota;

impl AdmissionPlugin for Quota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }
}

#[test]
fn plugins_come_in_their_order_and_only_if_they_are_enabled() {
    let chain = |selection: &PluginFlags| {
        let chain = AdmissionChain::default_plugins(selection).expect("a chain");
        chain.with(Quota).names()
    };
    assert_eq!(
        chain(&PluginFlags::default()),
        [
            "NamespaceLifecycle",
            "LimitRanger",
            "ServiceAccount",
            "TaintNodesByCondition",
            "Priority",
            "DefaultTolerationSeconds",
            "DefaultStorageClass",
            "RuntimeClass",
            "PodTopologyLabels",
            "ResourceQuota",
        ]
    );
    let without = PluginFlags {
        disable: Some(vec!["Priority".to_owned(), "ResourceQuota".to_owned()]),
        ..Default::default()
    };
    assert!(!chain(&without).contains(&"Priority"));
    let chain = AdmissionChain::default_plugins(&PluginFlags::default()).expect("a chain");
    assert!(chain.left_out().contains(&"ResourceQuota"));
}
