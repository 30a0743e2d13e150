//! The agent's conversation and its cost, which outlive a run. Stored in the session's home.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::meter::Totals;
use crate::kit::conversation_summary::ConversationSummary;

const FILE: &str = "acp.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Conversation {
    /// The agent's id of the conversation.
    pub(super) id: String,
    pub(super) agent: String,
    /// Whether the agent has received the instructions of template and skills.
    pub(super) introduced: bool,
    #[serde(default)]
    pub(super) totals: Totals,
    /// Summary of the conversation, in case the agent loses it.
    #[serde(default, rename = "account")]
    pub(super) summary: ConversationSummary,
    /// Whether the provider of the model rejects the conversation, so that it cannot continue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) refused: bool,
    /// Summary of earlier conversations that the agent has lost and whose work this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) earlier: Option<ConversationSummary>,
}

impl Conversation {
    /// `lost` is the conversation that this one replaces; the agent gets a summary of it.
    pub(super) fn new(id: &str, agent: &str, lost: Option<Self>) -> Self {
        let earlier = lost.map(|lost| lost.earlier.unwrap_or_default().followed_by(&lost.summary));
        Self {
            id: id.to_owned(),
            agent: agent.to_owned(),
            introduced: false,
            totals: Totals::default(),
            summary: ConversationSummary::default(),
            refused: false,
            earlier,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct ConversationFile(PathBuf);

impl ConversationFile {
    pub(super) fn open(session_home: &Path) -> io::Result<Self> {
        fs::create_dir_all(session_home)?;
        Ok(Self(session_home.join(FILE)))
    }

    /// Loads the state. An unreadable file is an error, because a new conversation would silently lose the old one.
    pub(super) fn load(&self) -> io::Result<Option<Conversation>> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

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
    fn state_is_restored_and_a_damaged_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let conversation_file = ConversationFile::open(&dir.path().join("home")).unwrap();
        assert_eq!(conversation_file.load().unwrap(), None);
        let kept = Conversation { introduced: true, ..Conversation::new("s", "a 1", None) };
        conversation_file.save(&kept).unwrap();
        assert_eq!(conversation_file.load().unwrap(), Some(kept));
        fs::write(dir.path().join("home").join(FILE), b"{\"id\":").unwrap();
        assert!(conversation_file.load().is_err());
    }

    #[test]
    fn state_of_lost_conversations_is_carried_over() {
        let mut first = Conversation::new("1", "a", None);
        assert_eq!(first.earlier, None);
        first.summary.record_message("do a");
        let mut second = Conversation::new("2", "a", Some(first));
        second.summary.record_message("then b");
        let known = Conversation::new("3", "a", Some(second)).earlier.unwrap().to_text("the task");
        assert!(known.find("do a").unwrap() < known.find("then b").unwrap(), "{known}");
        let of_before = r#"{"id": "s", "agent": "a", "introduced": true}"#;
        assert!(serde_json::from_str::<Conversation>(of_before).is_ok(), "the format of an older sidecar");
    }
}
