//! What Kubernetes 1.36 answered, and what kubectl printed of it.
//!
//! `recorded.jsonl.gz` has tables that kubectl 1.32 and 1.36 printed, each row with the object as
//! it was read in the same minute; rows of objects that had changed in between are left out.
//! `recorded_raw.json.gz` has answers to requests for a Table, without the descriptions of columns.

use std::io::Read;

use flate2::read::GzDecoder;
use outrank_apiserver::table::{Column, TableOptions, event_table, table};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{columns, nanos};

static PRINTED: &[u8] = include_bytes!("recorded.jsonl.gz");
static RAW: &[u8] = include_bytes!("recorded_raw.json.gz");

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    from: String,
    command: String,
    api_version: String,
    kind: String,
    headings: Vec<String>,
    rows: Vec<PrintedRow>,
}

#[derive(Deserialize)]
struct PrintedRow {
    printed: Vec<String>,
    object: Value,
}

#[test]
fn rows_are_as_kubectl_printed_them() {
    let (mut tables, mut cells) = (0, 0);
    for line in unpacked(PRINTED).lines() {
        let printed: Printed = serde_json::from_str(line).unwrap();
        cells += printed.check();
        tables += 1;
    }
    assert_eq!((tables, cells), (63, 1183));
}

/// Headings that kubectl adds of its own accord, or that tests read elsewhere.
const NOT_OF_THE_SERVER: [&str; 4] = ["NAMESPACE", "LABELS", "DISKTYPE", "ZONE"];

impl Printed {
    /// Compares all rows; returns how many cells were compared.
    fn check(&self) -> usize {
        let whence = format!("{}: {}", self.from, self.command);
        let columns = columns(&self.api_version, &self.kind);
        let is_wide = self.command.contains("wide");
        let is_shown = |it: &Column| it.priority == 0 || is_wide;
        let shown = columns.definitions().iter().filter(|it| is_shown(it));
        let headings: Vec<String> = shown.map(|it| it.name.to_uppercase()).collect();
        let is_ours = |heading: &&String| !NOT_OF_THE_SERVER.contains(&heading.as_str());
        let expected: Vec<&String> = self.headings.iter().filter(is_ours).collect();
        assert_eq!(headings.iter().collect::<Vec<_>>(), expected, "{whence}");

        let mut now = None;
        let mut compared = 0;
        for row in &self.rows {
            let at = row.read_at(&self.headings);
            // One table is of one moment, so that ages must be of the same.
            if let Some(at) = at {
                let now = *now.get_or_insert(at);
                assert!((now - at).abs() <= 1_000_000_000, "{whence}: {now} {at}");
            }
            let cells = columns.cells(&row.object, at.unwrap_or(0));
            let cells = columns.definitions().iter().zip(&cells);
            let cells = cells.filter(|(definition, _)| is_shown(definition));
            let printed = self.headings.iter().zip(&row.printed);
            let printed = printed.filter(|(heading, _)| is_ours(heading));
            for ((definition, cell), (heading, printed)) in cells.zip(printed) {
                if ["LAST SEEN", "DURATION"].contains(&heading.as_str()) {
                    continue;
                }
                // `pod/web` is what kubectl makes of the name if it prints several kinds.
                let printed = match heading.as_str() {
                    "NAME" => printed.rsplit('/').next().unwrap(),
                    _ => printed,
                };
                let cell = shown_by_kubectl(cell);
                assert_eq!(cell, *printed, "{whence}: {}", definition.name);
                compared += 1;
            }
        }
        compared
    }
}

impl PrintedRow {
    /// When the row was made, by its age; none if it has none.
    fn read_at(&self, headings: &[String]) -> Option<i64> {
        let age = headings.iter().position(|it| it == "AGE")?;
        let span: jiff::SignedDuration = self.printed[age].parse().unwrap();
        let created = nanos(self.object["metadata"]["creationTimestamp"].as_str()?);
        Some(created + i64::try_from(span.as_nanos()).unwrap())
    }
}

fn shown_by_kubectl(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.trim_end().to_owned(),
        other => other.to_string(),
    }
}

/// Columns without their descriptions, which are our own.
fn without_descriptions(mut table: Value) -> Value {
    let definitions = table["columnDefinitions"].as_array_mut();
    for definition in definitions.into_iter().flatten() {
        let description = definition.as_object_mut().unwrap().remove("description");
        let description = description.unwrap_or_default();
        assert!(!description.as_str().unwrap_or_default().is_empty());
    }
    table
}

#[test]
fn a_table_is_as_it_was_sent() {
    let raw: Value = serde_json::from_str(&unpacked(RAW)).unwrap();
    let (mut sent, mut node) = (raw["nodes"]["table"].clone(), raw["nodes"]["node"].clone());
    // The first row is of the node that is known in full.
    sent["rows"].as_array_mut().unwrap().truncate(1);
    node["metadata"] = sent["rows"][0]["object"]["metadata"].clone();
    let now_nanos = nanos(raw["nodes"]["at"].as_str().unwrap());
    let columns = columns("v1", "Node");
    let options = TableOptions::default();
    let made = table(&columns, [&node], &sent["metadata"], &options, now_nanos);
    assert_eq!(without_descriptions(made), sent);
}

#[test]
fn events_of_a_watch_are_as_they_were_sent() {
    let raw: Value = serde_json::from_str(&unpacked(RAW)).unwrap();
    let now_nanos = nanos(raw["namespaces"]["at"].as_str().unwrap());
    let columns = columns("v1", "Namespace");
    let sent = raw["namespaces"]["events"].as_array().unwrap();
    assert_eq!(sent.len(), 4);
    for (i, event) in sent.iter().enumerate() {
        let sent = &event["object"];
        let metadata = &sent["rows"][0]["object"]["metadata"];
        let namespace = json!({"metadata": metadata, "status": {"phase": "Active"}});
        let options = TableOptions::default();
        let made = event_table(&columns, &namespace, i == 0, &options, now_nanos);
        assert_eq!(without_descriptions(made), *sent);
    }
}
