//! Events: what components tell people, without flooding them.
//!
//! A component that tries in vain tells so each time. What is told again counts up
//! (`count`); ten variations of one thing within ten minutes are told as one (`(combined from
//! similar events)`); and about one object a component tells no more than 25 things at once and one
//! more every five minutes. Schedulers write events of the newer form, in which a repetition is a
//! `series`, and nothing is held back.
//!
//! Sources, Kubernetes 1.36: `client-go/tools/record/events_cache.go`,
//! `client-go/tools/events/event_broadcaster.go`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use outrank_api::time::rfc3339;
use outrank_controllers::write::Event;
use serde_json::{Value, json};

/// How many kinds of events are remembered.
const REMEMBERED_MAX: usize = 4_096;

/// From how many different messages on similar events are told as one.
const SIMILAR_MAX: usize = 10;

/// How long events count as similar, in nanoseconds.
const SIMILAR_FOR: i64 = 600 * SECOND;

/// How many things are told at once about one object.
const BURST: f64 = 25.0;

/// How many more can be told a second.
const REFILL_PER_SECOND: f64 = 1.0 / 300.0;

/// How long a series goes on, in nanoseconds.
const SERIES_FOR: i64 = 360 * SECOND;

const SECOND: i64 = 1_000_000_000;

/// In which form a component writes its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `v1`, as controllers and kubelets do.
    Counted,
    /// `events.k8s.io/v1`, as schedulers do.
    Series,
}

/// Makes the events of a component.
#[derive(Debug)]
pub struct Recorder {
    style: Style,
    host: String,
    told: Remembered<EventKey, Told>,
    similar: Remembered<EventKey, Similar>,
    budgets: Remembered<EventKey, Budget>,
}

/// What events have in common, as texts.
type EventKey = Vec<String>;

#[derive(Clone, Debug)]
struct Told {
    name: String,
    count: u32,
    first: i64,
    last: i64,
}

#[derive(Clone, Debug, Default)]
struct Similar {
    messages: BTreeSet<String>,
    last: i64,
}

#[derive(Clone, Debug)]
struct Budget {
    left: f64,
    at: i64,
}

impl Recorder {
    /// A recorder of a component that runs on a host, which may be empty.
    pub fn new(style: Style, host: &str) -> Self {
        Self {
            style,
            host: host.to_owned(),
            told: Remembered::default(),
            similar: Remembered::default(),
            budgets: Remembered::default(),
        }
    }

    /// The object to write for an event; `None` if it is held back.
    pub fn record(&mut self, component: &str, event: &Event, now: i64) -> Option<Value> {
        match self.style {
            Style::Counted => self.counted(component, event, now),
            Style::Series => Some(self.in_series(component, event, now)),
        }
    }

    fn counted(&mut self, component: &str, event: &Event, now: i64) -> Option<Value> {
        let about = about(component, event);
        if !self.may_tell(&about, now) {
            return None;
        }
        let type_ = type_of(event);
        let mut kind = about;
        kind.extend([type_.to_owned(), event.reason.to_string()]);
        let similar = self.similar.entry(kind.clone());
        if now.saturating_sub(similar.last) > SIMILAR_FOR {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(event.message.clone());
        let is_combined = similar.messages.len() >= SIMILAR_MAX;
        let message = match is_combined {
            true => {
                similar.messages.pop_first();
                format!("(combined from similar events): {}", event.message)
            }
            false => {
                kind.push(event.message.clone());
                event.message.clone()
            }
        };
        let source = self.source(component);
        let told = self.told.get_or(kind, || Told::new(event, now));
        told.count += 1;
        told.last = now;
        Some(json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": told.name, "namespace": namespace_of(event)},
            "involvedObject": reference(event),
            "reason": event.reason, "message": message, "type": type_,
            "source": source,
            "reportingComponent": component, "reportingInstance": self.host,
            "firstTimestamp": seconds(told.first), "lastTimestamp": seconds(told.last),
            "count": told.count, "eventTime": null,
        }))
    }

    fn in_series(&mut self, component: &str, event: &Event, now: i64) -> Value {
        let type_ = type_of(event);
        let mut kind = about(component, event);
        kind.extend([type_.to_owned(), event.reason.to_string()]);
        // What is told of another version of an object begins a series of its own.
        kind.push(event.resource_version.clone());
        let told = self.told.get_or(kind, || Told::new(event, now));
        if now.saturating_sub(told.last) > SERIES_FOR {
            *told = Told::new(event, now);
        }
        told.count += 1;
        told.last = now;
        let mut object = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": told.name, "namespace": namespace_of(event)},
            "involvedObject": reference(event),
            "reason": event.reason, "message": event.message, "type": type_,
            "action": action_of(&event.reason),
            "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": micros(told.first),
            "reportingComponent": component,
            "reportingInstance": format!("{component}-{}", self.host),
        });
        if told.count > 1 {
            object["series"] = json!({"count": told.count, "lastObservedTime": micros(now)});
        }
        object
    }

    /// Whether a component may tell something more about an object.
    fn may_tell(&mut self, about: &EventKey, now: i64) -> bool {
        let full = || Budget {
            left: BURST,
            at: now,
        };
        let budget = self.budgets.get_or(about.clone(), full);
        let elapsed = now.saturating_sub(budget.at).max(0) as f64 / SECOND as f64;
        budget.left = (budget.left + elapsed * REFILL_PER_SECOND).min(BURST);
        budget.at = now;
        let may = budget.left >= 1.0;
        if may {
            budget.left -= 1.0;
        }
        may
    }

    fn source(&self, component: &str) -> Value {
        match self.host.as_str() {
            "" => json!({ "component": component }),
            host => json!({"component": component, "host": host}),
        }
    }
}

impl Told {
    fn new(event: &Event, now: i64) -> Self {
        Self {
            name: format!("{}.{now:x}", event.regarding.name),
            count: 0,
            first: now,
            last: now,
        }
    }
}

/// A map that forgets what it was told first.
#[derive(Debug)]
struct Remembered<K, V> {
    known: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Ord + Clone, V> Remembered<K, V> {
    fn get_or(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        if !self.known.contains_key(&key) {
            if self.order.len() >= REMEMBERED_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
            self.order.push_back(key.clone());
        }
        self.known.entry(key).or_insert_with(new)
    }

    fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or(key, V::default)
    }
}

fn about(component: &str, event: &Event) -> EventKey {
    let key = &event.regarding;
    let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
    let kind = key.kind.name().to_owned();
    vec![
        component.to_owned(),
        kind,
        namespace,
        name,
        event.uid.clone(),
    ]
}

fn reference(event: &Event) -> Value {
    let key = &event.regarding;
    let mut reference = json!({"kind": key.kind.name(), "name": &*key.name,
        "apiVersion": key.kind.api_version()});
    if !key.namespace.is_empty() {
        reference["namespace"] = (&*key.namespace).into();
    }
    if !event.uid.is_empty() {
        reference["uid"] = event.uid.as_str().into();
    }
    if !event.resource_version.is_empty() {
        reference["resourceVersion"] = event.resource_version.as_str().into();
    }
    reference
}

fn namespace_of(event: &Event) -> &str {
    match &*event.regarding.namespace {
        "" => "default",
        namespace => namespace,
    }
}

fn type_of(event: &Event) -> &'static str {
    if event.is_warning {
        "Warning"
    } else {
        "Normal"
    }
}

/// What a scheduler did when it tells something.
fn action_of(reason: &str) -> &'static str {
    match reason {
        "Scheduled" => "Binding",
        "Preempted" => "Preempting",
        _ => "Scheduling",
    }
}

/// A time in whole seconds.
fn seconds(now: i64) -> String {
    rfc3339(now.div_euclid(SECOND).saturating_mul(SECOND))
}

/// A time in microseconds, which are always written.
pub(crate) fn micros(now: i64) -> String {
    let whole = seconds(now);
    let micros = now.rem_euclid(SECOND) / 1_000;
    format!("{}.{micros:06}Z", whole.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use outrank_api::decode::ObjectKind;
    use outrank_controllers::Key;

    use super::*;

    fn event(message: &str) -> Event {
        Event {
            regarding: Key::new(ObjectKind::Pod, "shop", "web"),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            is_warning: true,
            reason: "Failed".into(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn what_is_told_again_counts() {
        let mut recorder = Recorder::new(Style::Counted, "");
        let first = recorder.record("me", &event("a"), 0).expect("told");
        let again = recorder
            .record("me", &event("a"), 5 * SECOND)
            .expect("told");
        assert_eq!((&first["count"], &again["count"]), (&json!(1), &json!(2)));
        assert_eq!(first["metadata"], again["metadata"]);
        assert_eq!(again["lastTimestamp"], "1970-01-01T00:00:05Z");
    }

    #[test]
    fn many_similar_events_are_one_and_a_flood_is_held_back() {
        let mut recorder = Recorder::new(Style::Counted, "");
        let told: Vec<Value> = (0..40)
            .filter_map(|n| recorder.record("me", &event(&format!("try {n}")), n * SECOND))
            .collect();
        assert_eq!(told.len(), 25);
        let combined = |it: &&Value| {
            it["message"]
                .as_str()
                .is_some_and(|it| it.starts_with("(comb"))
        };
        assert_eq!(told.iter().filter(combined).count(), 16);
        assert_eq!(told[24]["count"], 16);
    }

    #[test]
    fn schedulers_tell_series() {
        let mut recorder = Recorder::new(Style::Series, "host");
        let first = recorder
            .record("default-scheduler", &event("a"), 0)
            .expect("told");
        assert_eq!(first["series"], Value::Null);
        let again = recorder
            .record("default-scheduler", &event("b"), SECOND)
            .expect("told");
        assert_eq!(again["series"]["count"], 2);
        assert_eq!(again["eventTime"], "1970-01-01T00:00:00.000000Z");
        let later = recorder.record("default-scheduler", &event("b"), 1_000 * SECOND);
        assert_eq!(later.expect("told")["series"], Value::Null);
    }
}
