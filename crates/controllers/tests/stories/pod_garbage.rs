//! Pods that nobody else would remove: stories.

use outrank_controllers::Controllers;
use outrank_controllers::pod_garbage_collection::PodGarbageCollector;
use serde_json::json;

use crate::story::Story;

fn story(terminated_max: usize) -> Story {
    let collector = PodGarbageCollector::new(terminated_max);
    Story::of(Controllers::new(vec![Box::new(collector)]))
}

fn pod(story: &mut Story, name: &str, node: &str) {
    story.cluster.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    }));
    story.cluster.settle();
}

const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: node-1},
    status: {conditions: [{type: Ready, status: 'True'}]}}";

#[test]
fn orphans_of_a_node_that_is_gone_go_after_the_quarantine() {
    let mut story = story(0).pods_take(1, 1);
    story.apply(NODE);
    pod(&mut story, "web", "node-1");
    story.wait(30);
    story.delete("Node node-1").wait(10);
    story.happened();
    // Found missing at 40 s, so gone at 80 s.
    story.wait(39);
    assert_eq!(story.pods(), ["web Running ready"]);
    story.wait(1);
    assert_eq!(story.happened(), "80s deletes Pod web\n");
    assert_eq!(story.pods(), [""; 0]);
    let failed = story.cluster.log.iter().any(|(_, _, write)| {
        let text = format!("{write:?}");
        text.contains("Failed")
            && text.contains("PodGC: node no longer exists")
            && text.matches("observedGeneration").count() == 2
    });
    assert!(
        failed,
        "it was set to Failed first, with the reason, and of which generation"
    );
}

#[test]
fn orphans_stay_if_their_node_comes_back() {
    let mut story = story(0).pods_take(1, 1);
    pod(&mut story, "web", "node-1");
    story.wait(39);
    story.apply(NODE).wait(1000);
    assert_eq!(story.pods(), ["web Running ready"]);
}

#[test]
fn the_oldest_of_too_many_ended_pods_go_and_evicted_ones_first() {
    let mut story = story(2);
    for name in ["a", "b", "c", "d"] {
        pod(&mut story, name, "");
        story.wait(1);
    }
    for name in ["a", "b", "c"] {
        story.pod_becomes(name, "Succeeded");
    }
    story.pod_becomes("d", "Failed");
    story.change("Pod d", json!({"status": {"reason": "Evicted"}}));
    story.wait(20);
    assert_eq!(story.pods(), ["b Succeeded", "c Succeeded"]);
}

#[test]
fn a_pod_that_was_never_on_a_node_is_let_go() {
    let mut story = story(0).pods_wait();
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: web, finalizers: [example.com/hold]},
          spec: {containers: [{name: c, image: i}]}}",
    );
    story.wait(1);
    story.delete("Pod web");
    story.change("Pod web", json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(story.pods(), ["web Pending going"]);
    story.wait(19);
    assert_eq!(story.pods(), ["web Failed going"]);
    story.change("Pod web", json!({"metadata": {"finalizers": null}}));
    assert_eq!(story.pods(), [""; 0]);
}

#[test]
fn pods_of_a_machine_that_is_off_go_when_somebody_says_so() {
    let mut story = story(0).pods_take(1, 100_000);
    story.apply(NODE);
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: web},
          spec: {nodeName: node-1, terminationGracePeriodSeconds: 100000,
            containers: [{name: c, image: i}]}}",
    );
    story.wait(10);
    story.delete("Pod web").wait(100);
    assert_eq!(story.pods(), ["web Running ready going"]);
    story.change(
        "Node node-1",
        json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}),
    );
    story.wait(100);
    assert_eq!(story.pods().len(), 1, "the node is ready");
    story.change(
        "Node node-1",
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
    );
    story.wait(20);
    assert_eq!(story.pods(), [""; 0]);
}
