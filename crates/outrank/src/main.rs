//! Outrank: a Kubernetes scheduler that can be rehearsed. `outrank --help` says more.

mod bench;
mod completion;
mod progress;
mod rehearse;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A Kubernetes scheduler that can be rehearsed: who lands where, who waits and why.
#[derive(Parser)]
#[command(name = "outrank", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Rehearse(rehearse::Rehearse),
    Bench(bench::Bench),
    Completion(completion::Completion),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Rehearse(arguments) => rehearse::main(&arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::Completion(arguments) => completion::main(&arguments),
    };
    result.unwrap_or_else(|error| {
        // Whoever reads our output may stop early, as `head` does.
        if is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind_of = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        io.or_else(|| cause.downcast_ref::<serde_json::Error>()?.io_error_kind())
    };
    error
        .chain()
        .any(|cause| kind_of(cause) == Some(std::io::ErrorKind::BrokenPipe))
}
