//! Nodes that are not well, and the pods that leave them: stories.

use outrank_controllers::node_lifecycle::{NodeLifecycleController, NodeLifecycleOptions};
use outrank_controllers::taint_eviction::TaintEvictionController;
use outrank_controllers::virtual_cluster::SECOND;
use outrank_controllers::{Controllers, Key, Kind};
use serde_json::{Value, json};

use crate::story::Story;

fn story() -> Story {
    let lifecycle = NodeLifecycleController::new(NodeLifecycleOptions::default());
    Story::of(Controllers::new(vec![
        Box::new(lifecycle),
        Box::new(TaintEvictionController::new()),
    ]))
}

/// A node that its kubelet says is ready.
fn node(story: &mut Story, name: &str, labels: Value) {
    let now = story.now();
    story.cluster.create(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"conditions": [
            {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": now},
            {"type": "Ready", "status": "True", "reason": "KubeletReady",
             "lastHeartbeatTime": now, "lastTransitionTime": now},
        ]},
    }));
    story.cluster.create(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"renewTime": now},
    }));
    story.cluster.settle();
}

/// A pod on a node, with the tolerations that admission gives to all.
fn pod(story: &mut Story, name: &str, node: &str) {
    let tolerates = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    story.cluster.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "tolerations": [
            tolerates("node.kubernetes.io/not-ready"), tolerates("node.kubernetes.io/unreachable"),
        ]},
    }));
    story.cluster.settle();
}

/// Seconds pass in which the kubelets of these nodes renew their leases, every ten seconds.
fn kubelets_report(story: &mut Story, nodes: &[&str], seconds: i64) {
    for _ in 0..seconds / 10 {
        for node in nodes {
            let lease = Kind::of("coordination.k8s.io/v1", "Lease");
            let lease = Key::new(lease, "kube-node-lease", node);
            let renewed = json!({"spec": {"renewTime": story.now()}});
            story.cluster.patch(&lease, renewed);
        }
        story.cluster.settle();
        story.wait(10);
    }
}

/// The taints of a node, `key:effect`.
fn taints(story: &Story, node: &str) -> Vec<String> {
    let node = story.value(&format!("Node {node}"));
    let taints = node["spec"]["taints"].as_array().cloned();
    let taints = taints.unwrap_or_default().into_iter().map(|taint| {
        let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        let key = text("key");
        let key = key.strip_prefix("node.kubernetes.io/").unwrap_or(&key);
        format!("{key}:{}", text("effect"))
    });
    taints.collect()
}

fn ready(story: &Story, node: &str) -> String {
    story.condition(&format!("Node {node}"), "Ready")
}

#[test]
fn pods_of_a_lost_node_go_at_the_right_second() {
    let mut story = story();
    node(&mut story, "lost", json!({}));
    node(&mut story, "well", json!({}));
    pod(&mut story, "web", "lost");
    story.happened();
    // Both report for the last time at 30 s; then only one does.
    kubelets_report(&mut story, &["lost", "well"], 30);
    story.cluster.settle();
    kubelets_report(&mut story, &["lost", "well"], 10);
    kubelets_report(&mut story, &["well"], 30);
    assert_eq!(story.seconds(), 70);
    assert_eq!(taints(&story, "lost"), [""; 0]);
    // Last heard of at 30 s, so unknown at 80 s.
    kubelets_report(&mut story, &["well"], 10);
    assert_eq!(
        ready(&story, "lost"),
        "Unknown NodeStatusUnknown: Kubelet stopped posting node status."
    );
    let mut of_lost = taints(&story, "lost");
    of_lost.sort();
    assert_eq!(of_lost, ["unreachable:NoExecute", "unreachable:NoSchedule"]);
    assert_eq!(story.pods(), ["web Running"], "no longer ready");
    let ready = &story.status("Pod web")["conditions"];
    assert_eq!(ready[0]["observedGeneration"], 1, "{ready}");
    let told = story.happened();
    assert!(told.contains("80s Node lost: NodeNotReady: Node lost status is now: NodeNotReady"));
    assert!(told.contains("80s Pod web: NodeNotReady: Node is not ready"));
    // 300 s after the taint the pod goes.
    kubelets_report(&mut story, &["well"], 290);
    story.wait(9);
    assert_eq!(story.happened(), "");
    story.wait(1);
    assert_eq!(story.seconds(), 380);
    let told = story.happened();
    assert_eq!(
        told,
        "380s Pod web: TaintManagerEviction: Marking for deletion Pod default/web\n\
         380s deletes Pod web\n"
    );
    assert_eq!(taints(&story, "well"), [""; 0]);
}

#[test]
fn a_node_that_comes_back_in_time_keeps_its_pods() {
    let mut story = story();
    node(&mut story, "shaky", json!({}));
    node(&mut story, "well", json!({}));
    pod(&mut story, "web", "shaky");
    kubelets_report(&mut story, &["well"], 200);
    assert_eq!(
        taints(&story, "shaky"),
        ["unreachable:NoSchedule", "unreachable:NoExecute"]
    );
    story.happened();
    // The kubelet says so in the status, and goes on renewing the lease.
    let now = story.now();
    story.change(
        "Node shaky",
        json!({"status": {"conditions": [{"type": "Ready", "status": "True",
            "lastHeartbeatTime": now, "lastTransitionTime": now}]}}),
    );
    assert_eq!(taints(&story, "shaky"), [""; 0], "this is a round, too");
    assert!(
        story
            .happened()
            .contains("Pod web: TaintManagerEviction: Cancelling deletion of Pod default/web")
    );
    kubelets_report(&mut story, &["shaky", "well"], 400);
    assert_eq!(story.pods().len(), 1);
}

#[test]
fn conditions_become_taints_at_once() {
    let mut story = story();
    node(&mut story, "node-1", json!({"kubernetes.io/os": "linux"}));
    node(&mut story, "node-2", json!({}));
    let now = story.now();
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastHeartbeatTime": now});
    story.change(
        "Node node-1",
        json!({"spec": {"unschedulable": true, "taints": [{"key": "mine", "effect": "NoSchedule"}]},
        }),
    );
    story.change(
        "Node node-1",
        json!({"status": {"conditions": [condition("Ready", "False"),
            condition("MemoryPressure", "True"), condition("DiskPressure", "True"),
            condition("PIDPressure", "True"), condition("NetworkUnavailable", "True")]}}),
    );
    let tainted = taints(&story, "node-1");
    for expected in [
        "mine:NoSchedule",
        "not-ready:NoSchedule",
        "memory-pressure:NoSchedule",
        "disk-pressure:NoSchedule",
        "pid-pressure:NoSchedule",
        "network-unavailable:NoSchedule",
        "unschedulable:NoSchedule",
    ] {
        assert!(
            tainted.contains(&expected.to_owned()),
            "{expected}: {tainted:?}"
        );
    }
    let labels = &story.value("Node node-1")["metadata"]["labels"];
    assert_eq!(labels["beta.kubernetes.io/os"], "linux");
    story.change("Node node-1", json!({"spec": {"unschedulable": false}}));
    story.change(
        "Node node-1",
        json!({"status": {"conditions": [condition("Ready", "True")]}}),
    );
    assert_eq!(taints(&story, "node-1"), ["mine:NoSchedule"]);
}

#[test]
fn a_node_that_never_reports_is_given_a_minute() {
    let mut story = story();
    node(&mut story, "well", json!({}));
    story.apply("{apiVersion: v1, kind: Node, metadata: {name: mute}}");
    kubelets_report(&mut story, &["well"], 50);
    assert_eq!(ready(&story, "mute"), "");
    kubelets_report(&mut story, &["well"], 10);
    assert_eq!(
        ready(&story, "mute"),
        "Unknown NodeStatusNeverUpdated: Kubelet never posted node status."
    );
    assert!(taints(&story, "mute").contains(&"unreachable:NoExecute".to_owned()));
}

/// How many nodes have the taint that drives pods out.
fn driven_out(story: &Story, nodes: &[String]) -> usize {
    let is_tainted = |node: &&String| {
        let taints = taints(story, node);
        taints.contains(&"unreachable:NoExecute".to_owned())
    };
    nodes.iter().filter(is_tainted).count()
}

fn nodes(story: &mut Story, count: usize, zone: &str) -> Vec<String> {
    let names = (0..count).map(|n| format!("{zone}-{n:02}"));
    let names: Vec<String> = names.collect();
    for name in &names {
        node(story, name, json!({"topology.kubernetes.io/zone": zone}));
    }
    names
}

fn names(nodes: &[String]) -> Vec<&str> {
    nodes.iter().map(String::as_str).collect()
}

#[test]
fn nodes_of_a_zone_lose_their_pods_one_after_the_other() {
    let mut story = story();
    let zone = nodes(&mut story, 10, "a");
    // Four of ten are lost: that is less than 55%.
    kubelets_report(&mut story, &names(&zone[4..]), 40);
    assert_eq!(driven_out(&story, &zone), 0);
    for lost in 1..=4 {
        kubelets_report(&mut story, &names(&zone[4..]), 10);
        assert_eq!(driven_out(&story, &zone), lost);
    }
}

#[test]
fn a_small_zone_that_is_mostly_lost_keeps_its_pods() {
    let mut story = story();
    let zone = nodes(&mut story, 10, "a");
    let other = nodes(&mut story, 2, "b");
    let mut alive = names(&zone[4..]);
    alive.extend(names(&other));
    // Four first, then two more: 60% of the zone.
    kubelets_report(&mut story, &alive, 50);
    let before = driven_out(&story, &zone);
    let alive: Vec<&str> = alive[2..].to_vec();
    kubelets_report(&mut story, &alive, 60);
    let then = driven_out(&story, &zone);
    assert_eq!(before, 1);
    assert_eq!(then, 4, "those that were lost before that many were");
    kubelets_report(&mut story, &alive, 300);
    assert_eq!(driven_out(&story, &zone), 4);
}

#[test]
fn a_large_zone_that_is_mostly_lost_empties_slowly() {
    let mut story = story();
    let zone = nodes(&mut story, 60, "a");
    let other = nodes(&mut story, 1, "b");
    let mut alive = names(&zone[40..]);
    alive.extend(names(&other));
    kubelets_report(&mut story, &alive, 60);
    let first = driven_out(&story, &zone);
    kubelets_report(&mut story, &alive, 1000);
    assert_eq!(driven_out(&story, &zone) - first, 10, "one in 100 s");
}

#[test]
fn if_all_nodes_are_lost_nobody_has_to_go() {
    let mut story = story();
    let zone = nodes(&mut story, 3, "a");
    pod(&mut story, "web", "a-00");
    kubelets_report(&mut story, &["a-01"], 100);
    assert!(driven_out(&story, &zone) > 0);
    kubelets_report(&mut story, &[], 100);
    story.wait(100);
    assert_eq!(driven_out(&story, &zone), 0);
    story.wait(1000);
    assert_eq!(story.pods(), ["web Running"]);
    // One comes back: now the others are really lost, one after the other.
    let now = story.now();
    story.change(
        "Node a-02",
        json!({"status": {"conditions": [{"type": "Ready", "status": "True",
            "lastHeartbeatTime": now}]}}),
    );
    assert_eq!(driven_out(&story, &zone), 0);
    kubelets_report(&mut story, &["a-02"], 10);
    assert_eq!(driven_out(&story, &zone), 1);
    kubelets_report(&mut story, &["a-02"], 10);
    assert_eq!(driven_out(&story, &zone), 2);
    kubelets_report(&mut story, &["a-02"], 300);
    assert_eq!(story.pods(), [""; 0]);
}

#[test]
fn nodes_in_a_simulation_without_kubelets_are_taken_at_their_word() {
    let options = NodeLifecycleOptions {
        silent_nodes_are_lost: false,
        ..NodeLifecycleOptions::default()
    };
    let lifecycle = NodeLifecycleController::new(options);
    let mut story = Story::of(Controllers::new(vec![Box::new(lifecycle)]));
    story.apply(
        "{apiVersion: v1, kind: Node, metadata: {name: node-1},
          status: {conditions: [{type: Ready, status: 'True'}]}}",
    );
    story.wait(1000);
    assert_eq!(ready(&story, "node-1"), "True : ");
    assert_eq!(story.cluster.next_time(), None, "there is nothing to do");
}

#[test]
fn a_pod_evicted_for_a_taint_says_so() {
    let mut story = story().pods_take(0, 20);
    node(&mut story, "node-1", json!({}));
    pod(&mut story, "web", "node-1");
    story.wait(1);
    story.happened();
    story.change(
        "Node node-1",
        json!({"spec": {"taints": [{"key": "maint", "effect": "NoExecute"}]}}),
    );
    assert_eq!(
        story.condition("Pod web", "DisruptionTarget"),
        "True DeletionByTaintManager: Taint manager: deleting due to NoExecute taint"
    );
    assert_eq!(story.pods(), ["web Running ready going"]);
    let event = &story.cluster.events.last().expect("an event").1;
    assert_eq!((event.is_warning, event.uid.as_str()), (false, ""));
    story.wait(20);
    assert_eq!(story.pods(), [""; 0]);
    assert!(story.cluster.now() > SECOND);
}

#[test]
fn an_eviction_that_is_refused_is_tried_again_and_told_once() {
    let mut story = story();
    node(&mut story, "node-1", json!({}));
    pod(&mut story, "web", "node-1");
    story.happened();
    story.refuse_deletions();
    story.change(
        "Node node-1",
        json!({"spec": {"taints": [{"key": "maint", "effect": "NoExecute"}]}}),
    );
    assert_eq!(story.pods().len(), 1);
    story.refuse_nothing().wait(1);
    assert_eq!(story.pods(), [""; 0]);
    let told = story.happened();
    assert_eq!(told.matches("Marking for deletion").count(), 1, "{told}");
}

#[test]
fn a_zone_that_has_lost_its_last_node_does_not_hide_that_no_zone_is_ready() {
    let mut story = story();
    let zone = nodes(&mut story, 1, "a");
    nodes(&mut story, 1, "b");
    pod(&mut story, "web", "a-00");
    // One zone is wholly lost, which keeps nobody from being driven out while the other is ready.
    kubelets_report(&mut story, &["b-00"], 60);
    assert_eq!(driven_out(&story, &zone), 1);
    // Then the other has no nodes any more. Nothing is learnt from that about the first.
    story.delete("Node b-00").wait(60);
    assert_eq!(driven_out(&story, &zone), 1);
    story.wait(240);
    assert_eq!(story.pods(), [""; 0]);
}

#[test]
fn nodes_that_do_not_count_for_disruptions_stop_nothing() {
    let mut story = story();
    node(
        &mut story,
        "edge",
        json!({"node.kubernetes.io/exclude-disruption": ""}),
    );
    pod(&mut story, "web", "edge");
    story.wait(60);
    assert!(taints(&story, "edge").contains(&"unreachable:NoExecute".to_owned()));
    story.wait(300);
    assert_eq!(story.pods(), [""; 0]);
}
