//! Sessions: start, read, list, export.

use pilothouse_api::Page;
use pilothouse_api::sessions::{
    SessionMetricsView, SessionSearchResults, SessionSummary, SessionView, StartedSession,
};
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::value::{SessionPlan, SessionTaskList};
use pilothouse_domain::{AgentSessionId, Timestamp};
use serde_json::Value;

use super::inputs::{PageQuery, StartSession};
use super::{ApiError, Client};

const SESSIONS: &str = "api/agents/sessions";

pub(super) fn session_path(id: AgentSessionId, rest: &str) -> String {
    format!("{SESSIONS}/{id}{rest}")
}

impl Client {
    /// Starts a session. The session is Queued while no slot is free (decision 20).
    pub async fn start_session(&self, start: &StartSession) -> Result<StartedSession, ApiError> {
        self.post(SESSIONS.to_owned(), start).await
    }

    /// Reads a session.
    pub async fn session(&self, id: AgentSessionId) -> Result<SessionView, ApiError> {
        self.get(session_path(id, "")).await
    }

    /// Finds at most 20 sessions by words of their names, labels and objectives.
    pub async fn search_sessions(&self, query: &str) -> Result<SessionSearchResults, ApiError> {
        self.get_with("api/agents/search".to_owned(), vec![("query", query.to_owned())]).await
    }

    /// Lists a page of the owner's sessions, newest first.
    pub async fn sessions(
        &self,
        status: Option<AgentSessionStatus>,
        page_query: &PageQuery,
    ) -> Result<Page<SessionSummary>, ApiError> {
        let mut query = page_query.query();
        query.extend(status.map(|status| ("status", status.to_string())));
        self.get_with(SESSIONS.to_owned(), query).await
    }

    /// Lists a page of the sessions that ended between two times.
    pub async fn history(
        &self,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
        page_query: &PageQuery,
    ) -> Result<Page<SessionSummary>, ApiError> {
        let mut query = page_query.query();
        query.extend(from.map(|from| ("dateFrom", from.to_string())));
        query.extend(to.map(|to| ("dateTo", to.to_string())));
        self.get_with(format!("{SESSIONS}/history"), query).await
    }

    /// Reads the usage of a session and its subagents.
    pub async fn metrics(&self, id: AgentSessionId) -> Result<SessionMetricsView, ApiError> {
        self.get(session_path(id, "/metrics")).await
    }

    /// Reads the agent's task list, if it has one.
    pub async fn task_list(&self, id: AgentSessionId) -> Result<Option<SessionTaskList>, ApiError> {
        none_if_not_found(self.get(session_path(id, "/task-list")).await)
    }

    /// Reads the agent's plan, if it has one.
    pub async fn plan(&self, id: AgentSessionId) -> Result<Option<SessionPlan>, ApiError> {
        none_if_not_found(self.get(session_path(id, "/plan")).await)
    }

    /// Exports a session as one document.
    pub async fn export(&self, id: AgentSessionId) -> Result<Value, ApiError> {
        self.get(session_path(id, "/export")).await
    }
}

fn none_if_not_found<T>(response: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match response {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}
