//! The life of a pod, step by step.

mod cluster;

use cluster::{Cluster, and, does, pod};
use serde_json::{Value, json};

fn policy(restart_policy: &str) -> Value {
    json!({ "spec": { "restartPolicy": restart_policy } })
}

#[test]
fn from_pending_to_ready() {
    let mut cluster = Cluster::new();
    cluster.create(pod(
        "a",
        "1",
        does(&[("start-after", "3s"), ("ready-after", "5s")]),
    ));
    let status = cluster.status("a");
    assert_eq!(status.phase, "Pending");
    assert_eq!(status.start_time.as_deref(), Some("1970-01-01T00:00:00Z"));
    assert_eq!(
        (status.host_ip.as_str(), status.pod_ip.as_str()),
        ("192.168.0.7", "")
    );
    assert_eq!(status.qos_class, "Burstable");
    assert_eq!(cluster.containers("a"), ["main: ContainerCreating"]);
    assert_eq!(cluster.condition("a", "PodScheduled"), "True");
    assert_eq!(cluster.condition("a", "PodReadyToStartContainers"), "False");
    assert_eq!(cluster.condition("a", "Initialized"), "True");
    assert_eq!(cluster.condition("a", "Ready"), "False ContainersNotReady");

    cluster.run_to(3);
    assert_eq!(cluster.phase("a"), "Running");
    assert_eq!(cluster.status("a").pod_ip, "10.244.1.2");
    assert_eq!(cluster.containers("a"), ["main: Running"]);
    assert_eq!(cluster.condition("a", "PodReadyToStartContainers"), "True");
    assert_eq!(
        cluster.condition("a", "ContainersReady"),
        "False ContainersNotReady"
    );
    assert_eq!(
        cluster.events("a"),
        [
            "3 Created: Container created",
            "3 Started: Container started"
        ]
    );

    cluster.run_to(8);
    assert_eq!(cluster.containers("a"), ["main: Running, ready"]);
    assert_eq!(cluster.condition("a", "Ready"), "True");
    let conditions = &cluster.status("a").conditions;
    let times = conditions.iter().map(|it| {
        let time = it.last_transition_time.as_deref().unwrap_or_default();
        format!("{} {}", it.type_, &time[17..19])
    });
    assert_eq!(
        times.collect::<Vec<_>>(),
        [
            "PodReadyToStartContainers 03",
            "Initialized 00",
            "Ready 08",
            "ContainersReady 08",
            "PodScheduled 00",
        ]
    );
}

#[test]
fn a_pod_that_never_becomes_ready_runs_all_the_same() {
    let mut cluster = Cluster::new();
    cluster.create(pod("a", "1", does(&[("ready-after", "never")])));
    cluster.run_to(3600);
    assert_eq!(cluster.phase("a"), "Running");
    assert_eq!(cluster.condition("a", "Ready"), "False ContainersNotReady");
}

#[test]
fn a_readiness_gate_holds_back_ready_alone() {
    let mut cluster = Cluster::new();
    let gate = json!({ "spec": { "readinessGates": [{ "conditionType": "example.com/open" }] } });
    cluster.create(pod("a", "1", gate));
    cluster.run_to(1);
    assert_eq!(cluster.condition("a", "ContainersReady"), "True");
    assert_eq!(
        cluster.condition("a", "Ready"),
        "False ReadinessGatesNotReady"
    );
    cluster.change("a", |pod| {
        let open = json!({ "type": "example.com/open", "status": "True" });
        pod.status
            .conditions
            .push(serde_json::from_value(open).unwrap());
    });
    assert_eq!(cluster.condition("a", "Ready"), "True");
    assert_eq!(cluster.condition("a", "example.com/open"), "True");
}

#[test]
fn with_restart_policy_never_the_exit_code_decides() {
    let mut cluster = Cluster::new();
    let runs = |code| {
        and(
            policy("Never"),
            does(&[("run-for", "60s"), ("exit-code", code)]),
        )
    };
    cluster.create(pod("good", "1", runs("0")));
    cluster.create(pod("bad", "1", runs("3")));
    cluster.run_to(59);
    assert_eq!(
        (cluster.phase("good"), cluster.phase("bad")),
        ("Running".into(), "Running".into())
    );
    cluster.run_to(60);
    assert_eq!(cluster.phase("good"), "Succeeded");
    assert_eq!(cluster.condition("good", "Ready"), "False PodCompleted");
    assert_eq!(cluster.containers("good"), ["main: Completed 0"]);
    assert_eq!(cluster.phase("bad"), "Failed");
    assert_eq!(cluster.condition("bad", "Ready"), "False PodFailed");
    assert_eq!(cluster.containers("bad"), ["main: Error 3"]);
    // Their place is free.
    cluster.create(pod("next", "2", json!({})));
    assert_eq!(cluster.phase("next"), "Running");
}

#[test]
fn with_restart_policy_on_failure_only_failures_are_repeated() {
    let mut cluster = Cluster::new();
    let runs = does(&[("run-for", "5s"), ("exit-code", "1,1,0")]);
    cluster.create(pod("a", "1", and(policy("OnFailure"), runs)));
    cluster.run_to(5);
    // The first restart is at once, the second after 10 s.
    assert_eq!(
        cluster.containers("a"),
        ["main: Running, ready, restarts 1"]
    );
    cluster.run_to(10);
    assert_eq!(
        cluster.containers("a"),
        ["main: CrashLoopBackOff, restarts 1"]
    );
    assert_eq!(cluster.phase("a"), "Running");
    cluster.run_to(20);
    assert_eq!(
        cluster.containers("a"),
        ["main: Running, ready, restarts 2"]
    );
    cluster.run_to(25);
    assert_eq!(cluster.phase("a"), "Succeeded");
    assert_eq!(cluster.containers("a"), ["main: Completed 0, restarts 2"]);
}

#[test]
fn the_wait_between_restarts_doubles_up_to_five_minutes() {
    let mut cluster = Cluster::new();
    cluster.create(pod(
        "a",
        "1",
        does(&[("run-for", "1s"), ("exit-code", "1")]),
    ));
    cluster.run_to(3600);
    let events = cluster.events("a").into_iter();
    let starts: Vec<i64> = events
        .filter(|event| event.contains("Started"))
        .map(|event| event.split(' ').next().unwrap().parse().unwrap())
        .collect();
    let waits: Vec<i64> = starts
        .windows(2)
        .map(|pair| pair[1] - pair[0] - 1)
        .collect();
    assert_eq!(waits[..8], [0, 10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(cluster.phase("a"), "Running");
    let waiting = cluster.status("a").container_statuses[0]
        .state
        .waiting
        .clone();
    assert_eq!(
        waiting.unwrap().message,
        "back-off 5m0s restarting failed container=main pod=a_default(uid-1)"
    );
}

#[test]
fn a_long_run_makes_the_waits_begin_anew() {
    let mut cluster = Cluster::new();
    cluster.create(pod(
        "a",
        "1",
        does(&[("run-for", "20m"), ("exit-code", "1")]),
    ));
    cluster.run_to(5 * 1200);
    assert_eq!(
        cluster.containers("a"),
        ["main: Running, ready, restarts 5"]
    );
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_stay() {
    let mut cluster = Cluster::new();
    let init = json!({ "spec": { "restartPolicy": "Never", "initContainers": [
        { "name": "first" },
        { "name": "proxy", "restartPolicy": "Always" },
        { "name": "second" },
    ]}});
    let does = does(&[
        ("run-for.first", "2s"),
        ("run-for.second", "3s"),
        ("run-for", "10s"),
        ("stop-after.proxy", "4s"),
        ("stop-exit-code.proxy", "0"),
    ]);
    cluster.create(pod("a", "1", and(init, does)));
    let initializing = |first, proxy, second| {
        [
            format!("first: {first}"),
            format!("proxy: {proxy}"),
            format!("second: {second}"),
            "main: PodInitializing".to_owned(),
        ]
    };
    cluster.run_to(1);
    assert_eq!(cluster.phase("a"), "Pending");
    assert_eq!(
        cluster.condition("a", "Initialized"),
        "False ContainersNotInitialized"
    );
    let expected = initializing("Running", "PodInitializing", "PodInitializing");
    assert_eq!(cluster.containers("a"), expected);
    cluster.run_to(2);
    let expected = initializing("Completed 0", "Running, ready", "Running");
    assert_eq!(cluster.containers("a"), expected);
    cluster.run_to(5);
    assert_eq!(cluster.phase("a"), "Running");
    assert_eq!(cluster.condition("a", "Initialized"), "True");
    assert_eq!(cluster.containers("a")[3], "main: Running, ready");
    // The sidecar is asked to stop when the container has ended, and the pod waits for it.
    cluster.run_to(15);
    assert_eq!(cluster.phase("a"), "Running");
    assert_eq!(cluster.containers("a")[3], "main: Completed 0");
    cluster.run_to(19);
    assert_eq!(cluster.phase("a"), "Succeeded");
    assert_eq!(cluster.containers("a")[1], "proxy: Completed 0");
}

#[test]
fn an_init_container_that_fails_is_repeated_or_the_end() {
    let mut cluster = Cluster::new();
    let init = json!({ "spec": { "initContainers": [{ "name": "prepare" }] } });
    let fails = does(&[("run-for.prepare", "2s"), ("exit-code.prepare", "1,1,0")]);
    let init = and(init, fails);
    cluster.create(pod("never", "1", and(init.clone(), policy("Never"))));
    cluster.create(pod("always", "1", and(init, policy("Always"))));
    cluster.run_to(5);
    assert_eq!(cluster.phase("never"), "Failed");
    assert_eq!(
        cluster.containers("never"),
        ["prepare: Error 1", "main: PodInitializing"]
    );
    assert_eq!(cluster.phase("always"), "Pending");
    assert_eq!(
        cluster.containers("always")[0],
        "prepare: CrashLoopBackOff, restarts 1"
    );
    cluster.run_to(16);
    assert_eq!(cluster.phase("always"), "Running");
    assert_eq!(
        cluster.containers("always"),
        ["prepare: Completed 0, restarts 2", "main: Running, ready"]
    );
}

#[test]
fn a_pod_ends_when_its_deadline_is_over() {
    let mut cluster = Cluster::new();
    let deadline = json!({ "spec": { "activeDeadlineSeconds": 100 } });
    cluster.create(pod("a", "1", and(deadline, does(&[("stop-after", "7s")]))));
    cluster.run_to(106);
    assert_eq!(cluster.phase("a"), "Running");
    cluster.run_to(107);
    assert_eq!(cluster.phase("a"), "Failed DeadlineExceeded");
    let message = "Pod was active on the node longer than the specified deadline";
    assert_eq!(cluster.status("a").message, message);
    assert!(
        cluster
            .events("a")
            .contains(&format!("100 DeadlineExceeded: {message}"))
    );
}

#[test]
fn a_deleted_pod_has_its_grace_period_and_goes() {
    let mut cluster = Cluster::new();
    cluster.create(pod("quick", "100m", does(&[("stop-after", "4s")])));
    cluster.create(pod("stubborn", "100m", does(&[("stop-after", "1h")])));
    cluster.create(pod("hasty", "100m", does(&[("stop-after", "1h")])));
    cluster.run_to(10);
    cluster.delete("quick", None);
    cluster.delete("stubborn", None);
    cluster.delete("hasty", Some(5));
    cluster.run_to(13);
    let names = ["quick", "stubborn", "hasty"];
    assert_eq!(names.map(|name| cluster.phase(name)), ["Running"; 3]);
    cluster.run_to(14);
    assert_eq!(
        names.map(|name| cluster.phase(name)),
        ["gone", "Running", "Running"]
    );
    cluster.run_to(15);
    assert_eq!(
        names.map(|name| cluster.phase(name)),
        ["gone", "Running", "gone"]
    );
    cluster.run_to(39);
    assert_eq!(cluster.phase("stubborn"), "Running");
    cluster.run_to(40);
    assert_eq!(cluster.phase("stubborn"), "gone");
    let last = |name: &str| {
        let mut statuses = cluster
            .writes
            .iter()
            .rev()
            .filter_map(|(_, write)| match write {
                outrank_node::Write::PodStatus { pod, status } if pod.name == name => Some(status),
                _ => None,
            });
        let status = statuses.next().unwrap();
        let ended = status.container_statuses[0].state.terminated.clone();
        (status.phase.clone(), ended.unwrap().exit_code)
    };
    assert_eq!(last("quick"), ("Failed".to_owned(), 143));
    assert_eq!(last("stubborn"), ("Failed".to_owned(), 137));
}

#[test]
fn a_shorter_grace_period_counts_a_longer_one_does_not() {
    let mut cluster = Cluster::new();
    let slow = and(
        does(&[("stop-after", "1h")]),
        json!({ "spec": { "terminationGracePeriodSeconds": 100 } }),
    );
    cluster.create(pod("a", "1", slow.clone()));
    cluster.create(pod("b", "1", slow));
    cluster.run_to(1);
    cluster.delete("a", None);
    cluster.delete("b", Some(10));
    cluster.run_to(5);
    cluster.delete("a", Some(10));
    cluster.delete("b", Some(50));
    cluster.run_to(11);
    assert_eq!(
        (cluster.phase("a"), cluster.phase("b")),
        ("Running".into(), "gone".into())
    );
    cluster.run_to(15);
    assert_eq!(cluster.phase("a"), "gone");
}

#[test]
fn pre_stop_takes_its_time() {
    let mut cluster = Cluster::new();
    let pre_stop = json!({ "spec": { "containers": [
        { "name": "main", "lifecycle": { "preStop": { "sleep": { "seconds": 6 } } } },
    ]}});
    cluster.create(pod("a", "1", and(pre_stop, does(&[("stop-after", "2s")]))));
    cluster.run_to(1);
    cluster.delete("a", None);
    cluster.run_to(8);
    assert_eq!(cluster.phase("a"), "Running");
    cluster.run_to(9);
    assert_eq!(cluster.phase("a"), "gone");
}

#[test]
fn what_was_deleted_before_it_started_just_goes() {
    let mut cluster = Cluster::new();
    cluster.create(pod("a", "1", does(&[("start-after", "1m")])));
    cluster.run_to(10);
    cluster.delete("a", None);
    assert_eq!(cluster.phase("a"), "gone");
    assert!(
        !cluster
            .events("a")
            .iter()
            .any(|event| event.contains("Started"))
    );
}

#[test]
fn a_pod_removed_by_force_holds_its_place_until_it_has_stopped() {
    let mut cluster = Cluster::new();
    let slow = does(&[("stop-after", "10s")]);
    cluster.create(pod("a", "2", slow.clone()));
    cluster.run_to(1);
    cluster.remove("a");
    // Another pod of its name is another pod.
    cluster.create(pod("a", "1", slow));
    assert_eq!(cluster.phase("a"), "Failed OutOfcpu");
    cluster.run_to(11);
    cluster.create(pod("b", "2", json!({})));
    assert_eq!(cluster.phase("b"), "Running");
    assert_eq!(cluster.phase("a"), "Failed OutOfcpu");
}

#[test]
fn a_pod_that_others_declare_failed_is_stopped() {
    let mut cluster = Cluster::new();
    cluster.create(pod("a", "2", does(&[("stop-after", "5s")])));
    cluster.run_to(1);
    cluster.change("a", |pod| {
        pod.status.phase = "Failed".to_owned();
        pod.status.reason = "Evicted".to_owned();
    });
    cluster.run_to(6);
    assert_eq!(cluster.phase("a"), "Failed Evicted");
    assert_eq!(cluster.containers("a"), ["main: Error 143"]);
    cluster.create(pod("b", "2", json!({})));
    assert_eq!(cluster.phase("b"), "Running");
}

#[test]
fn a_static_pod_outlives_the_deletion_of_its_mirror() {
    let mut cluster = Cluster::new();
    let annotations = json!({
        "kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "0123",
    });
    cluster.create(pod(
        "etcd",
        "1",
        json!({ "metadata": { "annotations": annotations } }),
    ));
    cluster.run_to(5);
    let uid = cluster.pod("etcd").metadata.uid.clone();
    cluster.delete("etcd", None);
    cluster.run_to(6);
    let mirror = cluster.pod("etcd");
    assert_ne!(mirror.metadata.uid, uid);
    assert_eq!(mirror.metadata.deletion_timestamp, None);
    assert_eq!(cluster.phase("etcd"), "Running");
    // It went on running.
    let started = cluster
        .events("etcd")
        .into_iter()
        .filter(|event| event.contains("Started"));
    assert_eq!(started.count(), 1);
    assert_eq!(
        cluster.status("etcd").start_time.as_deref(),
        Some("1970-01-01T00:00:00Z")
    );
}

#[test]
fn what_the_annotations_get_wrong_is_told() {
    let mut cluster = Cluster::new();
    cluster.create(pod("a", "1", does(&[("run-for", "a while")])));
    assert_eq!(cluster.phase("a"), "Running");
    assert_eq!(
        cluster.events("a")[0],
        "0 InvalidAnnotation: annotation node.outrank.dev/run-for: \"a while\" is not a time, \
         and is ignored"
    );
}

#[test]
fn a_pod_that_runs_already_goes_on_from_where_it_is() {
    let mut cluster = Cluster::new();
    cluster.run_to(100);
    let mut running = pod("a", "1", and(policy("Never"), does(&[("run-for", "60s")])));
    running["spec"]["nodeName"] = json!("n1");
    running["metadata"]["namespace"] = json!("default");
    running["status"] = json!({
        "phase": "Running",
        "startTime": "1970-01-01T00:01:00Z",
        "podIP": "10.244.1.9",
        "containerStatuses": [{
            "name": "main",
            "restartCount": 2,
            "state": { "running": { "startedAt": "1970-01-01T00:01:10Z" } },
        }],
    });
    cluster
        .pods
        .insert("a".to_owned(), serde_json::from_value(running).unwrap());
    cluster.change("a", |_| {});
    assert_eq!(cluster.phase("a"), "Running");
    assert_eq!(
        cluster.containers("a"),
        ["main: Running, ready, restarts 2"]
    );
    assert_eq!(cluster.status("a").pod_ip, "10.244.1.9");
    cluster.run_to(129);
    assert_eq!(cluster.phase("a"), "Running");
    cluster.run_to(130);
    assert_eq!(cluster.phase("a"), "Succeeded");
}
