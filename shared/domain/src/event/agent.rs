//! The agent's work: tasks, usage, messages, tool calls, subagents.

/// Adds the declarations of this file to `done`, and passes them on to the macro `next`.
macro_rules! agent_events {
    ({ $($done:tt)* } $next:ident $($rest:ident)*) => {
        $next! { {
            $($done)*
            /// The agent replaced its task list.
            TaskListUpdated = "SessionTaskListUpdatedEvent" {
                task_count: usize,
                completed_count: usize,
            };
            /// Usage was recorded.
            MetricsUpdated = "SessionMetricsUpdatedEvent" {
                /// Total spend of the session.
                total_cost_usd: Usd,
                /// Context usage in percent, if known.
                context_window_usage_percent: Option<String>,
                turn_count: u32,
            };
            /// A message of the conversation was recorded.
            MessageRecorded = "AgentMessageRecordedEvent" {
                /// The subagent that sent it, if any.
                sub_agent_id: Option<SubAgentId>,
            };
            /// A tool call started.
            ToolCallStarted = "ToolCallStartedEvent" {
                tool_call_id: ToolCallId,
                tool_name: String,
                /// The subagent that made the call, if any.
                sub_agent_id: Option<SubAgentId>,
            };
            /// A tool call returned.
            ToolCallCompleted = "ToolCallCompletedEvent" {
                tool_call_id: ToolCallId,
                /// Name of the tool, if the start of the call was observed.
                tool_name: Option<String>,
                status: ToolCallStatus,
                /// The subagent that made the call, if any.
                sub_agent_id: Option<SubAgentId>,
            };
            /// A subagent started.
            SubAgentStarted = "SubAgentSessionStartedEvent" {
                sub_agent_id: SubAgentId,
                /// Model of the subagent, if known.
                model_id: Option<String>,
            };
            /// A subagent completed.
            SubAgentCompleted = "SubAgentSessionCompletedEvent" {
                sub_agent_id: SubAgentId,
            };
            /// A subagent failed.
            SubAgentFailed = "SubAgentSessionFailedEvent" {
                sub_agent_id: SubAgentId,
                failure_reason: FailureReason,
            };
        } $($rest)* }
    };
}
