//! The ledger of what is served, `docs/parity.md`: the differences that it lists are those that are
//! known, and what it says is held against what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::api::Api;
use crate::record;
use crate::walk::Cluster;

/// The versions of kubectl with which there are records.
pub(crate) const VERSIONS: [&str; 2] = ["1.32", "1.36"];

/// A step of a walk with a kubectl.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    version: String,
    topic: String,
    number: u64,
}

/// How a step differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Each time.
    Always,
    /// At times: which of two things comes first is a matter of chance.
    Sometimes,
}

impl Step {
    pub(crate) fn new(version: &str, topic: &str, number: u64) -> Self {
        Self {
            version: version.to_owned(),
            topic: topic.to_owned(),
            number,
        }
    }
}

/// The ledger in a language: `parity.md` or `parity.zh-CN.md`.
fn ledger(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of the tables of a ledger.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.map(|line| {
        let cells = line.trim().trim_matches('|').split(" | ");
        cells.map(str::trim).collect()
    })
}

/// The steps that are known to differ.
pub(crate) fn known_differences() -> BTreeMap<Step, Difference> {
    differences_of(&ledger("parity.md"), "sometimes: ")
}

/// The steps that a ledger lists: rows such as `| 04-deployment 24 | 1.32, 1.36 | ... | ... |`.
fn differences_of(text: &str, sometimes: &str) -> BTreeMap<Step, Difference> {
    let mut steps = BTreeMap::new();
    for row in rows(text) {
        let [step, versions, _, why] = row[..] else {
            continue;
        };
        let Some((topic, Ok(number))) = step.rsplit_once(' ').map(|(it, n)| (it, n.parse())) else {
            continue;
        };
        let difference = match why.starts_with(sometimes) {
            true => Difference::Sometimes,
            false => Difference::Always,
        };
        for version in versions.split(", ").filter(|it| VERSIONS.contains(it)) {
            steps.insert(Step::new(version, topic, number), difference);
        }
    }
    steps
}

/// The steps of all walks with a kubectl, with their commands.
fn all_steps(version: &str) -> BTreeMap<Step, String> {
    let mut steps = BTreeMap::new();
    for topic in record::topics(version) {
        for step in record::read(version, &topic) {
            if let record::Step::Command(command) = step {
                steps.insert(Step::new(version, &topic, command.number), command.line);
            }
        }
    }
    steps
}

#[test]
fn the_ledger_counts_its_steps() {
    let text = ledger("parity.md");
    let known = known_differences();
    for version in VERSIONS {
        let steps = all_steps(version);
        let unknown = known.keys().filter(|it| it.version == version);
        let unknown: Vec<_> = unknown.filter(|it| !steps.contains_key(it)).collect();
        assert!(unknown.is_empty(), "there are no such steps: {unknown:?}");
        let differ = known.keys().filter(|it| it.version == version).count();
        let all = steps.len();
        let row = format!("| {version} | {all} | {} | {differ} |", all - differ);
        assert!(
            text.contains(&row),
            "the row of kubectl {version} should be {row}"
        );
    }
}

#[test]
fn the_ledger_is_the_same_in_both_languages() {
    let (english, chinese) = (ledger("parity.md"), ledger("parity.zh-CN.md"));
    let in_chinese = differences_of(&chinese, "偶尔不同：");
    assert_eq!(known_differences(), in_chinese);
    let levels = |text: &str, words: [&str; 4]| -> Vec<(String, Option<usize>)> {
        let of_resource = rows(text).filter(|row| row.len() == 4);
        let levels = of_resource.map(|row| {
            let level = words.iter().position(|it| *it == row[2]);
            (format!("{} {}", row[0], row[1]), level)
        });
        levels.filter(|(_, level)| level.is_some()).collect()
    };
    assert_eq!(
        levels(&english, ["served", "partly", "kept", "refused"]),
        levels(&chinese, ["已提供", "部分", "仅保存", "拒绝"])
    );
    assert_eq!(rows(&english).count(), rows(&chinese).count());
}

#[test]
fn the_ledger_has_the_resources_that_discovery_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let without = ["--without".to_owned(), "scheduler,controllers".to_owned()];
    let _cluster = Cluster::start(folder.path(), &without);
    let api = Api::new(&folder.path().join("kubeconfig"));
    let mut served = BTreeSet::new();
    let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
    for group in api.get("/apis")["groups"].as_array().into_iter().flatten() {
        for version in group["versions"].as_array().into_iter().flatten() {
            let version = version["groupVersion"].as_str().unwrap_or_default();
            versions.push((format!("/apis/{version}"), version.to_owned()));
        }
    }
    for (path, version) in versions {
        let resources = api.get(&path)["resources"].take();
        let names = resources.as_array().into_iter().flatten();
        let names = names.filter_map(|it| it["name"].as_str());
        let names = names.filter(|name| !name.contains('/'));
        served.extend(names.map(|name| format!("{name} {version}")));
    }
    let text = ledger("parity.md");
    let is_level = |it: &str| ["served", "partly", "kept", "refused"].contains(&it);
    let listed = rows(&text).filter(|row| row.len() == 4 && is_level(row[2]));
    let listed: BTreeSet<String> = listed.map(|row| format!("{} {}", row[0], row[1])).collect();
    assert_eq!(listed, served);
}
