//! Which formats of the file there are, and how an older one becomes the newest.
//!
//! Format 1: a table `objects` from resource, namespace and name to version and bytes, and a table
//! `meta` with `format` and `version`, the newest version that was given to a write.

use redb::{Database, ReadableDatabase, TableDefinition, TableError, WriteTransaction};

/// `format` and `version`.
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Objects by resource, namespace and name: the version of the write that made them, and their bytes.
pub(crate) const OBJECTS: TableDefinition<'_, (&str, &str, &str), (u64, &[u8])> =
    TableDefinition::new("objects");

/// Changes the tables of one format into those of the next.
type Upgrade = fn(&WriteTransaction) -> Result<(), redb::Error>;

/// The upgrade at place `n` is that from format `n + 1` to `n + 2`. There is one format so far.
const UPGRADES: &[Upgrade] = &[];

/// The newest format, which is written.
pub(crate) const FORMAT: u64 = UPGRADES.len() as u64 + 1;

/// Why a file is not of the newest format, and cannot be made so.
#[derive(Debug)]
pub(crate) enum FormatError {
    /// It has a format that is not known.
    Unknown(u64),
    /// It says nothing of a format: it is a database of something else.
    None,
    /// It cannot be read or written.
    Database(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for FormatError {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

/// Makes the newest format of whatever known format the database has.
pub(crate) fn bring_up_to_date(database: &Database) -> Result<(), FormatError> {
    upgrade(database, UPGRADES)
}

fn upgrade(database: &Database, upgrades: &[Upgrade]) -> Result<(), FormatError> {
    let format = match database.begin_read()?.open_table(META) {
        Ok(meta) => meta.get("format")?.ok_or(FormatError::None)?.value(),
        Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => {
            return Err(FormatError::None);
        }
        Err(error) => return Err(error.into()),
    };
    let known = 1..=upgrades.len() as u64 + 1;
    if !known.contains(&format) {
        return Err(FormatError::Unknown(format));
    }
    let due = &upgrades[format as usize - 1..];
    if due.is_empty() {
        return Ok(());
    }
    // All steps are one transaction: there is no file between two formats.
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    for upgrade in due {
        upgrade(&transaction).map_err(FormatError::Database)?;
    }
    transaction
        .open_table(META)?
        .insert("format", known.end())?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use redb::ReadableTable;
    use redb::backends::InMemoryBackend;

    use super::*;

    fn database(format: Option<u64>) -> Database {
        let database = Database::builder()
            .create_with_backend(InMemoryBackend::new())
            .unwrap();
        if let Some(format) = format {
            let transaction = database.begin_write().unwrap();
            let mut meta = transaction.open_table(META).unwrap();
            meta.insert("format", format).unwrap();
            meta.insert("version", 7).unwrap();
            drop(meta);
            transaction.commit().unwrap();
        }
        database
    }

    fn meta(database: &Database, name: &str) -> u64 {
        let meta = database.begin_read().unwrap().open_table(META).unwrap();
        meta.get(name).unwrap().unwrap().value()
    }

    #[test]
    fn steps_that_are_due_are_taken_in_order() {
        let steps: [Upgrade; 2] = [
            |transaction| {
                transaction.open_table(META)?.insert("version", 20)?;
                Ok(())
            },
            |transaction| {
                let mut meta = transaction.open_table(META)?;
                let version = meta.get("version")?.map_or(0, |version| version.value());
                meta.insert("version", version + 1)?;
                Ok(())
            },
        ];
        for (format, version) in [(1, 21), (2, 8), (3, 7)] {
            let database = database(Some(format));
            upgrade(&database, &steps).unwrap();
            assert_eq!(
                (meta(&database, "format"), meta(&database, "version")),
                (3, version)
            );
        }
    }

    #[test]
    fn a_step_that_fails_leaves_everything() {
        let steps: [Upgrade; 2] = [
            |transaction| {
                transaction.open_table(META)?.insert("version", 20)?;
                Ok(())
            },
            |_| Err(redb::Error::Corrupted("a test".to_owned())),
        ];
        let database = database(Some(1));
        assert!(matches!(
            upgrade(&database, &steps),
            Err(FormatError::Database(_))
        ));
        assert_eq!(
            (meta(&database, "format"), meta(&database, "version")),
            (1, 7)
        );
    }

    #[test]
    fn unknown_formats_are_refused() {
        for format in [0, 2, u64::MAX] {
            let result = bring_up_to_date(&database(Some(format)));
            assert!(matches!(result, Err(FormatError::Unknown(found)) if found == format));
        }
        assert!(matches!(
            bring_up_to_date(&database(None)),
            Err(FormatError::None)
        ));
    }
}
