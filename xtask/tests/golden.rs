//! Recorded answers of Kubernetes, as far as they are served.

use std::path::Path;

use xtask::golden::{Selection, run};

/// Runs every family and topic in a folder of `tests/golden` and expects all to agree.
fn check(folder: &str, minimum: usize) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden")
        .join(folder);
    let report = run(&directory, &Selection::default()).expect("recorded cases are readable");
    assert!(report.failed() == 0, "{report}");
    assert!(
        report.passed() >= minimum,
        "only {} cases in {}",
        report.passed(),
        directory.display()
    );
}

#[test]
fn scheduler_scenarios() {
    check("scheduler", 2_600);
}

#[test]
fn policies() {
    check("policy", 300);
}

#[test]
fn components() {
    check("components", 1_500);
}
