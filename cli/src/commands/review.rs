//! `pilothouse approve` and `reject`: review of a session's output.

use clap::Args;
use pilothouse_api::sessions::SessionView;
use pilothouse_domain::OutputId;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::outcome;

/// Approve the output of a session: it becomes Completed.
#[derive(Debug, Args)]
pub struct Approve {
    #[command(flatten)]
    pub target: Target,
    /// The output that you reviewed [default: the latest]
    #[arg(long, value_name = "ID")]
    pub output: Option<OutputId>,
}

/// Reject the output of a session: it becomes Failed and can be retried.
#[derive(Debug, Args)]
pub struct Reject {
    #[command(flatten)]
    pub target: Target,
    /// The reason
    #[arg(long, short, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The output that you reviewed [default: the latest]
    #[arg(long, value_name = "ID")]
    pub output: Option<OutputId>,
}

/// The output that the decision is about.
fn output_of(session: &SessionView, named: Option<OutputId>) -> Result<OutputId, CliError> {
    let latest =
        session.output.as_ref().filter(|_| session.has_pending_review).map(|output| output.output_id);
    named.or(latest).ok_or_else(|| {
        CliError::Failed(format!(
            "no output waits for review: the session is {}; close an idle session without output with \
             `pilothouse close`",
            session.status
        ))
    })
}

impl Approve {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = ctx.client.session(self.target.id(ctx).await?).await?;
        let output = output_of(&session, self.output)?;
        let session = ctx.client.approve(session.id, output).await?;
        ctx.print(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}

impl Reject {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = ctx.client.session(self.target.id(ctx).await?).await?;
        let output = output_of(&session, self.output)?;
        let session = ctx.client.reject(session.id, output, self.reason).await?;
        ctx.print(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}
