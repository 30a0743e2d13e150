//! Finds the session that a person means: by its whole id, by the beginning or the end of it, or the latest one.

use std::collections::BTreeMap;

use pilothouse_domain::AgentSessionId;

use super::inputs::Slice;
use super::{ApiError, Client};

/// The fewest characters of an id that name a session.
pub const MIN_PREFIX: usize = 4;
/// The word for the latest session.
const LAST: &str = "@last";
/// Pages of sessions that are searched, of 100 each.
const MAX_PAGES: usize = 50;

/// Why a session cannot be named so.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No session has this id.
    #[error("no session has an id like `{0}`; `pilothouse ps --all` lists them")]
    NoneLike(String),
    /// No chain has this id.
    #[error("no chain has an id like `{0}`; `pilothouse chain list` lists them")]
    NoChainLike(String),
    /// There are none at all.
    #[error("there is no session yet; start one with `pilothouse run \"what to do\"`")]
    NoneAtAll,
    /// No template has this name or id.
    #[error("no template has a name or an id like `{0}`; `pilothouse template list` lists them")]
    NoTemplate(String),
    /// Several could be meant.
    #[error("`{given}` could mean {}; give more of the id", candidates.join(", "))]
    Ambiguous {
        /// What was given.
        given: String,
        /// Which it could be, each with its name.
        candidates: Vec<String>,
    },
    /// Not an id, nor a part of one.
    #[error("`{0}` names no session: give an id, at least {MIN_PREFIX} characters of it, or @last")]
    NotAnId(String),
    /// The server could not be asked.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl Client {
    /// The session that `given` means.
    pub async fn resolve(&self, given: &str) -> Result<AgentSessionId, ResolveError> {
        if given == LAST {
            return self.latest_session().await;
        }
        if let Ok(id) = given.parse() {
            return Ok(id);
        }
        let part = part_of_id(given)?;
        let found = self.sessions_like(&part).await?;
        match found.len() {
            0 => Err(ResolveError::NoneLike(given.to_owned())),
            1 => found.into_keys().next().ok_or_else(|| ResolveError::NoneLike(given.to_owned())),
            _ => Err(ResolveError::Ambiguous {
                given: given.to_owned(),
                candidates: found.into_iter().take(5).map(|(id, name)| format!("{id} ({name})")).collect(),
            }),
        }
    }

    /// The session that was created last.
    pub async fn latest_session(&self) -> Result<AgentSessionId, ResolveError> {
        // Ids sort by creation time, whatever the order of the list.
        let page = self.sessions(None, &Slice { limit: Some(100), cursor: None }).await?;
        page.items.iter().map(|session| session.id).max().ok_or(ResolveError::NoneAtAll)
    }

    async fn sessions_like(&self, part: &str) -> Result<BTreeMap<AgentSessionId, String>, ApiError> {
        let mut found = BTreeMap::new();
        let mut slice = Slice { limit: Some(100), cursor: None };
        for _ in 0..MAX_PAGES {
            let page = self.sessions(None, &slice).await?;
            for session in page.items {
                let id = compact(&session.id.to_string());
                if id.starts_with(part) || id.ends_with(part) {
                    found.insert(session.id, session.name);
                }
            }
            slice.cursor = page.next_cursor;
            if slice.cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

/// A part of an id, as it is compared.
pub(super) fn part_of_id(given: &str) -> Result<String, ResolveError> {
    let part = compact(given);
    if part.len() < MIN_PREFIX || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(ResolveError::NotAnId(given.to_owned()));
    }
    Ok(part)
}

/// An id without dashes and capitals.
pub(super) fn compact(id: &str) -> String {
    id.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect()
}
