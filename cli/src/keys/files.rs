//! Secret files: whole or absent, readable by their owner alone.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use super::KeyError;

fn io(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> KeyError {
    move |source| KeyError::Io { doing, path: path.to_owned(), source }
}

/// Makes the folder and its parents, closed to others. One that exists is left as it is.
pub(super) fn create_folder(path: &Path) -> Result<(), KeyError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io("create", path))
}

/// What the file holds; nothing when there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, KeyError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io("read", path)(e)),
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::TooOpen { path: path.to_owned(), mode });
    }
    std::fs::read(path).map(Some).map_err(io("read", path))
}

/// What the file holds, or what `make` makes, which the file holds then.
pub(super) fn read_or_create(
    path: &Path,
    make: impl FnOnce() -> Result<Vec<u8>, KeyError>,
) -> Result<Vec<u8>, KeyError> {
    if let Some(bytes) = read(path)? {
        return Ok(bytes);
    }
    let fresh = make()?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    // Written aside (with mode 0600) and put in place only if nothing is there: a reader never sees half a key, and of
    // several writers one wins.
    let mut aside = tempfile::NamedTempFile::new_in(folder).map_err(io("create", path))?;
    aside.write_all(&fresh).map_err(io("write", path))?;
    aside.as_file().sync_all().map_err(io("write", path))?;
    match aside.persist_noclobber(path) {
        Ok(_) => Ok(fresh),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => read(path)?.ok_or_else(|| {
            io("read", path)(io::Error::new(io::ErrorKind::NotFound, "it was removed meanwhile"))
        }),
        Err(e) => Err(io("create", path)(e.error)),
    }
}
