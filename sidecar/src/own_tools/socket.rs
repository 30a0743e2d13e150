//! Where the sidecar's MCP server listens: a socket of a random name in the session's home, for the agent's user alone.
//!
//! A socket's address has room for about a hundred bytes, and a session's home may be longer. Such a socket is reached
//! through the descriptor of its folder, which `/proc` gives a short name.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, chown};
use uuid::Uuid;

/// The longest path that an address takes, without the zero behind it.
const MOST_ADDRESS: usize = 107;

/// How its name begins and ends.
const PREFIX: &str = "tools-";
const SUFFIX: &str = ".sock";

/// A socket that is removed when this is dropped.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Listens in `folder`, for this user or for the `agent`'s, when that is another.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what sidecars that were killed have left: sockets at which nobody listens.
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

/// Connects to the socket at `path`.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    by_address(path, |address| UnixStream::connect(address))
}

fn by_address<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= MOST_ADDRESS {
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
    fn a_socket_is_for_this_user_alone_and_goes_with_its_owner() {
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
    fn a_socket_may_stand_deeper_than_an_address_is_long() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(90)).join("e".repeat(90));
        fs::create_dir_all(&deep).unwrap();
        let (socket, listener) = Socket::listen(&deep, None).unwrap();
        assert!(socket.path().as_os_str().len() > MOST_ADDRESS);
        connect(socket.path()).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn what_a_killed_sidecar_left_is_removed_and_what_is_served_is_not() {
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
