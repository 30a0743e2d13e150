//! Tool calls of the agent: those that have no result yet, and the latest ones that have ended.

use std::collections::{BTreeMap, VecDeque};

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
}

/// A tool call that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndedToolCall {
    id: ToolCallId,
    /// Journal entry that recorded the call, if the call was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal_sequence: Option<u64>,
    /// Whether the call has a result. If not, its turn or run ended before.
    has_result: bool,
}

/// The latest ended tool calls of a session, oldest first. They tell a second result from the first one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct EndedToolCalls(VecDeque<EndedToolCall>);

impl EndedToolCalls {
    /// Most ended tool calls that are kept, because each commit of the session stores them.
    const MAX: usize = 8;

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, id: &ToolCallId) -> Option<&EndedToolCall> {
        self.0.iter().find(|ended| ended.id == *id)
    }

    fn forget(&mut self, id: &ToolCallId) {
        self.0.retain(|ended| ended.id != *id);
    }

    fn keep(&mut self, ended: EndedToolCall) {
        self.forget(&ended.id);
        if self.0.len() >= Self::MAX {
            self.0.pop_front();
        }
        self.0.push_back(ended);
    }
}

impl AgentSession {
    /// A tool call that has no result yet.
    pub fn open_tool_call(&self, call: &ToolCallId) -> Option<&OpenToolCall> {
        self.delivery.tools.0.get(call)
    }

    /// Whether a tool call has a result. The first one counts (S0 8.5).
    pub fn has_tool_result(&self, call: &ToolCallId) -> bool {
        self.delivery.ended_tools.get(call).is_some_and(|ended| ended.has_result)
    }

    /// The journal entry that recorded a tool call, if it is known.
    pub fn tool_call_recorded_at(&self, call: &ToolCallId) -> Option<u64> {
        let open = self.open_tool_call(call).map(|open| open.journal_sequence);
        open.or_else(|| self.delivery.ended_tools.get(call).and_then(|ended| ended.journal_sequence))
    }

    pub(crate) fn open_tool(&mut self, id: ToolCallId, name: &str, sub_agent_id: Option<SubAgentId>) {
        // The next journal entry records this call.
        let journal_sequence = self.journal_sequence + 1;
        // An agent may use an id again.
        self.delivery.ended_tools.forget(&id);
        self.delivery.tools.open(id, OpenToolCall { name: cut(name, 200), journal_sequence, sub_agent_id });
    }

    /// Records that a tool call has a result. Returns the call if it was open.
    pub(crate) fn close_tool(&mut self, call: &ToolCallId) -> Option<OpenToolCall> {
        let journal_sequence = self.tool_call_recorded_at(call);
        self.delivery.ended_tools.keep(EndedToolCall {
            id: call.clone(),
            journal_sequence,
            has_result: true,
        });
        self.delivery.tools.0.remove(call)
    }

    /// Ends open tool calls as errors when their turn or run ends (decision 6).
    pub(crate) fn end_open_tools(&mut self) -> Events {
        let mut events = Events::new();
        for (id, call) in std::mem::take(&mut self.delivery.tools.0) {
            let journal_sequence = Some(call.journal_sequence);
            self.delivery.ended_tools.keep(EndedToolCall {
                id: id.clone(),
                journal_sequence,
                has_result: false,
            });
            events.push(SessionEvent::ToolCallCompleted {
                tool_call_id: id,
                tool_name: Some(call.name),
                status: ToolCallStatus::Error,
                sub_agent_id: call.sub_agent_id,
            });
        }
        events
    }
}
