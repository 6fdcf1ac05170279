//! Development tasks: `cargo xtask --help`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use xtask::{golden, kubectl, python_client};

/// Development tasks of Outrank.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run recorded cases of Kubernetes against ours.
    Golden {
        /// Directory of recorded cases; sub-directories are looked at too.
        directory: PathBuf,
        /// Only this family or topic.
        #[arg(long)]
        family: Option<String>,
        /// Only the case of this name.
        #[arg(long)]
        case: Option<String>,
    },
    /// Print the clients that tests need, fetched if need be, as environment variables.
    Clients,
    /// Run all tests, with kubectl 1.36 and the Python client, which are fetched if need be.
    Test,
    /// Print the table of Kubernetes types, `crates/api/src/schema/types.txt`.
    #[cfg(feature = "schema")]
    Schema,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs a task; answers whether everything was as it should be.
fn run(task: Task) -> anyhow::Result<bool> {
    match task {
        Task::Golden {
            directory,
            family,
            case,
        } => {
            let report = golden::run(&directory, &golden::Selection { family, case })?;
            println!("{report}");
            Ok(report.failed() == 0)
        }
        Task::Clients => {
            for (variable, program) in clients()? {
                println!("{variable}={}", program.display());
            }
            Ok(true)
        }
        Task::Test => test(),
        #[cfg(feature = "schema")]
        Task::Schema => {
            print!("{}", xtask::schema::table()?);
            Ok(true)
        }
    }
}

/// Runs all tests of the workspace, with the cargo that runs this and the clients that some need.
fn test() -> anyhow::Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "--workspace", "--locked", "--no-fail-fast"])
        .envs(clients()?)
        .status()?;
    Ok(status.success())
}

/// The clients that tests use, by the environment variables that tell of them. One that cannot be
/// had is told of and left out, with its tests: kubectl must be there, Python need not.
fn clients() -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let target = target_directory();
    let mut clients = vec![(kubectl::VARIABLE, kubectl::provide(&target)?)];
    match python_client::provide(&target) {
        Ok(python) => clients.push((python_client::VARIABLE, python)),
        Err(error) => eprintln!("warning: its tests are left out: {error:#}"),
    }
    Ok(clients)
}

/// Where cargo builds: `target` of the workspace, unless it is told otherwise.
fn target_directory() -> PathBuf {
    let said = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    said.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target"))
}
