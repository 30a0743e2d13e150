//! State that outlives a run besides the conversation: the current conversation, its turns, and whether the context
//! warning was sent. Stored in the session's home, in a folder that the agent's own processes cannot see.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pilothouse_domain::TurnId;
use pilothouse_sqlite::is_disk_full;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::run_dir::until_space;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredState {
    #[serde(default)]
    conversation: Option<PathBuf>,
    #[serde(default)]
    turns: Vec<StoredTurn>,
    /// Whether the context warning was sent.
    #[serde(default)]
    warned: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredTurn {
    id: TurnId,
    conversation: PathBuf,
    /// The last entry before the turn; `None` at the beginning of the conversation.
    after: Option<String>,
}

#[derive(Debug)]
pub(super) struct SavedState {
    folder: PathBuf,
    stored: StoredState,
}

impl SavedState {
    /// Opens the state, and creates it if needed.
    pub(super) fn open(session_home: &Path) -> io::Result<Self> {
        let folder = session_home.join("native");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let stored = match fs::read(folder.join("state.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => StoredState::default(),
            Err(e) => return Err(e),
        };
        Ok(Self { folder, stored })
    }

    pub(super) fn conversations(&self) -> PathBuf {
        self.folder.join("conversations")
    }

    /// The file of the latest conversation, if it exists.
    pub(super) fn conversation(&self) -> Option<&Path> {
        self.stored.conversation.as_deref().filter(|file| file.exists())
    }

    pub(super) fn set_conversation(&mut self, file: &Path) -> io::Result<()> {
        if self.stored.conversation.as_deref() == Some(file) {
            return Ok(());
        }
        self.stored.conversation = Some(file.to_owned());
        self.stored.warned = false;
        // Blocks on a full disk, because without its name the conversation would be lost.
        until_space(|| self.save())?;
        // The rename must be durable as well, because the file names the whole conversation.
        fs::File::open(&self.folder)?.sync_all()
    }

    /// Begins a turn after this entry. The returned id is unique within the session.
    pub(super) fn begin_turn(&mut self, after: Option<String>) -> io::Result<TurnId> {
        // After the loss of this file, a counter would repeat ids.
        let id = TurnId::parse(format!("turn-{}", Uuid::now_v7())).map_err(io::Error::other)?;
        let conversation = self.stored.conversation.clone().unwrap_or_default();
        self.stored.turns.push(StoredTurn { id: id.clone(), conversation, after });
        self.save_unless_full()?;
        Ok(id)
    }

    /// The entry that precedes a turn of this conversation; `Some(None)` for the first turn.
    #[allow(clippy::option_option)] // outer: no such turn; inner: no preceding entry
    pub(super) fn before(&self, turn: &TurnId) -> Option<Option<&str>> {
        let found = self.stored.turns.iter().find(|known| known.id == *turn)?;
        (Some(&found.conversation) == self.stored.conversation.as_ref()).then_some(found.after.as_deref())
    }

    /// Whether to send the context warning: once each time that the window fills up.
    pub(super) fn should_warn(&mut self, near: bool) -> io::Result<bool> {
        let before = std::mem::replace(&mut self.stored.warned, near);
        if before != near {
            self.save_unless_full()?;
        }
        Ok(near && !before)
    }

    /// On a full disk, leaves the saving to the next change.
    fn save_unless_full(&self) -> io::Result<()> {
        match self.save() {
            Err(error) if is_disk_full(&error) => Ok(()),
            outcome => outcome,
        }
    }

    /// Replaces the file atomically.
    fn save(&self) -> io::Result<()> {
        let fresh = self.folder.join("state.json.new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(&serde_json::to_vec(&self.stored)?)?;
        file.sync_data()?;
        fs::rename(fresh, self.folder.join("state.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_positions_persist_for_their_conversation() {
        let dir = tempfile::tempdir().unwrap();
        let mut saved_state = SavedState::open(dir.path()).unwrap();
        saved_state.set_conversation(Path::new("/a")).unwrap();
        let first = saved_state.begin_turn(None).unwrap();
        let second = saved_state.begin_turn(Some("entry".into())).unwrap();
        let mut saved_state = SavedState::open(dir.path()).unwrap();
        assert_eq!(saved_state.before(&first), Some(None));
        assert_eq!(saved_state.before(&second), Some(Some("entry")));
        saved_state.set_conversation(Path::new("/b")).unwrap();
        assert_eq!(saved_state.before(&second), None, "another conversation cannot go back there");
        let third = saved_state.begin_turn(None).unwrap();
        assert!(third != first && third != second);
    }

    #[test]
    fn window_warning_is_sent_once_per_fill() {
        let dir = tempfile::tempdir().unwrap();
        let mut saved_state = SavedState::open(dir.path()).unwrap();
        assert!(!saved_state.should_warn(false).unwrap() && saved_state.should_warn(true).unwrap());
        let mut saved_state = SavedState::open(dir.path()).unwrap();
        assert!(!saved_state.should_warn(true).unwrap(), "the run before warned");
        assert!(!saved_state.should_warn(false).unwrap() && saved_state.should_warn(true).unwrap());
    }
}
