//! What is remembered of a conversation over runs, in the session's folder: its id and what it cost.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::usage::Totals;
use super::account::Account;

/// A conversation of the binary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Conversation {
    /// Its id: what `--resume` takes.
    pub id: String,
    /// Whether the binary has taken up a prompt of it: only then is there something to resume.
    #[serde(default)]
    pub begun: bool,
    /// What it cost so far, by model (ruling 31).
    #[serde(default)]
    pub totals: Totals,
    /// What is known of it without the binary.
    #[serde(default)]
    pub account: Account,
    /// What is known of those before it, which the binary has lost: what it goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Account>,
}

impl Conversation {
    /// A new one.
    fn new() -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            begun: false,
            totals: Totals::new(),
            account: Account::default(),
            earlier: None,
        }
    }

    /// A new one that goes on from what is known of this one. What it costs is counted from zero, by a meter of its own.
    pub(super) fn renewed(&self) -> Self {
        let earlier = self.earlier.clone().unwrap_or_default().followed_by(&self.account);
        Self { earlier: Some(earlier).filter(|earlier| !earlier.is_empty()), ..Self::new() }
    }
}

/// Where it is kept.
#[derive(Debug)]
pub(super) struct ConversationFile {
    path: PathBuf,
    conversation: Conversation,
}

impl ConversationFile {
    /// The conversation of the session: the last one, or, without `resume` or when there is none, a new one. Either is on
    /// disk when this returns.
    pub(super) fn open(session_home: &Path, resume: bool) -> io::Result<Self> {
        fs::create_dir_all(session_home)?;
        let path = session_home.join("claude.json");
        let last: Option<Conversation> = match fs::read(&path) {
            // A file that cannot be understood holds nothing that could be resumed.
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let conversation = match last.filter(|_| resume) {
            Some(last) if last.begun => last,
            // The binary may know its id already, and then refuses to begin it.
            Some(last) => last.renewed(),
            None => Conversation::new(),
        };
        let file = Self { path, conversation };
        file.save()?;
        Ok(file)
    }

    /// What is remembered.
    pub(super) const fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Changes it, durably, if that changes anything.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut Conversation)) -> io::Result<()> {
        let before = self.conversation.clone();
        change(&mut self.conversation);
        if self.conversation == before { Ok(()) } else { self.save() }
    }

    /// Replaces the file, whole or not at all; it survives a crash of the machine.
    fn save(&self) -> io::Result<()> {
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

    #[test]
    fn a_conversation_that_was_begun_is_resumed_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let mut file = ConversationFile::open(&home, true).unwrap();
        let first = file.conversation().id.clone();
        let again = ConversationFile::open(&home, true).unwrap();
        assert_ne!(again.conversation().id, first, "nothing was said in it");
        file.update(|conversation| conversation.begun = true).unwrap();
        assert_eq!(ConversationFile::open(&home, true).unwrap().conversation(), file.conversation());
        let fresh = ConversationFile::open(&home, false).unwrap();
        assert_ne!(fresh.conversation().id, first);
        assert!(fresh.conversation().totals.is_empty());
    }

    #[test]
    fn what_is_known_of_a_lost_conversation_is_kept_until_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ConversationFile::open(dir.path(), true).unwrap();
        file.update(|conversation| {
            conversation.begun = true;
            conversation.account.told("do a");
        })
        .unwrap();
        file.update(|conversation| *conversation = conversation.renewed()).unwrap();
        // Killed before the binary took up a prompt of it, and lost once more.
        let mut file = ConversationFile::open(dir.path(), true).unwrap();
        assert!(!file.conversation().begun && file.conversation().totals.is_empty());
        file.update(|conversation| conversation.account.told("then b")).unwrap();
        let known = file.conversation().renewed().earlier.unwrap().to_text();
        assert!(known.find("do a").unwrap() < known.find("then b").unwrap(), "{known}");
        assert_eq!(ConversationFile::open(dir.path(), false).unwrap().conversation().earlier, None);
    }

    #[test]
    fn a_torn_file_is_no_conversation() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("claude.json"), "{\"id\":\"a").unwrap();
        assert!(!ConversationFile::open(dir.path(), true).unwrap().conversation().begun);
    }
}
