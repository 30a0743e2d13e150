//! The format of scripts, described in `docs/script-format.md`.

use pilothouse_domain::effect::Severity;
use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::routing::ErrorCategory;
use pilothouse_domain::value::{Question, TokenUsage};
use pilothouse_domain::{MeterId, SubAgentId, ToolCallId, Usd};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{Content, HandoffDocument, RawTask};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A script: the steps of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptFile {
    /// The model that usage is counted for. Default: the session's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The models that the agent can be set to, in the order in which they are cycled. If empty, any model is
    /// accepted and none is cycled to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The steps to play, in order.
    pub steps: Vec<Step>,
    /// The steps of the sessions that continue the work when the context is full: the first list for the first
    /// continuation, and so on. Further continuations play one turn that quotes the handoff document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continuations: Vec<Vec<Step>>,
    /// The steps of each turn that a message starts after the script has ended. Default: a turn that quotes the
    /// message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_message: Option<Vec<Step>>,
    /// The answer to a message that enters a running turn. `{{message}}` is replaced by the message.
    #[serde(default = "default_on_steer")]
    pub on_steer: String,
}

fn default_on_steer() -> String {
    "Understood, I take this into account: {{message}}".into()
}

/// One step: an object with one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// A turn: `turn_started`, its steps, `turn_completed`.
    Turn(Turn),
    /// The agent says something. `{{message}}`, `{{images}}`, `{{objective}}`, `{{handoff}}` and `{{configuration}}` are replaced.
    Say(String),
    /// The agent thinks.
    Think(String),
    /// The agent writes a part of its next text. Those who follow the session live see it.
    Draft(String),
    /// The agent calls a tool.
    Tool(Tool),
    /// The agent calls one of Pilothouse's own tools, which really runs.
    OwnTool(OwnToolCall),
    /// A subagent starts, plays its steps, and ends.
    Subagent(Subagent),
    /// The agent uses tokens and money. The script gives the increments; events carry the totals.
    Usage(Usage),
    /// The agent prices a call in US dollars before it makes it. If less is left of the allowance, it reports this
    /// and waits.
    Price(Usd),
    /// The complete task list of the agent.
    Tasks(Vec<RawTask>),
    /// The agent asks its owner and waits for the answer.
    Question(Ask),
    /// The agent submits a plan, and waits for the decision if the session requires approval.
    Plan(Plan),
    /// The output of the turn, sent with its `turn_completed`.
    Output(SessionOutput),
    /// A chunk of a log.
    Log(Log),
    /// A notice about the agent itself.
    Notice(Note),
    /// The agent reports an error, and continues.
    Error(AgentError),
    /// A guardrail of the agent's SDK tripped.
    Guardrail(GuardrailTrip),
    /// The context window is full.
    ContextExhausted {},
    /// A handoff document.
    Handoff(HandoffDocument),
    /// The agent hands its work over before its context is full.
    HandOver(HandOver),
    /// Any raw event.
    Raw(Box<RawEvent>),
    /// The agent's conversation ends.
    End(End),

    /// A wait in milliseconds.
    Wait(u64),
    /// Waits for a message. Between turns, the message begins the next turn.
    WaitForMessage {},
    /// Waits until a command with this name was carried out.
    WaitForCommand(String),
    /// Waits for the answer to the question of this tool call. The answer becomes the call's result.
    WaitForAnswer(ToolCallId),
    /// Plays steps several times.
    Repeat(Repeat),

    /// Fault: an authentic envelope with this JSON as its body.
    Malformed(Value),
    /// Fault: sends the envelopes of the step twice.
    Duplicate(Box<Step>),
    /// Fault: sends the envelope of the second step before that of the first.
    Reorder(Box<(Step, Step)>),
    /// Fault: omits the envelopes of the step.
    Gap(Gap),
    /// Fault: sends neither events nor heartbeats for this many milliseconds.
    Silence(u64),
    /// Fault: the sidecar dies.
    Crash(Crash),
    /// Fault: ignores the next command with this name.
    Ignore(IgnoreCommand),
    /// Fault: the agent continues after it has acknowledged that it stopped.
    AfterStop(AfterStop),
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Turn {
    /// The steps of the turn.
    pub steps: Vec<Step>,
    /// The output of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<SessionOutput>,
}

/// A call of one of Pilothouse's own tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnToolCall {
    /// The id of the call. Default: a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ToolCallId>,
    /// The name of the tool, without the prefix of its server.
    pub name: String,
    /// The input of the tool.
    #[serde(default = "empty_object")]
    pub input: Value,
}

/// A tool call with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// The id of the call. Default: a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ToolCallId>,
    /// The name of the tool.
    pub name: String,
    /// The input of the tool.
    #[serde(default = "empty_object")]
    pub input: Value,
    /// The result. If absent, the call stays open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Content>,
    /// Whether the call fails.
    #[serde(default)]
    pub error: bool,
    /// How long the call takes, in milliseconds.
    #[serde(default)]
    pub ms: u64,
}

fn empty_object() -> Value {
    json!({})
}

/// A subagent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subagent {
    /// The id of the subagent. Default: a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SubAgentId>,
    /// The objective of the subagent.
    pub objective: String,
    /// The model of the subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The steps of the subagent: `say`, `think`, `tool`, `usage`, `wait`.
    pub steps: Vec<Step>,
    /// Why the subagent fails, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Usage that is added to a meter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    /// The meter. Default: the conversation's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<MeterId>,
    /// The model. Default: the script's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// US dollars.
    #[serde(default)]
    pub cost_usd: Usd,
    /// Tokens.
    #[serde(default)]
    pub tokens: TokenUsage,
    /// The context window after this usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
}

/// Fill level of the context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Context {
    /// Tokens in the window.
    pub tokens: u64,
    /// Capacity of the window in tokens.
    pub limit: u64,
}

/// Questions to the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ask {
    /// The id of the tool call. Default: a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ToolCallId>,
    /// The questions.
    pub questions: Vec<Question>,
    /// Whether to wait for the answer here. Otherwise a later `waitForAnswer` waits for it.
    #[serde(default = "yes")]
    pub wait: bool,
}

const fn yes() -> bool {
    true
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// The id of the tool call. Default: a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ToolCallId>,
    /// The text of the plan.
    pub text: String,
    /// Further plans, submitted one after the other while the owner rejects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
}

/// A handoff that the agent starts itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    /// The reason for the handoff.
    pub reason: String,
    /// What was done, and what remains.
    #[serde(flatten)]
    pub document: HandoffDocument,
}

/// A chunk of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Log {
    /// The source of the log.
    #[serde(default = "agent_stream")]
    pub stream: String,
    /// The text.
    pub text: String,
}

fn agent_stream() -> String {
    "agent".into()
}

/// A notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Note {
    /// A short, stable name.
    pub name: String,
    /// A sentence for people.
    pub summary: String,
    /// Further details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// An error that the agent reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentError {
    /// A sentence for people.
    pub message: String,
    /// The severity. Default: `medium`.
    #[serde(default = "medium")]
    pub severity: Severity,
    /// The source: `provider`, `model`, `timeout` or `internal`. Default: `internal`.
    #[serde(default = "internal")]
    pub category: ErrorCategory,
}

const fn medium() -> Severity {
    Severity::Medium
}

const fn internal() -> ErrorCategory {
    ErrorCategory::Internal
}

/// A guardrail that tripped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GuardrailTrip {
    /// The name of the guardrail.
    pub name: String,
    /// A sentence for people.
    pub message: String,
}

/// The end of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct End {
    /// Whether the end is an error.
    pub error: bool,
    /// The agent's reason. Default: `success` or `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<SessionOutput>,
}

/// Steps that are played several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repeat {
    /// The number of repetitions.
    pub times: u32,
    /// The steps to repeat.
    pub steps: Vec<Step>,
}

/// Envelopes that are omitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gap {
    /// The step whose envelopes are omitted.
    pub step: Box<Step>,
    /// Whether a replay does not bring them either.
    #[serde(default)]
    pub forever: bool,
}

/// How the sidecar dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Crash {
    /// It exits with this code.
    Exit(i32),
    /// It kills itself with SIGKILL.
    Kill,
}

/// A command that is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IgnoreCommand {
    /// The command's name in the protocol.
    pub command: String,
    /// Whether the next attempt is carried out.
    #[serde(default)]
    pub until_repeated: bool,
}

/// Activity after a stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AfterStop {
    /// `pause` or `interrupt`.
    pub command: String,
    /// What the agent still does: steps that are events.
    pub steps: Vec<Step>,
}
