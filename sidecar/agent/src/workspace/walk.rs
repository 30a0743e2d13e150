//! Walks from an open folder to a path inside it, name by name.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, mkdirat};

use super::{DirEntryHandle, Place, WorkspaceError};

/// Most links to follow on one path, as in Linux.
const MAX_LINKS: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Fails,
    IsCreated,
}

enum Step {
    Up,
    Into(OsString),
}

/// Walks a relative path. `..` returns to the previous folder of the walk, and never goes above `place`.
pub(super) fn walk(place: &Place, path: &Path, missing: Missing) -> Result<DirEntryHandle, WorkspaceError> {
    let outside = || WorkspaceError::Outside(path.display().to_string());
    // The folders of the walk so far, and the remaining steps in reverse order.
    let mut through: Vec<(OsString, OwnedFd)> = Vec::new();
    let mut left = Vec::new();
    push_steps(&mut left, path);
    let mut links = 0;
    let mut last = None;
    while let Some(step) = left.pop() {
        let name = match step {
            Step::Up => {
                through.pop().ok_or_else(outside)?;
                continue;
            }
            Step::Into(name) => name,
        };
        let here = through.last().map_or(place.dir.as_fd(), |(_, dir)| dir.as_fd());
        match readlinkat(here, name.as_os_str()) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(WorkspaceError::Links(path.display().to_string()));
                }
                let target = Path::new(&target);
                if target.is_absolute() {
                    let target = place.relative(target).ok_or_else(outside)?;
                    through.clear();
                    push_steps(&mut left, target);
                } else {
                    push_steps(&mut left, target);
                }
            }
            // Not a link, or missing.
            Err(Errno::EINVAL | Errno::ENOENT) if left.is_empty() => last = Some(name),
            Err(Errno::EINVAL | Errno::ENOENT) => {
                let dir = enter(here, &name, missing).map_err(|errno| (path, errno))?;
                through.push((name, dir));
            }
            Err(errno) => return Err((path, errno).into()),
        }
    }
    let mut relative: PathBuf = through.iter().map(|(name, _)| name).collect();
    relative.extend(last.as_ref());
    let dir = match through.pop() {
        Some((_, dir)) => dir,
        None => place.dir.try_clone().map_err(|error| WorkspaceError::io(path, error))?,
    };
    Ok(DirEntryHandle::new(place.path.clone(), relative, dir, last))
}

fn push_steps(left: &mut Vec<Step>, path: &Path) {
    left.extend(path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
        Component::ParentDir => Some(Step::Up),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    }));
}

/// Fails for a link.
fn enter(here: BorrowedFd<'_>, name: &OsString, missing: Missing) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let open = || openat(here, name.as_os_str(), flags, Mode::empty());
    match open() {
        Err(Errno::ENOENT) if missing == Missing::IsCreated => {
            match mkdirat(here, name.as_os_str(), Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => open(),
                Err(errno) => Err(errno),
            }
        }
        opened => opened,
    }
}
