//! The store on disk: a directory with a database file, and a lock that keeps others out.
//!
//! * `objects.redb` has all objects and the newest version. It is made aside and renamed, so that it
//!   is never there in part.
//! * `lock` is locked while the store is open, and says which process has it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableError,
};

use crate::commit_slots::{HEADER_BYTES, other_is_newer};
use crate::format::{FORMAT, FormatError, META, OBJECTS, bring_up_to_date};
use crate::guarded_file::{GuardedFile, Slot, Trouble};
use crate::lock::lock;
use crate::resource::Prepared;
use crate::{DiskError, Key, OpenError};

const FILE: &str = "objects.redb";
const NEW_FILE: &str = "objects.redb.new";
const LOCK: &str = "lock";
/// Is there for a moment, to see whether a disk that was full has room.
const ROOM_FILE: &str = "room";

/// All objects are in memory anyway, so the database needs little for itself.
const CACHE_BYTES: usize = 32 << 20;

/// A version that no store reaches; one above it can only be damage.
const MOST_VERSION: u64 = u64::MAX / 2;

/// An open store on disk.
pub(crate) struct Disk {
    // Closed before the lock is given up.
    open: Mutex<Option<Open>>,
    file: PathBuf,
    _lock: File,
}

/// The database, and its file.
struct Open {
    database: Database,
    guarded: GuardedFile,
}

/// What to do with each object that is found: its key, version and bytes, or why that is wrong.
pub(crate) type Visit<'a> = dyn FnMut(Key, u64, &[u8]) -> Result<(), (Key, String)> + 'a;

impl Disk {
    /// Opens or makes the store in `directory`, which is made if need be, and shows what is there to
    /// `visit`. Returns the newest version, too.
    ///
    /// Reads everything, and compares it with its checksums.
    pub(crate) fn open(directory: &Path, visit: &mut Visit<'_>) -> Result<(Self, u64), OpenError> {
        create_directory(directory)?;
        let lock = lock_directory(directory)?;
        let file = directory.join(FILE);
        let exists = file
            .try_exists()
            .map_err(|source| io_error("open", &file, source))?;
        if !exists {
            create(directory, &file)?;
        }
        // What the database library does not expect of a damaged file, it answers with a panic.
        let opened = catch_unwind(AssertUnwindSafe(|| open_sound(&file, visit)));
        let (open, version) = opened.unwrap_or_else(|_| Err(unexpected(&file)))?;
        let disk = Self {
            open: Mutex::new(Some(open)),
            file,
            _lock: lock,
        };
        Ok((disk, version))
    }

    /// Writes all of `batch` or nothing, and returns when it is on the disk.
    pub(crate) fn write<T>(&self, batch: &[Prepared<T>]) -> Result<(), DiskError> {
        let open = lock(&self.open);
        let Some(open) = open.as_ref() else {
            return Err(self.error("it is closed", Trouble::Unknown));
        };
        let error = match catch_unwind(AssertUnwindSafe(|| write(&open.database, batch))) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => return Err(self.error("the database has failed", Trouble::Unknown)),
        };
        let trouble = match &error {
            redb::Error::Io(error) if Trouble::of(error) == Trouble::Full => open.guarded.trouble(),
            _ => None,
        };
        Err(self.error(&error.to_string(), trouble.unwrap_or(Trouble::Unknown)))
    }

    /// Opens the database anew, after there was no room for a write, if there is room for so many
    /// bytes now. Returns the newest version on the disk.
    ///
    /// The database refuses everything after a write that failed, and so it should: it does not know
    /// what of it is in the file. But that can be found out, as after the end of a process. As no
    /// flush has failed, the system has dropped nothing that was written; so what is read now is
    /// what will be on the disk after a further flush. And what is read is whole commits, as always.
    pub(crate) fn open_again(&self, bytes: u64) -> Result<u64, DiskError> {
        // As long as nothing is changed, whatever is wrong may be better the next time.
        let still_full = |error: io::Error| self.error(&error.to_string(), Trouble::Full);
        find_room(&self.file, bytes).map_err(still_full)?;
        let mut open = lock(&self.open);
        let closed = open.take();
        if catch_unwind(AssertUnwindSafe(|| drop(closed))).is_err() {
            return Err(self.error("closing it has failed", Trouble::Unknown));
        }
        let file = private().open(&self.file).map_err(still_full)?;
        let flushed = file.sync_all();
        flushed.map_err(|error| self.error(&error.to_string(), Trouble::Unknown))?;
        let opened = catch_unwind(AssertUnwindSafe(|| {
            open_sound(&self.file, &mut |_, _, _| Ok(()))
        }));
        match opened.unwrap_or_else(|_| Err(unexpected(&self.file))) {
            Ok((opened, version)) => {
                *open = Some(opened);
                Ok(version)
            }
            Err(error) => {
                let trouble = match &error {
                    OpenError::Io { source, .. } => Trouble::of(source),
                    _ => Trouble::Unknown,
                };
                Err(self.error(&error.to_string(), trouble))
            }
        }
    }

    fn error(&self, reason: &str, trouble: Trouble) -> DiskError {
        DiskError {
            file: self.file.clone(),
            reason: reason.to_owned(),
            is_full: trouble == Trouble::Full,
        }
    }
}

/// Writes so many bytes beside a file, and removes them.
fn find_room(file: &Path, bytes: u64) -> io::Result<()> {
    #[cfg(test)]
    if crate::small_disk::is_full() {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let path = file.with_file_name(ROOM_FILE);
    let written = private()
        .create(true)
        .truncate(true)
        .open(&path)
        .and_then(|mut room| {
            io::copy(&mut io::repeat(1).take(bytes), &mut room)?;
            room.sync_all()
        });
    let removed = fs::remove_file(&path);
    written.and(removed)
}

fn write<T>(database: &Database, batch: &[Prepared<T>]) -> Result<(), redb::Error> {
    let Some(last) = batch.last() else {
        return Ok(());
    };
    let mut transaction = database.begin_write()?;
    // Otherwise a damaged commit could not be told from one that was never finished.
    transaction.set_two_phase_commit(true);
    let mut objects = transaction.open_table(OBJECTS)?;
    for prepared in batch {
        let key = &prepared.key;
        let key = (&*key.resource, &*key.namespace, &*key.name);
        match &prepared.encoded {
            Some(bytes) => objects.insert(key, (prepared.stored.version, &**bytes))?,
            None => objects.remove(key)?,
        };
    }
    drop(objects);
    transaction
        .open_table(META)?
        .insert("version", last.stored.version)?;
    transaction.commit()?;
    Ok(())
}

fn create_directory(directory: &Path) -> Result<(), OpenError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(directory)
        .map_err(|source| io_error("create", directory, source))
}

/// The options of a file that only its owner may read, as there are secrets in it.
fn private() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn lock_directory(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK);
    let mut file = private()
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|source| io_error("open", &path, source))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            // Only to be helpful: that it is locked is certain.
            let _ = file.read_to_string(&mut process);
            return Err(OpenError::InUse {
                directory: directory.to_owned(),
                process: process.trim().parse().ok(),
            });
        }
        Err(TryLockError::Error(source)) => return Err(io_error("lock", &path, source)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(|source| io_error("write", &path, source))?;
    Ok(file)
}

/// Makes an empty store at version 1.
fn create(directory: &Path, file: &Path) -> Result<(), OpenError> {
    let new = directory.join(NEW_FILE);
    // Left by a process that did not get to the renaming.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error("remove", &new, error));
        }
        _ => {}
    }
    let handle = private()
        .create_new(true)
        .open(&new)
        .map_err(|source| io_error("create", &new, source))?;
    initialize(handle).map_err(|error| database_error(&new, "create", error))?;
    fs::rename(&new, file).map_err(|source| io_error("create", file, source))?;
    // The names must be on the disk before anything that is written under them is acknowledged.
    sync_directory(directory)?;
    directory.parent().map_or(Ok(()), sync_directory)
}

/// Makes sure that the names in a directory are on the disk, where the system has a way to do so.
fn sync_directory(directory: &Path) -> Result<(), OpenError> {
    // The parent of a relative name is empty.
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    if cfg!(unix) {
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|source| io_error("write", directory, source))?;
    }
    Ok(())
}

fn initialize(file: File) -> Result<(), redb::Error> {
    let database = builder().create_with_backend(FileBackend::new(file)?)?;
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.open_table(OBJECTS)?;
    let mut meta = transaction.open_table(META)?;
    meta.insert("format", FORMAT)?;
    meta.insert("version", 1)?;
    drop(meta);
    transaction.commit()?;
    database.close()?;
    Ok(())
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder.set_check_integrity_on_open(true);
    builder
}

/// Opens the file, without changing it unless all is right.
fn open_sound(file: &Path, visit: &mut Visit<'_>) -> Result<(Open, u64), OpenError> {
    let (database, guarded) = open_newest(file)?;
    bring_up_to_date(&database).map_err(|error| format_error(file, error))?;
    let version = load(&database, file, visit)?;
    guarded
        .release()
        .map_err(|source| io_error("write", file, source))?;
    Ok((Open { database, guarded }, version))
}

/// The database with the newest commit of the file that is whole.
fn open_newest(file: &Path) -> Result<(Database, GuardedFile), OpenError> {
    let mut header = [0; HEADER_BYTES];
    File::open(file)
        .and_then(|mut file| file.read_exact(&mut header))
        .map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => damaged(file, "it is too short"),
            _ => io_error("open", file, source),
        })?;
    let open = |slot| {
        let guarded = GuardedFile::open(file, slot)?;
        let database = builder().create_with_backend(guarded.clone())?;
        Ok((database, guarded))
    };
    let open_valid = || {
        open(Slot::Valid).map_err(|error: DatabaseError| database_error(file, "open", error.into()))
    };
    // Always first: if the valid commit is damaged, the other one is no substitute, whatever it says.
    let valid = open_valid()?;
    if !other_is_newer(&header) {
        return Ok(valid);
    }
    // The file can only be opened once at a time.
    drop(valid);
    open(Slot::Other).or_else(|_| open_valid())
}

/// Shows all objects to `visit`, and returns the newest version.
fn load(database: &Database, file: &Path, visit: &mut Visit<'_>) -> Result<u64, OpenError> {
    let table_error = |error| match error {
        TableError::Storage(error) => database_error(file, "read", error.into()),
        error => damaged(file, &error.to_string()),
    };
    let storage_error = |error: StorageError| database_error(file, "read", error.into());
    let transaction = database
        .begin_read()
        .map_err(|error| database_error(file, "read", error.into()))?;
    let meta = transaction.open_table(META).map_err(table_error)?;
    let newest = meta.get("version").map_err(storage_error)?;
    let newest = newest.map(|newest| newest.value());
    let newest = newest
        .filter(|newest| (1..=MOST_VERSION).contains(newest))
        .ok_or_else(|| damaged(file, "it has no version"))?;

    let objects = transaction.open_table(OBJECTS).map_err(table_error)?;
    for object in objects.iter().map_err(storage_error)? {
        let (key, value) = object.map_err(storage_error)?;
        let (resource, namespace, name) = key.value();
        let (version, bytes) = value.value();
        let key = Key::new(resource, namespace, name);
        if version > newest {
            let reason = format!("{key} is at version {version}, the store only at {newest}");
            return Err(damaged(file, &reason));
        }
        visit(key, version, bytes).map_err(|(key, reason)| OpenError::Record {
            file: file.to_owned(),
            key,
            reason,
        })?;
    }
    Ok(newest)
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

fn damaged(file: &Path, reason: &str) -> OpenError {
    OpenError::Damaged {
        file: file.to_owned(),
        reason: reason.to_owned(),
    }
}

fn unexpected(file: &Path) -> OpenError {
    damaged(file, "reading it has failed in an unexpected way")
}

fn format_error(file: &Path, error: FormatError) -> OpenError {
    match error {
        FormatError::Unknown(found) => OpenError::Format {
            file: file.to_owned(),
            found,
            supported: FORMAT,
        },
        FormatError::None => damaged(file, "it is a database of something else"),
        FormatError::Database(error) => database_error(file, "read", error),
    }
}

fn database_error(file: &Path, action: &'static str, error: redb::Error) -> OpenError {
    match error {
        redb::Error::DatabaseAlreadyOpen => OpenError::InUse {
            directory: file.parent().unwrap_or(file).to_owned(),
            process: None,
        },
        redb::Error::Io(source)
            if !matches!(
                source.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            io_error(action, file, source)
        }
        error => damaged(file, &error.to_string()),
    }
}
