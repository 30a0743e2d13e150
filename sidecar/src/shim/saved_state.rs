//! The agent's states and its cost, which outlive a run. Stored in the session's home, in `shim/`.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pilothouse_domain::MeterId;
use pilothouse_shim::message::AgentState;
use serde::{Deserialize, Serialize};

use crate::kit::conversation_summary::ConversationSummary;
use crate::kit::usage::Totals;

/// The last states are kept, so that a damaged one costs little.
const KEPT: u64 = 3;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Conversation {
    pub(super) meter: MeterId,
    #[serde(default)]
    pub(super) totals: Totals,
    /// Whether the agent has received its brief.
    #[serde(default)]
    pub(super) spawned: bool,
    /// The shim's last run, and its last sequence.
    #[serde(default)]
    pub(super) run: String,
    #[serde(default)]
    pub(super) last_sequence: u64,
    /// Number of the latest state; 0 if there is none.
    #[serde(default)]
    checkpoint: u64,
    /// In case the agent loses its conversation.
    #[serde(default)]
    pub(super) summary: ConversationSummary,
}

impl Conversation {
    pub(super) fn new(meter: MeterId) -> Self {
        Self {
            meter,
            totals: Totals::default(),
            spawned: false,
            run: String::new(),
            last_sequence: 0,
            checkpoint: 0,
            summary: ConversationSummary::default(),
        }
    }

    /// Whether the agent has returned a state, which may have been damaged since.
    pub(super) const fn has_state(&self) -> bool {
        self.checkpoint > 0
    }
}

#[derive(Debug, Clone)]
pub(super) struct StateFolder(PathBuf);

impl StateFolder {
    pub(super) fn open(session_home: &Path) -> io::Result<Self> {
        let folder = session_home.join("shim");
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// An unreadable file is an error, because a new conversation would silently lose the old one.
    pub(super) fn load(&self) -> io::Result<Option<Conversation>> {
        match fs::read(self.0.join("conversation.json")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) fn save(&self, conversation: &Conversation) -> io::Result<()> {
        self.write("conversation.json", &serde_json::to_vec(conversation)?)
    }

    /// Stores a state before the conversation that names it.
    pub(super) fn keep(&self, conversation: &mut Conversation, state: &AgentState) -> io::Result<()> {
        let number = conversation.checkpoint + 1;
        self.write(&name(number), &serde_json::to_vec(state)?)?;
        let before = std::mem::replace(&mut conversation.checkpoint, number);
        if let Err(e) = self.save(conversation) {
            conversation.checkpoint = before;
            return Err(e);
        }
        // What is left behind is replaced or ignored.
        let _ = fs::remove_file(self.0.join(name(number.saturating_sub(KEPT))));
        Ok(())
    }

    /// The latest readable state, and whether a later one is damaged.
    pub(super) fn latest(&self, conversation: &Conversation) -> (Option<AgentState>, bool) {
        let mut damaged = false;
        let oldest = conversation.checkpoint.saturating_sub(KEPT - 1).max(1);
        for number in (oldest..=conversation.checkpoint).rev() {
            let bytes = fs::read(self.0.join(name(number))).unwrap_or_default();
            let state = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
            match state.and_then(|state| AgentState::try_from(state).ok()) {
                Some(state) => return (Some(state), damaged),
                None => damaged = true,
            }
        }
        (None, damaged)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let beside = self.0.join(format!("{name}.new"));
        let mut file = fs::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(beside, self.0.join(name))
    }
}

fn name(number: u64) -> String {
    format!("checkpoint-{number}.json")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(n: u64) -> AgentState {
        AgentState::try_from(json!({ "sessionId": "s", "checkpoint": {}, "lastSequence": n })).unwrap()
    }

    #[test]
    fn last_three_states_are_kept_and_a_damaged_one_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(home.path()).unwrap();
        let mut conversation = Conversation::new(MeterId::parse("m").unwrap());
        assert_eq!((folder.load().unwrap(), folder.latest(&conversation)), (None, (None, false)));
        for n in 1..=5 {
            folder.keep(&mut conversation, &state(n)).unwrap();
        }
        let loaded = folder.load().unwrap().unwrap();
        assert_eq!(loaded, conversation);
        assert_eq!(folder.latest(&loaded), (Some(state(5)), false));
        let path = home.path().join("shim");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 4, "three states and the conversation");
        fs::write(path.join("checkpoint-5.json"), "{").unwrap();
        assert_eq!(folder.latest(&loaded), (Some(state(4)), true));
        fs::write(path.join("conversation.json"), "{").unwrap();
        assert!(folder.load().is_err());
    }
}
