//! Events, of the core group and of `events.k8s.io`.
//!
//! These are the same objects under two names for nearly every field. An event that happens again
//! and again is written once, and counted: in `count` by old clients, in a series by new ones.

use serde_json::Value;

use super::BuiltIn;
use super::age::{since, since_time, time};
use super::cell::{self, integer, text};
use super::column::{Heading, NAME, text as texts};

const COLUMNS: &[Heading] = &[
    texts("Last Seen", "How long ago it happened, the last time."),
    texts("Type", "Normal, or Warning."),
    texts("Reason", "What happened, in a word."),
    texts("Object", "What it happened to."),
    texts("Subobject", "Which part of that it happened to.").wide(),
    texts("Source", "Who says so.").wide(),
    texts("Message", "What happened, in a sentence."),
    texts("First Seen", "How long ago it happened, the first time.").wide(),
    texts("Count", "How often it happened.").wide(),
    NAME.wide(),
];

pub(super) static CORE_EVENTS: BuiltIn = BuiltIn::new(COLUMNS, core_event_cells);

pub(super) static EVENTS: BuiltIn = BuiltIn::new(COLUMNS, event_cells);

/// What has another name in each group.
struct Names {
    object: &'static str,
    message: &'static str,
    source: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    controller: &'static str,
}

fn core_event_cells(event: &Value, now_nanos: i64) -> Vec<Value> {
    let names = Names {
        object: "involvedObject",
        message: "message",
        source: "source",
        first: "firstTimestamp",
        last: "lastTimestamp",
        count: "count",
        controller: "reportingComponent",
    };
    cells(event, now_nanos, &names)
}

fn event_cells(event: &Value, now_nanos: i64) -> Vec<Value> {
    let names = Names {
        object: "regarding",
        message: "note",
        source: "deprecatedSource",
        first: "deprecatedFirstTimestamp",
        last: "deprecatedLastTimestamp",
        count: "deprecatedCount",
        controller: "reportingController",
    };
    cells(event, now_nanos, &names)
}

fn cells(event: &Value, now_nanos: i64, names: &Names) -> Vec<Value> {
    let object = &event[names.object];
    let first = time(&event[names.first]).or_else(|| time(&event["eventTime"]));
    let last = time(&event[names.last]).or(first);
    let (mut last_seen, mut count) = (since_time(last, now_nanos), integer(&event[names.count]));
    match &event["series"] {
        // What happened once is not counted by new clients.
        Value::Null => count = if count == 0 { 1 } else { count },
        series => {
            last_seen = since(&series["lastObservedTime"], now_nanos);
            count = integer(&series["count"]);
        }
    }
    let source = source(&event[names.source], event, names.controller);
    cells![
        last_seen,
        text(&event["type"]),
        text(&event["reason"]),
        target(object),
        text(&object["fieldPath"]),
        source,
        text(&event[names.message]).trim(),
        since_time(first, now_nanos),
        count,
        cell::name(event),
    ]
}

/// `kind/name`, or the kind alone.
fn target(object: &Value) -> String {
    let kind = text(&object["kind"]).to_lowercase();
    match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// Who says so, and on which host; by the fields of new clients where those of old ones are empty.
fn source(source: &Value, event: &Value, controller: &str) -> String {
    let component = cell::text_or(&source["component"], text(&event[controller]));
    let host = cell::text_or(&source["host"], text(&event["reportingInstance"]));
    match host {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}
