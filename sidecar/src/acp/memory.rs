//! What outlives a run: which conversation of the agent this session is, and what it cost. Kept in the session's folder.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::meter::Totals;

/// The file's name in the session's folder.
const FILE: &str = "acp.json";

/// A conversation that a later run takes up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Conversation {
    /// The agent's id of it.
    pub(super) id: String,
    /// Which agent it is of.
    pub(super) agent: String,
    /// Whether the agent has read the instructions of template and skills.
    pub(super) introduced: bool,
    /// What it cost.
    #[serde(default)]
    pub(super) totals: Totals,
}

/// Where it is kept.
#[derive(Debug, Clone)]
pub(super) struct Memory(PathBuf);

impl Memory {
    /// The memory in a session's folder.
    pub(super) fn open(session_home: &Path) -> io::Result<Self> {
        fs::create_dir_all(session_home)?;
        Ok(Self(session_home.join(FILE)))
    }

    /// What is kept. A file that cannot be read is an error: beginning anew would lose the conversation silently.
    pub(super) fn load(&self) -> io::Result<Option<Conversation>> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Keeps it: the whole of it, or, when something fails or dies on the way, what was kept before.
    pub(super) fn save(&self, conversation: &Conversation) -> io::Result<()> {
        let beside = self.0.with_extension("new");
        let mut file = fs::File::create(&beside)?;
        file.write_all(&serde_json::to_vec(conversation)?)?;
        file.sync_all()?;
        fs::rename(beside, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again_and_a_torn_file_is_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::open(&dir.path().join("home")).unwrap();
        assert_eq!(memory.load().unwrap(), None);
        let kept =
            Conversation { id: "s".into(), agent: "a 1".into(), introduced: true, totals: Totals::default() };
        memory.save(&kept).unwrap();
        assert_eq!(memory.load().unwrap(), Some(kept));
        fs::write(dir.path().join("home").join(FILE), b"{\"id\":").unwrap();
        assert!(memory.load().is_err());
    }
}
