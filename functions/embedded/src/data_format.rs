//! Version of the stored format of a data folder.
//!
//! The file `format` names the version. It is written before the database is created. A server refuses a folder of another
//! version, because it would misread its items. Within a version, the steps of `pilothouse_sqlite::Schema` migrate the database.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pilothouse_store::DATA_FORMAT;

const FILE: &str = "format";

#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The folder was written before the format had a version.
    #[error(
        "{} was written by an earlier version of pilothouse, which this one cannot read; finish and export its sessions with that \
         version, or use another folder (--data)",
        .0.display()
    )]
    Unversioned(PathBuf),
    #[error(
        "{} has the stored format {found}, and this version of pilothouse reads format {DATA_FORMAT}; use the version that wrote it, \
         or another folder (--data)",
        .folder.display()
    )]
    OtherVersion { folder: PathBuf, found: String },
    #[error("failed to access the format of {}: {source}", .folder.display())]
    Io { folder: PathBuf, source: io::Error },
}

/// Checks the version of the folder with this database file. A folder without a database gets the current version.
pub(super) fn check(folder: &Path, database: &Path) -> Result<(), FormatError> {
    let failed = |source| FormatError::Io { folder: folder.to_owned(), source };
    match fs::read_to_string(folder.join(FILE)) {
        Ok(text) if text.trim() == DATA_FORMAT.to_string() => Ok(()),
        Ok(text) => {
            Err(FormatError::OtherVersion { folder: folder.to_owned(), found: text.trim().to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if database.try_exists().map_err(failed)? {
                return Err(FormatError::Unversioned(folder.to_owned()));
            }
            write(folder).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(file, "{DATA_FORMAT}")?;
    file.as_file().sync_all()?;
    file.persist(folder.join(FILE))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_gets_the_current_version() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("db");
        check(folder.path(), &database).unwrap();
        fs::write(&database, "").unwrap();
        check(folder.path(), &database).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "1\n");
    }

    #[test]
    fn a_database_without_a_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("db");
        fs::write(&database, "").unwrap();
        let refused = check(folder.path(), &database).unwrap_err();
        assert!(matches!(refused, FormatError::Unversioned(_)), "{refused}");
        assert!(!folder.path().join(FILE).exists());
    }

    #[test]
    fn another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "2\n").unwrap();
        let refused = check(folder.path(), &folder.path().join("db")).unwrap_err();
        assert!(matches!(&refused, FormatError::OtherVersion { found, .. } if found == "2"), "{refused}");
    }
}
