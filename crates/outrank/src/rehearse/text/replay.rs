//! A replayed trace, for people.

use std::cmp::Reverse;
use std::fmt::Write;

use outrank_rehearse::replay::ReplayReport;

use super::{SHOWN_VICTIMS, duration};
use crate::rehearse::count;
use crate::table::{align_right, table, text};

/// A replayed trace.
pub(in crate::rehearse) fn replay(report: &ReplayReport) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} came to {} in {}: {} placed, {} still waiting ({})",
        count(report.pods, "pod"),
        count(report.nodes, "node"),
        duration(report.end_seconds),
        report.placed,
        report.pending,
        count(report.decisions, "decision"),
    );
    let waits = report.pending_seconds;
    let _ = writeln!(
        out,
        "Time to placement: half within {}, 90% within {}, 99% within {}, all within {}",
        duration(waits.p50),
        duration(waits.p90),
        duration(waits.p99),
        duration(waits.max),
    );
    let _ = writeln!(
        out,
        "Most pods waiting at one time: {}, after {}",
        report.peak_pending,
        duration(report.peak_pending_seconds),
    );
    if let Some(first) = report.utilization.first() {
        let names: Vec<&String> = first.requested.keys().collect();
        let mut header = vec!["FROM"];
        header.extend(names.iter().map(|name| name.as_str()));
        header.push("WAITING");
        let mut rows = table(&header);
        for span in &report.utilization {
            let mut row = vec![duration(span.start_seconds)];
            let shares = names
                .iter()
                .map(|name| span.requested.get(*name).unwrap_or(&0.0));
            row.extend(shares.map(|share| format!("{:.1}%", share * 100.0)));
            row.push(format!("{:.1}", span.pending));
            rows.add_row(row);
        }
        align_right(&mut rows, 1);
        let _ = writeln!(out, "\nREQUESTED OVER TIME\n{}", text(&rows, "  "));
    }
    victims(report, "", &mut out);
    if let Some(without) = &report.without_change {
        compared(report, without, &mut out);
        victims(without, " WITHOUT THE CHANGE", &mut out);
    }
    if !report.reasons.is_empty() {
        let _ = writeln!(out, "\nWAITING AT THE END");
        let mut reasons: Vec<(&String, &usize)> = report.reasons.iter().collect();
        reasons.sort_by_key(|(message, pods)| (Reverse(**pods), (*message).clone()));
        for (message, pods) in reasons {
            let _ = writeln!(out, "  {}: {message}", count(*pods, "pod"));
        }
    }
    out
}

/// Who was killed in a replay: by class, and the most painful ones.
fn victims(report: &ReplayReport, when: &str, out: &mut String) {
    if report.victims.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nKILLED{when}: {}, {} of them more than once; {} of GPU time lost",
        count(report.victims.len(), "pod"),
        report.killed_again,
        duration(report.lost_gpu_seconds),
    );
    let mut rows = table(&[
        "AT",
        "VICTIM",
        "PRIORITY",
        "NODE",
        "GPUS",
        "RAN",
        "KILLED BY",
        "TIMES",
    ]);
    for victim in report.victims.iter().take(SHOWN_VICTIMS) {
        rows.add_row(vec![
            duration(victim.at_seconds),
            victim.pod.clone(),
            victim.priority.to_string(),
            victim.node.clone(),
            victim.gpus.to_string(),
            duration(victim.running_seconds),
            format!("{} ({})", victim.killed_by, victim.killed_by_priority),
            victim.kills.to_string(),
        ]);
    }
    let _ = writeln!(out, "{}", text(&rows, "  "));
    let hidden = report.victims.len().saturating_sub(SHOWN_VICTIMS);
    if hidden > 0 {
        let _ = writeln!(
            out,
            "  ... and {} (-o json shows all)",
            count(hidden, "more pod")
        );
    }
}

/// What the change of the configuration, or of preemption, makes of it.
fn compared(report: &ReplayReport, without: &ReplayReport, out: &mut String) {
    let mut rows = table(&[
        "",
        "KILLED",
        "GPU TIME LOST",
        "STILL WAITING",
        "90% PLACED WITHIN",
    ]);
    for (name, report) in [("with the change", report), ("without it", without)] {
        rows.add_row(vec![
            name.to_owned(),
            report.victims.len().to_string(),
            duration(report.lost_gpu_seconds),
            report.pending.to_string(),
            duration(report.pending_seconds.p90),
        ]);
    }
    align_right(&mut rows, 1);
    let _ = writeln!(out, "\nCOMPARED\n{}", text(&rows, "  "));
}
