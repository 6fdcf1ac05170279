//! Records of walks: what was typed, and what Kubernetes 1.36.2 and kubectl answered.
//!
//! A record is a file for a topic, with a step in each line: a file that is written, or a command
//! with its output and exit code. They are in `records/`, a folder for each version of kubectl.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

/// A step of a walk.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A file is written.
    File { name: String, content: String },
    /// A command is run.
    Command(Command),
}

/// A command and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) number: u64,
    pub(crate) line: String,
    pub(crate) answer: Answer,
}

/// What a command prints, and how it exits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: String,
}

/// The steps of a topic, as a version of kubectl took them.
pub(crate) fn read(version: &str, topic: &str) -> Vec<Step> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walks/records");
    let path = folder.join(version).join(format!("{topic}.jsonl.gz"));
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut text = String::new();
    let read = GzDecoder::new(file).read_to_string(&mut text);
    read.expect("a record is gzipped text");
    text.lines().map(step).collect()
}

fn step(line: &str) -> Step {
    let value: Value = serde_json::from_str(line).expect("a step is JSON");
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    match &*text("type") {
        "file" => Step::File {
            name: text("name"),
            content: text("content"),
        },
        "cmd" => Step::Command(Command {
            number: value["step"].as_u64().expect("steps are numbered"),
            line: text("command"),
            answer: Answer {
                stdout: text("stdout"),
                stderr: text("stderr"),
                exit: match &value["exit"] {
                    Value::String(exit) => exit.clone(),
                    exit => exit.to_string(),
                },
            },
        }),
        other => panic!("a step of an unknown type: {other}"),
    }
}

/// The topics that were recorded with a version of kubectl, in the order in which they were.
pub(crate) fn topics(version: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walks/records");
    let entries = std::fs::read_dir(folder.join(version)).expect("records");
    let mut topics: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".jsonl.gz")?.to_owned()))
        .collect();
    topics.sort();
    topics
}

/// The content of a file of a record.
pub(crate) fn file(version: &str, topic: &str, wanted: &str) -> String {
    let found = read(version, topic)
        .into_iter()
        .find_map(|step| match step {
            Step::File { name, content } if name == wanted => Some(content),
            _ => None,
        });
    found.unwrap_or_else(|| panic!("there is no {wanted} in {topic}"))
}
