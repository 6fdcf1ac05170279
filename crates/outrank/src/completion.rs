//! `outrank completion`: completions for shells.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print the completion script of a shell
///
/// For bash: source <(outrank completion bash)
#[derive(Args)]
pub(crate) struct Completion {
    /// The shell.
    shell: Shell,
}

pub(crate) fn main(arguments: &Completion) -> Result<ExitCode> {
    let mut command = crate::Arguments::command();
    // The generator panics if its writer fails, as standard output may.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "outrank", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
