//! What every node says to a pod, for people.

use std::fmt::Write;

use outrank_rehearse::report::{Explanation, NodeExplanation, NodePreemption, NodeRefusal, Report};

use super::{SHOWN_NODES, some};
use crate::rehearse::count;
use crate::table::{table, text};

/// The pods that were asked for, one after the other.
pub(super) fn explanations(report: &Report, out: &mut String) {
    for explanation in &report.explanations {
        let Explanation { pod, priority, .. } = explanation;
        let where_it_is = match &explanation.node {
            Some(node) => format!("is on {node}"),
            None => "waits".to_owned(),
        };
        let _ = writeln!(
            out,
            "\nEXPLAINED: {pod} of priority {priority} {where_it_is}"
        );
        if let Some(error) = &explanation.error {
            let _ = writeln!(out, "  error: {error}");
        }
        nodes(explanation, out);
        if let Some(message) = &explanation.no_preemption {
            let _ = writeln!(out, "  {message}");
        }
    }
}

fn nodes(explanation: &Explanation, out: &mut String) {
    let mut rows = table(&["NODE", "SCORE", "SAYS", "IF OTHERS WENT"]);
    for said in explanation.nodes.iter().take(SHOWN_NODES) {
        rows.add_row(vec![
            said.node.clone(),
            said.score.map_or("-".to_owned(), |score| score.to_string()),
            says(said),
            said.preemption
                .as_ref()
                .map_or("-".to_owned(), if_others_went),
        ]);
    }
    let _ = writeln!(out, "{}", text(&rows, "  "));
    let hidden = explanation.nodes.len().saturating_sub(SHOWN_NODES);
    if hidden > 0 {
        let hidden = count(hidden, "more node");
        let _ = writeln!(out, "  ... and {hidden} (-o json shows all)");
    }
}

fn says(said: &NodeExplanation) -> String {
    match &said.refusal {
        Some(refusal) => refused(refusal),
        None => {
            let parts = said.scores.iter().filter(|(_, score)| **score != 0);
            let parts: Vec<String> = parts
                .map(|(plugin, score)| format!("{plugin} {score}"))
                .collect();
            match parts.is_empty() {
                true => "yes".to_owned(),
                false => format!("yes: {}", parts.join(", ")),
            }
        }
    }
}

fn refused(refusal: &NodeRefusal) -> String {
    let reasons = refusal.reasons.join(", ");
    match refusal.plugin.as_str() {
        "" => reasons,
        plugin => format!("{plugin}: {reasons}"),
    }
}

fn if_others_went(preemption: &NodePreemption) -> String {
    if let Some(refusal) = &preemption.refusal {
        return refused(refusal);
    }
    let mut told = format!("kills {}", some(preemption.victims.iter()));
    if preemption.pdb_violations > 0 {
        let _ = write!(told, "; {} against a budget", preemption.pdb_violations);
    }
    if preemption.is_best {
        told.push_str("; the best choice");
    }
    told
}
