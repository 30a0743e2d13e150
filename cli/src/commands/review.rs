//! `pilothouse approve` and `reject`: the owner's word on what a session produced.

use clap::Args;
use pilothouse_domain::OutputId;
use pilothouse_functions::api::sessions::SessionView;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::outcome;

/// Approve what the session produced: it is Completed.
#[derive(Debug, Args)]
pub struct Approve {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// The output that you looked at; the latest when not given
    #[arg(long, value_name = "ID")]
    pub output: Option<OutputId>,
}

/// Reject what the session produced: it is Failed and may be retried.
#[derive(Debug, Args)]
pub struct Reject {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// Why
    #[arg(long, short, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The output that you looked at; the latest when not given
    #[arg(long, value_name = "ID")]
    pub output: Option<OutputId>,
}

/// The output that the decision is about.
fn output_of(session: &SessionView, named: Option<OutputId>) -> Result<OutputId, CliError> {
    let latest =
        session.output.as_ref().filter(|_| session.has_pending_review).map(|output| output.output_id);
    named.or(latest).ok_or_else(|| {
        CliError::Failed(format!(
            "no output waits for review: the session is {}; one that rests without output is closed with \
             `pilothouse close`",
            session.status
        ))
    })
}

impl Approve {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = cx.client.session(self.target.id(cx).await?).await?;
        let output = output_of(&session, self.output)?;
        let session = cx.client.approve(session.id, output).await?;
        cx.answer(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}

impl Reject {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = cx.client.session(self.target.id(cx).await?).await?;
        let output = output_of(&session, self.output)?;
        let session = cx.client.reject(session.id, output, self.reason).await?;
        cx.answer(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}
