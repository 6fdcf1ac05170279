//! When NoExecute taints drive pods off their nodes.

use outrank_api::decode::ObjectKind;
use outrank_api::types::{Taint, Toleration};
use outrank_controllers::Key;
use outrank_controllers::taint_eviction::{Departure, EVENT_REASON, Step, TaintEviction, judge};
use serde::Deserialize;
use serde_json::{Value, json};

use super::field;

/// Our answer to an operation; `None` if the topic is not this one.
pub(super) fn answer(topic: &str, op: &str, input: &Value) -> Option<Result<Value, String>> {
    Some(match (topic, op) {
        ("taint-eviction", "decide") => decide(input),
        ("taint-eviction", "sequence") => sequence(input),
        _ => return None,
    })
}

fn decide(input: &Value) -> Result<Value, String> {
    let taints: Option<Vec<Taint>> = field(input, "taints")?;
    let tolerations = tolerations(input)?;
    let judgement = judge(&taints.unwrap_or_default(), &tolerations);
    let mut answer = json!({
        "allTolerated": judgement.all_tolerated,
        "usedTolerations": judgement.used,
    });
    answer["action"] = json!(match judgement.departure {
        Departure::Never => "never",
        Departure::Now => "now",
        Departure::After(seconds) => {
            answer["seconds"] = json!(seconds);
            "after"
        }
    });
    Ok(answer)
}

fn tolerations(input: &Value) -> Result<Vec<Toleration>, String> {
    let tolerations: Option<Vec<Toleration>> = field(input, "tolerations")?;
    Ok(tolerations.unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
enum Event {
    PodBound,
    NodeTaints {
        #[serde(default)]
        taints: Option<Vec<Taint>>,
    },
    PodTolerations {
        #[serde(default)]
        tolerations: Option<Vec<Toleration>>,
    },
}

#[derive(Deserialize)]
struct TimedEvent {
    at: i64,
    #[serde(flatten)]
    event: Event,
}

/// The node of the pod that a sequence is about.
const NODE: &str = "n";

/// One pod and one node, until the pod is evicted or the time is over.
struct Sequence {
    eviction: TaintEviction,
    pod: Key,
    tolerations: Vec<Toleration>,
    bound: bool,
    evicted: bool,
    log: Vec<Value>,
}

fn sequence(input: &Value) -> Result<Value, String> {
    let events: Vec<TimedEvent> = field(input, "events")?;
    let end: i64 = field(input, "end")?;
    let mut sequence = Sequence {
        eviction: TaintEviction::default(),
        pod: Key::new(ObjectKind::Pod, "default", "p"),
        tolerations: tolerations(input)?,
        bound: false,
        evicted: false,
        log: Vec::new(),
    };
    for TimedEvent { at, event } in events {
        sequence.run_until(at);
        if sequence.evicted {
            break;
        }
        let steps = sequence.happens(event, nanos(at));
        sequence.note(steps, nanos(at));
    }
    sequence.run_until(end);
    Ok(json!({ "evicted": sequence.evicted, "log": sequence.log }))
}

impl Sequence {
    fn run_until(&mut self, seconds: i64) {
        while let Some(time) = self.eviction.next_departure()
            && time <= nanos(seconds)
            && !self.evicted
        {
            let steps = self.eviction.depart(time);
            self.note(steps, time);
        }
    }

    fn happens(&mut self, event: Event, now: i64) -> Vec<Step> {
        match event {
            Event::NodeTaints { taints } => {
                let taints = taints.unwrap_or_default();
                let pods = self
                    .bound
                    .then(|| (self.pod.clone(), &self.tolerations[..]));
                return self.eviction.node_seen(NODE, &taints, pods, now);
            }
            Event::PodBound => self.bound = true,
            Event::PodTolerations { tolerations } => {
                self.tolerations = tolerations.unwrap_or_default();
            }
        }
        if !self.bound {
            return Vec::new();
        }
        self.eviction
            .pod_seen(&self.pod, NODE, &self.tolerations, now)
    }

    fn note(&mut self, steps: Vec<Step>, now: i64) {
        for step in steps {
            let action = match &step {
                Step::Schedule { .. } => "schedule",
                Step::Cancel { .. } => "cancel",
                Step::Evict { .. } => "evict",
            };
            let mut entry = json!({ "at": seconds(now), "action": action });
            if let Step::Schedule { fire_at, .. } = step {
                entry["fireAt"] = json!(seconds(fire_at));
            }
            if let Some(message) = step.event_message() {
                entry["event"] = json!(format!("Normal {EVENT_REASON} {message}"));
            }
            self.log.push(entry);
            self.evicted |= matches!(step, Step::Evict { .. });
        }
    }
}

fn nanos(seconds: i64) -> i64 {
    seconds * 1_000_000_000
}

fn seconds(nanos: i64) -> i64 {
    nanos / 1_000_000_000
}
