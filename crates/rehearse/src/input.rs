//! The inputs of a rehearsal: files, directories and standard input, as bytes with names.
//!
//! `-f FILE` is one file, `-f DIRECTORY` the manifests directly in it (as `kubectl -f`
//! takes them; directories inside are not entered), `-f -` standard input. A manifest in a
//! directory is a file whose name ends in one of [`EXTENSIONS`], maybe with `.gz` after it.
//! Whether a file is gzip is seen from its bytes, not its name.
//!
//! Inputs are held in memory as they are, compressed or not; no input may be larger than
//! [`INPUT_BYTES_MAX`].

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest input in bytes, 4 GiB.
pub const INPUT_BYTES_MAX: u64 = 4 << 30;

/// How names of manifests end.
pub const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The argument that means standard input.
pub const STDIN: &str = "-";

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name for messages: the path as it was given, or `stdin`.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// An input that cannot be read.
#[derive(Debug)]
pub struct InputError {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Io(io::Error),
    TooLarge,
    NoManifests,
    StdinTwice,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.cause {
            Cause::Io(error) => write!(f, "cannot read {path}: {error}"),
            Cause::TooLarge => write!(f, "cannot read {path}: larger than {INPUT_BYTES_MAX} bytes"),
            Cause::NoManifests => {
                let extensions = EXTENSIONS
                    .map(|extension| format!("*.{extension}"))
                    .join(", ");
                write!(
                    f,
                    "no manifests in {path}: none of its files is {extensions} (or .gz of it)"
                )
            }
            Cause::StdinTwice => f.write_str("standard input (-) can be read only once"),
        }
    }
}

// The message tells the cause; a source would tell it again.
impl std::error::Error for InputError {}

/// Reads the inputs that `-f` arguments name, in their order; the files of a directory in
/// the order of their names.
///
/// # Errors
///
/// The first path that cannot be read, is too large, or is a directory without manifests,
/// and `-` given twice.
pub fn read_inputs<'a>(
    arguments: impl IntoIterator<Item = &'a Path>,
    stdin: &mut dyn Read,
) -> Result<Vec<Input>, InputError> {
    let mut inputs = Vec::new();
    let mut stdin_taken = false;
    for path in arguments {
        if path == Path::new(STDIN) {
            if std::mem::replace(&mut stdin_taken, true) {
                return Err(InputError {
                    path: path.to_owned(),
                    cause: Cause::StdinTwice,
                });
            }
            inputs.push(read_stream("stdin", Path::new("stdin"), stdin)?);
        } else if path.is_dir() {
            for file in manifests_in(path)? {
                inputs.push(read_file(&file)?);
            }
        } else {
            inputs.push(read_file(path)?);
        }
    }
    Ok(inputs)
}

/// The manifests directly in a directory, by name.
fn manifests_in(directory: &Path) -> Result<Vec<PathBuf>, InputError> {
    let fail = |cause| InputError {
        path: directory.to_owned(),
        cause,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| fail(Cause::Io(error)))? {
        let path = entry.map_err(|error| fail(Cause::Io(error)))?.path();
        if is_manifest(&path) && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(fail(Cause::NoManifests));
    }
    files.sort();
    Ok(files)
}

fn is_manifest(path: &Path) -> bool {
    let has_extension = |path: &Path, wanted: &str| {
        path.extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
    };
    let plain = if has_extension(path, "gz") {
        path.with_extension("")
    } else {
        path.to_owned()
    };
    EXTENSIONS
        .iter()
        .any(|extension| has_extension(&plain, extension))
}

fn read_file(path: &Path) -> Result<Input, InputError> {
    let mut file = File::open(path).map_err(|error| InputError {
        path: path.to_owned(),
        cause: Cause::Io(error),
    })?;
    read_stream(&path.display().to_string(), path, &mut file)
}

fn read_stream(name: &str, path: &Path, stream: &mut dyn Read) -> Result<Input, InputError> {
    let fail = |cause| InputError {
        path: path.to_owned(),
        cause,
    };
    let mut bytes = Vec::new();
    stream
        .take(INPUT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| fail(Cause::Io(error)))?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        return Err(fail(Cause::TooLarge));
    }
    Ok(Input {
        name: name.to_owned(),
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("a temporary file");
        }
        directory
    }

    #[test]
    fn a_directory_gives_its_manifests_by_name() {
        let files = [
            ("b.json", "1"),
            ("a.YAML", "2"),
            ("c.yml.gz", "3"),
            ("notes.txt", "4"),
            ("gz", "5"),
        ];
        let directory = directory_with(&files);
        fs::create_dir(directory.path().join("deeper.yaml")).expect("a directory");
        let inputs = read_inputs([directory.path()], &mut io::empty()).expect("readable");
        let found: Vec<&[u8]> = inputs.iter().map(|input| input.bytes.as_slice()).collect();
        assert_eq!(found, [b"2", b"1", b"3"]);
        assert!(inputs[0].name.ends_with("a.YAML"));
    }

    #[test]
    fn a_file_is_read_whatever_its_name() {
        let directory = directory_with(&[("manifest", "kind: Pod")]);
        let path = directory.path().join("manifest");
        let inputs = read_inputs([path.as_path()], &mut io::empty()).expect("readable");
        assert_eq!(
            inputs,
            [Input {
                name: path.display().to_string(),
                bytes: b"kind: Pod".into()
            }]
        );
    }

    #[test]
    fn standard_input_is_read_once() {
        let stdin = Path::new(STDIN);
        let inputs = read_inputs([stdin], &mut &b"kind: Pod"[..]).expect("readable");
        assert_eq!(
            inputs,
            [Input {
                name: "stdin".into(),
                bytes: b"kind: Pod".into()
            }]
        );
        let error = read_inputs([stdin, stdin], &mut &b""[..]).expect_err("given twice");
        assert_eq!(
            error.to_string(),
            "standard input (-) can be read only once"
        );
    }

    #[test]
    fn errors_name_the_path() {
        let missing = Path::new("no/such/file.yaml");
        let error = read_inputs([missing], &mut io::empty()).expect_err("missing");
        assert!(
            error
                .to_string()
                .starts_with("cannot read no/such/file.yaml: "),
            "{error}"
        );
        let directory = directory_with(&[("notes.txt", "")]);
        let error = read_inputs([directory.path()], &mut io::empty()).expect_err("no manifests");
        assert!(
            error
                .to_string()
                .contains("none of its files is *.yaml, *.yml, *.json"),
            "{error}"
        );
    }
}
