//! What outlives a run beside the conversation itself: which one it is, its turns, and whether it was warned. In the
//! session's folder, which the agent's own processes do not see.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pilothouse_domain::TurnId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What is remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    /// The file of the conversation.
    #[serde(default)]
    conversation: Option<PathBuf>,
    /// The turns of the session, in order.
    #[serde(default)]
    turns: Vec<KeptTurn>,
    /// Whether the context window was told to be nearly full.
    #[serde(default)]
    warned: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptTurn {
    id: TurnId,
    conversation: PathBuf,
    /// The entry that it came after; none at the beginning.
    after: Option<String>,
}

/// The memory of a session.
#[derive(Debug)]
pub(super) struct Memory {
    folder: PathBuf,
    kept: Kept,
}

impl Memory {
    /// Opens or makes it.
    pub(super) fn open(session_home: &Path) -> io::Result<Self> {
        let folder = session_home.join("native");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let kept = match fs::read(folder.join("state.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(e) => return Err(e),
        };
        Ok(Self { folder, kept })
    }

    /// Where conversations are kept.
    pub(super) fn conversations(&self) -> PathBuf {
        self.folder.join("conversations")
    }

    /// The file of the last conversation, if it is there.
    pub(super) fn conversation(&self) -> Option<&Path> {
        self.kept.conversation.as_deref().filter(|file| file.exists())
    }

    /// This is the conversation from here on.
    pub(super) fn set_conversation(&mut self, file: &Path) -> io::Result<()> {
        if self.kept.conversation.as_deref() == Some(file) {
            return Ok(());
        }
        self.kept.conversation = Some(file.to_owned());
        self.kept.warned = false;
        self.save()?;
        // With the name of the conversation all of it would be lost: that the file is this one is waited for, too.
        fs::File::open(&self.folder)?.sync_all()
    }

    /// A turn begins after this entry: its id, unlike that of any other turn of the session.
    pub(super) fn begin_turn(&mut self, after: Option<String>) -> io::Result<TurnId> {
        // Not counted: where this file does not outlive its run, the ids must differ all the same.
        let id = TurnId::parse(format!("turn-{}", Uuid::now_v7())).map_err(io::Error::other)?;
        let conversation = self.kept.conversation.clone().unwrap_or_default();
        self.kept.turns.push(KeptTurn { id: id.clone(), conversation, after });
        self.save()?;
        Ok(id)
    }

    /// The entry that a turn of this conversation came after; `Some(None)` for the first.
    #[allow(clippy::option_option)] // no such turn, and a turn that comes after nothing
    pub(super) fn before(&self, turn: &TurnId) -> Option<Option<&str>> {
        let found = self.kept.turns.iter().find(|known| known.id == *turn)?;
        (Some(&found.conversation) == self.kept.conversation.as_ref()).then_some(found.after.as_deref())
    }

    /// Whether the warning is to be told now: once for each time that the window fills up.
    pub(super) fn warns(&mut self, near: bool) -> io::Result<bool> {
        let before = std::mem::replace(&mut self.kept.warned, near);
        if before != near {
            self.save()?;
        }
        Ok(near && !before)
    }

    /// Replaces the file, whole or not at all.
    fn save(&self) -> io::Result<()> {
        let fresh = self.folder.join("state.json.new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(&serde_json::to_vec(&self.kept)?)?;
        file.sync_data()?;
        fs::rename(fresh, self.folder.join("state.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_keep_their_places_over_runs_and_belong_to_their_conversation() {
        let dir = tempfile::tempdir().unwrap();
        let mut memory = Memory::open(dir.path()).unwrap();
        memory.set_conversation(Path::new("/a")).unwrap();
        let first = memory.begin_turn(None).unwrap();
        let second = memory.begin_turn(Some("entry".into())).unwrap();
        let mut memory = Memory::open(dir.path()).unwrap();
        assert_eq!(memory.before(&first), Some(None));
        assert_eq!(memory.before(&second), Some(Some("entry")));
        memory.set_conversation(Path::new("/b")).unwrap();
        assert_eq!(memory.before(&second), None, "another conversation cannot go back there");
        let third = memory.begin_turn(None).unwrap();
        assert!(third != first && third != second);
    }

    #[test]
    fn it_warns_once_for_each_time_that_the_window_fills_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut memory = Memory::open(dir.path()).unwrap();
        assert!(!memory.warns(false).unwrap() && memory.warns(true).unwrap());
        let mut memory = Memory::open(dir.path()).unwrap();
        assert!(!memory.warns(true).unwrap(), "the run before warned");
        assert!(!memory.warns(false).unwrap() && memory.warns(true).unwrap());
    }
}
