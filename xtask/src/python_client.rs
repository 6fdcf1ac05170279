//! The Python client of Kubernetes for tests, in an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::kubectl::run;

/// The environment variable that tells tests where a Python is that has the client.
pub const VARIABLE: &str = "OUTRANK_TEST_PYTHON";

const PACKAGE: &str = "kubernetes==37.0.2";

/// The path of a Python that can import `kubernetes`: what [`VARIABLE`] says, or the one in
/// `target/python`, which is made if it is not there.
///
/// # Errors
///
/// If there is no Python with the modules `venv` and `pip`, or the package cannot be fetched.
pub fn provide(target: &Path) -> Result<PathBuf> {
    if let Some(said) = std::env::var_os(VARIABLE) {
        return Ok(said.into());
    }
    let directory = target.join("python");
    let python = directory.join("bin").join("python");
    if !has_client(&python) {
        make(&directory, &python).with_context(|| {
            format!(
                "tests need the Python client of Kubernetes: install Python 3 with venv and pip, \
                 or name a Python that has the client in {VARIABLE}"
            )
        })?;
    }
    Ok(python)
}

fn has_client(python: &Path) -> bool {
    let mut command = Command::new(python);
    run(command.args(["-c", "import kubernetes"])).is_ok()
}

fn make(directory: &Path, python: &Path) -> Result<()> {
    eprintln!(
        "fetching the Python client of Kubernetes into {}",
        directory.display()
    );
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(directory))?;
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        PACKAGE,
    ];
    run(Command::new(python).args(install))?;
    run(Command::new(python).args(["-c", "import kubernetes"]))
}
