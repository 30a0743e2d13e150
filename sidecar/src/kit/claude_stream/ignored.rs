//! Reasons for which a line produces no raw event.

/// Why a line was deliberately skipped. Other lines that are not translated become a `notice` named `unknown_<type>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ignored {
    /// A piece of an incomplete message. The whole block follows in an `assistant` line.
    PartialMessage,
    /// `status: requesting` or `compacting`: the runtime is busy, as heartbeats and turns already show.
    StatusPing,
    /// An estimate of the amount of thinking, which follows.
    ThinkingTokens,
    /// `init` within an open turn: it repeats the configuration and begins nothing.
    RepeatedInit,
    /// The prompt of a subagent, repeated as its first message. `subagent_started` carries it as the objective.
    SubagentPrompt,
    /// An echo of the user's own message, which the control plane sent.
    UserPrompt,
    /// A repeated earlier message (`isReplay`), which was translated the first time.
    Replay,
    /// Progress of a subagent. Its messages follow.
    SubagentProgress,
    /// A change of a background task that neither begins nor ends it.
    TaskDetail,
    SubagentAlreadyEnded,
    /// Progress of a user's message: a [`Signal`](super::Signal) for the adapter, which knows the command that
    /// carried the message and derives the acknowledgement.
    CommandLifecycle,
    /// A message without blocks, or with empty text only.
    EmptyMessage,
    /// Thinking that the vendor encrypted.
    RedactedThinking,
    /// `running`, `requires_action` or `idle`, which turns and requests express more precisely.
    SessionStateChanged,
    /// A control request for a hook of the host. The adapter answers it.
    HookCallback,
    /// A control request for permission to run a tool. The adapter answers it; the call itself was already published.
    PermissionRequest,
    /// A control request for an MCP server within the host. The adapter serves it.
    McpMessage,
    /// The response to a control request of the adapter.
    ControlResponse,
    ControlCancel,
    /// A line that only keeps the connection open.
    KeepAlive,
    /// How long a tool has been running. Its result follows.
    ToolProgress,
    /// A result without news: its turn is over and its usage is known.
    RepeatedResult,
    /// An error that the SDK throws after the result that reported it.
    RepeatedThrow,
    /// A heading that the recorder wrote between two runs.
    RecorderMarker,
}
