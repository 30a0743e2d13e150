//! `pilothouse plan`.

use clap::{Args, Subcommand};
use pilothouse_domain::session::{PendingRequest, RequestKind};
use pilothouse_functions::api::sessions::SessionView;

use super::target::Target;
use crate::context::{Context, open_request};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;
use crate::output::session::outcome;

/// See the agent's plan and decide on it.
#[derive(Debug, Subcommand)]
pub enum Plan {
    /// Show the plan
    Show(Target),
    /// Let the agent proceed by its plan
    Approve(Approve),
    /// Let the agent revise its plan
    Reject(Reject),
}

/// Let the agent proceed by its plan.
#[derive(Debug, Args)]
pub struct Approve {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// The request, when several are open
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
}

/// Let the agent revise its plan.
#[derive(Debug, Args)]
pub struct Reject {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// What is to be different
    #[arg(long, short, value_name = "TEXT")]
    pub feedback: String,
    /// The request, when several are open
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
}

/// The plan of a session that waits for a decision.
fn shown<'a>(session: &'a SessionView, named: Option<&str>) -> Result<&'a PendingRequest, CliError> {
    let plans = session.pending_requests.iter().filter(|r| matches!(r.kind, RequestKind::Plan { .. }));
    open_request(plans, named, "plan")
}

impl Plan {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = match self {
            Self::Show(target) => return show(target, cx).await,
            Self::Approve(Approve { target, request }) => {
                let session = cx.client.session(target.id(cx).await?).await?;
                let plan = shown(&session, request.as_deref())?;
                cx.client.approve_plan(session.id, &plan.id).await?
            }
            Self::Reject(Reject { target, request, feedback }) => {
                let session = cx.client.session(target.id(cx).await?).await?;
                let plan = shown(&session, request.as_deref())?;
                cx.client.reject_plan(session.id, &plan.id, &feedback).await?
            }
        };
        cx.answer(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}

async fn show(target: Target, cx: &Context) -> Result<Exit, CliError> {
    let id = target.id(cx).await?;
    // Of a session that does not exist, that is what is said, not that it has no plan.
    let missing = || CliError::NotFound("the agent of this session has shown no plan".into());
    let plan = match cx.client.plan(id).await? {
        Some(plan) => plan,
        None => cx.client.session(id).await?.session_plan.ok_or_else(missing)?,
    };
    cx.answer(&plan, output::plan::show)?;
    Ok(Exit::Done)
}
