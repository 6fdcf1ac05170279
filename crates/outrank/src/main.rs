//! Outrank: a Kubernetes scheduler that can be rehearsed. `outrank --help` says more.

mod admission;
mod bench;
mod completion;
mod config;
mod given;
mod live;
mod node;
mod progress;
mod rehearse;
mod snapshot;
mod table;
mod up;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use serde::Serialize;

/// A cluster is many small objects, made and dropped by several threads: with this allocator `up`
/// takes three quarters of the time that it takes with that of the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Kubernetes scheduler that can be rehearsed: who lands where, who waits and why.
#[derive(Parser)]
#[command(name = "outrank", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Rehearse(Box<rehearse::Rehearse>),
    Up(Box<up::Up>),
    Node(node::Node),
    Snapshot(snapshot::Snapshot),
    Config(config::Config),
    Bench(bench::Bench),
    Completion(completion::Completion),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Rehearse(arguments) => rehearse::main(&arguments),
        Command::Up(arguments) => up::main(&arguments),
        Command::Node(arguments) => node::main(&arguments),
        Command::Snapshot(arguments) => snapshot::main(&arguments),
        Command::Config(arguments) => config::main(&arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::Completion(arguments) => completion::main(&arguments),
    };
    result.unwrap_or_else(|error| {
        // Whoever reads our output may stop early, as `head` does.
        if is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        tell(&format!("error: {}", in_full(&error)));
        ExitCode::FAILURE
    })
}

/// An error with its causes. Many of them tell their own cause already.
fn in_full(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.ends_with(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
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

/// Says something on standard error; that nobody hears it is no reason to stop.
fn tell(message: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(message));
}

/// Text for a terminal: characters that would steer it are written as escapes.
fn printable(text: &str) -> String {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// Prints something on standard output as JSON, or as YAML.
fn print_structured(value: &impl Serialize, is_yaml: bool) -> anyhow::Result<()> {
    if is_yaml {
        return write_out(&serde_saphyr::to_string(value)?);
    }
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Prints text on standard output.
fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(printable(text).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Leaves with exit code 2: the command line of a subcommand is wrong.
fn refuse(subcommand: &str, message: impl std::fmt::Display) -> ! {
    let mut command = Arguments::command();
    // Then subcommands know the whole command line, for what they say of their usage.
    command.build();
    let mut command = match command.find_subcommand(subcommand) {
        Some(found) => found.clone(),
        None => command,
    };
    command
        .error(clap::error::ErrorKind::ArgumentConflict, message)
        .exit()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cause_is_told_once() {
        let cause = anyhow::anyhow!("no such file");
        let error = cause
            .context("cannot read x: no such file")
            .context("cannot start");
        let told = "cannot start: cannot read x: no such file";
        assert_eq!(super::in_full(&error), told);
        let error = anyhow::anyhow!("refused").context("no answer");
        assert_eq!(super::in_full(&error), "no answer: refused");
    }

    #[test]
    fn terminals_are_not_steered() {
        assert_eq!(super::printable("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\n");
    }
}
