//! Finds a session by its id, by a part of its id, or as the newest one.

use std::collections::BTreeMap;

use pilothouse_domain::AgentSessionId;

use super::inputs::PageQuery;
use super::{ApiError, Client};

/// Fewest characters of a partial id.
pub const MIN_PREFIX: usize = 4;
const NEWEST: &str = "@last";
/// In pages of 100 sessions.
const MAX_PAGES: usize = 50;

/// Failure to find a session, chain or template.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No session has an id like this.
    #[error("no session has an id like `{0}`; `pilothouse ps --all` lists them")]
    NoSession(String),
    /// No chain has an id like this.
    #[error("no chain has an id like `{0}`; `pilothouse chain list` lists them")]
    NoChain(String),
    /// No brake has an id like this.
    #[error("no brake has an id like `{0}`; `pilothouse brake status` shows those in force")]
    NoBrake(String),
    /// The owner has no sessions.
    #[error("there is no session yet; start one with `pilothouse run \"what to do\"`")]
    NoSessions,
    /// No template has a name or an id like this.
    #[error("no template has a name or an id like `{0}`; `pilothouse template list` lists them")]
    NoTemplate(String),
    /// Several ids or names match.
    #[error("`{given}` could mean {}; give more of the id", candidates.join(", "))]
    Ambiguous {
        /// The given id or name.
        given: String,
        /// Up to five matches, with names.
        candidates: Vec<String>,
    },
    /// Neither an id nor a part of one.
    #[error("`{0}` names no session: give an id, at least {MIN_PREFIX} characters of it, or @last")]
    NotAnId(String),
    /// The search failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl Client {
    /// Finds a session by its id, by the beginning or end of it, or by `@last`.
    pub async fn resolve_session(&self, given: &str) -> Result<AgentSessionId, ResolveError> {
        if given == NEWEST {
            return self.latest_session().await;
        }
        if let Ok(id) = given.parse() {
            return Ok(id);
        }
        let part = parse_partial_id(given)?;
        let found = self.sessions_like(&part).await?;
        match found.len() {
            0 => Err(ResolveError::NoSession(given.to_owned())),
            1 => found.into_keys().next().ok_or_else(|| ResolveError::NoSession(given.to_owned())),
            _ => Err(ResolveError::Ambiguous {
                given: given.to_owned(),
                candidates: found.into_iter().take(5).map(|(id, name)| format!("{id} ({name})")).collect(),
            }),
        }
    }

    /// Finds the newest session.
    pub async fn latest_session(&self) -> Result<AgentSessionId, ResolveError> {
        // Ids sort by creation time.
        let page = self.sessions(None, &PageQuery { limit: Some(100), cursor: None }).await?;
        page.items.iter().map(|session| session.id).max().ok_or(ResolveError::NoSessions)
    }

    async fn sessions_like(&self, part: &str) -> Result<BTreeMap<AgentSessionId, String>, ApiError> {
        let mut found = BTreeMap::new();
        let mut page_query = PageQuery { limit: Some(100), cursor: None };
        for _ in 0..MAX_PAGES {
            let page = self.sessions(None, &page_query).await?;
            for session in page.items {
                let id = compact(&session.id.to_string());
                if id.starts_with(part) || id.ends_with(part) {
                    found.insert(session.id, session.name);
                }
            }
            page_query.cursor = page.next_cursor;
            if page_query.cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

pub(super) fn parse_partial_id(given: &str) -> Result<String, ResolveError> {
    let part = compact(given);
    if part.len() < MIN_PREFIX || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(ResolveError::NotAnId(given.to_owned()));
    }
    Ok(part)
}

/// Removes dashes and capitals from an id.
pub(super) fn compact(id: &str) -> String {
    id.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect()
}
