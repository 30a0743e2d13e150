//! Sessions: start, read, list.

use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::value::{SessionPlan, SessionTaskList};
use pilothouse_domain::{AgentSessionId, Timestamp};
use pilothouse_functions::api::Page;
use pilothouse_functions::api::sessions::{SessionMetricsView, SessionSummary, SessionView, StartedSession};

use super::inputs::{Slice, StartSession};
use super::{ApiError, Client};

const SESSIONS: &str = "api/agents/sessions";

/// The path of a session, or of something that belongs to it.
pub(super) fn of(id: AgentSessionId, rest: &str) -> String {
    format!("{SESSIONS}/{id}{rest}")
}

impl Client {
    /// Starts a session. It is Queued when no slot is free (ruling 20).
    pub async fn start_session(&self, start: &StartSession) -> Result<StartedSession, ApiError> {
        self.post(SESSIONS.to_owned(), start).await
    }

    /// A session in full.
    pub async fn session(&self, id: AgentSessionId) -> Result<SessionView, ApiError> {
        self.get(of(id, "")).await
    }

    /// A page of the owner's sessions, latest first.
    pub async fn sessions(
        &self,
        status: Option<AgentSessionStatus>,
        slice: &Slice,
    ) -> Result<Page<SessionSummary>, ApiError> {
        let mut query = slice.query();
        query.extend(status.map(|status| ("status", status.to_string())));
        self.get_with(SESSIONS.to_owned(), query).await
    }

    /// A page of the sessions that ended between two times.
    pub async fn history(
        &self,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
        slice: &Slice,
    ) -> Result<Page<SessionSummary>, ApiError> {
        let mut query = slice.query();
        query.extend(from.map(|from| ("dateFrom", from.to_string())));
        query.extend(to.map(|to| ("dateTo", to.to_string())));
        self.get_with(format!("{SESSIONS}/history"), query).await
    }

    /// What a session used, with its subagents.
    pub async fn metrics(&self, id: AgentSessionId) -> Result<SessionMetricsView, ApiError> {
        self.get(of(id, "/metrics")).await
    }

    /// The agent's task list; nothing when it has none.
    pub async fn task_list(&self, id: AgentSessionId) -> Result<Option<SessionTaskList>, ApiError> {
        none_if_missing(self.get(of(id, "/task-list")).await)
    }

    /// The agent's plan; nothing when it has none.
    pub async fn plan(&self, id: AgentSessionId) -> Result<Option<SessionPlan>, ApiError> {
        none_if_missing(self.get(of(id, "/plan")).await)
    }
}

fn none_if_missing<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}
