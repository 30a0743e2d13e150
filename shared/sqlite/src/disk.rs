//! Recognises a full disk or an exceeded quota.

use std::error::Error;
use std::io;
use std::sync::Arc;

use rusqlite::ffi;

/// Whether an error, or one of its sources, means that the disk accepts no more data. The same write may succeed when there is
/// space.
pub fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let full = if let Some(error) = error.downcast_ref::<rusqlite::Error>() {
            is_sqlite_disk_full(error)
        } else if let Some(error) = error.downcast_ref::<Arc<rusqlite::Error>>() {
            is_sqlite_disk_full(error)
        } else {
            error.downcast_ref::<io::Error>().is_some_and(is_io_disk_full)
        };
        if full {
            return true;
        }
        next = error.source();
    }
    false
}

/// SQLite reports `ENOSPC` as `SQLITE_FULL`, but `EDQUOT` and a failure to extend a file as failed writes. When a write of a group
/// meets the full disk, SQLite abandons the transaction, and the other writes of the group get `SQLITE_ABORT`.
fn is_sqlite_disk_full(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(error, _) = error else { return false };
    error.code == rusqlite::ErrorCode::DiskFull
        || matches!(
            error.extended_code,
            ffi::SQLITE_ABORT | ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE
        )
}

fn is_io_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::StorageFull | K::QuotaExceeded | K::FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteError;

    #[derive(Debug, thiserror::Error)]
    #[error("the engine failed")]
    struct Engine(#[source] Box<dyn Error + Send + Sync>);

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_full_disk_is_found_beneath_other_errors() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_ABORT, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE]
        {
            let commit: WriteError<io::Error> = WriteError::Commit(Arc::new(sqlite(code)));
            assert!(is_disk_full(&Engine(Box::new(commit))), "{code}");
            let job: WriteError<rusqlite::Error> = WriteError::Job(sqlite(code));
            assert!(is_disk_full(&job), "{code}");
        }
        for errno in [nix_errno::ENOSPC, nix_errno::EDQUOT] {
            assert!(is_disk_full(&Engine(Box::new(io::Error::from_raw_os_error(errno)))));
        }
        for other in [ffi::SQLITE_BUSY, ffi::SQLITE_CONSTRAINT, ffi::SQLITE_IOERR_READ] {
            assert!(!is_disk_full(&sqlite(other)));
        }
        assert!(!is_disk_full(&io::Error::from(io::ErrorKind::NotFound)));
    }

    /// Values of Linux and macOS.
    mod nix_errno {
        pub(super) const ENOSPC: i32 = 28;
        pub(super) const EDQUOT: i32 = if cfg!(target_os = "linux") { 122 } else { 69 };
    }
}
