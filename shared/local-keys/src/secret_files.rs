//! Secret files: written atomically, readable by their owner alone.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use super::KeyError;

fn io(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> KeyError {
    move |source| KeyError::Io { operation, path: path.to_owned(), source }
}

/// Creates the folder and its parents with mode 0700. An existing folder that is open to others gets that mode if it is empty or a
/// data folder; any other is refused, because other users may need it.
pub(super) fn create_folder(path: &Path) -> Result<(), KeyError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io("create", path))?;
    let mode = std::fs::metadata(path).map_err(io("read", path))?.permissions().mode() & 0o7777;
    let others = mode & 0o077;
    if others == 0 {
        return Ok(());
    }
    let is_ours = [super::SECRET_FILE, super::SIGNING_KEY_FILE].iter().any(|file| path.join(file).exists());
    let is_empty = || path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if !is_ours && !is_empty() {
        return Err(KeyError::FolderTooOpen { path: path.to_owned(), mode: mode & 0o777 });
    }
    tracing::warn!(folder = %path.display(), "removed the access of other users to the data folder");
    std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(io("close", path))
}

/// Reads the file; `None` if it does not exist.
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

pub(super) fn read_or_create(
    path: &Path,
    make: impl FnOnce() -> Result<Vec<u8>, KeyError>,
) -> Result<Vec<u8>, KeyError> {
    if let Some(bytes) = read(path)? {
        return Ok(bytes);
    }
    let fresh = make()?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    // A temporary file (mode 0600) is moved into place unless the file exists: a reader never sees half a key, and of
    // several writers one wins.
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(io("create", path))?;
    temporary.write_all(&fresh).map_err(io("write", path))?;
    temporary.as_file().sync_all().map_err(io("write", path))?;
    match temporary.persist_noclobber(path) {
        Ok(_) => Ok(fresh),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => read(path)?.ok_or_else(|| {
            io("read", path)(io::Error::new(io::ErrorKind::NotFound, "the file was removed meanwhile"))
        }),
        Err(e) => Err(io("create", path)(e.error)),
    }
}
