//! What is done to a session: interrupt, pause, resume, cancel, close, retry.
//!
//! The first four are requests that the agent's sidecar confirms (S3). The command waits for that by default.

use std::time::Duration;

use clap::Args;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_functions::api::sessions::SessionView;

use super::target::Target;
use crate::client::inputs;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::outcome;

/// How to wait for the confirmation.
#[derive(Debug, Clone, Args)]
pub struct Wait {
    /// Return as soon as the request is recorded, before it is carried out
    #[arg(long)]
    pub no_wait: bool,
    /// Wait at most this many seconds; the request stands all the same
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub timeout: u64,
}

impl Wait {
    /// Waits for what was requested, and says how it ended.
    async fn settle(&self, cx: &Context, session: SessionView) -> Result<Exit, CliError> {
        let session = if self.no_wait {
            session
        } else {
            cx.client.settled(session.id, Duration::from_secs(self.timeout)).await?
        };
        cx.answer(&session, |session, style, _| outcome(session, style))?;
        if self.no_wait || !session.status.is_intermediate() && !session.cancel_accepted {
            return Ok(Exit::Done);
        }
        Err(CliError::Failed(format!(
            "it was requested, but is not confirmed after {} s; the request stands: see `pilothouse show {}`",
            self.timeout, session.id
        )))
    }
}

/// End the agent's turn. The session stays and takes messages.
///
/// Messages that wait are held until you send, promote or release one.
#[derive(Debug, Args)]
pub struct Interrupt {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// Cancel the messages that wait, instead of holding them
    #[arg(long)]
    pub clear_queue: bool,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

impl Interrupt {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = cx.client.interrupt(self.target.id(cx).await?, self.clear_queue).await?;
        self.wait.settle(cx, session).await
    }
}

/// Suspend the agent where it stands. It costs nothing until it is resumed.
#[derive(Debug, Args)]
pub struct Pause {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

impl Pause {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = cx.client.pause(self.target.id(cx).await?).await?;
        self.wait.settle(cx, session).await
    }
}

/// Let a paused agent go on.
#[derive(Debug, Args)]
pub struct Resume {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

impl Resume {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = cx.client.resume(self.target.id(cx).await?).await?;
        self.wait.settle(cx, session).await
    }
}

/// End a session. What it did stays readable.
#[derive(Debug, Args)]
pub struct Cancel {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// Stop its process at once, without asking it
    #[arg(long)]
    pub force: bool,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

impl Cancel {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = cx.client.cancel(self.target.id(cx).await?, self.force).await?;
        self.wait.settle(cx, session).await
    }
}

/// Complete a session that rests. One with output that waits for review is approved or rejected instead.
#[derive(Debug, Args)]
pub struct Close {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// Only if the session is still of this version (see `show --json`)
    #[arg(long, value_name = "VERSION")]
    pub if_version: Option<u64>,
}

impl Close {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = cx.client.close(self.target.id(cx).await?, self.if_version).await?;
        cx.answer(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}

/// Try a failed session again: it goes on with its conversation.
#[derive(Debug, Args)]
pub struct Retry {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// What to tell the agent first
    #[arg(value_name = "INSTRUCTION")]
    pub words: Vec<String>,
    /// Begin a new conversation instead
    #[arg(long)]
    pub fresh: bool,
}

impl Retry {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let id = cx.session_id(&session).await?;
        let additional_instruction = (!words.is_empty()).then(|| words.join(" "));
        let started =
            cx.client.retry(id, &inputs::Retry { additional_instruction, fresh: self.fresh }).await?;
        cx.answer(&started, |started, style, _| outcome(&started.session, style))?;
        Ok(Exit::Done)
    }
}

/// How a session that was watched ended, as an exit code.
pub(super) fn exit_of(status: AgentSessionStatus) -> Exit {
    match status {
        AgentSessionStatus::Failed | AgentSessionStatus::Cancelled => Exit::EndedBadly,
        _ => Exit::Done,
    }
}
