//! What a session is made of (S1 4.1).

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

/// What a session is made of.
#[derive(Clone)]
pub struct SessionConfig {
    /// Where it works.
    pub cwd: PathBuf,
    /// The folder of session files.
    pub sessions: PathBuf,
    /// What answers: [`GenaiModel`](crate::model::genai::GenaiModel), or a scripted one in tests.
    pub language_model: Arc<dyn LanguageModel>,
    /// The models that can be chosen.
    pub registry: Arc<ModelRegistry>,
    /// The model that a new conversation begins with, as [`ModelRegistry::resolve`] takes it; none: the first that is
    /// available. A conversation that goes on keeps its own.
    pub model: Option<String>,
    /// How deeply a new conversation thinks.
    pub thinking: ThinkingLevel,
    /// Who the agent is and what it may do.
    pub system_prompt: String,
    /// What it can do. Of two with the same name the first counts (ruling 38).
    pub tools: Vec<SharedTool>,
    /// Who is asked before anything is called.
    pub governor: Arc<dyn Governor>,
    /// What steering does to the tool calls that are left (ruling 40).
    pub steering_mode: SteeringMode,
    /// How many follow-ups a turn takes (ruling 40).
    pub follow_up_mode: FollowUpMode,
    /// The most model turns of one prompt; none: as many as it takes.
    pub max_turns: Option<u32>,
    /// What is done when the context window fills up.
    pub context: ContextSettings,
    /// What is done when a call fails.
    pub retry: RetryPolicy,
    /// Skills and templates that prompts can name (S1 6.3). The system prompt gets the list of the skills.
    pub resources: Arc<Resources>,
    /// What others add: hooks, tools, commands, more resources (S1 8). Their tools come after [`Self::tools`].
    pub extensions: Extensions,
    /// Runs the user's commands (S1 7); none: there are none.
    pub bash: Option<BashRunner>,
    /// Goes before every command of [`AgentSession::execute_bash`](super::AgentSession::execute_bash), on a line of its own (S1 7.1).
    pub shell_prefix: Option<String>,
}

impl SessionConfig {
    /// With defaults: no tools, nobody who governs, steering skips, one follow-up a turn, compaction by itself.
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

/// What steering does to the tool calls that are left (ruling 40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SteeringMode {
    /// They are skipped, with a result that says so.
    #[default]
    Skip,
    /// They run first.
    Finish,
}

/// How many follow-ups a turn takes (ruling 40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FollowUpMode {
    /// One; the next when its work is done.
    #[default]
    OneATurn,
    /// All that wait.
    All,
}

/// What is done when the context window fills up (S1 6.1, ruling 35).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSettings {
    /// Compact, or stop with [`AgentOutcome::ContextExhausted`](crate::event::AgentOutcome::ContextExhausted).
    pub policy: ContextPolicy,
    /// How full the window may get before that, in percent.
    pub threshold_percent: u8,
    /// Tokens of the newest messages that a summary does not replace.
    pub keep_recent_tokens: u64,
    /// Under [`ContextPolicy::Handoff`]: said to the agent once at the threshold, so that it can write its handoff
    /// document. None: it stops at once.
    pub handoff_prompt: Option<String>,
    /// The most turns that it has for the document.
    pub handoff_turns: u32,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            policy: ContextPolicy::Compact,
            threshold_percent: 80,
            keep_recent_tokens: 20_000,
            handoff_prompt: None,
            handoff_turns: 3,
        }
    }
}

/// What is done when a call fails (S1 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The first pause; each next is twice as long.
    pub base_delay: Duration,
    /// The longest pause, whatever the provider asks for.
    pub max_delay: Duration,
    /// Tries after the first.
    pub max_retries: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { base_delay: Duration::from_secs(2), max_delay: Duration::from_mins(1), max_retries: 5 }
    }
}

/// How a prompt is taken (S1 4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptOptions {
    /// Whether `/skill:name`, templates and commands in it are expanded.
    pub expand: bool,
    /// Images that go with it: [`UserContent::Image`].
    pub images: Vec<UserContent>,
    /// What becomes of it while the agent works. None: [`SessionError::Busy`](super::SessionError::Busy).
    pub while_running: Option<Queue>,
    /// Named by [`SessionEvent::Injected`](crate::event::SessionEvent::Injected) when the message is in the conversation.
    pub tag: Option<String>,
}

impl Default for PromptOptions {
    fn default() -> Self {
        Self { expand: true, images: Vec::new(), while_running: None, tag: None }
    }
}

/// The queue that a message waits in (S1 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Before the next call of the model.
    Steering,
    /// When the agent has nothing else to do.
    FollowUp,
}

/// Which conversation a session takes up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A new one.
    New {
        /// The session that it comes from, if any.
        parent: Option<String>,
    },
    /// The newest of its folder of work; a new one, when there is none (S1 10, `ContinueRecent`).
    ContinueRecent,
    /// The one in this file.
    File(PathBuf),
}
