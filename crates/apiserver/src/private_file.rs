//! Files that only their owner may read.
//!
//! They are written beside their place and then moved there, so that a crash leaves the old
//! content or the new one, never half of it. A file that is a symbolic link stays one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Largest file that is read, 8 MiB.
const BYTES_MAX: u64 = 8 << 20;

/// What is in a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= BYTES_MAX {
        true => Ok(Some(bytes)),
        false => Err(io::Error::other(format!(
            "it has more than {BYTES_MAX} bytes"
        ))),
    }
}

/// Puts a file in its place, over one that is there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = target(path)?;
    written_beside(&path, bytes)?.persist(&path)?;
    sync_directory_of(&path)
}

/// Puts a file in its place; fails if one is there.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    written_beside(path, bytes)?.persist_noclobber(path)?;
    sync_directory_of(path)
}

/// Makes a directory, if there is none, which only its owner may enter.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Where a path leads to.
fn target(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Ok(target) => Ok(target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        Err(error) => Err(error),
    }
}

/// Temporary files are made with mode 0600.
fn written_beside(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(directory_of(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// A move is on disk once its directory is. Other systems have no such call and need none.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(directory_of(path))?.sync_all(),
        false => Ok(()),
    }
}

fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert_eq!(read(&path).unwrap(), None);
        create(&path, b"one").unwrap();
        let error = create(&path, b"two").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read(&path).unwrap().as_deref(), Some(b"one".as_slice()));
        write(&path, b"three").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some(b"three".as_slice()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_and_links_stay_links() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&path, &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let inner = directory.path().join("a/b");
        create_directory(&inner).unwrap();
        assert_eq!(
            fs::metadata(&inner).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }
}
