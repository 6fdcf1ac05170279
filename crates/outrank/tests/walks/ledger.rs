//! The differences that are known: those that `docs/parity.md` lists.

use std::collections::BTreeSet;
use std::path::Path;

/// The versions of kubectl with which there are records.
pub(crate) const VERSIONS: [&str; 2] = ["1.32", "1.36"];

/// A step of a walk with a kubectl.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    version: String,
    topic: String,
    number: u64,
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

/// The steps that are known to differ.
pub(crate) fn known_differences() -> BTreeSet<Step> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parity.md");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    differences_of(&text)
}

/// The steps that a ledger lists: rows such as `| 04-deployment 24 | 1.32, 1.36 | ... |`.
pub(crate) fn differences_of(text: &str) -> BTreeSet<Step> {
    let mut steps = BTreeSet::new();
    for line in text.lines() {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (Some(step), Some(versions)) = (cells.next(), cells.next()) else {
            continue;
        };
        let Some((topic, number)) = step.rsplit_once(' ') else {
            continue;
        };
        let Ok(number) = number.parse() else {
            continue;
        };
        for version in versions.split(',').map(str::trim) {
            if VERSIONS.contains(&version) {
                steps.insert(Step::new(version, topic, number));
            }
        }
    }
    steps
}
