//! Runs recorded cases: what Kubernetes answered, against what we answer.
//!
//! A directory holds any of three forms, found by their file names:
//!
//! * `FAMILY.scenarios.jsonl.gz` beside `FAMILY.expected.jsonl.gz`: scheduling scenarios;
//!   families called `policy-...` are of the legacy scheduler Policy, recorded from 1.20;
//! * `TOPIC.jsonl.gz`: one record a line, each an operation with its answer.
//!
//! Sub-directories are looked at too. A family or topic that is not served yet counts as
//! failed, case by case.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::{components, policies, scenarios};

/// Which cases to run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only this family or topic.
    pub family: Option<String>,
    /// Only the case of this name.
    pub case: Option<String>,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    families: BTreeMap<String, Family>,
}

/// What came of one family.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// Cases that agree.
    pub passed: usize,
    /// Cases that differ, with the first difference of each.
    pub failures: Vec<(String, String)>,
    /// Whether the family is served at all.
    pub is_unserved: bool,
}

impl Report {
    /// Number of cases that agree.
    pub fn passed(&self) -> usize {
        self.families.values().map(|family| family.passed).sum()
    }

    /// Number of cases that differ or are not served.
    pub fn failed(&self) -> usize {
        self.families
            .values()
            .map(|family| family.failures.len())
            .sum()
    }

    /// What came of each family, by name.
    pub fn families(&self) -> &BTreeMap<String, Family> {
        &self.families
    }
}

/// How many differences of a family are shown.
const SHOWN_FAILURES: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, family) in &self.families {
            let total = family.passed + family.failures.len();
            write!(f, "{name:28} {:5}/{total}", family.passed)?;
            if family.is_unserved {
                write!(f, "  not served yet")?;
            }
            writeln!(f)?;
        }
        for (name, family) in &self.families {
            if family.is_unserved {
                continue;
            }
            for (case, difference) in family.failures.iter().take(SHOWN_FAILURES) {
                writeln!(f, "\n{case}\n{difference}")?;
            }
            let hidden = family.failures.len().saturating_sub(SHOWN_FAILURES);
            if hidden > 0 {
                writeln!(f, "\n{name}: {hidden} more")?;
            }
        }
        write!(f, "\n{} passed, {} failed", self.passed(), self.failed())
    }
}

/// Runs the selected cases of a directory.
///
/// # Errors
/// If the directory holds no cases, or a file cannot be read.
pub fn run(directory: &Path, selection: &Selection) -> Result<Report> {
    let mut files = Vec::new();
    list(directory, &mut files)?;
    files.sort();
    let mut report = Report::default();
    for path in files {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if let Some(family) = name.strip_suffix(".scenarios.jsonl.gz") {
            if selection
                .family
                .as_deref()
                .is_none_or(|only| only == family)
            {
                let expected = path.with_file_name(format!("{family}.expected.jsonl.gz"));
                run_family(family, &path, &expected, selection, &mut report)?;
            }
        } else if let Some(topic) = name.strip_suffix(".jsonl.gz")
            && !topic.ends_with(".expected")
            && selection.family.as_deref().is_none_or(|only| only == topic)
        {
            run_topic(topic, &path, selection, &mut report)?;
        }
    }
    if report.families.is_empty() {
        bail!(
            "{}: no recorded cases (FAMILY.scenarios.jsonl.gz or TOPIC.jsonl.gz)",
            directory.display()
        );
    }
    Ok(report)
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = directory
        .read_dir()
        .with_context(|| format!("{}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn run_family(
    family: &str,
    scenarios: &Path,
    expected: &Path,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let result = report.families.entry(family.to_owned()).or_default();
    let is_policy = family.starts_with("policy-");
    result.is_unserved = !is_policy && !scenarios::is_served(family);
    let mut expected_lines = lines(expected)?;
    for scenario in lines(scenarios)? {
        let scenario = scenario?;
        let Some(expected) = expected_lines.next() else {
            bail!("{}: fewer answers than scenarios", expected.display());
        };
        let expected = expected?;
        let case = scenario["name"].as_str().unwrap_or_default().to_owned();
        if selection.case.as_ref().is_some_and(|only| *only != case) {
            continue;
        }
        if result.is_unserved {
            result.failures.push((case, "not served yet".into()));
            continue;
        }
        let checked = match is_policy {
            true => policies::check(&scenario, &expected),
            false => scenarios::check(&scenario, &expected),
        };
        match checked {
            Ok(()) => result.passed += 1,
            Err(difference) => result.failures.push((case, difference)),
        }
    }
    Ok(())
}

fn run_topic(topic: &str, path: &Path, selection: &Selection, report: &mut Report) -> Result<()> {
    let result = report.families.entry(topic.to_owned()).or_default();
    for record in lines(path)? {
        let record = record?;
        let case = record["id"].as_str().unwrap_or_default().to_owned();
        if selection.case.as_ref().is_some_and(|only| *only != case) {
            continue;
        }
        match components::check(topic, &record) {
            None => {
                result.is_unserved = true;
                result.failures.push((case, "not served yet".into()));
            }
            Some(Ok(())) => result.passed += 1,
            Some(Err(difference)) => result.failures.push((case, difference)),
        }
    }
    Ok(())
}

fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Value>> + use<>> {
    let file = File::open(path).with_context(|| format!("{}", path.display()))?;
    let lines = BufReader::new(MultiGzDecoder::new(file)).lines();
    let path = path.to_owned();
    Ok(lines.enumerate().map(move |(index, line)| {
        let place = || format!("{}:{}", path.display(), index + 1);
        serde_json::from_str(&line.with_context(place)?).with_context(place)
    }))
}
