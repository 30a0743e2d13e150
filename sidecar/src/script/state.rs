//! State of a scripted conversation across runs, in the session's home: its position, ids and meters.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use pilothouse_domain::Usd;
use pilothouse_domain::value::TokenUsage;
use serde::{Deserialize, Serialize};

use crate::kit::turn_tree::TurnTree;

/// Running totals of one meter and model (decision 31).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Totals {
    pub cost_usd: Usd,
    pub tokens: TokenUsage,
}

/// State of the session's conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Counts the conversations of the session. Part of each id, so that ids are unique within a session.
    pub conversation: u32,
    /// SHA-256 of the played content, for which the position is valid.
    pub script: String,
    pub position: usize,
    pub turns: u32,
    /// Number of turns that were started outside the program.
    pub inserted: u32,
    /// Whether the context warning was sent.
    pub warned: bool,
    /// Totals by meter, model and subagent.
    pub meters: BTreeMap<String, Totals>,
    /// The conversations of the session, from their first change on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TurnTree>,
}

#[derive(Debug)]
pub(super) struct StateFile(PathBuf);

impl StateFile {
    pub(super) fn open(session_home: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(session_home)?;
        Ok(Self(session_home.join("script-state.json")))
    }

    /// Loads the latest conversation if `resume` is set and there is one. Otherwise begins a new one.
    pub(super) fn load(&self, resume: bool, script: String) -> io::Result<State> {
        let last: Option<State> = match std::fs::read(&self.0) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes)?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        Ok(match last {
            Some(last) if resume && last.script == script => last,
            // Changed content is played from its beginning within the same conversation.
            Some(last) if resume => State { script, position: 0, ..last },
            last => {
                State { conversation: last.map_or(0, |l| l.conversation) + 1, script, ..State::default() }
            }
        })
    }

    /// Replaces the file atomically.
    pub(super) fn save(&self, state: &State) -> io::Result<()> {
        let fresh = self.0.with_extension("json.new");
        std::fs::write(&fresh, serde_json::to_vec(state)?)?;
        std::fs::rename(fresh, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumed_conversation_continues_and_a_fresh_one_has_new_ids() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::open(dir.path()).unwrap();
        let mut state = file.load(true, "a".into()).unwrap();
        assert_eq!((state.conversation, state.position), (1, 0));
        state.position = 7;
        state.meters.insert("m".into(), Totals::default());
        file.save(&state).unwrap();
        assert_eq!(file.load(true, "a".into()).unwrap(), state);
        let other = file.load(true, "b".into()).unwrap();
        assert_eq!((other.conversation, other.position, other.meters.len()), (1, 0, 1));
        let fresh = file.load(false, "a".into()).unwrap();
        assert_eq!((fresh.conversation, fresh.position, fresh.meters.len()), (2, 0, 0));
    }
}
