//! The format of scripts, as `docs/script-format.md` describes it.

use pilothouse_domain::value::{Question, SessionOutput, TokenUsage};
use pilothouse_domain::{MeterId, SubAgentId, ToolCallId, Usd};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{Content, HandoffDocument, RawTask};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A run to play.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptFile {
    /// The model that usage is counted for; the session's model when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The models that it can be set to, in the order in which they are cycled; empty: to any, and there is nothing to cycle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// What is played, in order.
    pub steps: Vec<Step>,
    /// What the sessions play that go on with the work when a context is full: the first continuation the first list, and
    /// so on. Beyond the lists a continuation plays one turn that reads the handoff document out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continuations: Vec<Vec<Step>>,
    /// What each turn plays that a message starts after the steps are over. Absent: it quotes the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_message: Option<Vec<Step>>,
    /// What a message into a running turn is answered with. `{{message}}` stands for the message.
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
    /// The agent says something. `{{message}}`, `{{objective}}`, `{{handoff}}` and `{{configuration}}` are replaced.
    Say(String),
    /// The agent thinks aloud.
    Think(String),
    /// The agent calls a tool.
    Tool(Tool),
    /// A subagent begins, does its steps, and ends.
    Subagent(Subagent),
    /// The agent used something; the script gives what is added, the wire gets the totals.
    Usage(Usage),
    /// The agent prices a call before it makes it, in dollars: it holds, and tells so, until that much is left.
    Price(Usd),
    /// The agent's task list, whole.
    Tasks(Vec<RawTask>),
    /// The agent asks its owner and waits for the answer.
    Question(Ask),
    /// The agent shows a plan, and waits for the decision if the session requires approval.
    Plan(Plan),
    /// What the turn produced; sent with its `turn_completed`.
    Output(SessionOutput),
    /// A piece of a log.
    Log(Log),
    /// The agent speaks of itself.
    Notice(Note),
    /// The context window is full.
    ContextExhausted {},
    /// A handoff document.
    Handoff(HandoffDocument),
    /// The agent hands its work on although it has room left.
    HandOver(HandOver),
    /// Any raw event.
    Raw(Box<RawEvent>),
    /// The agent's conversation ends.
    End(End),

    /// Time passes, in milliseconds.
    Wait(u64),
    /// Goes on when a message has come. Between turns, the next turn is started by it.
    WaitForMessage {},
    /// Goes on when a command of this name was carried out.
    WaitForCommand(String),
    /// Goes on when the question of this tool call is answered; the answer becomes its result.
    WaitForAnswer(ToolCallId),
    /// Plays steps several times.
    Repeat(Repeat),

    /// Fault: an authentic envelope whose body is this JSON.
    Malformed(Value),
    /// Fault: the envelopes of the step are sent twice.
    Duplicate(Box<Step>),
    /// Fault: the envelope of the second step is sent before that of the first.
    Reorder(Box<(Step, Step)>),
    /// Fault: the envelopes of the step are missing.
    Gap(Gap),
    /// Fault: nothing leaves, neither events nor heartbeats, for this many milliseconds.
    Silence(u64),
    /// Fault: the sidecar dies.
    Crash(Crash),
    /// Fault: the next command of this name is treated as if it never came.
    Ignore(IgnoreCommand),
    /// Fault: the agent goes on after it acknowledged that it stopped.
    AfterStop(AfterStop),
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Turn {
    /// What happens in it.
    pub steps: Vec<Step>,
    /// What it produces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<SessionOutput>,
}

/// A tool call with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// Its id; counted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ToolCallId>,
    /// The tool.
    pub name: String,
    /// Its input.
    #[serde(default = "empty_object")]
    pub input: Value,
    /// What it answers. Absent: the call stays open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Content>,
    /// Whether it fails.
    #[serde(default)]
    pub error: bool,
    /// How long it takes.
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
    /// Its id; counted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SubAgentId>,
    /// What it is to do.
    pub objective: String,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it does: `say`, `think`, `tool`, `usage`, `wait`.
    pub steps: Vec<Step>,
    /// Why it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What is added to a meter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    /// The meter; the conversation's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<MeterId>,
    /// The model; the script's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Dollars.
    #[serde(default)]
    pub cost_usd: Usd,
    /// Tokens.
    #[serde(default)]
    pub tokens: TokenUsage,
    /// The context window after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
}

/// How full the context window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Context {
    /// Tokens in it.
    pub tokens: u64,
    /// The most that it takes.
    pub limit: u64,
}

/// A request of answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ask {
    /// The tool call's id; counted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ToolCallId>,
    /// The questions.
    pub questions: Vec<Question>,
    /// Whether to wait for the answer here; otherwise with `waitForAnswer`, later.
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
    /// The tool call's id; counted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ToolCallId>,
    /// The document.
    pub text: String,
    /// The documents that are shown one after the other as long as the owner rejects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
}

/// A handoff of the agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    /// Why.
    pub reason: String,
    /// What was done and what remains.
    #[serde(flatten)]
    pub document: HandoffDocument,
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Log {
    /// Where it comes from.
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
    /// A short stable name.
    pub name: String,
    /// A sentence for a person.
    pub summary: String,
    /// More of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// The end of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct End {
    /// Whether it is an error.
    pub error: bool,
    /// The agent's word for it; `success` or `error` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it produced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<SessionOutput>,
}

/// Steps that are played several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repeat {
    /// How often.
    pub times: u32,
    /// What.
    pub steps: Vec<Step>,
}

/// Envelopes that are missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gap {
    /// What is missing.
    pub step: Box<Step>,
    /// Whether a replay does not bring it either.
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
    /// The command's name on the wire.
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
