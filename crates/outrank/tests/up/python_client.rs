//! The Python client of Kubernetes, as people use it.

use std::process::Command;

use crate::cluster::Running;

/// The environment variable that tells where a Python is that has the client.
const VARIABLE: &str = "OUTRANK_TEST_PYTHON";

#[test]
fn the_python_client_does_all_that_it_does() {
    let Some(python) = std::env::var_os(VARIABLE) else {
        println!("left out: {VARIABLE} does not name a Python that has the client");
        return;
    };
    let cluster = Running::start(&["--nodes", "2"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/up/client.py");
    let output = Command::new(python)
        .arg(script)
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{errors}");
    assert!(told.ends_with("done\n"), "{told}");
}
