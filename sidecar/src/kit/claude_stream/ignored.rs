//! Reasons for which a line produces no raw event.

/// Why a line was deliberately skipped. A line that is neither translated nor skipped for one of these reasons
/// becomes a `notice` named `unknown_<type>`, so that nothing is lost silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ignored {
    /// A piece of a message that is still being written. The whole block follows in an `assistant` line.
    PartialMessage,
    /// `status: requesting` or `compacting`: the runtime is busy, which heartbeats and turns already show.
    StatusPing,
    /// An estimate of how much the model has thought. The thinking itself follows.
    ThinkingTokens,
    /// `init` within an open turn: it repeats the configuration and begins nothing.
    RepeatedInit,
    /// The prompt of a subagent, repeated as its first message. `subagent_started` carries it as the objective.
    SubagentPrompt,
    /// An echo of the user's own message, which the control plane sent.
    UserPrompt,
    /// An earlier message that is shown again (`isReplay`). It was translated the first time.
    Replay,
    /// Progress of a subagent. Its messages follow.
    SubagentProgress,
    /// A change of a background task that neither begins nor ends it.
    TaskDetail,
    /// The repeated end of a subagent.
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
    /// The response to one of the adapter's own control requests.
    ControlResponse,
    /// A control request was cancelled by the runtime.
    ControlCancel,
    /// A line that only keeps the connection open.
    KeepAlive,
    /// How long a tool has been running. Its result follows.
    ToolProgress,
    /// A result without news: its turn is over and its usage is known.
    RepeatedResult,
    /// The SDK throws an error that the preceding result has already reported.
    RepeatedThrow,
    /// A heading that the recorder wrote between two runs.
    RecorderMarker,
}
