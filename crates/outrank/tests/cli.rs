//! The command line as its users see it: scenarios in `tests/cli/*.txt`.
//!
//! A scenario says what is run, how it exits and what it prints. It takes no Rust to write
//! one; add it to a file, or add a file:
//!
//! ```text
//! # A comment, for whoever reads this.
//! $ outrank rehearse -f examples/gpu-cluster -o name
//! ? 0
//! | batch/sweep-x2jpd gpu-a100-1
//! | ...
//! ! a line on standard error
//! ```
//!
//! * `$ ` is what `sh` runs, in the root of the repository. `$TMP` is an empty directory
//!   that the scenarios of a file share; it is printed as `$TMP`.
//! * `? ` is the exit code.
//! * `| ` is a line on standard output, `! ` one on standard error.
//! * `| ...` and `! ...` stand for any number of lines.
//!
//! `UPDATE_EXPECT=1 cargo test -p outrank --test cli` writes down what is really printed,
//! in scenarios that are not fulfilled; read the difference before you keep it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ANY_LINES: &str = "...";

/// A scenario, or a part of a file between scenarios.
#[derive(Debug, Default)]
struct Scenario {
    /// Comments and empty lines before the command.
    preface: Vec<String>,
    command: String,
    expected: Outcome,
}

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    exit_code: String,
    stdout: Vec<String>,
    stderr: Vec<String>,
}

fn repository_root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the root of the repository")
}

/// The scenarios of a file, and the comments after the last.
fn parse(text: &str) -> (Vec<Scenario>, Vec<String>) {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut preface = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let at = number + 1;
        if line.is_empty() || line.starts_with('#') {
            preface.push(line.to_owned());
            continue;
        }
        let (mark, rest) = line.split_at(1);
        let rest = rest.strip_prefix(' ').unwrap_or(rest).to_owned();
        if mark == "$" {
            scenarios.push(Scenario {
                preface: std::mem::take(&mut preface),
                command: rest,
                ..Scenario::default()
            });
            continue;
        }
        let scenario = scenarios.last_mut();
        let scenario = scenario.unwrap_or_else(|| panic!("line {at}: no \"$ \" line before"));
        assert!(
            preface.is_empty(),
            "line {at}: comments go before the \"$ \" line"
        );
        match mark {
            "?" => scenario.expected.exit_code = rest,
            "|" => scenario.expected.stdout.push(rest),
            "!" => scenario.expected.stderr.push(rest),
            _ => panic!("line {at}: begins with none of # $ ? | !"),
        }
    }
    (scenarios, preface)
}

fn run(command: &str, directory: &Path) -> Outcome {
    let binary = Path::new(env!("CARGO_BIN_EXE_outrank"));
    let mut path = binary.parent().expect("a directory").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(repository_root())
        .env("PATH", path)
        .env("TMP", directory)
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .output()
        .expect("sh runs");
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).expect("output is UTF-8");
        let text = text.replace(&*directory.to_string_lossy(), "$TMP");
        text.lines().map(str::to_owned).collect()
    };
    Outcome {
        exit_code: output
            .status
            .code()
            .map_or("signal".into(), |code| code.to_string()),
        stdout: lines(&output.stdout),
        stderr: lines(&output.stderr),
    }
}

impl Outcome {
    fn fulfils(&self, expected: &Self) -> bool {
        self.exit_code == expected.exit_code
            && matches(&self.stdout, &expected.stdout)
            && matches(&self.stderr, &expected.stderr)
    }

    fn text(&self) -> String {
        let mut text = format!("? {}\n", self.exit_code);
        for (mark, lines) in [('|', &self.stdout), ('!', &self.stderr)] {
            for line in lines {
                let separator = if line.is_empty() { "" } else { " " };
                let _ = writeln!(text, "{mark}{separator}{line}");
            }
        }
        text
    }
}

/// Whether lines are as expected, where [`ANY_LINES`] stands for any. What follows it is
/// taken at its first chance, which is right unless two such marks share a line between.
fn matches(lines: &[String], expected: &[String]) -> bool {
    let mut parts = expected.split(|line| line == ANY_LINES);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = lines.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&[String]> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        match rest.windows(part.len()).position(|window| window == part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Runs the scenarios of a file; returns what is not as expected.
fn check(path: &Path, update: bool) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a readable file");
    let (scenarios, rest) = parse(&text);
    assert!(!scenarios.is_empty(), "{}: no scenarios", path.display());
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut failures = Vec::new();
    let mut updated = String::new();
    for scenario in scenarios {
        let outcome = run(&scenario.command, directory.path());
        let mut kept = &scenario.expected;
        if !outcome.fulfils(&scenario.expected) {
            kept = &outcome;
            failures.push(format!(
                "{}\n$ {}\n--- expected\n{}--- found\n{}",
                path.display(),
                scenario.command,
                scenario.expected.text(),
                outcome.text()
            ));
        }
        scenario
            .preface
            .iter()
            .for_each(|line| updated.push_str(&format!("{line}\n")));
        let _ = write!(updated, "$ {}\n{}", scenario.command, kept.text());
    }
    rest.iter()
        .for_each(|line| updated.push_str(&format!("{line}\n")));
    if update && !failures.is_empty() {
        fs::write(path, updated).expect("a writable file");
        failures.clear();
    }
    failures
}

#[test]
fn the_command_line_does_what_the_scenarios_say() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let entries = fs::read_dir(&directory).expect("tests/cli");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(!files.is_empty());
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let failures: Vec<String> = files.iter().flat_map(|path| check(path, update)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn any_lines_are_matched() {
    let lines = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let fits = |found, expected| matches(&lines(found), &lines(expected));
    assert!(fits("a b c", "a b c"));
    assert!(!fits("a b c", "a b"));
    assert!(!fits("a b", "a b c"));
    assert!(fits("a b c", "..."));
    assert!(fits("", "..."));
    assert!(fits("a b c d", "a ... d"));
    assert!(fits("a b c d", "... b ... d"));
    assert!(fits("a b c d", "a b ..."));
    assert!(!fits("a b c d", "a ... c"));
    assert!(!fits("a b c d", "... c b ..."));
    assert!(!fits("a", "a ... a"));
}
