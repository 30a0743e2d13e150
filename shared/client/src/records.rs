//! Records of a session: activity, messages, tool calls, logs, deliverables, tasks, raw events.

use pilothouse_api::Page;
use pilothouse_api::records::{
    ActivityView, DeliverablesView, LogChunkView, MessageView, RawEventView, TextMatch, ToolCallView,
};
use pilothouse_domain::agent_api::AgentTask;
use pilothouse_domain::value::AgentConversations;
use pilothouse_domain::{AgentSessionId, SubAgentId, Timestamp};
use serde::de::DeserializeOwned;

use super::inputs::PageQuery;
use super::sessions::session_path;
use super::{ApiError, Client};

/// Selects records.
#[derive(Debug, Clone, Default)]
pub struct RecordFilter {
    /// Page of the list.
    pub page_query: PageQuery,
    /// Only records of this subagent.
    pub sub_agent_id: Option<SubAgentId>,
    /// Only records that the control plane received since then (decision 38).
    pub since: Option<Timestamp>,
}

impl Client {
    async fn list_records<T: DeserializeOwned>(
        &self,
        id: AgentSessionId,
        subresource: &str,
        filter: &RecordFilter,
    ) -> Result<Page<T>, ApiError> {
        let mut query = filter.page_query.query();
        query.extend(filter.sub_agent_id.as_ref().map(|id| ("subAgentId", id.to_string())));
        query.extend(filter.since.map(|since| ("since", since.to_string())));
        self.get_with(session_path(id, subresource), query).await
    }

    /// Lists a page of the activity, oldest first.
    pub async fn activity(
        &self,
        id: AgentSessionId,
        filter: &RecordFilter,
    ) -> Result<Page<ActivityView>, ApiError> {
        self.list_records(id, "/activity", filter).await
    }

    /// Lists a page of the conversation.
    pub async fn messages(
        &self,
        id: AgentSessionId,
        filter: &RecordFilter,
    ) -> Result<Page<MessageView>, ApiError> {
        self.list_records(id, "/messages", filter).await
    }

    /// Lists a page of the tool calls.
    pub async fn tool_calls(
        &self,
        id: AgentSessionId,
        filter: &RecordFilter,
    ) -> Result<Page<ToolCallView>, ApiError> {
        self.list_records(id, "/tool-calls", filter).await
    }

    /// Finds a page of texts with all these words, latest first. A page may be empty although more follow.
    pub async fn search_in_session(
        &self,
        id: AgentSessionId,
        words: &str,
        page_query: &PageQuery,
    ) -> Result<Page<TextMatch>, ApiError> {
        let mut query = page_query.query();
        query.push(("query", words.to_owned()));
        self.get_with(session_path(id, "/search"), query).await
    }

    /// Lists the deliverables of a session.
    pub async fn deliverables(&self, id: AgentSessionId) -> Result<DeliverablesView, ApiError> {
        self.get(session_path(id, "/deliverables")).await
    }

    /// Lists the conversations of the agent. Empty while it has a single branch without labels.
    pub async fn conversations(&self, id: AgentSessionId) -> Result<AgentConversations, ApiError> {
        self.get(session_path(id, "/conversations")).await
    }

    /// Lists a page of the logs.
    pub async fn logs(
        &self,
        id: AgentSessionId,
        filter: &RecordFilter,
    ) -> Result<Page<LogChunkView>, ApiError> {
        self.list_records(id, "/logs", filter).await
    }

    /// Lists a page of the tasks that the agent of a session created, oldest first.
    pub async fn tasks(
        &self,
        id: AgentSessionId,
        page_query: &PageQuery,
    ) -> Result<Page<AgentTask>, ApiError> {
        self.get_with(session_path(id, "/tasks"), page_query.query()).await
    }

    /// Lists a page of raw events: from a position in the journal of the session, or from a sequence of one run.
    pub async fn raw_events(
        &self,
        id: AgentSessionId,
        from: Option<u64>,
        run: Option<&str>,
        page_query: &PageQuery,
    ) -> Result<Page<RawEventView>, ApiError> {
        let mut query = page_query.query();
        query.extend(from.map(|from| ("from", from.to_string())));
        query.extend(run.map(|run| ("run", run.to_owned())));
        self.get_with(session_path(id, "/events"), query).await
    }
}
