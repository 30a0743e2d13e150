//! File access of the agent through the sidecar. Text files inside the working directory only; symbolic links are
//! resolved.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

/// Most bytes of a file to read or write.
const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// The working directory of an agent. Access outside it is refused.
#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

/// Why access to a file is refused: a sentence for the agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("{0} is outside the working directory")]
    Outside(PathBuf),
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    #[error("{0} is larger than 32 MiB")]
    TooLarge(PathBuf),
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
}

impl Folder {
    /// The folder at `path`, which must exist.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        path.canonicalize().map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Resolves `path`, which need not exist, and refuses it if it is outside. Resolves links first, so that the target
    /// of a write is checked.
    pub(super) fn resolve(&self, path: &Path) -> Result<PathBuf, FileError> {
        let outside = || FileError::Outside(path.to_owned());
        let asked = self.0.join(path);
        if asked.components().any(|part| part == Component::ParentDir) && asked.canonicalize().is_err() {
            // The meaning of `..` depends on links that do not exist.
            return Err(outside());
        }
        let mut missing = Vec::new();
        let mut existing = asked.as_path();
        let real = loop {
            match existing.canonicalize() {
                Ok(real) => break real,
                // Writing through a dangling link would create its target.
                Err(_) if existing.symlink_metadata().is_ok() => return Err(outside()),
                Err(_) => {
                    missing.push(existing.file_name().ok_or_else(outside)?);
                    existing = existing.parent().ok_or_else(outside)?;
                }
            }
        };
        let real = missing.into_iter().rev().fold(real, |real, name| real.join(name));
        if real.starts_with(&self.0) { Ok(real) } else { Err(outside()) }
    }

    /// Reads a file, or `limit` lines beginning with number `line`, which counts from 1.
    pub(super) fn read(
        &self,
        path: &Path,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, FileError> {
        let real = self.resolve(path)?;
        let system = |e| FileError::System(path.to_owned(), e);
        // Does not block on a named pipe, and does not follow a link that was created meanwhile.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits() | nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(&real)
            .map_err(system)?;
        let metadata = file.metadata().map_err(system)?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(system)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(FileError::TooLarge(path.to_owned()));
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if line.is_none() && limit.is_none() {
            return Ok(text);
        }
        let skip = line.unwrap_or(1).saturating_sub(1) as usize;
        let take = limit.map_or(usize::MAX, |limit| limit as usize);
        Ok(text.split_inclusive('\n').skip(skip).take(take).collect())
    }

    /// Replaces a file, and creates missing folders.
    pub(super) fn write(&self, path: &Path, content: &str) -> Result<(), FileError> {
        if content.len() as u64 > MAX_FILE_BYTES {
            return Err(FileError::TooLarge(path.to_owned()));
        }
        let real = self.resolve(path)?;
        let system = |e| FileError::System(path.to_owned(), e);
        if let Some(parent) = real.parent() {
            fs::create_dir_all(parent).map_err(system)?;
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits() | nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(&real)
            .map_err(system)?;
        if !file.metadata().map_err(system)?.is_file() {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        file.set_len(0).map_err(system)?;
        file.write_all(content.as_bytes()).map_err(system)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        fs::write(dir.path().join("secret"), "no").unwrap();
        let folder = Folder::open(&dir.path().join("in")).unwrap();
        (dir, folder)
    }

    #[test]
    fn paths_outside_are_neither_read_nor_written() {
        let (dir, folder) = folder();
        symlink(dir.path().join("secret"), folder.path().join("link")).unwrap();
        symlink(dir.path(), folder.path().join("up")).unwrap();
        symlink(dir.path().join("new"), folder.path().join("nowhere")).unwrap();
        for path in
            ["../secret", "link", "up/secret", "in/../../secret", "a/../../secret", "/etc/passwd", "nowhere"]
        {
            assert!(
                matches!(folder.read(path.as_ref(), None, None), Err(FileError::Outside(_))),
                "{path} read"
            );
            assert!(matches!(folder.write(path.as_ref(), "x"), Err(FileError::Outside(_))), "{path} written");
        }
        assert!(!dir.path().join("new").exists());
        assert_eq!(fs::read_to_string(dir.path().join("secret")).unwrap(), "no");
    }

    #[test]
    fn files_are_read_by_lines_and_written_with_their_folders() {
        let (_dir, folder) = folder();
        folder.write("a/b/c.txt".as_ref(), "1\n2\n3\n").unwrap();
        assert_eq!(folder.read("a/b/c.txt".as_ref(), Some(2), Some(1)).unwrap(), "2\n");
        assert_eq!(folder.read(&folder.path().join("a/b/c.txt"), None, None).unwrap(), "1\n2\n3\n");
        folder.write("a/b/c.txt".as_ref(), "x").unwrap();
        assert_eq!(folder.read("a/b/c.txt".as_ref(), None, None).unwrap(), "x");
        assert_eq!(folder.read("a/b/c.txt".as_ref(), Some(9), None).unwrap(), "");
        symlink("a/b/c.txt", folder.path().join("inside")).unwrap();
        assert_eq!(folder.read("inside".as_ref(), None, None).unwrap(), "x");
    }

    #[test]
    fn folder_or_pipe_is_refused_without_blocking() {
        let (_dir, folder) = folder();
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(folder.read("pipe".as_ref(), None, None), Err(FileError::NotAFile(_))));
        assert!(folder.write("pipe".as_ref(), "x").is_err());
        assert!(folder.read(".".as_ref(), None, None).is_err());
        assert!(matches!(folder.read("missing".as_ref(), None, None), Err(FileError::System(..))));
    }
}
