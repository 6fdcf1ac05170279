//! Development tasks: `cargo xtask --help`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use xtask::golden;

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
    /// Run all tests.
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
        Task::Test => test(),
        #[cfg(feature = "schema")]
        Task::Schema => {
            print!("{}", xtask::schema::table()?);
            Ok(true)
        }
    }
}

/// Runs all tests of the workspace, with the cargo that runs this.
fn test() -> anyhow::Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "--workspace", "--locked"])
        .status()?;
    Ok(status.success())
}
