//! Configuration of a session (S1 4.1).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::value::{ContextPolicy, ThinkingLevel};

use crate::bash::BashRunner;
use crate::extension::Extensions;
use crate::governor::{Governor, Ungoverned};
use crate::message::UserContent;
use crate::model::LanguageModel;
use crate::model::registry::ModelRegistry;
use crate::resources::Resources;
use crate::tool::SharedTool;

#[derive(Clone)]
pub struct SessionConfig {
    pub cwd: PathBuf,
    /// Folder of the session files.
    pub sessions: PathBuf,
    /// [`GenaiModel`](crate::model::genai::GenaiModel), or a scripted model in tests.
    pub language_model: Arc<dyn LanguageModel>,
    pub registry: Arc<ModelRegistry>,
    /// Model of a new conversation, as [`ModelRegistry::resolve`] accepts it. Default: the first available model.
    pub model: Option<String>,
    /// Of a new conversation. A continued one keeps its model and level.
    pub thinking: ThinkingLevel,
    pub system_prompt: String,
    /// Of two with the same name, the first applies (decision 38).
    pub tools: Vec<SharedTool>,
    pub governor: Arc<dyn Governor>,
    /// See [`SteeringMode`] (decision 40).
    pub steering_mode: SteeringMode,
    /// See [`FollowUpMode`] (decision 40).
    pub follow_up_mode: FollowUpMode,
    /// Most model turns of one prompt. `None`: no limit.
    pub max_turns: Option<u32>,
    /// How to react to a full context window.
    pub context: ContextSettings,
    /// How to react to failed calls.
    pub retry: RetryPolicy,
    /// Skills and templates that prompts can refer to (S1 6.3). The system prompt lists the skills.
    pub resources: Arc<Resources>,
    /// Their tools come after [`Self::tools`] (S1 8).
    pub extensions: Extensions,
    /// Runs the user's commands (S1 7). `None` disables them.
    pub bash: Option<BashRunner>,
    /// A line before every command of [`AgentSession::execute_bash`](super::AgentSession::execute_bash) (S1 7).
    pub shell_prefix: Option<String>,
}

impl SessionConfig {
    /// Defaults: no tools, no governor, steering skips calls, one follow-up per turn, automatic compaction.
    pub fn new(
        cwd: impl Into<PathBuf>,
        sessions: impl Into<PathBuf>,
        language_model: Arc<dyn LanguageModel>,
        registry: Arc<ModelRegistry>,
    ) -> Self {
        Self {
            cwd: cwd.into(),
            sessions: sessions.into(),
            language_model,
            registry,
            model: None,
            thinking: ThinkingLevel::Off,
            system_prompt: String::new(),
            tools: Vec::new(),
            governor: Arc::new(Ungoverned),
            steering_mode: SteeringMode::default(),
            follow_up_mode: FollowUpMode::default(),
            max_turns: None,
            context: ContextSettings::default(),
            retry: RetryPolicy::default(),
            resources: Arc::default(),
            extensions: Extensions::default(),
            bash: None,
            shell_prefix: None,
        }
    }
}

/// The effect of steering on the remaining tool calls (decision 40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SteeringMode {
    /// Skip them, with a result that explains it.
    #[default]
    Skip,
    /// Run them first.
    Finish,
}

/// The number of follow-ups in a turn (decision 40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FollowUpMode {
    /// One; the next one after the work on it.
    #[default]
    OneATurn,
    All,
}

/// How to react to a full context window (S1 6.1, decision 35).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSettings {
    /// Compact, or stop with [`AgentOutcome::ContextExhausted`](crate::event::AgentOutcome::ContextExhausted).
    pub policy: ContextPolicy,
    /// Fill level in percent at which the policy applies.
    pub threshold_percent: u8,
    /// Tokens at which the policy applies although the window has room for more.
    pub budget_tokens: Option<u64>,
    /// How many of the latest turns the model receives. A turn begins with a message of the user. `None`: all.
    pub recent_turns: Option<u32>,
    /// In tokens. A summary does not replace these latest messages.
    pub keep_recent_tokens: u64,
    /// Under [`ContextPolicy::Handoff`]: asks the agent at the threshold, once, to write its handoff document. `None`:
    /// the agent stops immediately.
    pub handoff_prompt: Option<String>,
    /// Most turns for writing the document.
    pub handoff_turns: u32,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            policy: ContextPolicy::Compact,
            threshold_percent: 80,
            budget_tokens: None,
            recent_turns: None,
            keep_recent_tokens: 20_000,
            handoff_prompt: None,
            handoff_turns: 3,
        }
    }
}

/// How to react to failed calls (S1 6.2). Afterwards the run ends as
/// [`AgentOutcome::Unavailable`](crate::event::AgentOutcome::Unavailable).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Doubles with each retry, with jitter.
    pub base_delay: Duration,
    /// Longest delay, except one that the provider requests.
    pub max_delay: Duration,
    /// The time during which a call is retried.
    pub patience: Duration,
    /// `None`: only `patience` limits the retries.
    pub max_retries: Option<u32>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            base_delay: Duration::from_secs(2),
            max_delay: Duration::from_mins(5),
            patience: Duration::from_hours(6),
            max_retries: None,
        }
    }
}

/// Options of a prompt (S1 4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptOptions {
    /// Whether to expand `/skill:name`, templates and commands.
    pub expand: bool,
    /// Images to attach: [`UserContent::Image`].
    pub images: Vec<UserContent>,
    /// The queue while the agent is working. `None`: fail with [`SessionError::Busy`](super::SessionError::Busy).
    pub while_running: Option<Queue>,
    /// Repeated by [`SessionEvent::Injected`](crate::event::SessionEvent::Injected) once the message is in the
    /// conversation.
    pub tag: Option<String>,
}

impl Default for PromptOptions {
    fn default() -> Self {
        Self { expand: true, images: Vec::new(), while_running: None, tag: None }
    }
}

/// The queue in which a message waits (S1 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Delivered before the next model call.
    Steering,
    /// Delivered when the agent has no other work.
    FollowUp,
}

/// Selects the conversation of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    New {
        /// The session from which it originates, if any.
        parent: Option<String>,
    },
    /// The latest one with the same working directory, or a new one (S1 10, `ContinueRecent`).
    ContinueRecent,
    File(PathBuf),
}
