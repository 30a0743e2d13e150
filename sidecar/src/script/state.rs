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

/// Two files that are written in turn, so that a save leaves the last saved state as it is, and creates no file. A new file for each save
/// would be most of the work of many agents on one file system.
#[derive(Debug)]
pub(super) struct StateFile {
    paths: [PathBuf; 2],
    /// Number of the last save.
    last: u64,
}

#[derive(Serialize, Deserialize)]
struct Saved<S> {
    #[serde(default)]
    save: u64,
    #[serde(flatten)]
    state: S,
}

impl StateFile {
    pub(super) fn open(session_home: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(session_home)?;
        let paths = ["script-state.json", "script-state-2.json"].map(|name| session_home.join(name));
        Ok(Self { paths, last: 0 })
    }

    /// Loads the latest conversation if `resume` is set and there is one. Otherwise begins a new one.
    pub(super) fn load(&mut self, resume: bool, script: String) -> io::Result<State> {
        let last = self.last_saved()?;
        Ok(match last {
            Some(last) if resume && last.script == script => last,
            // Changed content is played from its beginning within the same conversation.
            Some(last) if resume => State { script, position: 0, ..last },
            last => {
                State { conversation: last.map_or(0, |l| l.conversation) + 1, script, ..State::default() }
            }
        })
    }

    /// Writes the older of the two files. One that a killed process has half written is not read, and the other one is.
    pub(super) fn save(&mut self, state: &State) -> io::Result<()> {
        let save = self.last + 1;
        let [even, odd] = &self.paths;
        let path = if save.is_multiple_of(2) { even } else { odd };
        std::fs::write(path, serde_json::to_vec(&Saved { save, state })?)?;
        self.last = save;
        Ok(())
    }

    fn last_saved(&mut self) -> io::Result<Option<State>> {
        let mut found = None;
        let mut damaged = Vec::new();
        for path in &self.paths {
            let bytes = match std::fs::read(path) {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            match serde_json::from_slice::<Saved<State>>(&bytes) {
                Ok(saved) if found.as_ref().is_none_or(|_| saved.save > self.last) => {
                    self.last = saved.save;
                    found = Some(saved.state);
                }
                Ok(_) => {}
                Err(error) => damaged.push(error),
            }
        }
        match damaged.pop() {
            // A single damaged file is a first save that was not completed.
            Some(error) if !damaged.is_empty() => Err(error.into()),
            _ => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumed_conversation_continues_and_a_fresh_one_has_new_ids() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = StateFile::open(dir.path()).unwrap();
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

    #[test]
    fn last_complete_save_is_loaded_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = StateFile::open(dir.path()).unwrap();
        let mut state = file.load(true, "a".into()).unwrap();
        for position in 1..=3 {
            state.position = position;
            file.save(&state).unwrap();
            let mut next = StateFile::open(dir.path()).unwrap();
            assert_eq!(next.load(true, "a".into()).unwrap().position, position);
        }
        // The process was killed while it wrote the third save.
        std::fs::write(dir.path().join("script-state-2.json"), "{\"save\":3,\"conv").unwrap();
        let mut next = StateFile::open(dir.path()).unwrap();
        state = next.load(true, "a".into()).unwrap();
        assert_eq!(state.position, 2);
        state.position = 4;
        next.save(&state).unwrap();
        let mut next = StateFile::open(dir.path()).unwrap();
        assert_eq!(next.load(true, "a".into()).unwrap().position, 4, "it replaced the damaged file");
        for path in &next.paths {
            std::fs::write(path, "").unwrap();
        }
        assert!(next.load(true, "a".into()).is_err(), "the position is unknown");
    }
}
