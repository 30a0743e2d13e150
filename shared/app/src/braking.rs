//! Commands on sessions that a brake may stop (decision 72). Until a brake has put its hold on a session, commands that would make
//! the agent act read the brakes of the owner.

use pilothouse_api::sessions::SessionView;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::decision::OwnerDecision;
use pilothouse_domain::escalation::InputGuardrail;
use pilothouse_domain::session::{Operation, SessionError};
use pilothouse_domain::{AgentSession, AgentSessionId, DomainContext, Events, UserId};
use pilothouse_store::{LoadedConversation, OwnerBrakes};

use crate::App;
use crate::command::{CommandContext, CommandResponse};
use crate::http::Problem;
use crate::unit_of_work::Decision;

/// A session with the brakes of its owner.
struct BrakedState {
    loaded: LoadedConversation,
    brakes: OwnerBrakes,
}

/// Refuses what would make the agent of a session act while a brake stops it.
pub fn ensure_not_braked(brakes: &OwnerBrakes, session: &AgentSession) -> Result<(), SessionError> {
    brakes.on(session).map_or(Ok(()), |brake| Err(SessionError::Braked { brake_id: brake.id }))
}

/// Puts the hold of a brake on a session whose agent would receive something, if a brake stops it and has not held it yet. The commit
/// must require that the brakes are unchanged: nothing would take this hold off again.
///
/// # Errors
/// The session refuses the hold.
pub fn hold_if_braked(
    brakes: &OwnerBrakes,
    session: &mut AgentSession,
    ctx: &DomainContext<'_>,
) -> Result<Option<Events>, SessionError> {
    let can_act = session.run().is_some() && session.check(Operation::Hold).is_ok();
    let brake = brakes.on(session).filter(|_| can_act && !session.is_held());
    brake.map(|brake| session.hold(brake.id, brake.behavior, ctx)).transpose()
}

impl App {
    async fn load_with_brakes(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
    ) -> Result<BrakedState, Problem> {
        let loaded = self.load_session(command, id).await?;
        Ok(BrakedState { loaded, brakes: self.store.brakes(&command.owner).await? })
    }

    /// Changes a session by a domain call that makes its agent act. Refused while a brake stops the session.
    ///
    /// # Errors
    /// [`SessionError::Braked`], and those of [`App::change_session`]. What the session itself refuses comes first.
    pub async fn change_session_unless_braked(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
        decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
    ) -> Result<CommandResponse, Problem> {
        self.change_session_unless_braked_with(command, id, decide, CommandResponse::session).await
    }

    /// The same with the result of `show` as the response.
    ///
    /// # Errors
    /// Those of [`App::change_session_unless_braked`] and of `show`.
    pub async fn change_session_unless_braked_with(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
        mut decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
        show: impl Fn(&Conversation) -> Result<CommandResponse, Problem>,
    ) -> Result<CommandResponse, Problem> {
        let load = async || self.load_with_brakes(command, id).await;
        let decide = |BrakedState { loaded, brakes }: BrakedState, ctx: &mut DomainContext<'_>| {
            let unless_braked = |it: &mut Conversation, ctx: &mut DomainContext<'_>| {
                let events = decide(it, ctx)?;
                ensure_not_braked(&brakes, &it.session)?;
                Ok(events)
            };
            self.decide_on_session(command, loaded, ctx, unless_braked, &show)
        };
        self.unit_of_work().run_command(command, load, decide).await
    }

    /// Applies the owner's decision on a request, unless a brake stops the session. The guardrails on the input of the agent judge what the
    /// owner says to it; those that refuse it are recorded (decision 79).
    ///
    /// # Errors
    /// [`SessionError::InputBlocked`], and those of [`App::change_session_unless_braked`].
    pub async fn decide_request(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
        decision: &OwnerDecision,
    ) -> Result<CommandResponse, Problem> {
        let load = async || self.load_with_guardrails(command, id).await;
        let decide = |(state, guardrails): (BrakedState, Vec<InputGuardrail>),
                      ctx: &mut DomainContext<'_>| {
            let BrakedState { loaded, brakes } = state;
            let unless_braked = |it: &mut Conversation, ctx: &mut DomainContext<'_>| {
                let events = it.resolve_guarded(decision.clone(), &guardrails, ctx)?;
                ensure_not_braked(&brakes, &it.session)?;
                Ok(events)
            };
            self.decide_on_session(command, loaded, ctx, unless_braked, CommandResponse::session)
        };
        let outcome = self.unit_of_work().run_command(command, load, decide).await;
        self.record_refusal(command, id, outcome).await
    }

    /// Changes a session by a domain call that may have the agent receive something. If a brake stops the session, the same commit
    /// puts the hold on it, so that the agent receives nothing.
    ///
    /// # Errors
    /// Those of [`App::change_session_with`].
    pub async fn change_session_under_brakes(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
        mut decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
        show: impl Fn(&Conversation) -> Result<CommandResponse, Problem>,
    ) -> Result<CommandResponse, Problem> {
        let load = async || self.load_with_brakes(command, id).await;
        let decide = |state: BrakedState, ctx: &mut DomainContext<'_>| {
            self.decide_under_brakes(command, state, ctx, &mut decide, &show)
        };
        self.unit_of_work().run_command(command, load, decide).await
    }

    /// Like [`App::change_session_under_brakes`], for a domain call that sends a text to the agent. It receives the guardrails on the
    /// input of the agent; those that refuse the text are recorded (decision 79). `store_images` runs before the commit, so that a refused
    /// text leaves nothing.
    ///
    /// # Errors
    /// [`SessionError::InputBlocked`], and those of [`App::change_session_under_brakes`].
    pub async fn send_to_agent<B: Future<Output = Result<(), Problem>>>(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
        mut send: impl FnMut(
            &mut Conversation,
            &[InputGuardrail],
            &mut DomainContext<'_>,
        ) -> Result<Events, Problem>,
        show: impl Fn(&Conversation) -> Result<CommandResponse, Problem>,
        store_images: impl FnMut() -> B,
    ) -> Result<CommandResponse, Problem> {
        let load = async || self.load_with_guardrails(command, id).await;
        let decide = |(state, guardrails): (BrakedState, Vec<InputGuardrail>),
                      ctx: &mut DomainContext<'_>| {
            let send = |it: &mut Conversation, ctx: &mut DomainContext<'_>| send(it, &guardrails, ctx);
            self.decide_under_brakes(command, state, ctx, send, &show)
        };
        let outcome = self.unit_of_work().run_command_storing(command, load, decide, store_images).await;
        self.record_refusal(command, id, outcome).await
    }

    /// What a text for the agent depends on, besides the session.
    async fn load_with_guardrails(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
    ) -> Result<(BrakedState, Vec<InputGuardrail>), Problem> {
        let state = self.load_with_brakes(command, id).await?;
        let guardrails = self.input_guardrails(&state.loaded.conversation.session).await?;
        Ok((state, guardrails))
    }

    fn decide_under_brakes(
        &self,
        command: &CommandContext,
        BrakedState { loaded, brakes }: BrakedState,
        ctx: &mut DomainContext<'_>,
        decide: impl FnOnce(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
        show: impl Fn(&Conversation) -> Result<CommandResponse, Problem>,
    ) -> Result<Decision<CommandResponse>, Problem> {
        let mut is_held = false;
        let under_brake = |it: &mut Conversation, ctx: &mut DomainContext<'_>| {
            let held = hold_if_braked(&brakes, &mut it.session, ctx)?;
            is_held = held.is_some();
            let mut events = held.unwrap_or_default();
            events.extend(decide(it, ctx)?);
            Ok(events)
        };
        match self.decide_on_session(command, loaded, ctx, under_brake, show)? {
            Decision::Commit(mut commit, response) if is_held => {
                commit.unchanged_brakes(&command.owner, &brakes);
                Ok(Decision::Commit(commit, response))
            }
            decision => Ok(decision),
        }
    }

    /// The view of a session. A Queued session that a brake stops says so; only for such a session are the brakes read.
    ///
    /// # Errors
    /// The brakes cannot be read.
    pub async fn view_of(&self, owner: &UserId, session: &AgentSession) -> Result<SessionView, Problem> {
        let view = SessionView::of(session);
        if session.slot_wanted().is_none() {
            return Ok(view);
        }
        let brakes = self.store.brakes(owner).await?;
        Ok(if brakes.on(session).is_some() { view.braked() } else { view })
    }
}
