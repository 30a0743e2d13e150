//! The conversation's state across runs, in the session's home: its id, its cost and a summary.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::kit::claude_stream::Totals;
use crate::kit::conversation_summary::ConversationSummary;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Conversation {
    /// The id that `--resume` accepts.
    pub id: String,
    /// Whether Claude Code has started to process a prompt. Otherwise it has nothing to resume.
    #[serde(default)]
    pub begun: bool,
    /// Cost so far, by model (decision 31).
    #[serde(default)]
    pub totals: Totals,
    /// Summary of the conversation, in case Claude Code loses it.
    #[serde(default, rename = "account")]
    pub summary: ConversationSummary,
    /// Summary of earlier conversations that Claude Code has lost and whose work this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<ConversationSummary>,
}

impl Conversation {
    fn new() -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            begun: false,
            totals: Totals::new(),
            summary: ConversationSummary::default(),
            earlier: None,
        }
    }

    /// A new conversation that continues the work of this one. A new meter counts its cost from zero.
    pub(super) fn renewed(&self) -> Self {
        let earlier = self.earlier.clone().unwrap_or_default().followed_by(&self.summary);
        Self { earlier: Some(earlier), ..Self::new() }
    }
}

#[derive(Debug)]
pub(super) struct ConversationFile {
    path: PathBuf,
    conversation: Conversation,
}

impl ConversationFile {
    /// Opens the latest conversation if `resume` is set and there is one, or else a new one, which is on disk on
    /// return.
    pub(super) fn open(session_home: &Path, resume: bool) -> io::Result<Self> {
        fs::create_dir_all(session_home)?;
        let path = session_home.join("claude.json");
        let last: Option<Conversation> = match fs::read(&path) {
            // A file that cannot be parsed has nothing to resume.
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let conversation = match last.filter(|_| resume) {
            Some(last) if last.begun => last,
            // Claude Code may already know the id, and would refuse a second beginning.
            Some(last) => last.renewed(),
            // The earlier conversation is lost. The agent gets its task again.
            None if resume => {
                Conversation { earlier: Some(ConversationSummary::default()), ..Conversation::new() }
            }
            None => Conversation::new(),
        };
        let file = Self { path, conversation };
        file.save()?;
        Ok(file)
    }

    pub(super) const fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Returns whether the conversation must be saved.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Conversation)) -> bool {
        let before = self.conversation.clone();
        change(&mut self.conversation);
        self.conversation != before
    }

    /// Replaces the file atomically and durably.
    pub(super) fn save(&self) -> io::Result<()> {
        let fresh = self.path.with_extension("json.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec(&self.conversation)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(file: &mut ConversationFile, change: impl FnOnce(&mut Conversation)) {
        if file.change(change) {
            file.save().unwrap();
        }
    }

    #[test]
    fn only_the_existing_conversation_is_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let mut file = ConversationFile::open(&home, true).unwrap();
        let first = file.conversation().id.clone();
        let again = ConversationFile::open(&home, true).unwrap();
        assert_ne!(again.conversation().id, first, "it contains no message");
        update(&mut file, |conversation| conversation.begun = true);
        assert_eq!(ConversationFile::open(&home, true).unwrap().conversation(), file.conversation());
        let fresh = ConversationFile::open(&home, false).unwrap();
        assert_ne!(fresh.conversation().id, first);
        assert!(fresh.conversation().totals.is_empty());
    }

    #[test]
    fn state_of_a_lost_conversation_is_kept_until_reported() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ConversationFile::open(dir.path(), true).unwrap();
        update(&mut file, |conversation| {
            conversation.begun = true;
            conversation.summary.record_message("do a");
        });
        update(&mut file, |conversation| *conversation = conversation.renewed());
        // Killed before Claude Code processed a prompt, and lost once more.
        let mut file = ConversationFile::open(dir.path(), true).unwrap();
        assert!(!file.conversation().begun && file.conversation().totals.is_empty());
        update(&mut file, |conversation| conversation.summary.record_message("then b"));
        let known = file.conversation().renewed().earlier.unwrap().to_text("x");
        assert!(known.find("do a").unwrap() < known.find("then b").unwrap(), "{known}");
        assert_eq!(ConversationFile::open(dir.path(), false).unwrap().conversation().earlier, None);
    }

    #[test]
    fn damaged_file_is_no_conversation() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("claude.json"), "{\"id\":\"a").unwrap();
        assert!(!ConversationFile::open(dir.path(), true).unwrap().conversation().begun);
    }
}
