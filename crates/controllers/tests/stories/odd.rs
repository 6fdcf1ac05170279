//! Numbers, times and texts at the ends of what can be written: nothing panics.

use outrank_api::decode::ObjectKind;
use outrank_controllers::virtual_cluster::{PodLife, VirtualCluster};
use outrank_controllers::{Controllers, Refusal, Stored, Write, workload_controllers};
use serde_json::{Value, json};

use crate::story::START;

/// Numbers that look random (xorshift*).
struct Lots(u64);

impl Lots {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn pick(&mut self, all: &[Value]) -> Value {
        all[self.below(all.len())].clone()
    }

    fn number(&mut self) -> Value {
        self.pick(&[
            json!(0),
            json!(1),
            json!(3),
            json!(-1),
            json!(i32::MAX),
            json!(i32::MIN),
        ])
    }

    fn long_number(&mut self) -> Value {
        let short = self.number();
        self.pick(&[short, json!(i64::MAX), json!(i64::MIN)])
    }

    fn share(&mut self) -> Value {
        let number = self.number();
        let shares = ["0%", "25%", "-100%", "9223372036854775807%", "much"];
        let share = json!(shares[self.below(shares.len())]);
        self.pick(&[number, share])
    }

    fn time(&mut self) -> Value {
        self.pick(&[
            Value::Null,
            json!("0001-01-01T00:00:00Z"),
            json!("1970-01-01T00:00:00Z"),
            json!("2026-01-01T00:00:00Z"),
            json!("2262-04-11T23:47:16Z"),
            json!("9999-12-31T23:59:59Z"),
            json!("soon"),
        ])
    }

    fn text(&mut self) -> Value {
        self.pick(&[
            json!(""),
            json!("7"),
            json!("-7"),
            json!("+7"),
            json!("2147483648"),
            json!("9223372036854775807"),
            json!("0-2147483647,5,x,9-3"),
            json!("héllo"),
        ])
    }
}

const KINDS: [&str; 6] = [
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
];

/// A workload with odd values, as nobody has checked or defaulted it.
fn workload(lots: &mut Lots) -> Value {
    let kind = KINDS[lots.below(KINDS.len())];
    let template = json!({"metadata": {"labels": {"app": "w"}},
        "spec": {"containers": [{"name": "c", "image": "i"}],
            "restartPolicy": if lots.below(2) == 0 { "OnFailure" } else { "Never" }}});
    let mut spec = json!({"template": template, "selector": {"matchLabels": {"app": "w"}}});
    let rolling = json!({"maxSurge": lots.share(), "maxUnavailable": lots.share(),
        "partition": lots.number()});
    match kind {
        "Job" => {
            spec["completionMode"] =
                lots.pick(&[json!("Indexed"), json!("NonIndexed"), json!("x")]);
            spec["podFailurePolicy"] = lots.pick(&[Value::Null, json!({"rules": [{}]})]);
            spec["successPolicy"] = json!({"rules": [
                {"succeededIndexes": lots.text(), "succeededCount": lots.number()}]});
            for field in [
                "completions",
                "parallelism",
                "backoffLimit",
                "backoffLimitPerIndex",
                "maxFailedIndexes",
                "ttlSecondsAfterFinished",
            ] {
                spec[field] = lots.number();
            }
            spec["activeDeadlineSeconds"] = lots.long_number();
        }
        "CronJob" => {
            let schedules = [
                "* * * * *",
                "@every 9223372036s",
                "@every 1s",
                "0 0 31 2 *",
                "",
                "x",
            ];
            spec = json!({"schedule": schedules[lots.below(schedules.len())],
                "startingDeadlineSeconds": lots.long_number(),
                "successfulJobsHistoryLimit": lots.number(),
                "jobTemplate": {"spec": {"template": template}}});
        }
        _ => {
            for field in [
                "replicas",
                "minReadySeconds",
                "revisionHistoryLimit",
                "progressDeadlineSeconds",
            ] {
                spec[field] = lots.number();
            }
            spec["strategy"] = json!({"rollingUpdate": rolling});
            spec["updateStrategy"] = json!({"rollingUpdate": rolling});
            spec["ordinals"] = json!({"start": lots.number()});
        }
    }
    let status = json!({
        "replicas": lots.number(), "availableReplicas": lots.number(),
        "updatedReplicas": lots.number(), "collisionCount": lots.number(),
        "observedGeneration": lots.long_number(), "succeeded": lots.number(),
        "failed": lots.number(), "completedIndexes": lots.text(), "failedIndexes": lots.text(),
        "startTime": lots.time(), "lastScheduleTime": lots.time(),
        "conditions": [{"type": "Progressing", "status": "True", "lastUpdateTime": lots.time(),
            "lastTransitionTime": lots.time()}],
    });
    let annotations = json!({
        "deployment.kubernetes.io/revision": lots.text(),
        "deployment.kubernetes.io/desired-replicas": lots.text(),
        "deployment.kubernetes.io/max-replicas": lots.text(),
        "deprecated.daemonset.template.generation": lots.text(),
    });
    let group = if kind.ends_with("Job") {
        "batch/v1"
    } else {
        "apps/v1"
    };
    json!({"apiVersion": group, "kind": kind, "spec": spec, "status": status,
        "metadata": {"name": "w", "namespace": "default", "uid": "u",
            "generation": lots.long_number(), "annotations": annotations,
            "creationTimestamp": lots.time()}})
}

/// A pod of it, as odd.
fn pod(owner: &Value, number: usize, lots: &mut Lots) -> Value {
    let phases = ["Pending", "Running", "Succeeded", "Failed", ""];
    let status = json!({"restartCount": lots.number(), "name": "c",
        "state": {"terminated": {"exitCode": lots.number(), "finishedAt": lots.time()}}});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("w-{number}"), "namespace": "default",
            "uid": format!("p{number}"), "labels": {"app": "w"},
            "creationTimestamp": lots.time(),
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "annotations": {
                "batch.kubernetes.io/job-completion-index": lots.text(),
                "batch.kubernetes.io/job-index-failure-count": lots.text(),
                "controller.kubernetes.io/pod-deletion-cost": lots.text()},
            "ownerReferences": [{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
                "name": "w", "uid": "u", "controller": true}]},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
        "status": {"phase": phases[lots.below(phases.len())],
            "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": lots.time()}],
            "containerStatuses": [status.clone(), status]}});
    if lots.below(3) == 0 {
        pod["metadata"]["deletionTimestamp"] = lots.time();
        pod["metadata"]["deletionGracePeriodSeconds"] = lots.long_number();
    }
    pod
}

#[test]
fn no_odd_value_makes_a_controller_panic() {
    for seed in 1..400_u64 {
        println!("seed {seed}");
        let mut lots = Lots(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut cluster = VirtualCluster::new(Controllers::new(workload_controllers()), START);
        cluster.pod_life = PodLife::Pending;
        // Else some would never have enough pods.
        cluster.refuse = Some(Box::new(|write| {
            let Write::Create(create) = write else {
                return None;
            };
            let kinds = [ObjectKind::Pod, ObjectKind::Job];
            kinds.contains(&create.object.kind()).then(|| Refusal {
                code: 403,
                message: "enough".into(),
                ..Refusal::default()
            })
        }));
        cluster.load(Stored::whole(
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}),
        ));
        let owner = workload(&mut lots);
        for number in 0..4 {
            let pod = Stored::whole(pod(&owner, number, &mut lots));
            assert!(pod.object().is_some(), "it can be read");
            cluster.load(pod);
        }
        let owner = Stored::whole(owner);
        assert!(owner.object().is_some(), "it can be read");
        cluster.load(owner);
        for seconds in [0, 1, 700] {
            cluster.run_seconds(seconds);
        }
    }
}
