//! Why a line becomes no raw event.

/// The reason for which a line was deliberately left out. A line that is neither translated nor one of these becomes
/// a `notice` named `unknown_<type>`: nothing is lost silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ignored {
    /// A piece of a message that is still being written; the whole block follows in an `assistant` line.
    PartialMessage,
    /// `status: requesting` or `compacting`: the runtime says that it is busy; heartbeats and turns say so already.
    StatusPing,
    /// An estimate of how much the model has thought; the thinking itself follows.
    ThinkingTokens,
    /// `init` inside a turn that is already open: the configuration is told again, nothing begins.
    RepeatedInit,
    /// The prompt of a subagent, told again as its first message; `subagent_started` carries it as the objective.
    SubagentPrompt,
    /// The user's own words, echoed; the control plane sent them.
    UserPrompt,
    /// A message of the past, shown again (`isReplay`); its first showing counted.
    Replay,
    /// What a subagent does right now, as a progress line; its messages follow.
    SubagentProgress,
    /// A change of a background task that neither begins nor ends it.
    TaskDetail,
    /// The end of a subagent, told a second time.
    SubagentAlreadyEnded,
    /// How far a message of the user got: a [`Signal`](super::Signal) for the adapter, which knows the command that
    /// carried the message and derives its acknowledgement.
    CommandLifecycle,
    /// A message without anything to show: no blocks, or only empty text.
    EmptyMessage,
    /// Thinking that the vendor encrypted; nobody can read it.
    RedactedThinking,
    /// `running`, `requires_action`, `idle`: what turns and requests say with more precision.
    SessionStateChanged,
    /// A control request for a hook of the host; the adapter answers it.
    HookCallback,
    /// A control request that asks whether a tool may run. The adapter answers it; the call itself was already told.
    PermissionRequest,
    /// A control request for an MCP server inside the host; the adapter serves it.
    McpMessage,
    /// The answer to a control request of the adapter's own.
    ControlResponse,
    /// A control request that the runtime no longer wants answered.
    ControlCancel,
    /// A line that only keeps the connection open.
    KeepAlive,
    /// How long a tool has been running; its result follows.
    ToolProgress,
    /// A result that says nothing new: its turn is over and its usage is known.
    RepeatedResult,
    /// The SDK throws the error that the result before it has already told.
    RepeatedThrow,
    /// A heading that the recorder wrote between two runs.
    RecorderMarker,
}
