//! The user that an agent's programs run as.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use nix::unistd::{Gid, Uid, chown, geteuid};

/// A user of this machine other than this process's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentUser {
    uid: Uid,
    gid: Gid,
    home: PathBuf,
}

/// The text is not `uid:gid:home`, or names root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent's user is to be given as `uid:gid:home`, and is not root")]
pub struct InvalidUser;

impl AgentUser {
    /// `None` without a name, or if this process cannot change to another user.
    pub fn named(name: Option<String>) -> Result<Option<Self>, InvalidUser> {
        name.filter(|_| geteuid().is_root()).map(|name| name.parse()).transpose()
    }

    pub const fn uid(&self) -> Uid {
        self.uid
    }

    pub const fn gid(&self) -> Gid {
        self.gid
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Changes a file or folder, but not the folder's content.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        let metadata = path.symlink_metadata()?;
        if metadata.is_symlink() || metadata.uid() == self.uid.as_raw() {
            return Ok(());
        }
        Ok(chown(path, Some(self.uid), Some(self.gid))?)
    }

    /// Makes a command run as the user. This process and its descendants lose the ability to gain privileges.
    pub(super) fn apply_to(&self, command: &mut Command) -> io::Result<()> {
        // Also drops this process's supplementary groups.
        command.uid(self.uid.as_raw()).gid(self.gid.as_raw());
        no_new_privileges()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn no_new_privileges() -> io::Result<()> {
    Ok(nix::sys::prctl::set_no_new_privs()?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn no_new_privileges() -> io::Result<()> {
    Ok(())
}

impl fmt::Display for AgentUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.uid, self.gid, self.home.display())
    }
}

impl FromStr for AgentUser {
    type Err = InvalidUser;

    fn from_str(s: &str) -> Result<Self, InvalidUser> {
        let mut parts = s.splitn(3, ':');
        let mut number = || parts.next().and_then(|n| n.parse::<u32>().ok()).filter(|n| *n != 0);
        let (uid, gid) = (number().ok_or(InvalidUser)?, number().ok_or(InvalidUser)?);
        let home = parts.next().filter(|home| home.starts_with('/')).ok_or(InvalidUser)?;
        Ok(Self { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), home: home.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_has_three_parts_and_is_never_root() {
        let user: AgentUser = "10002:10003:/home/agent".parse().unwrap();
        assert_eq!((user.uid().as_raw(), user.gid().as_raw()), (10002, 10003));
        assert_eq!(user.to_string(), "10002:10003:/home/agent");
        for wrong in ["", "1", "1:2", "0:1:/x", "1:0:/x", "a:b:/c", "1:2:x"] {
            assert_eq!(wrong.parse::<AgentUser>(), Err(InvalidUser), "{wrong}");
        }
    }
}
