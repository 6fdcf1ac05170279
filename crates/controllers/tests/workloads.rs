//! Workloads become pods: what each kind creates, keeps and deletes.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrank_api::types::{
    CronJob, DaemonSet, Deployment, Job, Node, Pod, ReplicaSet, ReplicationController, StatefulSet,
};
use outrank_controllers::workloads::{Reconciled, TooManyPods, Workload, expand, reconcile};
use serde_json::{Value, json};

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// What happens to workloads and pods in a cluster without nodes.
fn run(workloads: &[Workload<'_>], pods: &[Pod]) -> Reconciled {
    reconcile(workloads, pods, &[]).unwrap()
}

fn names(pods: &[Pod]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_str()).collect()
}

fn share_one_spec(pods: &[Pod]) -> bool {
    pods.windows(2)
        .all(|pair| Arc::ptr_eq(&pair[0].spec, &pair[1].spec))
}

/// A pod in namespace `default` that is controlled by `kind/name`.
fn owned(name: &str, kind: &str, owner: &str, more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "default",
            "ownerReferences": [{"kind": kind, "name": owner, "controller": true}],
        },
        "status": {"phase": "Running"},
    });
    merge(&mut pod, more);
    object(pod)
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn web(replicas: i32) -> ReplicaSet {
    object(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u-web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    }))
}

#[test]
fn a_replica_set_makes_pods_that_are_alike() {
    let set = web(4);
    let pods = expand(Workload::ReplicaSet(&set), &[]).unwrap();
    assert_eq!(pods.len(), 4);
    assert!(share_one_spec(&pods) && Arc::ptr_eq(&pods[0].spec, &set.spec.template.spec));
    assert_eq!(names(&pods).iter().collect::<BTreeSet<_>>().len(), 4);
    for pod in &pods {
        let meta = &pod.metadata;
        let suffix = meta.name.strip_prefix("web-").unwrap();
        assert_eq!(suffix.len(), 5);
        assert!(
            suffix
                .chars()
                .all(|it| "bcdfghjklmnpqrstvwxz2456789".contains(it)),
            "{suffix}"
        );
        assert_eq!(
            (meta.namespace.as_str(), meta.generate_name.as_str()),
            ("default", "web-")
        );
        assert_eq!(
            (
                meta.labels["app"].as_str(),
                meta.annotations["note"].as_str()
            ),
            ("web", "x")
        );
        assert_eq!(meta.uid.len(), 36);
        let owner = meta.controller().unwrap();
        assert_eq!(
            (
                owner.api_version.as_str(),
                owner.kind.as_str(),
                owner.uid.as_str()
            ),
            ("apps/v1", "ReplicaSet", "u-web")
        );
        assert_eq!(pod.status.phase, "Pending");
    }
    assert_eq!(
        expand(Workload::ReplicaSet(&set), &[]).unwrap(),
        pods,
        "the same every time"
    );
}

#[test]
fn replicas_default_to_one() {
    let mut set = web(0);
    assert!(expand(Workload::ReplicaSet(&set), &[]).unwrap().is_empty());
    set.spec.replicas = None;
    assert_eq!(expand(Workload::ReplicaSet(&set), &[]).unwrap().len(), 1);
    set.spec.replicas = Some(-3);
    assert!(expand(Workload::ReplicaSet(&set), &[]).unwrap().is_empty());
}

#[test]
fn pods_that_are_there_count_and_orphans_are_adopted() {
    let label = json!({"metadata": {"labels": {"app": "web"}}});
    let ended = json!({"metadata": {"labels": {"app": "web"}}, "status": {"phase": "Failed"}});
    let other_uid = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [
        {"kind": "ReplicaSet", "name": "web", "uid": "u-former", "controller": true}]}});
    let orphan = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": []}});
    let elsewhere = json!({"metadata": {
        "labels": {"app": "web"}, "ownerReferences": [], "namespace": "other"}});
    let pods = [
        owned("web-mine", "ReplicaSet", "web", label.clone()),
        owned("web-ended", "ReplicaSet", "web", ended),
        owned("web-former", "ReplicaSet", "web", other_uid),
        owned("web-unlabelled", "ReplicaSet", "web", json!({})),
        owned("orphan", "", "", orphan),
        owned("elsewhere", "", "", elsewhere),
        owned("jobs", "Job", "web", label),
    ];
    let done = run(&[Workload::ReplicaSet(&web(5))], &pods);
    assert_eq!((done.create.len(), done.delete.len()), (3, 0));
    // Whoever comes first adopts; the second has only what it makes.
    let mut second = web(5);
    second.metadata.name = "web-2".into();
    second.metadata.uid = "u-web-2".into();
    let (first, second) = (web(5), second);
    let done = run(
        &[Workload::ReplicaSet(&first), Workload::ReplicaSet(&second)],
        &pods,
    );
    assert_eq!(done.create.len(), 3 + 5);
}

#[test]
fn surplus_pods_go_in_the_controllers_order() {
    let pod = |name: &str, node: &str, phase: &str, created: &str| {
        let more = json!({
            "metadata": {"labels": {"app": "web"}, "creationTimestamp": created},
            "spec": {"nodeName": node}, "status": {"phase": phase},
        });
        owned(name, "ReplicaSet", "web", more)
    };
    let pods = [
        pod("old", "n1", "Running", "2024-05-01T00:00:00Z"),
        pod("young", "n1", "Running", "2024-05-02T00:00:00Z"),
        pod("pending", "n1", "Pending", "2024-05-01T00:00:00Z"),
        pod("unplaced", "", "Pending", "2024-05-01T00:00:00Z"),
    ];
    let done = run(&[Workload::ReplicaSet(&web(1))], &pods);
    assert_eq!(
        done.delete,
        ["default/unplaced", "default/pending", "default/young"]
    );
    assert!(done.create.is_empty());
}

#[test]
fn new_names_avoid_those_that_exist() {
    let set = web(2);
    let fresh = expand(Workload::ReplicaSet(&set), &[]).unwrap();
    let mut foreign = fresh[0].clone();
    foreign.metadata.owner_references.clear();
    foreign.metadata.labels.clear();
    let done = run(&[Workload::ReplicaSet(&set)], &[foreign]);
    assert_eq!(done.create.len(), 2);
    assert_eq!(done.create[0].metadata.name, fresh[1].metadata.name);
}

#[test]
fn a_replication_controller_selects_by_plain_labels() {
    let controller: ReplicationController = object(json!({
        "metadata": {"name": "rc", "namespace": "default"},
        "spec": {"replicas": 3, "template": {"metadata": {"labels": {"app": "old"}}}},
    }));
    let label = json!({"metadata": {"labels": {"app": "old"}, "ownerReferences": []}});
    let done = run(
        &[Workload::ReplicationController(&controller)],
        &[owned("a", "", "", label)],
    );
    assert_eq!(done.create.len(), 2);
    let owner = done.create[0].metadata.controller().unwrap();
    assert_eq!(
        (owner.api_version.as_str(), owner.kind.as_str()),
        ("v1", "ReplicationController")
    );
}

/// A Deployment as people write it.
fn high_nginx() -> Deployment {
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"labels": {"run": "nginx"}, "name": "high-nginx", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"run": "nginx"}},
            "template": {
                "metadata": {"labels": {"run": "nginx"}},
                "spec": {
                    "containers": [{"image": "nginx", "imagePullPolicy": "Always", "name": "nginx",
                                    "resources": {"limits": {"cpu": "500m"}}}],
                    "priorityClassName": "high",
                },
            },
        },
    }))
}

#[test]
fn a_deployment_makes_pods_through_a_replica_set() {
    let deployment = high_nginx();
    let pods = expand(Workload::Deployment(&deployment), &[]).unwrap();
    let [pod] = &pods[..] else {
        panic!("one pod expected")
    };
    let hash = &pod.metadata.labels["pod-template-hash"];
    let owner = pod.metadata.controller().unwrap();
    assert_eq!(owner.kind, "ReplicaSet");
    assert_eq!(owner.name, format!("high-nginx-{hash}"));
    assert!(
        pod.metadata
            .name
            .starts_with(&format!("high-nginx-{hash}-"))
    );
    assert_eq!(pod.metadata.labels["run"], "nginx");
    assert_eq!(pod.spec.priority_class_name, "high");

    let mut other = high_nginx();
    Arc::make_mut(&mut other.spec.template.spec).priority_class_name = "low".into();
    let others = expand(Workload::Deployment(&other), &[]).unwrap();
    assert_ne!(&others[0].metadata.labels["pod-template-hash"], hash);
}

#[test]
fn an_old_deployment_without_selector_fixed_to_a_node() {
    let deployment: Deployment = object(json!({
        "apiVersion": "extensions/v1beta1", "kind": "Deployment",
        "metadata": {"name": "myweb"},
        "spec": {
            "replicas": 7,
            "template": {
                "metadata": {"labels": {"app": "myweb"}},
                "spec": {"nodeName": "k8s-node01",
                         "containers": [{"name": "myweb", "image": "wangyanglinux/myapp:v1",
                                         "ports": [{"containerPort": 80}]}]},
            },
        },
    }));
    let pods = expand(Workload::Deployment(&deployment), &[]).unwrap();
    assert_eq!(pods.len(), 7);
    assert!(share_one_spec(&pods));
    assert!(pods.iter().all(|pod| pod.spec.node_name == "k8s-node01"));
}

/// The ReplicaSet that a dump has for a Deployment.
fn replica_set_of(
    deployment: &Deployment,
    hash: &str,
    revision: &str,
    replicas: i32,
) -> ReplicaSet {
    let mut set: ReplicaSet = object(json!({
        "metadata": {
            "name": format!("{}-{hash}", deployment.metadata.name),
            "namespace": "default",
            "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [
                {"kind": "Deployment", "name": deployment.metadata.name, "controller": true}],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"run": "nginx", "pod-template-hash": hash}},
        },
    }));
    set.spec.template = deployment.spec.template.clone();
    set.spec
        .template
        .metadata
        .labels
        .insert("pod-template-hash".into(), hash.into());
    set
}

fn pod_of(set: &ReplicaSet, name: &str) -> Pod {
    let labels = json!({"metadata": {"labels": set.spec.template.metadata.labels}});
    owned(name, "ReplicaSet", &set.metadata.name, labels)
}

#[test]
fn a_dump_of_a_deployment_with_its_replica_set_makes_no_pod_twice() {
    let mut deployment = high_nginx();
    deployment.spec.replicas = Some(3);
    let set = replica_set_of(&deployment, "7c5ddbdf54", "2", 3);
    let pods = [pod_of(&set, "a"), pod_of(&set, "b")];
    for workloads in [
        [
            Workload::Deployment(&deployment),
            Workload::ReplicaSet(&set),
        ],
        [
            Workload::ReplicaSet(&set),
            Workload::Deployment(&deployment),
        ],
    ] {
        let done = run(&workloads, &pods);
        assert_eq!((done.create.len(), done.delete.len()), (1, 0));
        assert!(
            done.create[0]
                .metadata
                .name
                .starts_with("high-nginx-7c5ddbdf54-")
        );
    }
    // Without its Deployment in the input, the ReplicaSet works by itself.
    assert_eq!(run(&[Workload::ReplicaSet(&set)], &pods).create.len(), 1);
}

#[test]
fn a_rollout_ends_with_the_new_template_alone() {
    let old = high_nginx();
    let mut new = high_nginx();
    new.spec.replicas = Some(2);
    Arc::make_mut(&mut new.spec.template.spec).priority_class_name = "low".into();
    let old_set = replica_set_of(&old, "old", "1", 2);
    let pods = [pod_of(&old_set, "a"), pod_of(&old_set, "b")];
    let workloads = [Workload::Deployment(&new), Workload::ReplicaSet(&old_set)];
    let done = run(&workloads, &pods);
    assert_eq!(done.delete.len(), 2);
    assert!(
        done.create
            .iter()
            .all(|pod| pod.spec.priority_class_name == "low")
    );
    assert_eq!(done.create.len(), 2);

    // Held, it stays as it is, and scales what is in use.
    new.spec.paused = true;
    new.spec.replicas = Some(3);
    let done = run(
        &[Workload::Deployment(&new), Workload::ReplicaSet(&old_set)],
        &pods,
    );
    assert_eq!((done.create.len(), done.delete.len()), (1, 0));
    assert_eq!(done.create[0].spec.priority_class_name, "high");
}

#[test]
fn of_equal_templates_the_latest_revision_carries_the_replicas() {
    let deployment = high_nginx();
    let sets = ["9", "10", "2"]
        .map(|revision| replica_set_of(&deployment, &format!("r{revision}"), revision, 1));
    let mut workloads: Vec<_> = sets.iter().map(Workload::ReplicaSet).collect();
    workloads.push(Workload::Deployment(&deployment));
    let done = run(&workloads, &[]);
    assert_eq!(
        done.create[0].metadata.controller().unwrap().name,
        "high-nginx-r10"
    );
    assert_eq!(done.create.len(), 1);
}

fn database(replicas: i32) -> StatefulSet {
    object(json!({
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c"}],
                         "volumes": [{"name": "data"}, {"name": "config"}]},
            },
        },
    }))
}

#[test]
fn a_stateful_set_numbers_its_pods() {
    let mut set = database(3);
    set.spec.ordinals = Some(object(json!({"start": 5})));
    let pods = expand(Workload::StatefulSet(&set), &[]).unwrap();
    assert_eq!(names(&pods), ["db-5", "db-6", "db-7"]);
    assert!(share_one_spec(&pods));
    let labels = &pods[1].metadata.labels;
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-6");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "6");
    assert!(labels["controller-revision-hash"].starts_with("db-"));
}

#[test]
fn a_stateful_set_gives_each_pod_its_claims() {
    let mut set = database(2);
    set.spec.volume_claim_templates =
        object(json!([{"metadata": {"name": "data"}}, {"metadata": {"name": "archive"}}]));
    let pods = expand(Workload::StatefulSet(&set), &[]).unwrap();
    let volumes = pods[1].spec.volumes.iter().map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref();
        (
            volume.name.as_str(),
            claim.map(|claim| claim.claim_name.as_str()),
        )
    });
    let expected = [
        ("archive", Some("archive-db-1")),
        ("data", Some("data-db-1")),
        ("config", None),
    ];
    assert_eq!(volumes.collect::<Vec<_>>(), expected);
}

#[test]
fn a_stateful_set_fills_gaps_replaces_the_ended_and_cuts_from_the_top() {
    let pod = |name: &str, more: Value| {
        let mut all = json!({"metadata": {"labels": {"app": "db"}}});
        merge(&mut all, more);
        owned(name, "StatefulSet", "db", all)
    };
    let going = json!({"metadata": {"deletionTimestamp": "2024-05-01T00:00:00Z"}});
    let pods = [
        pod("db-0", json!({})),
        pod("db-2", json!({"status": {"phase": "Failed"}})),
        pod("db-3", going),
        pod("db-9", json!({})),
        pod("db-10", json!({})),
        pod("db-x", json!({})),
    ];
    let done = run(&[Workload::StatefulSet(&database(4))], &pods);
    assert_eq!(names(&done.create), ["db-1", "db-2"]);
    assert_eq!(
        done.delete,
        ["default/db-2", "default/db-10", "default/db-9"]
    );
}

fn nodes() -> Vec<Node> {
    object(json!([
        {"metadata": {"name": "cpu-1", "labels": {"kind": "cpu"}}},
        {"metadata": {"name": "gpu-1", "labels": {"kind": "gpu"}},
         "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}},
        {"metadata": {"name": "gpu-2", "labels": {"kind": "gpu"}},
         "spec": {"unschedulable": true, "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "soft", "effect": "PreferNoSchedule"}]}},
        {"metadata": {"name": "gpu-3", "labels": {"kind": "gpu"}},
         "spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}},
    ]))
}

fn exporter(more: Value) -> DaemonSet {
    let mut set = json!({
        "metadata": {"name": "exporter", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "exporter"}},
            "template": {
                "metadata": {"labels": {"app": "exporter"}},
                "spec": {"containers": [{"name": "c"}]},
            },
        },
    });
    merge(&mut set, json!({"spec": {"template": {"spec": more}}}));
    object(set)
}

/// The nodes that pods are bound to by affinity, by name.
fn targets(pods: &[Pod]) -> Vec<String> {
    pods.iter()
        .map(|pod| {
            let affinity = pod
                .spec
                .affinity
                .as_ref()
                .unwrap()
                .node_affinity
                .as_ref()
                .unwrap();
            let [term] = &affinity.required.as_ref().unwrap().node_selector_terms[..] else {
                panic!("one term expected")
            };
            assert!(term.match_expressions.is_empty());
            let [field] = &term.match_fields[..] else {
                panic!("one field expected")
            };
            assert_eq!(
                (field.key.as_str(), field.operator.as_str()),
                ("metadata.name", "In")
            );
            field.values.concat()
        })
        .collect()
}

#[test]
fn a_daemon_set_takes_every_node_it_fits() {
    let pods = expand(Workload::DaemonSet(&exporter(json!({}))), &nodes()).unwrap();
    assert_eq!(targets(&pods), ["cpu-1", "gpu-2"]);
    let labels = &pods[0].metadata.labels;
    assert_eq!(labels["pod-template-generation"], "1");
    assert!(labels.contains_key("controller-revision-hash"));
    let tolerated: Vec<_> = pods[0]
        .spec
        .tolerations
        .iter()
        .map(|it| it.key.as_str())
        .collect();
    assert_eq!(tolerated.len(), 6);
    assert!(tolerated.contains(&"node.kubernetes.io/unschedulable"));

    let everything = json!({"tolerations": [{"operator": "Exists"}], "hostNetwork": true});
    let pods = expand(Workload::DaemonSet(&exporter(everything)), &nodes()).unwrap();
    assert_eq!(targets(&pods), ["cpu-1", "gpu-1", "gpu-2", "gpu-3"]);
    assert_eq!(pods[0].spec.tolerations.len(), 1 + 7);
}

#[test]
fn a_daemon_set_replaces_node_requirements_and_keeps_preferences() {
    let set = exporter(json!({
        "nodeSelector": {"kind": "gpu"},
        "tolerations": [{"key": "gpu", "operator": "Exists"},
                        {"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                         "effect": "NoExecute", "tolerationSeconds": 60}],
        "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kind", "operator": "Exists"}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [
                    {"key": "kind", "operator": "Exists"}]}}],
        }},
    }));
    let pods = expand(Workload::DaemonSet(&set), &nodes()).unwrap();
    assert_eq!(targets(&pods), ["gpu-1", "gpu-2"]);
    let affinity = pods[0]
        .spec
        .affinity
        .as_ref()
        .unwrap()
        .node_affinity
        .as_ref()
        .unwrap();
    assert_eq!(affinity.preferred.len(), 1);
    assert_eq!(pods[0].spec.tolerations.len(), 1 + 6);
    assert!(
        pods[0]
            .spec
            .tolerations
            .iter()
            .all(|it| it.toleration_seconds.is_none())
    );
}

#[test]
fn daemon_pods_that_are_there_stay_if_their_node_lets_them() {
    let on = |name: &str, node: &str, more: Value| {
        let mut all = json!({
            "metadata": {"labels": {"app": "exporter"}}, "spec": {"nodeName": node}});
        merge(&mut all, more);
        owned(name, "DaemonSet", "exporter", all)
    };
    let waiting = json!({"spec": {"nodeName": "", "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]},
    }}}});
    let pods = [
        on(
            "twice-b",
            "cpu-1",
            json!({"metadata": {"creationTimestamp": "2024-05-02T00:00:00Z"}}),
        ),
        on(
            "twice-a",
            "cpu-1",
            json!({"metadata": {"creationTimestamp": "2024-05-01T00:00:00Z"}}),
        ),
        on("tainted", "gpu-1", json!({})),
        on("failed", "gpu-2", json!({"status": {"phase": "Failed"}})),
        on("evicted", "gpu-3", json!({})),
        on("orphaned", "", waiting),
    ];
    let done = reconcile(
        &[Workload::DaemonSet(&exporter(json!({})))],
        &pods,
        &nodes(),
    )
    .unwrap();
    let deleted = [
        "default/twice-b",
        "default/failed",
        "default/evicted",
        "default/orphaned",
    ];
    assert_eq!(done.delete, deleted);
    assert_eq!(targets(&done.create), ["gpu-2"]);
}

fn job(spec: Value) -> Job {
    object(json!({"metadata": {"name": "sum", "namespace": "default"}, "spec": spec}))
}

#[test]
fn a_job_runs_so_many_at_once_until_enough_have_succeeded() {
    let succeeded = |name: &str| {
        owned(
            name,
            "Job",
            "sum",
            json!({"status": {"phase": "Succeeded"}}),
        )
    };
    let failed = owned("f", "Job", "sum", json!({"status": {"phase": "Failed"}}));
    let running = owned("r", "Job", "sum", json!({}));
    let created = |spec: Value, pods: &[Pod]| run(&[Workload::Job(&job(spec))], pods).create.len();
    assert_eq!(created(json!({}), &[]), 1);
    assert_eq!(created(json!({"parallelism": 3}), &[]), 3);
    assert_eq!(
        created(json!({"parallelism": 3, "completions": 10}), &[]),
        3
    );
    assert_eq!(created(json!({"parallelism": 3, "completions": 2}), &[]), 2);
    assert_eq!(created(json!({"parallelism": 3, "suspend": true}), &[]), 0);
    let pods = [succeeded("s"), failed, running];
    assert_eq!(
        created(json!({"parallelism": 3, "completions": 3}), &pods),
        1
    );
    assert_eq!(
        created(json!({"parallelism": 3}), &pods),
        0,
        "the first success ends it"
    );
    let mut over = job(json!({"parallelism": 3, "completions": 3}));
    over.status.succeeded = 2;
    assert_eq!(run(&[Workload::Job(&over)], &[]).create.len(), 1);
    over.status.completion_time = Some("2024-05-01T00:00:00Z".into());
    assert!(run(&[Workload::Job(&over)], &[]).create.is_empty());
}

#[test]
fn a_job_that_ended_is_left_alone() {
    let job = job(json!({"completions": 2, "backoffLimit": 0}));
    assert_eq!(run(&[Workload::Job(&job)], &[]).create.len(), 1);
    for (condition, pods) in [("Failed", 0), ("Complete", 0), ("Suspended", 1)] {
        let mut over = job.clone();
        let conditions = json!([{"type": condition, "status": "True"}]);
        over.status = object(json!({"conditions": conditions}));
        let made = run(&[Workload::Job(&over)], &[]).create.len();
        assert_eq!(made, pods, "{condition}");
    }
}

#[test]
fn pods_of_a_job_carry_its_labels() {
    let mut owner = job(json!({"template": {"metadata": {"labels": {"a": "b"}}}}));
    owner.metadata.uid = "u-sum".into();
    let pods = expand(Workload::Job(&owner), &[]).unwrap();
    let labels = &pods[0].metadata.labels;
    for (key, value) in [
        ("a", "b"),
        ("job-name", "sum"),
        ("batch.kubernetes.io/job-name", "sum"),
        ("controller-uid", "u-sum"),
        ("batch.kubernetes.io/controller-uid", "u-sum"),
    ] {
        assert_eq!(labels[key], value, "{key}");
    }
}

#[test]
fn a_suspended_job_lets_its_pods_go() {
    let pods = [owned("r", "Job", "sum", json!({}))];
    let done = run(&[Workload::Job(&job(json!({"suspend": true})))], &pods);
    assert_eq!(
        (done.delete.as_slice(), done.create.len()),
        (&["default/r".to_owned()][..], 0)
    );
}

fn indexed(completions: i64, parallelism: i64) -> Job {
    let mode = "Indexed";
    job(json!({"completionMode": mode, "completions": completions, "parallelism": parallelism}))
}

fn indices(pods: &[Pod]) -> Vec<&str> {
    const INDEX: &str = "batch.kubernetes.io/job-completion-index";
    for pod in pods {
        let meta = &pod.metadata;
        assert_eq!(meta.labels[INDEX], meta.annotations[INDEX]);
        assert!(
            meta.name
                .starts_with(&format!("sum-{}-", meta.labels[INDEX])),
            "{}",
            meta.name
        );
    }
    pods.iter()
        .map(|pod| pod.metadata.labels[INDEX].as_str())
        .collect()
}

#[test]
fn an_indexed_job_makes_the_lowest_numbers_that_are_left() {
    let pod = |index: &str, phase: &str| {
        let annotations = json!({"batch.kubernetes.io/job-completion-index": index});
        let more = json!({"metadata": {"annotations": annotations}, "status": {"phase": phase}});
        owned(&format!("sum-{index}-{phase}"), "Job", "sum", more)
    };
    assert_eq!(
        indices(&run(&[Workload::Job(&indexed(5, 3))], &[]).create),
        ["0", "1", "2"]
    );
    let pods = [
        pod("0", "Succeeded"),
        pod("2", "Running"),
        pod("3", "Failed"),
    ];
    let done = run(&[Workload::Job(&indexed(5, 3))], &pods);
    assert_eq!(indices(&done.create), ["1", "3"]);

    // Pods of successes that are cleaned up had the lowest numbers.
    let mut far = indexed(1_000_000_000, 2);
    far.status.succeeded = 999_999_996;
    let pods = [pod("5", "Succeeded"), pod("999999998", "Running")];
    let done = run(&[Workload::Job(&far)], &pods);
    assert_eq!(indices(&done.create), ["999999996"]);

    // The same number twice, and one that is too high.
    let mut twin = pod("1", "Running");
    twin.metadata.name = "twin".into();
    twin.metadata.creation_timestamp = Some("2024-05-01T00:00:00Z".into());
    let pods = [pod("1", "Running"), twin, pod("7", "Running")];
    let done = run(&[Workload::Job(&indexed(3, 3))], &pods);
    assert_eq!(
        done.delete,
        ["default/sum-1-Running", "default/sum-7-Running"]
    );
    assert_eq!(indices(&done.create), ["0", "2"]);
}

#[test]
fn an_indexed_job_knows_what_is_done_from_its_status() {
    let mut job = job(json!({"completions": 5, "parallelism": 3, "completionMode": "Indexed"}));
    job.status = object(json!({"succeeded": 3, "completedIndexes": "0,2-3"}));
    let made = run(&[Workload::Job(&job)], &[]).create;
    let index = |pod: &Pod| {
        let label = "batch.kubernetes.io/job-completion-index";
        pod.metadata.labels[label].clone()
    };
    assert_eq!(made.iter().map(index).collect::<Vec<_>>(), ["1", "4"]);
    // Nonsense costs nothing and is left out.
    job.status.completed_indexes = "0-18446744073709551615,x,7-".to_owned();
    assert!(run(&[Workload::Job(&job)], &[]).create.is_empty());
}

#[test]
fn a_cron_job_makes_the_pods_of_its_next_run() {
    let mut cron_job: CronJob = object(json!({
        "metadata": {"name": "report", "namespace": "default"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"parallelism": 2}}},
    }));
    let pods = expand(Workload::CronJob(&cron_job), &[]).unwrap();
    assert_eq!(pods.len(), 2);
    let owner = pods[0].metadata.controller().unwrap();
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str()),
        ("Job", "report-next")
    );
    cron_job.spec.suspend = Some(true);
    assert!(
        expand(Workload::CronJob(&cron_job), &[])
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_few_bytes_cannot_ask_for_billions_of_pods() {
    let set = web(i32::MAX);
    let error = expand(Workload::ReplicaSet(&set), &[]).unwrap_err();
    let wanted = i32::MAX as u64;
    assert_eq!(
        error,
        TooManyPods {
            kind: "ReplicaSet",
            workload: "default/web".into(),
            wanted
        }
    );
    assert_eq!(
        error.to_string(),
        "ReplicaSet default/web wants 2147483647 more pods; all workloads together can have at \
         most 2000000 new ones: ask for fewer replicas"
    );
    let set = database(i32::MAX);
    assert!(expand(Workload::StatefulSet(&set), &[]).is_err());
    assert!(expand(Workload::Job(&indexed(2_147_483_647, 2_147_483_647)), &[]).is_err());
}

#[test]
fn a_selector_that_selects_everything_adopts_nothing() {
    let mut set = web(2);
    set.spec.selector = Some(Default::default());
    let stranger = owned(
        "stranger",
        "",
        "",
        json!({"metadata": {"ownerReferences": []}}),
    );
    assert_eq!(
        run(&[Workload::ReplicaSet(&set)], &[stranger]).create.len(),
        2
    );
}

#[test]
fn names_that_are_too_long_are_cut() {
    let mut set = web(1);
    set.metadata.name = "é".repeat(200);
    let pods = expand(Workload::ReplicaSet(&set), &[]).unwrap();
    assert!(pods[0].metadata.name.len() <= 63);
}

/// After one step there is nothing left to do, whatever was there before.
#[test]
fn controllers_come_to_rest() {
    let (set, deployment, stateful_set) = (web(4), high_nginx(), database(3));
    let daemon_set = exporter(json!({}));
    let sum = indexed(9, 4);
    let cron_job: CronJob = object(json!({
        "metadata": {"name": "report", "namespace": "default"},
        "spec": {"jobTemplate": {"spec": {"parallelism": 2}}},
    }));
    let workloads = [
        Workload::Deployment(&deployment),
        Workload::ReplicaSet(&set),
        Workload::StatefulSet(&stateful_set),
        Workload::DaemonSet(&daemon_set),
        Workload::Job(&sum),
        Workload::CronJob(&cron_job),
    ];
    let labels = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    let mut ended = owned("db-1", "StatefulSet", "db", labels("db"));
    ended.status.phase = "Succeeded".into();
    let surplus = (0..6).map(|it| owned(&format!("w{it}"), "ReplicaSet", "web", labels("web")));
    let beyond = owned("db-8", "StatefulSet", "db", labels("db"));
    let mut pods: Vec<Pod> = surplus.chain([ended, beyond]).collect();

    let first = reconcile(&workloads, &pods, &nodes()).unwrap();
    assert!(
        first.create.len() >= 10 && first.delete.len() == 4,
        "{:?}",
        first.delete
    );
    pods.retain(|pod| !first.delete.contains(&pod.key()));
    pods.extend(first.create);
    let keys: BTreeSet<String> = pods.iter().map(Pod::key).collect();
    assert_eq!(keys.len(), pods.len(), "no name twice");
    let made = first.replica_sets.iter().map(Workload::ReplicaSet);
    let workloads: Vec<Workload<'_>> = workloads.into_iter().chain(made).collect();
    assert_eq!(
        reconcile(&workloads, &pods, &nodes()).unwrap(),
        Reconciled::default()
    );
}
