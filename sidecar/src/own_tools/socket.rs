//! The socket of the sidecar's MCP server. It has a random name in the session's home, and only the agent's user can
//! connect.
//!
//! A socket address is limited to about a hundred bytes, and the path of a session's home may be longer. Such a socket
//! is addressed through the file descriptor of its folder, which has a short name in `/proc`.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, chown};
use uuid::Uuid;

/// Longest path in a socket address, without the terminating zero.
const MAX_ADDRESS_BYTES: usize = 107;

/// The parts of the name around the random part.
const PREFIX: &str = "tools-";
const SUFFIX: &str = ".sock";

/// A socket that is removed when this is dropped.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Listens in `folder`, for this user, or for `agent` if given.
    pub fn listen(folder: &Path, agent: Option<Uid>) -> io::Result<(Self, UnixListener)> {
        let folder = folder.canonicalize()?;
        remove_abandoned(&folder)?;
        let path = folder.join(format!("{PREFIX}{}{SUFFIX}", Uuid::now_v7().simple()));
        let listener = by_address(&path, |address| UnixListener::bind(address))?;
        let socket = Self { path };
        fs::set_permissions(&socket.path, Permissions::from_mode(0o600))?;
        if agent.is_some() {
            chown(&socket.path, agent, None)?;
        }
        Ok((socket, listener))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes sockets of killed sidecars, on which no process listens.
fn remove_abandoned(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let ours = name.starts_with(PREFIX) && name.ends_with(SUFFIX);
        if ours && connect(&path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

pub fn connect(path: &Path) -> io::Result<UnixStream> {
    by_address(path, |address| UnixStream::connect(address))
}

fn by_address<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= MAX_ADDRESS_BYTES {
        return act(path);
    }
    let missing = || io::Error::from(io::ErrorKind::InvalidInput);
    let (folder, name): (&Path, &OsStr) = path.parent().zip(path.file_name()).ok_or_else(missing)?;
    let folder = File::open(folder)?;
    act(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_private_and_removed_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, _listener) = Socket::listen(dir.path(), None).unwrap();
        let path = socket.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
        assert!(connect(&path).is_err());
    }

    #[test]
    fn socket_path_may_exceed_the_address_limit() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(90)).join("e".repeat(90));
        fs::create_dir_all(&deep).unwrap();
        let (socket, listener) = Socket::listen(&deep, None).unwrap();
        assert!(socket.path().as_os_str().len() > MAX_ADDRESS_BYTES);
        connect(socket.path()).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn stale_socket_is_removed_and_a_served_one_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (dead, listener) = Socket::listen(dir.path(), None).unwrap();
        let left = dead.path().to_owned();
        std::mem::forget(dead);
        drop(listener);
        let (alive, _listening) = Socket::listen(dir.path(), None).unwrap();
        assert!(!left.exists());
        let (_other, _too) = Socket::listen(dir.path(), None).unwrap();
        assert!(alive.path().exists());
    }

    #[test]
    fn two_runs_have_two_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let (one, _a) = Socket::listen(dir.path(), None).unwrap();
        let (two, _b) = Socket::listen(dir.path(), None).unwrap();
        assert_ne!(one.path(), two.path());
    }
}
