//! What stands in the journal of a session: activity, messages, tool calls, logs.

use pilothouse_domain::{AgentSessionId, SubAgentId, Timestamp};
use pilothouse_functions::api::Page;
use pilothouse_functions::api::records::{
    ActivityView, DeliverablesView, LogChunkView, MessageView, ToolCallView,
};
use serde::de::DeserializeOwned;

use super::inputs::Slice;
use super::sessions::of;
use super::{ApiError, Client};

/// Which records.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// Which part of the list.
    pub slice: Slice,
    /// Only those of this subagent.
    pub sub_agent_id: Option<SubAgentId>,
    /// Only those that were taken in since then (ruling 38).
    pub since: Option<Timestamp>,
}

impl Client {
    async fn records<T: DeserializeOwned>(
        &self,
        id: AgentSessionId,
        what: &str,
        records: &Records,
    ) -> Result<Page<T>, ApiError> {
        let mut query = records.slice.query();
        query.extend(records.sub_agent_id.as_ref().map(|id| ("subAgentId", id.to_string())));
        query.extend(records.since.map(|since| ("since", since.to_string())));
        self.get_with(of(id, what), query).await
    }

    /// A page of the activity stream, oldest first.
    pub async fn activity(
        &self,
        id: AgentSessionId,
        records: &Records,
    ) -> Result<Page<ActivityView>, ApiError> {
        self.records(id, "/activity", records).await
    }

    /// A page of the conversation.
    pub async fn messages(
        &self,
        id: AgentSessionId,
        records: &Records,
    ) -> Result<Page<MessageView>, ApiError> {
        self.records(id, "/messages", records).await
    }

    /// A page of the tool calls.
    pub async fn tool_calls(
        &self,
        id: AgentSessionId,
        records: &Records,
    ) -> Result<Page<ToolCallView>, ApiError> {
        self.records(id, "/tool-calls", records).await
    }

    /// What its agent is to deliver.
    pub async fn deliverables(&self, id: AgentSessionId) -> Result<DeliverablesView, ApiError> {
        self.get(of(id, "/deliverables")).await
    }

    /// A page of the logs.
    pub async fn logs(&self, id: AgentSessionId, records: &Records) -> Result<Page<LogChunkView>, ApiError> {
        self.records(id, "/logs", records).await
    }
}
