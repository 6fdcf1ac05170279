//! The report for people.

mod explanation;
mod replay;
mod simulation;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use outrank_rehearse::report::{
    PendingPod, PendingState, Replacement, ReplacementState, Report, ResourceUse,
};

use super::count;
use crate::table::{align_right, amount, percent, table, text};

pub(super) use replay::replay;
pub(super) use simulation::simulation;

/// How many pods of a group are named.
const NAMED_PODS: usize = 3;

/// Totals, use of resources, pods per node, and why pods wait.
pub(super) fn summary(report: &Report) -> String {
    let mut out = String::new();
    totals(report, &mut out);
    resources(&report.resources, &mut out);
    nodes(report, &mut out);
    victims(report, &mut out);
    pending(report, &mut out);
    rest(report, &mut out);
    explanation::explanations(report, &mut out);
    out
}

/// The same, with every pod in a line instead of groups.
pub(super) fn wide(report: &Report) -> String {
    let mut out = String::new();
    totals(report, &mut out);
    resources(&report.resources, &mut out);
    nodes(report, &mut out);
    let mut pods = table(&[
        "NAMESPACE",
        "NAME",
        "OWNER",
        "PRIORITY",
        "CLASS",
        "NODE",
        "SCORE",
        "MESSAGE",
    ]);
    for pod in &report.placed {
        let message = match pod.feasible_nodes {
            1 => "the only node".to_owned(),
            nodes => format!("best of {nodes} nodes"),
        };
        pods.add_row(vec![
            pod.namespace.clone(),
            pod.name.clone(),
            or_dash(pod.owner.as_deref()),
            pod.priority.to_string(),
            or_dash(Some(&pod.priority_class_name)),
            pod.node.clone(),
            pod.score.to_string(),
            message,
        ]);
    }
    for pod in &report.pending {
        pods.add_row(vec![
            pod.namespace.clone(),
            pod.name.clone(),
            or_dash(pod.owner.as_deref()),
            pod.priority.to_string(),
            or_dash(Some(&pod.priority_class_name)),
            "-".to_owned(),
            "-".to_owned(),
            pod.message.clone(),
        ]);
    }
    if pods.row_count() > 0 {
        let _ = writeln!(out, "\nPODS\n{}", text(&pods, "  "));
    }
    victims(report, &mut out);
    rest(report, &mut out);
    explanation::explanations(report, &mut out);
    out
}

/// Pods and their nodes, one a line.
pub(super) fn names(report: &Report) -> String {
    let mut out = String::new();
    for pod in &report.placed {
        let _ = writeln!(out, "{}/{} {}", pod.namespace, pod.name, pod.node);
    }
    for pod in &report.pending {
        let _ = writeln!(out, "{}/{} -", pod.namespace, pod.name);
    }
    out
}

fn totals(report: &Report, out: &mut String) {
    let summary = &report.summary;
    let _ = write!(
        out,
        "{}: {} placed, {} waiting",
        count(summary.nodes, "node"),
        count(summary.placed, "pod"),
        summary.pending()
    );
    let rest = [
        (summary.gated, "held by scheduling gates"),
        (summary.errors, "in error"),
    ];
    let rest = rest.into_iter().filter(|(pods, _)| *pods > 0);
    let rest: Vec<String> = rest.map(|(pods, what)| format!("{pods} {what}")).collect();
    if !rest.is_empty() {
        let _ = write!(out, " ({})", rest.join(", "));
    }
    let others = [
        (summary.victims, "killed"),
        (summary.running, "already bound"),
        (summary.refused, "refused by admission"),
        (summary.other_schedulers, "left to other schedulers"),
        (summary.finished, "finished"),
        (summary.terminating, "being deleted before they got a node"),
        (report.deleted.len(), "deleted"),
    ];
    for (pods, what) in others {
        if pods > 0 {
            let _ = write!(out, ", {pods} {what}");
        }
    }
    out.push('\n');
}

fn resources(resources: &BTreeMap<String, ResourceUse>, out: &mut String) {
    let mut rows = table(&["RESOURCE", "ALLOCATABLE", "BEFORE", "", "AFTER", ""]);
    for (name, used) in resources {
        rows.add_row(vec![
            name.clone(),
            amount(name, used.allocatable),
            amount(name, used.before),
            percent(used.before, used.allocatable),
            amount(name, used.after),
            percent(used.after, used.allocatable),
        ]);
    }
    align_right(&mut rows, 1);
    if !resources.is_empty() {
        let _ = writeln!(out, "\nREQUESTED\n{}", text(&rows, "  "));
    }
}

/// How many nodes are shown before the rest is summed up.
const SHOWN_NODES: usize = 40;

fn nodes(report: &Report, out: &mut String) {
    let mut with_pods: Vec<_> = report.nodes.iter().filter(|node| node.placed > 0).collect();
    if with_pods.is_empty() {
        return;
    }
    let hidden = with_pods.len().saturating_sub(SHOWN_NODES);
    with_pods.truncate(SHOWN_NODES);
    let mut names: Vec<&String> = Vec::new();
    for node in &with_pods {
        // Resources that nobody asks for say nothing.
        let used = node.resources.iter().filter(|(_, used)| used.after != 0);
        names.extend(used.map(|(name, _)| name).filter(|name| *name != "pods"));
    }
    names.sort_unstable();
    names.dedup();
    let mut header = vec!["NODE", "PLACED", "PODS"];
    header.extend(names.iter().map(|name| name.as_str()));
    let mut rows = table(&header);
    for node in with_pods {
        let share = |name: &str| {
            let used = node.resources.get(name).copied().unwrap_or_default();
            if (used.after, used.allocatable) == (0, 0) {
                return "-".to_owned();
            }
            let (after, allocatable) = (amount(name, used.after), amount(name, used.allocatable));
            format!("{after}/{allocatable}")
        };
        let mut row = vec![node.name.clone(), node.placed.to_string(), share("pods")];
        row.extend(names.iter().map(|name| share(name)));
        rows.add_row(row);
    }
    align_right(&mut rows, 1);
    let _ = writeln!(out, "\nPLACED PER NODE\n{}", text(&rows, "  "));
    if hidden > 0 {
        let _ = writeln!(
            out,
            "  ... and on {} (-o json shows all)",
            count(hidden, "more node")
        );
    }
}

fn pending(report: &Report, out: &mut String) {
    // Pods wait for the same reason if they do so for the same reason of nodes and of preemption.
    let mut groups: BTreeMap<(&str, &str, Option<&str>), Vec<&PendingPod>> = BTreeMap::new();
    for pod in &report.pending {
        let state = match pod.state {
            PendingState::Unschedulable => "",
            PendingState::Gated => "gated: ",
            PendingState::Error => "error: ",
            PendingState::Loop => "loop: ",
        };
        let reason = (state, &*pod.filter_message, held_back(pod));
        groups.entry(reason).or_default().push(pod);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // Who matters most comes first.
    let highest = |pods: &[&PendingPod]| pods.iter().map(|pod| pod.priority).max();
    groups.sort_by_key(|(_, pods)| Reverse((highest(pods), pods.len())));
    if !groups.is_empty() {
        let _ = writeln!(out, "\nWAITING");
    }
    for ((state, message, held), pods) in groups {
        let priorities = pods.iter().map(|pod| pod.priority);
        let priority = match (priorities.clone().min(), priorities.max()) {
            (Some(lowest), Some(highest)) if lowest < highest => format!("{lowest} to {highest}"),
            (_, highest) => highest.unwrap_or(0).to_string(),
        };
        let number = count(pods.len(), "pod");
        let _ = writeln!(out, "  {number} of priority {priority}: {state}{message}");
        let names = pods
            .iter()
            .map(|pod| format!("{}/{}", pod.namespace, pod.name));
        let _ = writeln!(out, "    {}", some(names));
        if let Some(message) = held {
            let _ = writeln!(out, "    {message}");
        }
    }
    let preemptors = report.pending.iter().filter(|pod| pod.may_preempt).count();
    if preemptors > 0 {
        let _ = writeln!(
            out,
            "  Note: for {} of them pods of lower priority might be killed if preemption were \
             on; --preemption on says who",
            preemptors
        );
    }
}

/// Why nobody is killed for a pod, if there is more to say than that there is nobody of lower
/// priority, or that it would not help.
fn held_back(pod: &PendingPod) -> Option<&str> {
    let no_preemption = pod.no_preemption.as_ref()?;
    let tried = &no_preemption.tried;
    let says_more = match tried.is_empty() {
        true => !no_preemption.message.contains("nodes are available"),
        false => tried.iter().any(|reason| !reason.plugin.is_empty()),
    };
    says_more.then_some(&*no_preemption.message)
}

/// How many victims are shown before the rest is summed up.
const SHOWN_VICTIMS: usize = 40;

/// Who is killed, by whom, and what becomes of them.
fn victims(report: &Report, out: &mut String) {
    let caused = || report.victims.iter().filter(|it| !it.without_change);
    let summary = &report.summary;
    // Those that are shown: perhaps only of one namespace.
    let number = caused().count();
    if number > 0 {
        let mut rows = table(&[
            "VICTIM",
            "OWNER",
            "PRIORITY",
            "NODE",
            "GPUS",
            "RAN",
            "KILLED BY",
            "BUDGET",
            "CHAIN",
            "THEN",
        ]);
        for victim in caused().take(SHOWN_VICTIMS) {
            let ran = victim.running_seconds.map(duration);
            let budget = if victim.pdb_violated { "violated" } else { "-" };
            rows.add_row(vec![
                victim.key(),
                or_dash(victim.owner.as_deref()),
                victim.priority.to_string(),
                victim.node.clone(),
                victim.gpus.to_string(),
                or_dash(ran.as_deref()),
                format!("{} ({})", victim.killed_by, victim.killed_by_priority),
                budget.to_owned(),
                victim.chain_length.to_string(),
                then(&victim.replacement),
            ]);
        }
        let _ = writeln!(out, "\nKILLED\n{}", text(&rows, "  "));
        let hidden = number.saturating_sub(SHOWN_VICTIMS);
        if hidden > 0 {
            let _ = writeln!(
                out,
                "  ... and {} (-o json shows all)",
                count(hidden, "more pod")
            );
        }
        let gpus: i64 = caused().map(|victim| victim.gpus).sum();
        let longest = caused()
            .map(|victim| victim.chain_length)
            .max()
            .unwrap_or(0);
        let _ = writeln!(
            out,
            "  {} killed with {}, {} against a budget; longest chain {longest}",
            count(number, "pod"),
            count(usize::try_from(gpus).unwrap_or(0), "GPU"),
            caused().filter(|victim| victim.pdb_violated).count(),
        );
    }
    if summary.victims_without_change > 0 {
        let _ = writeln!(
            out,
            "\n{} would be killed without the change, too (-o json says which)",
            count(summary.victims_without_change, "pod")
        );
    }
    if !report.loops.is_empty() {
        let _ = writeln!(out, "\nKILLED AND MADE AGAIN IN A LOOP");
        for found in &report.loops {
            let owner = found.owner.as_deref().unwrap_or("nobody");
            let _ = writeln!(
                out,
                "  {}, made anew by {owner}: killed {} times, last as {} by {}",
                found.pod, found.kills, found.last_pod, found.killed_by
            );
        }
    }
}

/// What becomes of the pod that is made in place of a victim.
fn then(replacement: &Replacement) -> String {
    match (replacement.state, &replacement.node) {
        (ReplacementState::Nobody, _) => "gone for good".to_owned(),
        (ReplacementState::Placed, Some(node)) => format!("made again on {node}"),
        (ReplacementState::Placed | ReplacementState::Waiting, _) => "waits".to_owned(),
        (ReplacementState::Refused, _) => "refused by admission".to_owned(),
        (ReplacementState::Killed, _) => "killed again".to_owned(),
        (ReplacementState::Loop, _) => "given up: a loop".to_owned(),
    }
}

fn rest(report: &Report, out: &mut String) {
    if !report.deleted.is_empty() {
        let _ = writeln!(out, "\nDELETED");
        for pod in &report.deleted {
            let _ = writeln!(out, "  {pod}");
        }
    }
    if !report.refused.is_empty() {
        let _ = writeln!(out, "\nREFUSED BY ADMISSION");
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for refused in &report.refused {
            groups
                .entry(&refused.message)
                .or_default()
                .push(&refused.pod);
        }
        for (message, pods) in groups {
            let _ = writeln!(out, "  {}: {message}", count(pods.len(), "pod"));
            let _ = writeln!(out, "    {}", some(pods.iter()));
        }
    }
    if !report.kubelet_refusals.is_empty() {
        let _ = writeln!(out, "\nREFUSED BY THE KUBELET");
        let mut groups: BTreeMap<[&str; 3], Vec<&str>> = BTreeMap::new();
        for refusal in &report.kubelet_refusals {
            let group = [&refusal.node, &refusal.reason, &refusal.message];
            let pods = groups.entry(group.map(String::as_str)).or_default();
            pods.push(&refusal.pod);
        }
        for ([node, reason, message], pods) in groups {
            let number = count(pods.len(), "pod");
            let _ = writeln!(out, "  {number} on {node}: {reason}: {message}");
            let _ = writeln!(out, "    {}", some(pods.iter()));
        }
    }
    if !report.other_schedulers.is_empty() {
        let _ = writeln!(out, "\nLEFT TO OTHER SCHEDULERS");
        for (scheduler, pods) in &report.other_schedulers {
            let _ = writeln!(out, "  {scheduler}: {}", some(pods.iter()));
        }
    }
}

/// The first few names, and how many more there are.
fn some(pods: impl ExactSizeIterator<Item: ToString>) -> String {
    let number = pods.len();
    let first = pods.take(NAMED_PODS);
    let mut names: Vec<String> = first.map(|pod| pod.to_string()).collect();
    if number > NAMED_PODS {
        names.push(format!("{} more", number - NAMED_PODS));
    }
    names.join(", ")
}

fn or_dash(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty())
        .unwrap_or("-")
        .to_owned()
}

/// A time for people: `45s`, `3m20s`, `2h05m`, `4d03h`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds % 86400 / 3600),
    }
}
