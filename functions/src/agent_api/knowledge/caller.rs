//! The agent that calls, with what it may read and write (S2, "Security boundaries"; decision 84).

use pilothouse_app::App;
use pilothouse_app::http::{AgentCaller, Problem};
use pilothouse_domain::artifact::ArtifactAuthor;
use pilothouse_domain::session::AgentSession;
use pilothouse_domain::value::{KnowledgeScope, ProjectMembership};
use pilothouse_domain::{AgentSessionId, ProjectAgent, RunId, ToolCallId};

use crate::agent_api::caller_session;

/// The calling agent of a project, with the workstreams that its brief lets it read and write.
pub(in crate::agent_api) struct KnowledgeCaller {
    pub(in crate::agent_api) membership: ProjectMembership,
    pub(in crate::agent_api) scope: KnowledgeScope,
    pub(in crate::agent_api) session: AgentSession,
}

impl KnowledgeCaller {
    /// Authenticates the caller. Any other session in the path is answered with 404, and so is a session outside of projects.
    pub(in crate::agent_api) async fn load(
        app: &App,
        caller: &AgentCaller,
        path_session: AgentSessionId,
    ) -> Result<Self, Problem> {
        let session = caller_session(app, caller).await?.conversation.session;
        if path_session != caller.session {
            return Err(Problem::no_session());
        }
        let membership = session.project().cloned().ok_or_else(Problem::no_project)?;
        let scope = scope_of(app, &membership).await?;
        Ok(Self { membership, scope, session })
    }

    pub(in crate::agent_api) fn author(&self) -> ArtifactAuthor {
        author_of(self.session.id(), self.session.run().map(|run| run.id), &self.membership, None)
    }
}

pub(in crate::agent_api) async fn scope_of(
    app: &App,
    membership: &ProjectMembership,
) -> Result<KnowledgeScope, Problem> {
    let agent = app.store.any_aggregate::<ProjectAgent>(membership.agent_id).await?;
    let agent = agent.ok_or_else(Problem::no_agent)?;
    Ok(agent.value.brief().knowledge_scope())
}

pub(in crate::agent_api) fn author_of(
    session_id: AgentSessionId,
    run_id: Option<RunId>,
    membership: &ProjectMembership,
    tool_call_id: Option<ToolCallId>,
) -> ArtifactAuthor {
    ArtifactAuthor::Agent { agent_id: membership.agent_id, session_id, run_id, tool_call_id }
}
