//! Reads files of the working directory with the agent's rights. Links that lead out of it are refused.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use pilothouse_domain::artifact::{ArtifactPath, ContentSize};

use crate::process::in_process::AgentThread;

/// Why a file is not read: a sentence for the agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkspaceError {
    #[error("{0} is outside of the working directory")]
    Outside(ArtifactPath),
    #[error("{0} is not a regular file")]
    NotAFile(ArtifactPath),
    #[error("{0} is larger than 100 MB")]
    TooLarge(ArtifactPath),
    #[error("{0}: {1}")]
    System(ArtifactPath, #[source] io::Error),
}

/// Reads the file at `path` in `root`. `thread` reads it, if the agent's rights are not the sidecar's.
pub(super) async fn read(
    thread: Option<&AgentThread>,
    root: &Path,
    path: &ArtifactPath,
) -> Result<Vec<u8>, WorkspaceError> {
    let (in_root, named) = (root.to_owned(), path.clone());
    let reading = move || read_here(&in_root, &named);
    let outcome = match thread {
        Some(thread) => thread.run(async move { reading() }).await,
        None => tokio::task::spawn_blocking(reading).await.map_err(io::Error::other),
    };
    outcome.map_err(|error| WorkspaceError::System(path.clone(), error))?
}

fn read_here(root: &Path, path: &ArtifactPath) -> Result<Vec<u8>, WorkspaceError> {
    let system = |error| WorkspaceError::System(path.clone(), error);
    let root = root.canonicalize().map_err(system)?;
    let real = root.join(path.as_str()).canonicalize().map_err(system)?;
    if !real.starts_with(&root) {
        return Err(WorkspaceError::Outside(path.clone()));
    }
    // Does not block on a named pipe, and does not follow a link that was created meanwhile.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(&real).map_err(system)?;
    if !opened(&file, &real).is_some_and(|opened| opened.starts_with(&root)) {
        return Err(WorkspaceError::Outside(path.clone()));
    }
    if !file.metadata().map_err(system)?.is_file() {
        return Err(WorkspaceError::NotAFile(path.clone()));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(ContentSize::MAX + 1).read_to_end(&mut bytes).map_err(system)?;
    if bytes.len() as u64 > ContentSize::MAX {
        return Err(WorkspaceError::TooLarge(path.clone()));
    }
    Ok(bytes)
}

/// Where an open file is. A folder of its path may have been replaced by a link before it was opened.
#[cfg(target_os = "linux")]
fn opened(file: &std::fs::File, _: &Path) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
fn opened(_: &std::fs::File, real: &Path) -> Option<PathBuf> {
    real.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::process::in_process::Rights;

    #[test]
    fn files_outside_of_the_working_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("work");
        fs::create_dir(&root).unwrap();
        fs::write(dir.path().join("secret"), "no").unwrap();
        fs::write(root.join("a.txt"), "yes").unwrap();
        symlink(dir.path().join("secret"), root.join("link")).unwrap();
        symlink(dir.path(), root.join("up")).unwrap();
        symlink("a.txt", root.join("inside")).unwrap();
        let read = |path: &str| read_here(&root, &ArtifactPath::parse(path).unwrap());
        assert_eq!(read("a.txt").unwrap(), b"yes");
        assert_eq!(read("inside").unwrap(), b"yes");
        assert!(matches!(read("link"), Err(WorkspaceError::Outside(_))));
        assert!(matches!(read("up/secret"), Err(WorkspaceError::Outside(_))));
        assert!(matches!(read("up/work"), Err(WorkspaceError::NotAFile(_))));
        assert!(matches!(read("missing"), Err(WorkspaceError::System(..))));
    }

    #[tokio::test]
    async fn agent_of_another_user_reads_only_its_files() {
        if !nix::unistd::geteuid().is_root() {
            println!("not tested: only root can read files as another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        for (path, mode) in [("", 0o711), ("open", 0o644), ("closed", 0o600)] {
            let path = dir.path().join(path);
            if !path.exists() {
                fs::write(&path, "content").unwrap();
            }
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let user = format!("10002:10002:{}", dir.path().display()).parse().unwrap();
        let thread = AgentThread::start(Rights::OfUser(user)).unwrap();
        let [open, closed] = ["open", "closed"].map(|path| ArtifactPath::parse(path).unwrap());
        assert_eq!(read(Some(&thread), dir.path(), &open).await.unwrap(), b"content");
        let refused = read(Some(&thread), dir.path(), &closed).await;
        assert!(matches!(refused, Err(WorkspaceError::System(..))), "{refused:?}");
        assert!(read(None, dir.path(), &closed).await.is_ok());
    }
}
