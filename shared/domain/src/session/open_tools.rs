//! Tool calls of the agent that have no result yet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::AgentSession;
use crate::text::cut;
use crate::value::ToolCallStatus;
use crate::{Events, SessionEvent, SubAgentId, ToolCallId};

/// A tool call that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenToolCall {
    pub name: String,
    /// Journal entry that recorded the call.
    pub journal_sequence: u64,
    /// The subagent that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_id: Option<SubAgentId>,
}

/// The open tool calls of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct OpenToolCalls(BTreeMap<ToolCallId, OpenToolCall>);

impl OpenToolCalls {
    /// Most open tool calls that are tracked; the oldest are forgotten beyond that.
    const MAX: usize = 256;

    fn open(&mut self, id: ToolCallId, call: OpenToolCall) {
        if self.0.len() >= Self::MAX
            && let Some(oldest) =
                self.0.iter().min_by_key(|(_, c)| c.journal_sequence).map(|(id, _)| id.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.insert(id, call);
    }

    /// Ends open tool calls as errors when their turn or run ends (decision 6).
    pub(super) fn end_all(&mut self) -> Events {
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|(tool_call_id, call)| SessionEvent::ToolCallCompleted {
                tool_call_id,
                tool_name: Some(call.name),
                status: ToolCallStatus::Error,
                sub_agent_id: call.sub_agent_id,
            })
            .collect()
    }
}

impl AgentSession {
    /// A tool call that has no result yet.
    pub fn open_tool_call(&self, call: &ToolCallId) -> Option<&OpenToolCall> {
        self.delivery.tools.0.get(call)
    }

    pub(crate) fn open_tool(&mut self, id: ToolCallId, name: &str, sub_agent_id: Option<SubAgentId>) {
        // The next journal entry records this call.
        let journal_sequence = self.journal_sequence + 1;
        self.delivery.tools.open(id, OpenToolCall { name: cut(name, 200), journal_sequence, sub_agent_id });
    }

    pub(crate) fn close_tool(&mut self, call: &ToolCallId) -> Option<OpenToolCall> {
        self.delivery.tools.0.remove(call)
    }

    pub(crate) fn end_open_tools(&mut self) -> Events {
        self.delivery.tools.end_all()
    }
}
