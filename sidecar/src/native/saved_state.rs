//! State that outlives a run besides the conversations: which one is current, their turns, and whether the context
//! warning was sent. Stored in the session's home, in a folder that the agent's own processes cannot see.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pilothouse_domain::TurnId;
use pilothouse_domain::value::ConversationTarget;
use pilothouse_sqlite::is_disk_full;
use pilothouse_wire::RawEvent;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::kit::turn_tree::{TurnEnd, TurnTree};
use crate::run_dir::until_space;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StoredState {
    /// The keys of conversations are their files.
    #[serde(flatten)]
    tree: TurnTree,
    /// Whether the context warning was sent.
    #[serde(default)]
    warned: bool,
}

#[derive(Debug)]
pub(super) struct SavedState {
    folder: PathBuf,
    stored: StoredState,
}

/// A place in the conversations of the session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub file: PathBuf,
    /// The entry after which to continue; `None`: where the conversation was left.
    pub entry: Option<String>,
}

fn key(file: &Path) -> String {
    file.to_string_lossy().into_owned()
}

/// The id of the conversation in a file.
fn conversation_id(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl Place {
    pub(super) fn conversation_id(&self) -> String {
        conversation_id(&self.file)
    }
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

    /// The file of the current conversation, if it exists.
    pub(super) fn conversation(&self) -> Option<&Path> {
        self.stored.tree.current().map(Path::new).filter(|file| file.exists())
    }

    pub(super) fn set_conversation(&mut self, file: &Path) -> io::Result<()> {
        let key = key(file);
        let is_known = self.stored.tree.current() == Some(key.as_str());
        self.stored.tree.open(&key, None);
        if is_known { Ok(()) } else { self.save_current() }
    }

    /// Makes another conversation the current one. The current one is the parent of a new conversation.
    pub(super) fn change_conversation(&mut self, file: &Path) -> io::Result<()> {
        let parent = self.stored.tree.current().map(str::to_owned);
        self.stored.tree.open(&key(file), parent.as_deref());
        self.save_current()
    }

    /// Saves which conversation is the current one.
    fn save_current(&mut self) -> io::Result<()> {
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
        self.stored.tree.begin(id.clone(), after);
        self.save_unless_full()?;
        Ok(id)
    }

    /// The entry that precedes a turn of this conversation; `Some(None)` for the first turn.
    #[allow(clippy::option_option)] // outer: no such turn; inner: no preceding entry
    pub(super) fn before(&self, turn: &TurnId) -> Option<Option<&str>> {
        self.stored.tree.before(turn)
    }

    /// The turn that the next one follows.
    pub(super) fn latest_turn(&self) -> Option<&TurnId> {
        self.stored.tree.head()
    }

    /// The place that an owner names. The error is a sentence for people.
    pub(super) fn place(&self, target: &ConversationTarget) -> Result<Place, String> {
        match target {
            ConversationTarget::ConversationId(id) => {
                let file = self.conversations().join(format!("{id}.jsonl"));
                let is_known = !id.contains('/') && self.stored.tree.has_conversation(&key(&file));
                if is_known {
                    Ok(Place { file, entry: None })
                } else {
                    Err(format!("this session has no conversation {id}"))
                }
            }
            ConversationTarget::TurnId(turn) => {
                let found = self.stored.tree.end_of(turn);
                let (file, end) = found.ok_or_else(|| format!("this session has no turn {turn}"))?;
                let entry = match end {
                    TurnEnd::Head => None,
                    TurnEnd::Entry(entry) => Some(entry.to_owned()),
                    TurnEnd::Unknown => return Err(format!("it is not known where the turn {turn} ended")),
                };
                Ok(Place { file: file.into(), entry })
            }
        }
    }

    /// Records the last entry of the current branch, before the agent leaves it.
    pub(super) fn leave(&mut self, last: Option<String>) {
        self.stored.tree.leave(last);
    }

    pub(super) fn rewind(&mut self, before: &TurnId) -> io::Result<()> {
        self.stored.tree.rewind(before);
        self.save_unless_full()
    }

    pub(super) fn continue_after(&mut self, turn: &TurnId) -> io::Result<()> {
        self.stored.tree.continue_after(turn);
        self.save_unless_full()
    }

    pub(super) fn label(&mut self, turn: &TurnId, label: Option<String>) -> io::Result<()> {
        self.stored.tree.label(turn, label);
        self.save_unless_full()
    }

    /// All branches and labels.
    pub(super) fn conversations_event(&self) -> RawEvent {
        RawEvent::Conversations(self.stored.tree.report(|key| conversation_id(Path::new(key))))
    }

    /// The same, if there is more than one branch or a label.
    pub(super) fn conversations_to_choose(&self) -> Option<RawEvent> {
        self.stored.tree.has_choice().then(|| self.conversations_event())
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
    fn places_are_known_by_conversation_and_by_turn() {
        let dir = tempfile::tempdir().unwrap();
        let mut saved_state = SavedState::open(dir.path()).unwrap();
        let file = |saved_state: &SavedState, name: &str| saved_state.conversations().join(name);
        let (a, b) = (file(&saved_state, "a.jsonl"), file(&saved_state, "b.jsonl"));
        saved_state.set_conversation(&a).unwrap();
        let first = saved_state.begin_turn(Some("e0".into())).unwrap();
        let second = saved_state.begin_turn(Some("e1".into())).unwrap();
        assert_eq!(saved_state.conversations_to_choose(), None);
        saved_state.leave(Some("e2".into()));
        saved_state.change_conversation(&b).unwrap();
        let saved_state = SavedState::open(dir.path()).unwrap();
        let place = |target| saved_state.place(&target);
        let by_id = |id: &str| place(ConversationTarget::ConversationId(id.to_owned()));
        assert_eq!(by_id("a"), Ok(Place { file: a.clone(), entry: None }));
        assert!(by_id("c").is_err() && by_id("../conversations/a").is_err());
        let of_turn = |turn: &TurnId| place(ConversationTarget::TurnId(turn.clone()));
        assert_eq!(of_turn(&second), Ok(Place { file: a.clone(), entry: None }), "where it was left");
        assert_eq!(of_turn(&first), Ok(Place { file: a, entry: Some("e1".into()) }));
        assert!(of_turn(&TurnId::parse("turn-x").unwrap()).is_err());
        let Some(RawEvent::Conversations(listed)) = saved_state.conversations_to_choose() else {
            panic!("there are two conversations")
        };
        let shown: Vec<_> = listed.branches.iter().map(|it| (&*it.conversation_id, it.is_current)).collect();
        assert_eq!(shown, [("a", false), ("b", true)]);
        assert_eq!(listed.branches[1].parent_id.as_deref(), Some("a"));
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
