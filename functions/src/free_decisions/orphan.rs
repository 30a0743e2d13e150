//! Orphaned decisions: a person's resolution reaches the agent that is responsible, if that has a session.

use pilothouse_app::App;
use pilothouse_app::braking::hold_if_braked;
use pilothouse_app::http::Problem;
use pilothouse_domain::decision::{Decision, FreeDecision, Resolution, ResolutionDelivery};
use pilothouse_domain::escalation::InputGuardrail;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::{SessionError, judge_resolution};
use pilothouse_domain::{DomainContext, ProjectAgent, ProjectAgentId};
use pilothouse_store::{Commit, LoadedConversation, OwnerBrakes};

/// The session of an agent, with the brakes of its owner.
#[derive(Debug, Clone)]
pub(crate) struct Recipient {
    pub(crate) loaded: LoadedConversation,
    brakes: OwnerBrakes,
}

impl Recipient {
    /// `None` if the agent has no session that accepts messages.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn load(app: &App, agent: ProjectAgentId) -> Result<Option<Self>, Problem> {
        let Some(agent) = app.store.any_aggregate::<ProjectAgent>(agent).await? else { return Ok(None) };
        let loaded = app.store.conversation(agent.value.current_session_id()).await?;
        let Some(loaded) = loaded.filter(|it| it.conversation.accepts_orphans()) else { return Ok(None) };
        let brakes = app.store.brakes(agent.value.owner_id()).await?;
        Ok(Some(Self { loaded, brakes }))
    }

    /// Adds a change to a commit, with the hold of a brake that stops the session. Returns whether there was one.
    ///
    /// # Errors
    /// The session refuses the hold, or an item cannot be written.
    pub(crate) fn change(
        mut self,
        app: &App,
        cause: &Cause,
        commit: &mut Commit,
        ctx: &mut DomainContext<'_>,
        change: impl FnOnce(&mut LoadedConversation, &mut DomainContext<'_>) -> pilothouse_domain::Events,
    ) -> Result<bool, Problem> {
        let session = &mut self.loaded.conversation.session;
        let held = hold_if_braked(&self.brakes, session, ctx)?;
        let changed = change(&mut self.loaded, ctx);
        if changed.is_empty() {
            return Ok(false);
        }
        if held.is_some() {
            commit.unchanged_brakes(self.loaded.conversation.session.owner_id(), &self.brakes);
        }
        let mut events = held.unwrap_or_default();
        events.extend(changed);
        let events = app.with_consequences(&mut self.loaded.conversation, events, ctx);
        app.record(commit, &mut self.loaded, cause.clone(), events)?;
        Ok(true)
    }
}

#[derive(Debug, Clone)]
pub(super) struct OrphanState {
    recipient: Option<Recipient>,
    /// The guardrails on the input of the recipient.
    guardrails: Vec<InputGuardrail>,
}

impl OrphanState {
    pub(super) async fn load(app: &App, decision: &FreeDecision) -> Result<Self, Problem> {
        let recipient = match decision.recipient() {
            Some(agent) => Recipient::load(app, agent).await?,
            None => None,
        };
        let guardrails = match &recipient {
            Some(recipient) => app.input_guardrails(&recipient.loaded.conversation.session).await?,
            None => Vec::new(),
        };
        Ok(Self { recipient, guardrails })
    }

    pub(super) fn deliver(
        self,
        app: &App,
        cause: &Cause,
        decision: &Decision,
        resolution: &Resolution,
        commit: &mut Commit,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Option<ResolutionDelivery>, Problem> {
        let Some(recipient) = self.recipient else { return Ok(None) };
        let tripped =
            judge_resolution(&self.guardrails, resolution, &decision.subject).map_err(SessionError::from)?;
        let is_delivered = recipient.change(app, cause, commit, ctx, |it, ctx| {
            let mut events = it.conversation.receive_orphan_resolution(decision, resolution, ctx);
            if !events.is_empty() {
                events.extend(tripped);
            }
            events
        })?;
        Ok(is_delivered.then_some(ResolutionDelivery::Message))
    }
}
