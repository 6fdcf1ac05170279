//! Watches that go on beside the steps of a walk, compared by what they tell of each pod.
//!
//! How many events there are depends on how fast everybody writes; what becomes of a pod does not.
//! So the events of a pod are a story, a list of states in which each differs from the one before,
//! and the stories of all pods are compared, whatever their names and order.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::compare::normal;

/// A command that watches in the background.
pub(crate) struct Stream {
    child: Child,
    output: std::path::PathBuf,
}

/// The step before which a stream of a topic was begun when it was recorded.
pub(crate) fn begins_before(topic: &str) -> Option<u64> {
    match topic {
        "05-preemption" => Some(7),
        "09-taints" => Some(54),
        _ => None,
    }
}

impl Stream {
    /// Begins to watch.
    pub(crate) fn begin(mut command: Command, folder: &Path) -> Self {
        let output = folder.join("stream.json");
        let file = File::create(&output).expect("a writable folder");
        let child = command.stdout(file).stderr(Stdio::null()).spawn();
        // What is there already is seen before anything changes.
        std::thread::sleep(Duration::from_secs(1));
        Self {
            child: child.expect("bash runs"),
            output,
        }
    }

    /// Ends the watch; what it has printed.
    pub(crate) fn end(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let text = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// The stories that events tell, a line for each.
pub(crate) fn stories(events: &str) -> String {
    let mut stories: Vec<(String, Vec<String>)> = Vec::new();
    let events = serde_json::Deserializer::from_str(events).into_iter::<Value>();
    // The last event may be cut off.
    for event in events.map_while(Result::ok) {
        let object = &event["object"];
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if !stories.iter().any(|(of, _)| of == uid) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            stories.push((uid.to_owned(), vec![normal(name)]));
        }
        let state = state(&event);
        let story = stories.iter_mut().find(|(of, _)| of == uid);
        if let Some((_, story)) = story.filter(|(_, story)| story.last() != Some(&state)) {
            story.push(state);
        }
    }
    let mut lines: Vec<String> = stories.iter().map(|(_, story)| story.join(" > ")).collect();
    lines.sort();
    lines.join("\n")
}

/// What an event says of a pod.
fn state(event: &Value) -> String {
    let object = &event["object"];
    let mut state = match event["type"].as_str() {
        Some("DELETED") => return "gone".to_owned(),
        _ => object["status"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    };
    let is_there = |value: &Value| value.as_str().is_some_and(|it| !it.is_empty());
    for (value, told) in [
        (&object["spec"]["nodeName"], " on a node"),
        (&object["status"]["nominatedNodeName"], " nominated"),
        (&object["metadata"]["deletionTimestamp"], " ending"),
    ] {
        if is_there(value) {
            state.push_str(told);
        }
    }
    for condition in object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        // What a stand-in says of pods that run says nothing of the cluster.
        if matches!(text("type"), "PodScheduled" | "DisruptionTarget") {
            let (kind, status, reason) = (text("type"), text("status"), text("reason"));
            state.push_str(&format!(" {kind}={status}{reason}"));
        }
    }
    state
}

#[test]
fn stories_are_told_pod_by_pod() {
    let event = |kind: &str, name: &str, phase: &str| {
        let object = serde_json::json!({"metadata": {"name": name, "uid": name},
            "status": {"phase": phase}});
        serde_json::json!({"type": kind, "object": object}).to_string()
    };
    let events = [
        event("ADDED", "b", "Pending"),
        event("ADDED", "a", "Running"),
        event("MODIFIED", "a", "Running"),
        event("MODIFIED", "b", "Running"),
        event("DELETED", "a", "Running"),
    ];
    let told = stories(&events.join("\n"));
    assert_eq!(told, "a > Running > gone\nb > Pending > Running");
}
