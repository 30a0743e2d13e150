//! Confinement of agents, and the owners that the server accepts without it.
//!
//! An agent that is not confined can read the keys in the data folder and act as any owner. A server that cannot confine agents
//! therefore serves only its first owner. The data folder records that owner.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pilothouse_app::http::{Admission, Problem};
use pilothouse_domain::UserId;
use pilothouse_worker::{ConfinementSupport, confinement_support};
use serde::Serialize;

const FIRST_OWNER: &str = "first-owner";

/// Sockets that give an agent the rights of the user.
const NOT_COVERED: &str = "Not covered are sockets of programs that act for you: container engines (docker.sock), systemd and \
D-Bus (systemd-run), ssh-agent.";

/// Confinement does not limit root.
const ROOT: &str =
    "This server runs as root, whose capabilities reach around confinement: run it as another user.";

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AgentConfinement {
    /// The kernel restricts them to some folders, and prevents signals to other processes.
    Enforced,
    /// The kernel restricts them to some folders.
    EnforcedForFiles,
    /// The kernel of this machine does not support it.
    Unavailable,
    /// The operator disabled it.
    Off,
}

impl AgentConfinement {
    /// Detects what this machine supports, unless confinement is not wanted.
    pub async fn detect(sidecar: &Path, wanted: bool) -> Self {
        if !wanted {
            return Self::Off;
        }
        match confinement_support(sidecar).await {
            ConfinementSupport::Nothing => Self::Unavailable,
            ConfinementSupport::Files => Self::EnforcedForFiles,
            ConfinementSupport::FilesAndSignals => Self::Enforced,
        }
    }

    pub fn worker_statement(self) -> String {
        match self {
            Self::Unavailable => "Agents are not confined: this machine has no Landlock (Linux 6.2 or later). Any agent can read this \
                                  worker's data folder. With --docker they run in containers.\n"
                .to_owned(),
            other => format!("{}\n", other.statement()),
        }
    }

    pub const fn is_enforced(self) -> bool {
        matches!(self, Self::Enforced | Self::EnforcedForFiles)
    }

    pub fn statement(self) -> String {
        let root = if self.is_enforced() && is_root() { format!(" {ROOT}") } else { String::new() };
        self.without_root() + &root
    }

    fn without_root(self) -> String {
        match self {
            Self::Enforced => format!(
                "Agents are confined: they write only to their working directory, folders of their session and caches, and cannot \
                 read the data folder. {NOT_COVERED}"
            ),
            Self::EnforcedForFiles => format!(
                "Agents are confined: they write only to their working directory, folders of their session and caches, and cannot \
                 read the data folder. This kernel does not keep them from signalling your other processes. {NOT_COVERED}"
            ),
            Self::Unavailable => "Agents are not confined: this machine has no Landlock (Linux 6.2 or later). Any agent can read \
                                  the data folder and act as any owner, so this server serves only its first owner. To serve \
                                  everybody all the same, start it with --unconfined."
                .to_owned(),
            Self::Off => {
                "Agents are not confined (--unconfined): any agent can read the data folder and act as any owner.".to_owned()
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct FirstOwner {
    file: PathBuf,
    known: OnceLock<String>,
    /// Whether only the first owner is served.
    only_first: bool,
}

impl FirstOwner {
    pub(super) fn new(data: &Path, confinement: AgentConfinement) -> Self {
        let only_first = confinement == AgentConfinement::Unavailable;
        Self { file: data.join(FIRST_OWNER), known: OnceLock::new(), only_first }
    }

    /// Reads the first owner, or records `owner`.
    fn read_or_record(&self, owner: &UserId) -> std::io::Result<&str> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let folder = self.file.parent().unwrap_or_else(|| Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(owner.as_str().as_bytes())?;
        new.as_file().sync_all()?;
        // Several requests and servers may race. Only one of them creates the file.
        if let Err(e) = new.persist_noclobber(&self.file)
            && e.error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(e.error);
        }
        let recorded = std::fs::read_to_string(&self.file)?;
        Ok(self.known.get_or_init(|| recorded))
    }
}

impl Admission for FirstOwner {
    fn admit(&self, owner: &UserId) -> Result<(), Problem> {
        match self.read_or_record(owner) {
            Ok(first) if self.only_first && first != owner.as_str() => Err(Problem::OwnerNotServed),
            Ok(_) => Ok(()),
            Err(e) if self.only_first => Err(Problem::internal(e)),
            Err(error) => {
                tracing::warn!(%error, "failed to record the first owner");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    #[test]
    fn without_confinement_only_the_first_owner_is_served() {
        let data = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            // Twice, as after a restart.
            let served = FirstOwner::new(data.path(), AgentConfinement::Unavailable);
            served.admit(&owner("ada")).unwrap();
            assert!(matches!(served.admit(&owner("bob")), Err(Problem::OwnerNotServed)));
            served.admit(&owner("ada")).unwrap();
        }
    }

    #[test]
    fn the_first_owner_is_recorded_even_while_everybody_is_served() {
        for everybody in
            [AgentConfinement::Enforced, AgentConfinement::EnforcedForFiles, AgentConfinement::Off]
        {
            let data = tempfile::tempdir().unwrap();
            let served = FirstOwner::new(data.path(), everybody);
            for name in ["ada", "bob"] {
                served.admit(&owner(name)).unwrap();
            }
            let only_first = FirstOwner::new(data.path(), AgentConfinement::Unavailable);
            assert!(only_first.admit(&owner("bob")).is_err(), "{everybody:?}");
            only_first.admit(&owner("ada")).unwrap();
        }
    }

    #[test]
    fn every_confinement_notice_names_its_limits() {
        assert!(AgentConfinement::Enforced.statement().contains("docker.sock"));
        assert!(AgentConfinement::EnforcedForFiles.statement().contains("signalling"));
        assert!(AgentConfinement::Unavailable.statement().contains("--unconfined"));
        assert!(AgentConfinement::Off.statement().contains("any owner"));
    }
}
