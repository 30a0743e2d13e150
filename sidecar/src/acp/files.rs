//! File access of the agent through the sidecar. Text files inside the working directory only; symbolic links are
//! resolved.

use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use pilothouse_agent::workspace::{Workspace, WorkspaceError};

/// Most bytes of a file to read or write.
const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// The working directory of an agent. Access outside it is refused.
#[derive(Debug, Clone)]
pub(super) struct Folder(Arc<Workspace>);

/// Why access to a file is refused: a sentence for the agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("{0} is larger than 32 MiB")]
    TooLarge(PathBuf),
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
}

impl Folder {
    /// The folder at `path`, which must exist.
    pub(super) fn open(path: &Path) -> Result<Self, WorkspaceError> {
        Workspace::new(path, &[]).map(|workspace| Self(Arc::new(workspace)))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.root()
    }

    /// Resolves the folder of a command, which need not exist, and refuses it if it is outside.
    pub(super) fn resolve(&self, path: &Path) -> Result<PathBuf, WorkspaceError> {
        let outside = || outside(path);
        let asked = self.path().join(path);
        if asked.components().any(|part| part == Component::ParentDir) && asked.canonicalize().is_err() {
            // The meaning of `..` depends on links that do not exist.
            return Err(outside());
        }
        let mut missing = Vec::new();
        let mut existing = asked.as_path();
        let real = loop {
            match existing.canonicalize() {
                Ok(real) => break real,
                // A dangling link.
                Err(_) if existing.symlink_metadata().is_ok() => return Err(outside()),
                Err(_) => {
                    missing.push(existing.file_name().ok_or_else(outside)?);
                    existing = existing.parent().ok_or_else(outside)?;
                }
            }
        };
        let real = missing.into_iter().rev().fold(real, |real, name| real.join(name));
        if real.starts_with(self.path()) { Ok(real) } else { Err(outside()) }
    }

    /// Reads a file, or `limit` lines beginning with number `line`, which counts from 1.
    pub(super) fn read(
        &self,
        path: &Path,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, FileError> {
        let system = |e| FileError::System(path.to_owned(), e);
        let file = self.0.open(name(path)?)?;
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

    /// Replaces a file atomically, and creates missing folders.
    pub(super) fn write(&self, path: &Path, content: &str) -> Result<(), FileError> {
        if content.len() as u64 > MAX_FILE_BYTES {
            return Err(FileError::TooLarge(path.to_owned()));
        }
        self.0.find_to_write(name(path)?)?.replace(content.as_bytes())?;
        Ok(())
    }
}

fn outside(path: &Path) -> WorkspaceError {
    WorkspaceError::Outside(path.display().to_string())
}

/// Paths of the protocol are text.
fn name(path: &Path) -> Result<&str, WorkspaceError> {
    path.to_str().ok_or_else(|| outside(path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

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
        for path in ["../secret", "link", "up/secret", "a/../../secret", "/etc/passwd", "nowhere"] {
            let outside =
                |refused: &FileError| matches!(refused, FileError::Workspace(WorkspaceError::Outside(_)));
            let written = folder.write(path.as_ref(), "x").unwrap_err();
            assert!(outside(&written), "{path}: {written}");
            let read = folder.read(path.as_ref(), None, None).unwrap_err();
            assert!(outside(&read), "{path}: {read}");
        }
        for path in ["../secret", "link", "up", "in/../../secret", "new/../../secret", "/etc", "nowhere"] {
            assert!(folder.resolve(path.as_ref()).is_err(), "{path}");
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
        let refused = folder.read("pipe".as_ref(), None, None).unwrap_err();
        assert!(matches!(refused, FileError::Workspace(WorkspaceError::Kind { .. })), "{refused}");
        assert!(folder.write("pipe".as_ref(), "x").is_err());
        assert!(folder.read(".".as_ref(), None, None).is_err());
        let missing = folder.read("missing".as_ref(), None, None).unwrap_err();
        assert!(matches!(missing, FileError::Workspace(error) if error.is_not_found()));
    }

    #[test]
    fn written_file_keeps_its_permissions_and_leaves_no_other() {
        let (_dir, folder) = folder();
        let script = folder.path().join("script");
        fs::write(&script, "old").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
        folder.write("script".as_ref(), "new").unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), "new");
        assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn parent_replaced_by_a_link_during_a_write_leads_nowhere() {
        let (dir, folder) = folder();
        let (swap, other) = (folder.path().join("swap"), folder.path().join("other"));
        fs::create_dir(&swap).unwrap();
        symlink(dir.path(), &other).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    renameat2(AT_FDCWD, &swap, AT_FDCWD, &other, RenameFlags::RENAME_EXCHANGE).unwrap();
                }
            });
            let (mut written, mut refused) = (0, 0);
            for _ in 0..3000 {
                match folder.write("swap/secret".as_ref(), "written") {
                    Ok(()) => written += 1,
                    Err(_) => refused += 1,
                }
            }
            over.store(true, Ordering::Relaxed);
            assert!(written > 0 && refused > 0, "{written} written, {refused} refused");
        });
        assert_eq!(fs::read_to_string(dir.path().join("secret")).unwrap(), "no");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "a file was created outside");
    }
}
