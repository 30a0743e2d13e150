//! `pilothouse interrupt`, `pause`, `resume`, `cancel`, `close` and `retry`.
//!
//! The first four are requests that the agent's sidecar confirms (S3). By default the command waits for the confirmation.

use std::time::Duration;

use clap::Args;
use pilothouse_api::sessions::SessionView;
use pilothouse_client::inputs;
use pilothouse_domain::session::AgentSessionStatus;

use super::parse;
use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::outcome;

/// Options for waiting.
#[derive(Debug, Clone, Args)]
pub struct Wait {
    /// Return when the request is recorded, before it is carried out
    #[arg(long)]
    pub no_wait: bool,
    /// Wait at most this many seconds; the request stays valid after that
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = parse::waiting_seconds())]
    pub timeout: u64,
}

impl Wait {
    /// Waits for the confirmation of a request, and prints the outcome.
    async fn settle(&self, ctx: &Context, session: SessionView) -> Result<Exit, CliError> {
        let session = if self.no_wait {
            session
        } else {
            ctx.client.wait_until_settled(session.id, Duration::from_secs(self.timeout)).await?
        };
        ctx.print(&session, |session, style, _| outcome(session, style))?;
        if self.no_wait || !session.status.is_intermediate() && !session.cancel_accepted {
            return Ok(Exit::Done);
        }
        Err(CliError::Failed(format!(
            "the request is not confirmed after {} s, and is still valid: see `pilothouse show {}`",
            self.timeout, session.id
        )))
    }
}

/// End the agent's turn. The session still accepts messages.
///
/// Queued messages are held until you send, promote or release one.
#[derive(Debug, Args)]
pub struct Interrupt {
    #[command(flatten)]
    pub target: Target,
    /// Cancel queued messages instead of holding them
    #[arg(long)]
    pub clear_queue: bool,
    #[command(flatten)]
    pub wait: Wait,
}

impl Interrupt {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = ctx.client.interrupt(self.target.id(ctx).await?, self.clear_queue).await?;
        self.wait.settle(ctx, session).await
    }
}

/// Suspend the agent. It spends nothing until it is resumed.
#[derive(Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub wait: Wait,
}

impl Pause {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = ctx.client.pause(self.target.id(ctx).await?).await?;
        self.wait.settle(ctx, session).await
    }
}

/// Resume a paused agent.
#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub wait: Wait,
}

impl Resume {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = ctx.client.resume(self.target.id(ctx).await?).await?;
        self.wait.settle(ctx, session).await
    }
}

/// Cancel a session. Its records are kept.
#[derive(Debug, Args)]
pub struct Cancel {
    #[command(flatten)]
    pub target: Target,
    /// Stop its process at once, without a request to the agent
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub wait: Wait,
}

impl Cancel {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = ctx.client.cancel(self.target.id(ctx).await?, self.force).await?;
        self.wait.settle(ctx, session).await
    }
}

/// Complete an idle session. If its output waits for review, approve or reject it instead.
#[derive(Debug, Args)]
pub struct Close {
    #[command(flatten)]
    pub target: Target,
    /// Only if the session still has this version (see `show --json`)
    #[arg(long, value_name = "VERSION")]
    pub if_version: Option<u64>,
}

impl Close {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = ctx.client.close(self.target.id(ctx).await?, self.if_version).await?;
        ctx.print(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}

/// Retry a failed session in its conversation.
#[derive(Debug, Args)]
pub struct Retry {
    #[command(flatten)]
    pub target: Target,
    /// The first message to the agent
    #[arg(value_name = "INSTRUCTION")]
    pub words: Vec<String>,
    /// Start a new conversation instead
    #[arg(long)]
    pub fresh: bool,
}

impl Retry {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let id = ctx.session_id(&session).await?;
        let additional_instruction = (!words.is_empty()).then(|| words.join(" "));
        let started =
            ctx.client.retry(id, &inputs::RetrySession { additional_instruction, fresh: self.fresh }).await?;
        ctx.print(&started, |started, style, _| outcome(&started.session, style))?;
        Ok(Exit::Done)
    }
}

/// The exit code for the status in which a watched session ended.
pub(super) fn exit_of(status: AgentSessionStatus) -> Exit {
    match status {
        AgentSessionStatus::Failed | AgentSessionStatus::Cancelled => Exit::EndedBadly,
        _ => Exit::Done,
    }
}
