//! How an agent works: `pilothouse model`, `thinking`, `compact`, `fork` (S1 5).
//!
//! The agent makes these changes by itself. The commands wait for that by default, and fail when it refuses.

use std::time::Duration;

use clap::Args;
use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use pilothouse_domain::{AgentSessionId, Timestamp, TurnId};
use pilothouse_functions::api::sessions::SessionView;

use super::parse;
use super::target::Target;
use crate::client::Records;
use crate::client::inputs::{Adjust, Slice};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::works_with;

/// How to wait for the agent.
#[derive(Debug, Clone, Args)]
pub struct Wait {
    /// Return as soon as the request is recorded, before the agent has carried it out
    #[arg(long)]
    pub no_wait: bool,
    /// Wait at most this many seconds; the request stands all the same
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub timeout: u64,
}

impl Wait {
    /// Waits for what was asked of the agent, and says what it works with then.
    async fn settle(&self, cx: &Context, asked: SessionView) -> Result<Exit, CliError> {
        let (id, since) = (asked.id, asked.updated_at);
        let session = if self.no_wait {
            asked
        } else {
            let patience = Duration::from_secs(self.timeout);
            cx.client.session_when(id, patience, |session| session.adjustments.is_empty()).await?
        };
        if let Some(why) = refusal(cx, id, since).await? {
            return Err(CliError::Failed(why));
        }
        cx.answer(&session, |session, style, _| works_with(session, style))?;
        if self.no_wait || session.adjustments.is_empty() {
            return Ok(Exit::Done);
        }
        Err(CliError::Failed(format!(
            "the agent has not done it after {} s; the request stands: see `pilothouse show {id}`",
            self.timeout
        )))
    }
}

/// What the agent said against it, if it did.
async fn refusal(cx: &Context, id: AgentSessionId, since: Timestamp) -> Result<Option<String>, CliError> {
    let slice = Slice { limit: Some(100), cursor: None };
    let page = cx.client.activity(id, &Records { slice, since: Some(since), sub_agent_id: None }).await?;
    let said = |what: &str| page.items.iter().rev().find(|line| line.item.summary.starts_with(what));
    let Some(undone) = said("Not done: ") else { return Ok(None) };
    let why = said("The sidecar refused: ").unwrap_or(undone);
    Ok(Some(why.item.summary.clone()))
}

/// Show or change the model of a session.
///
/// Without a model it shows what the agent works with, and which models it has. A session that sleeps begins its next run
/// with what is chosen.
#[derive(Debug, Args)]
pub struct Model {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// The model to work with
    #[arg(value_name = "MODEL", conflicts_with_all = ["next", "previous"])]
    pub words: Vec<String>,
    /// The next one of those that it has
    #[arg(long, conflicts_with = "previous")]
    pub next: bool,
    /// The one before
    #[arg(long)]
    pub previous: bool,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

impl Model {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let cycle_model = match (self.next, self.previous) {
            (true, _) => Some(CycleDirection::Forward),
            (_, true) => Some(CycleDirection::Backward),
            _ => None,
        };
        let (session, words) = self.target.split(self.words);
        let id = cx.session_id(&session).await?;
        let model_id = match &words[..] {
            [] => None,
            [model] => Some(model.clone()),
            _ => return Err(CliError::Usage("say one model: pilothouse model SESSION MODEL".into())),
        };
        if model_id.is_none() && cycle_model.is_none() {
            let session = cx.client.session(id).await?;
            cx.answer(&session, |session, style, _| works_with(session, style))?;
            return Ok(Exit::Done);
        }
        let asked = cx.client.adjust(id, &Adjust { model_id, cycle_model, thinking_level: None }).await?;
        self.wait.settle(cx, asked).await
    }
}

/// Change how deeply the agent of a session thinks.
#[derive(Debug, Args)]
pub struct Thinking {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// off, minimal, low, medium, high or max
    #[arg(value_name = "LEVEL")]
    pub words: Vec<String>,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

impl Thinking {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let wrong = |why: &str| CliError::Usage(format!("{why}: pilothouse thinking SESSION LEVEL"));
        let [level] = &words[..] else { return Err(wrong("say one level")) };
        let level: ThinkingLevel = parse::thinking_level(level).map_err(|why| wrong(&why))?;
        let id = cx.session_id(&session).await?;
        let asked =
            cx.client.adjust(id, &Adjust { thinking_level: Some(level), ..Adjust::default() }).await?;
        self.wait.settle(cx, asked).await
    }
}

/// Have the agent summarise its conversation, to make room in its context window.
#[derive(Debug, Args)]
pub struct Compact {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// What the summary is to look out for
    #[arg(long, short, value_name = "TEXT")]
    pub instructions: Option<String>,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

impl Compact {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(cx).await?;
        let asked = cx.client.compact(id, self.instructions).await?;
        self.wait.settle(cx, asked).await
    }
}

/// Have the agent go back to before a turn and go on from there.
///
/// What came after stays among the records. Files that the agent changed stay as they are.
#[derive(Debug, Args)]
pub struct Fork {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// The turn that is left out, with all that follows it (see `pilothouse replay`)
    #[arg(long, value_name = "TURN")]
    pub before_turn: TurnId,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

impl Fork {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(cx).await?;
        let asked = cx.client.fork(id, self.before_turn).await?;
        self.wait.settle(cx, asked).await
    }
}
