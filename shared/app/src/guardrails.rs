//! Guardrails of briefs on what agents receive and submit (decision 79). They are read with each text and each output, so a changed brief
//! holds at once.

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::decision::{DecisionLogEntry, LoggedDecision};
use pilothouse_domain::escalation::{BlockedInput, InputGuardrail};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::output::OutputRules;
use pilothouse_domain::session::SessionError;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{
    AgentSession, AgentSessionId, DomainContext, EventId, Events, IdSource as _, Project, ProjectAgent,
    UserId,
};
use pilothouse_store::{Commit, CommitError, LoadedConversation};

use crate::command::{CommandContext, CommandResponse};
use crate::http::Problem;
use crate::unit_of_work::{Decision, RetryPolicy};
use crate::{App, FreshIds};

impl App {
    /// The guardrails on what the agent of a session receives; none without a project.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn input_guardrails(&self, session: &AgentSession) -> Result<Vec<InputGuardrail>, Problem> {
        let agent = self.member(session.owner_id(), session.project()).await?;
        Ok(agent.map(|agent| agent.brief().input_guardrails().to_vec()).unwrap_or_default())
    }

    /// The rules for the outputs of a session; none without a project.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn output_rules(
        &self,
        owner: &UserId,
        project: Option<&ProjectMembership>,
    ) -> Result<OutputRules, Problem> {
        let agent = self.member(owner, project).await?;
        Ok(agent.map(|agent| agent.brief().output_rules()).unwrap_or_default())
    }

    async fn member(
        &self,
        owner: &UserId,
        project: Option<&ProjectMembership>,
    ) -> Result<Option<ProjectAgent>, Problem> {
        let Some(membership) = project else { return Ok(None) };
        let agent = self.store.aggregate::<ProjectAgent>(owner, membership.agent_id).await?;
        Ok(agent.map(|agent| agent.value))
    }

    /// Like [`App::change_session_with`], for a domain call that may send a text to the agent. It receives the guardrails on the input of
    /// the agent; those that refuse the text are recorded.
    ///
    /// # Errors
    /// [`SessionError::InputBlocked`], and those of [`App::change_session_with`].
    pub async fn change_session_guarded(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
        mut decide: impl FnMut(
            &mut Conversation,
            &[InputGuardrail],
            &mut DomainContext<'_>,
        ) -> Result<Events, Problem>,
        show: impl Fn(&Conversation) -> Result<CommandResponse, Problem>,
    ) -> Result<CommandResponse, Problem> {
        let load = async || {
            let loaded = self.load_session(command, id).await?;
            let guardrails = self.input_guardrails(&loaded.conversation.session).await?;
            Ok((loaded, guardrails))
        };
        let decide = |(loaded, guardrails): (LoadedConversation, Vec<InputGuardrail>),
                      ctx: &mut DomainContext<'_>| {
            let decide = |it: &mut Conversation, ctx: &mut DomainContext<'_>| decide(it, &guardrails, ctx);
            self.decide_on_session(command, loaded, ctx, decide, &show)
        };
        let changed = self.unit_of_work().run_command(command, load, decide).await;
        self.record_refusal(command, id, changed).await
    }

    /// Records the guardrails that refused a text for the agent of a session, if that is why a command failed.
    ///
    /// # Errors
    /// The failure of the command, or [`Problem`] when the store fails.
    pub async fn record_refusal<T>(
        &self,
        command: &CommandContext,
        session: AgentSessionId,
        result: Result<T, Problem>,
    ) -> Result<T, Problem> {
        let blocked = match &result {
            Err(Problem::Session(SessionError::InputBlocked(blocked))) => Some(blocked.clone()),
            _ => None,
        };
        if let Some(blocked) = blocked {
            let hash = command.refusal_hash(&blocked);
            self.record_blocked_input(session, &command.cause(), &blocked, hash.as_deref()).await?;
        }
        result
    }

    /// Records guardrails that refused a text in the journal of the session. Nothing else of it changes. A refusal with the same `hash` is
    /// recorded once.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn record_blocked_input(
        &self,
        session: AgentSessionId,
        cause: &Cause,
        blocked: &BlockedInput,
        hash: Option<&str>,
    ) -> Result<(), Problem> {
        let load = async || {
            let Some(loaded) = self.store.conversation(session).await? else { return Ok(None) };
            let owner = loaded.conversation.session.owner_id();
            let is_new = !self.is_recorded(owner, hash).await?;
            Ok(Some(loaded).filter(|_| is_new))
        };
        let decide = |loaded: Option<LoadedConversation>, ctx: &mut DomainContext<'_>| {
            let Some(mut loaded) = loaded else { return Ok(Decision::Unchanged(())) };
            let mut commit = Commit::new();
            if let Some(hash) = hash {
                commit.recorded_refusal(loaded.conversation.session.owner_id(), hash, ctx.now)?;
            }
            self.record(&mut commit, &mut loaded, cause.clone(), blocked.events())?;
            Ok(Decision::Commit(commit, ()))
        };
        self.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
    }

    async fn is_recorded(&self, owner: &UserId, hash: Option<&str>) -> Result<bool, Problem> {
        match hash {
            Some(hash) => Ok(self.store.is_refusal_recorded(owner, hash).await?),
            None => Ok(false),
        }
    }

    /// Logs guardrails that refused the objective of a new agent of a project. There is no session whose journal could have them.
    ///
    /// # Errors
    /// [`Problem`] when the store fails.
    pub async fn log_refused_objective(
        &self,
        command: &CommandContext,
        project: &Project,
        blocked: &BlockedInput,
    ) -> Result<(), Problem> {
        let hash = command.refusal_hash(blocked);
        if self.is_recorded(project.owner_id(), hash.as_deref()).await? {
            return Ok(());
        }
        let (event_id, at) = (EventId::new(FreshIds.fresh()), self.now());
        let mut commit = Commit::new();
        if let Some(hash) = &hash {
            commit.recorded_refusal(project.owner_id(), hash, at)?;
        }
        let trips = blocked.trips.iter().map(|trip| (blocked.subject, trip));
        for logged in LoggedDecision::of_trips(event_id, trips) {
            commit.log_decision(&DecisionLogEntry {
                owner_id: project.owner_id().clone(),
                project_id: project.id(),
                agent_id: None,
                session_id: None,
                at,
                logged,
            })?;
        }
        match self.store.commit(commit).await {
            // A repetition of the request was faster.
            Err(CommitError::ResponseExists) => Ok(()),
            committed => Ok(committed?),
        }
    }
}
