//! `pilothouse plan`.

use clap::{Args, Subcommand};
use pilothouse_api::sessions::SessionView;
use pilothouse_domain::session::{PendingRequest, RequestKind};

use super::target::Target;
use crate::context::{Context, open_request};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;
use crate::output::session::outcome;

/// Show, approve or reject the agent's plan.
#[derive(Debug, Subcommand)]
pub enum Plan {
    /// Show the plan
    Show(Target),
    /// Approve the plan; the agent proceeds
    Approve(Approve),
    /// Reject the plan; the agent revises it
    Reject(Reject),
}

/// Approve the plan; the agent proceeds.
#[derive(Debug, Args)]
pub struct Approve {
    #[command(flatten)]
    pub target: Target,
    /// The request, if several are open
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
}

/// Reject the plan; the agent revises it.
#[derive(Debug, Args)]
pub struct Reject {
    #[command(flatten)]
    pub target: Target,
    /// What to change
    #[arg(long, short, value_name = "TEXT")]
    pub feedback: String,
    /// The request, if several are open
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
}

/// The plan request of a session that waits for a decision.
fn shown<'a>(session: &'a SessionView, named: Option<&str>) -> Result<&'a PendingRequest, CliError> {
    let plans = session.pending_requests.iter().filter(|r| matches!(r.kind, RequestKind::Plan { .. }));
    open_request(plans, named, "plan")
}

impl Plan {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = match self {
            Self::Show(target) => return show(target, ctx).await,
            Self::Approve(Approve { target, request }) => {
                let session = ctx.client.session(target.id(ctx).await?).await?;
                let plan = shown(&session, request.as_deref())?;
                ctx.client.approve_plan(session.id, &plan.id).await?
            }
            Self::Reject(Reject { target, request, feedback }) => {
                let session = ctx.client.session(target.id(ctx).await?).await?;
                let plan = shown(&session, request.as_deref())?;
                ctx.client.reject_plan(session.id, &plan.id, &feedback).await?
            }
        };
        ctx.print(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}

async fn show(target: Target, ctx: &Context) -> Result<Exit, CliError> {
    let id = target.id(ctx).await?;
    // For an unknown session, report that instead of a missing plan.
    let missing = || CliError::NotFound("the agent of this session has shown no plan".into());
    let plan = match ctx.client.plan(id).await? {
        Some(plan) => plan,
        None => ctx.client.session(id).await?.session_plan.ok_or_else(missing)?,
    };
    ctx.print(&plan, output::plan::show)?;
    Ok(Exit::Done)
}
