//! What happens as time passes, for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use outrank_rehearse::simulation::{Entry, SimulationReport};

use super::{duration, some};
use crate::rehearse::count;
use crate::table::{table, text};

/// How many lines of a timeline are shown before the rest is summed up.
const SHOWN_ENTRIES: usize = 100;

/// Reasons that say no more than another line does; -o wide shows them.
const MINOR: [&str; 11] = [
    "Created",
    "Gone",
    "Killing",
    "NoPods",
    "Pulled",
    "ScalingReplicaSet",
    "Scheduled",
    "Started",
    "SuccessfulCreate",
    "SuccessfulDelete",
    "RegisteredNode",
];

/// The timeline, and how things are in the end.
pub(in crate::rehearse) fn simulation(report: &SimulationReport, is_wide: bool) -> String {
    let mut out = String::new();
    let pods = report
        .pods
        .iter()
        .map(|(phase, pods)| format!("{pods} {phase}"));
    let pods: Vec<String> = pods.collect();
    let pods = match pods.is_empty() {
        true => "no pods".to_owned(),
        false => pods.join(", "),
    };
    let _ = writeln!(out, "After {}: {pods}", duration(report.seconds as u64));
    timeline(report, is_wide, &mut out);
    running(report, &mut out);
    waiting(report, &mut out);
    out
}

fn timeline(report: &SimulationReport, is_wide: bool, out: &mut String) {
    let entries = report.timeline.iter();
    let shown = entries.filter(|entry| is_wide || !MINOR.contains(&&*entry.reason));
    let lines = told_once(shown);
    if lines.is_empty() {
        return;
    }
    let hidden = lines.len().saturating_sub(SHOWN_ENTRIES);
    let mut rows = table(&["AT", "WHAT", "OBJECT", "MESSAGE"]);
    for (entry, times) in lines.into_iter().take(SHOWN_ENTRIES) {
        let message = match times {
            1 => entry.message.clone(),
            times => format!("{} ({times} times)", entry.message),
        };
        rows.add_row(vec![
            duration(entry.at_seconds as u64),
            entry.reason.clone(),
            entry.object.clone(),
            message,
        ]);
    }
    let _ = writeln!(out, "\nWHAT HAPPENS\n{}", text(&rows, "  "));
    if hidden > 0 {
        let hidden = count(hidden, "more line");
        let _ = writeln!(out, "  ... and {hidden} (-o json shows all)");
    }
}

/// Lines that say the same of the same object again and again are one, at its first time.
fn told_once<'e>(entries: impl Iterator<Item = &'e Entry>) -> Vec<(&'e Entry, usize)> {
    let mut lines: Vec<(&Entry, usize)> = Vec::new();
    let mut known: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for entry in entries {
        // Names of pods that were to be made differ, and nothing else.
        let message = entry.message.split_once("forbidden: ");
        let message = message.map_or(entry.message.as_str(), |(_, why)| why);
        let key = (entry.object.as_str(), entry.reason.as_str(), message);
        match known.get(&key) {
            Some(line) if entry.is_warning => lines[*line].1 += 1,
            _ => {
                known.insert(key, lines.len());
                lines.push((entry, 1));
            }
        }
    }
    lines
}

fn running(report: &SimulationReport, out: &mut String) {
    if report.running.is_empty() {
        return;
    }
    let mut rows = table(&["NODE", "RUNNING"]);
    for (node, pods) in &report.running {
        rows.add_row(vec![node.clone(), pods.to_string()]);
    }
    let _ = writeln!(out, "\nIN THE END\n{}", text(&rows, "  "));
}

fn waiting(report: &SimulationReport, out: &mut String) {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for waiting in &report.waiting {
        groups
            .entry(&waiting.message)
            .or_default()
            .push(&waiting.pod);
    }
    if !groups.is_empty() {
        let _ = writeln!(out, "\nWAITING");
    }
    for (message, pods) in groups {
        let _ = writeln!(out, "  {}: {message}", count(pods.len(), "pod"));
        let _ = writeln!(out, "    {}", some(pods.iter()));
    }
}
