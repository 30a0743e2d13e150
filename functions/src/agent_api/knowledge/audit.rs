//! Logs the uses of a project's knowledge by its agents, also refused ones, and counts them against the rate limit.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::agent_api::AGENT_API_RATE_LIMIT;
use pilothouse_domain::decision::{DecisionLogEntry, KnowledgeAccess, LoggedDecision};
use pilothouse_domain::session::AgentSession;
use pilothouse_domain::text::{WorkstreamId, cut};
use pilothouse_domain::{AgentSessionId, DomainContext};
use pilothouse_store::Commit;

/// A use of a project's knowledge, for the decision log.
#[derive(Debug, Clone)]
pub(in crate::agent_api) struct KnowledgeUse {
    access: KnowledgeAccess,
    workstream: Option<WorkstreamId>,
    subject: Option<String>,
}

impl KnowledgeUse {
    /// Most characters of a subject.
    const MAX_SUBJECT: usize = 500;

    pub(in crate::agent_api) fn of(
        access: KnowledgeAccess,
        workstream: Option<&WorkstreamId>,
        subject: Option<String>,
    ) -> Self {
        let subject = subject.map(|subject| cut(&subject, Self::MAX_SUBJECT));
        Self { access, workstream: workstream.cloned(), subject }
    }

    pub(in crate::agent_api) fn log(
        &self,
        commit: &mut Commit,
        session: &AgentSession,
        allowed: bool,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(), Problem> {
        let membership = session.project().ok_or_else(Problem::no_project)?;
        commit.log_decision(&DecisionLogEntry {
            owner_id: session.owner_id().clone(),
            project_id: membership.project_id,
            agent_id: Some(membership.agent_id),
            session_id: Some(session.id()),
            at: ctx.now,
            logged: LoggedDecision::Knowledge {
                access_id: ctx.event_id(),
                access: self.access,
                allowed,
                workstream: self.workstream.clone(),
                subject: self.subject.clone(),
            },
        })?;
        Ok(())
    }
}

/// Logs a use, and counts it against the rate limit of the agent.
///
/// # Errors
/// [`Problem::RateLimited`] when the agent calls too often.
pub(in crate::agent_api) async fn log_and_count(
    app: &App,
    session: &AgentSession,
    used: (&KnowledgeUse, bool),
) -> Result<(), Problem> {
    count_and(app, session, Some(used)).await
}

/// Counts a request that changes no session against the rate limit of the agent.
///
/// # Errors
/// [`Problem::RateLimited`] when the agent calls too often.
pub(in crate::agent_api) async fn count(app: &App, session: &AgentSession) -> Result<(), Problem> {
    count_and(app, session, None).await
}

async fn count_and(
    app: &App,
    session: &AgentSession,
    used: Option<(&KnowledgeUse, bool)>,
) -> Result<(), Problem> {
    let load = async || {
        let mut calls = app.store.calls(session.id()).await?;
        calls.value = calls.value.take(AGENT_API_RATE_LIMIT, app.now())?;
        Ok(calls)
    };
    let decide = |calls, ctx: &mut DomainContext<'_>| {
        let mut commit = Commit::new();
        commit.calls(session.id(), &calls)?;
        if let Some((used, allowed)) = used {
            used.log(&mut commit, session, allowed, ctx)?;
        }
        Ok::<_, Problem>(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
}

/// Logs a use that was refused.
pub(in crate::agent_api) async fn log_refused(
    app: &App,
    session: AgentSessionId,
    used: KnowledgeUse,
) -> Result<(), Problem> {
    let session = app.store.session(session).await?.ok_or_else(Problem::no_session)?;
    log_and_count(app, &session, (&used, false)).await
}
