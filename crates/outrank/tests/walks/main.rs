//! Walks through a cluster with real kubectls, compared with records of the same walks through
//! Kubernetes 1.36.2: the same exit codes, tables, objects and errors, up to what no two clusters
//! have in common ([`compare`]).
//!
//! The kubectl under test is what `OUTRANK_TEST_KUBECTL` names (several are separated by `:`), and
//! the `kubectl` on the `PATH`. There are records for 1.32 and 1.36. What differs, and why, is in
//! `docs/parity.md`; a difference that is not there fails the test, and so does one that is there
//! and has gone. `WALK=04-deployment` walks through one topic, and prints all that differs.

mod api;
mod compare;
mod ledger;
mod record;
mod samples;
mod stand_in;
mod stream;
mod surface;
mod walk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use compare::Likeness;
use ledger::Difference;
use walk::{Kubectl, Outcome};

/// Walks that go on at once.
const WALKERS: usize = 4;

/// The kubectls for which there are records.
fn kubectls() -> Vec<Kubectl> {
    let named = std::env::var_os("OUTRANK_TEST_KUBECTL").unwrap_or_default();
    let mut paths: Vec<PathBuf> = std::env::split_paths(&named).collect();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).map(|it| it.join("kubectl"));
    paths.extend(on_path.filter(|it| it.is_file()).take(1));
    let mut found: BTreeMap<String, Kubectl> = BTreeMap::new();
    for kubectl in paths.iter().filter_map(|path| Kubectl::at(path)) {
        if ledger::VERSIONS.contains(&&*kubectl.version) {
            found.entry(kubectl.version.clone()).or_insert(kubectl);
        } else {
            eprintln!("there are no records for kubectl {}", kubectl.version);
        }
    }
    found.into_values().collect()
}

#[test]
fn kubectl_sees_what_it_saw_of_kubernetes() {
    let kubectls = kubectls();
    if kubectls.is_empty() {
        eprintln!("skipped: no kubectl 1.32 or 1.36 on the PATH, nor in OUTRANK_TEST_KUBECTL");
        return;
    }
    let known = ledger::known_differences();
    let only = std::env::var("WALK").ok();
    let mut todo: Vec<(Kubectl, String)> = Vec::new();
    for kubectl in &kubectls {
        for topic in record::topics(kubectl.records()) {
            if only.as_deref().is_none_or(|only| topic.starts_with(only)) {
                todo.push((kubectl.clone(), topic));
            }
        }
    }
    let todo = Mutex::new(todo);
    let problems = Mutex::new(Vec::new());
    let counts = Mutex::new(BTreeMap::<String, [usize; 4]>::new());
    std::thread::scope(|scope| {
        for _ in 0..WALKERS {
            scope.spawn(|| {
                while let Some((kubectl, topic)) = next(&todo) {
                    let start = Instant::now();
                    let step = |number| ledger::Step::new(&kubectl.version, &topic, number);
                    let is_known = |it: u64| known.get(&step(it)).copied();
                    let outcomes = walk::walk(&kubectl, &topic, |it| is_known(it).is_some());
                    let mut counts = counts.lock().expect("no walker panicked");
                    let counts = counts.entry(kubectl.version.clone()).or_default();
                    let mut told = String::new();
                    for outcome in &outcomes {
                        counts[outcome.likeness as usize] += 1;
                        if only.is_some() && outcome.likeness != Likeness::Same {
                            told.push_str(&format!("{:?} {}", outcome.likeness, outcome.told));
                        }
                        let problem = problem(outcome, is_known(outcome.number));
                        problems
                            .lock()
                            .expect("no walker panicked")
                            .extend(problem.map(|it| format!("kubectl {} {it}", kubectl.version)));
                    }
                    eprintln!(
                        "{told}kubectl {} {topic}: {} steps in {:.1} s",
                        kubectl.version,
                        outcomes.len(),
                        start.elapsed().as_secs_f32()
                    );
                }
            });
        }
    });
    for (version, [same, order, node, different]) in counts.into_inner().expect("unpoisoned") {
        eprintln!(
            "kubectl {version}: {same} steps are the same, {order} up to order, {node} up to the \
             choice among equal nodes, {different} differ"
        );
    }
    let problems = problems.into_inner().expect("unpoisoned");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn next(todo: &Mutex<Vec<(Kubectl, String)>>) -> Option<(Kubectl, String)> {
    todo.lock().expect("no walker panicked").pop()
}

/// What is wrong with an outcome, if anything is.
fn problem(outcome: &Outcome, known: Option<Difference>) -> Option<String> {
    let is_different = outcome.likeness == Likeness::Different;
    match (is_different, known) {
        (true, None) => Some(outcome.told.clone()),
        (false, Some(Difference::Always)) => Some(format!(
            "{}    the ledger says that it differs, and it does not\n",
            outcome.told
        )),
        _ => None,
    }
}
