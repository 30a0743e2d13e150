//! Who the processes of agents run as.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::unistd::{Gid, Uid, chown, geteuid};

/// The variable by which an image names the user of its agents: `uid:gid:home`.
pub const VARIABLE: &str = "PILOTHOUSE_AGENT_USER";

/// A user of this machine who is not the sidecar's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentUser {
    uid: Uid,
    gid: Gid,
    home: PathBuf,
}

/// Not `uid:gid:home`, or root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent's user is to be given as `uid:gid:home`, and is not root")]
pub struct InvalidUser;

impl AgentUser {
    /// The user that the environment names, when this process is one that can change to them.
    pub fn named(variable: Option<String>) -> Result<Option<Self>, InvalidUser> {
        variable.filter(|_| geteuid().is_root()).map(|named| named.parse()).transpose()
    }

    /// Their id.
    pub const fn uid(&self) -> Uid {
        self.uid
    }

    /// Their group.
    pub const fn gid(&self) -> Gid {
        self.gid
    }

    /// Their home.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Gives them a file or folder, unless it is theirs. What stands in a folder is left as it is.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        let metadata = path.symlink_metadata()?;
        if metadata.is_symlink() || metadata.uid() == self.uid.as_raw() {
            return Ok(());
        }
        Ok(chown(path, Some(self.uid), Some(self.gid))?)
    }
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
    fn a_user_is_three_parts_and_never_root() {
        let user: AgentUser = "10002:10003:/home/agent".parse().unwrap();
        assert_eq!((user.uid().as_raw(), user.gid().as_raw()), (10002, 10003));
        assert_eq!(user.to_string(), "10002:10003:/home/agent");
        for wrong in ["", "1", "1:2", "0:1:/x", "1:0:/x", "a:b:/c", "1:2:x"] {
            assert_eq!(wrong.parse::<AgentUser>(), Err(InvalidUser), "{wrong}");
        }
    }
}
