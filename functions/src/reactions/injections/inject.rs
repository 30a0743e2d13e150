//! Decides on the injection of one agent, and commits it with the agent's session.

use std::collections::BTreeSet;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::control_mode::BriefSync;
use pilothouse_domain::injection::{
    ContextInjectionPolicy, InjectionKind, InjectionLedger, InjectionPriority, InjectionReason,
    SentInjection, Timing, compose,
};
use pilothouse_domain::knowledge::{KnowledgeSnapshot, TokenBudget};
use pilothouse_domain::project::AgentStatus;
use pilothouse_domain::project_agent::brief_prompt;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::{
    AgentSession, DomainContext, Project, ProjectAgent, ProjectAgentEvent, ProjectAgentId, Timestamp,
};
use pilothouse_store::{Commit, Loaded, LoadedAggregate, LoadedConversation};

use super::cause;
use crate::knowledge::snapshot::{agents_in_scope, position_of, snapshot_of};

/// The cause for which an agent is considered.
#[derive(Clone, Copy)]
pub(super) enum Trigger<'a> {
    Event(&'a InjectionReason),
    /// Events in some workstreams. The agent may not be allowed to read them.
    InWorkstreams {
        project: &'a Project,
        reasons: &'a [(&'a WorkstreamId, InjectionReason)],
    },
    ProjectBriefChanged(Timestamp),
    /// Its deadline.
    Due,
}

impl Trigger<'_> {
    /// The events that the agent may know and that its policy includes. An event in several workstreams counts in the first readable one.
    fn reasons(self, agent: &ProjectAgent, policy: &ContextInjectionPolicy) -> Vec<InjectionReason> {
        match self {
            Self::Event(reason) if policy.includes(reason) => vec![reason.clone()],
            Self::Event(_) | Self::Due => Vec::new(),
            Self::InWorkstreams { reasons, .. } => {
                let scope = agent.brief().knowledge_scope();
                let mut events = BTreeSet::new();
                let readable = reasons.iter().filter(|(workstream, _)| scope.may_read(workstream));
                let included = readable.map(|(_, reason)| reason).filter(|reason| policy.includes(reason));
                included.filter(|reason| events.insert(reason.event())).cloned().collect()
            }
            Self::ProjectBriefChanged(_) => vec![InjectionReason::BriefChanged {}],
        }
    }
}

/// An agent, with the state on which an injection depends.
struct InjectionState {
    agent: LoadedAggregate<ProjectAgent>,
    agent_events: Vec<ProjectAgentEvent>,
    project: Project,
    session: LoadedConversation,
    ledger: Loaded<InjectionLedger>,
    ledger_before: InjectionLedger,
    /// The injection that the agent receives now, if any.
    knowledge: Option<Knowledge>,
}

struct Knowledge {
    kind: InjectionKind,
    reasons: Vec<InjectionReason>,
    snapshot: KnowledgeSnapshot,
    position: u64,
}

/// Processes the due deadline of an agent's injections.
///
/// # Errors
/// [`Problem::VersionConflict`] after too many write conflicts, and errors of the store.
pub async fn inject_due(app: &App, agent: ProjectAgentId) -> Result<(), Problem> {
    inject(app, agent, Trigger::Due).await
}

pub(super) async fn inject(app: &App, id: ProjectAgentId, trigger: Trigger<'_>) -> Result<(), Problem> {
    let load = async || InjectionState::load(app, id, trigger).await;
    let decide = |state: Option<InjectionState>, ctx: &mut DomainContext<'_>| match state {
        Some(state) => state.decide(app, ctx),
        None => Ok(Decision::Unchanged(())),
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Starts the checks of an agent that begins to work.
pub(super) async fn start_checks(app: &App, id: ProjectAgentId) -> Result<(), Problem> {
    type State = Option<(Loaded<InjectionLedger>, ContextInjectionPolicy)>;

    let load = async || {
        let ledger = app.store.injection_ledger(id).await?;
        if ledger.value.has_checks() {
            return Ok(None);
        }
        let Some(agent) = app.store.any_aggregate::<ProjectAgent>(id).await? else { return Ok(None) };
        let project = app.store.any_aggregate::<Project>(agent.value.project_id()).await?;
        let policy = project.map(|project| agent.value.injection_policy(&project.value));
        Ok::<_, Problem>(policy.map(|policy| (ledger, policy)))
    };
    let decide = |state: State, ctx: &mut DomainContext<'_>| {
        let Some((mut ledger, policy)) = state else { return Ok(Decision::Unchanged(())) };
        if !ledger.value.start_checks(&policy, ctx.now) {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        commit.injection_ledger(id, &ledger)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

impl InjectionState {
    /// Checks with few reads whether there is anything to do.
    async fn load(app: &App, id: ProjectAgentId, trigger: Trigger<'_>) -> Result<Option<Self>, Problem> {
        let now = app.now();
        let mut ledger = None;
        let is_deadline = matches!(trigger, Trigger::Due);
        if is_deadline {
            let loaded = app.store.injection_ledger(id).await?;
            if loaded.value.due_at().is_none_or(|at| at > now) {
                return Ok(None);
            }
            ledger = Some(loaded);
        }
        let Some(mut agent) = app.store.any_aggregate::<ProjectAgent>(id).await? else { return Ok(None) };
        let project = match trigger {
            Trigger::InWorkstreams { project, .. } => project.clone(),
            _ => match app.store.any_aggregate::<Project>(agent.value.project_id()).await? {
                Some(project) => project.value,
                None => return Ok(None),
            },
        };
        let reasons = trigger.reasons(&agent.value, &agent.value.injection_policy(&project));
        if reasons.is_empty() && !is_deadline {
            return Ok(None);
        }
        let Some(session) = app.store.conversation(agent.value.current_session_id()).await? else {
            return Ok(None);
        };
        if !is_deadline && !session.conversation.takes_injections() {
            return Ok(None);
        }
        let ledger = match ledger {
            Some(ledger) => ledger,
            None => app.store.injection_ledger(id).await?,
        };
        let mut agent_events = Vec::new();
        if let Trigger::ProjectBriefChanged(changed) = trigger {
            let mut ids = pilothouse_app::FreshIds;
            agent_events = agent.value.project_brief_changed(changed, &app.domain_context(&mut ids));
        }
        let ledger_before = ledger.value.clone();
        let mut state =
            Self { agent, agent_events, project, session, ledger, ledger_before, knowledge: None };
        state.plan(app, (!is_deadline).then_some(reasons), now).await?;
        Ok(Some(state))
    }

    /// Decides whether the agent receives knowledge now, and reads it. `events` is `None` at the deadline of the agent.
    async fn plan(
        &mut self,
        app: &App,
        events: Option<Vec<InjectionReason>>,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let policy = self.agent.value.injection_policy(&self.project);
        let conversation = &self.session.conversation;
        let mut agents = None;
        let (kind, reasons) = if let Some(events) = events {
            (InjectionKind::Delta, events)
        } else {
            let works = AgentStatus::of(&conversation.session) == AgentStatus::Running;
            if works {
                agents = Some(agents_in_scope(app, &self.project, &self.agent.value).await?);
            }
            let position = agents.as_deref().map(|agents| position_of(&self.agent.value, agents));
            match self.ledger.value.take_due(&policy, position, now) {
                Some(due) => due,
                None => return Ok(()),
            }
        };
        let misses_brief = takes_brief(&self.agent.value, &conversation.session);
        if reasons == [InjectionReason::BriefChanged {}] && !misses_brief {
            // The agent receives it with its next run, or has it.
            return Ok(());
        }
        let priority = priority_of(&reasons);
        if !conversation.takes_injections() {
            return Ok(());
        }
        match self.ledger.value.timing(priority, &policy, conversation.queue.injection_slot(), now) {
            Timing::Dropped => {}
            Timing::Later(until) => {
                self.ledger.value.postpone(kind, &reasons, until);
            }
            Timing::Now => {
                let (project, agent) = (&self.project, &self.agent.value);
                let agents = match agents {
                    Some(agents) => agents,
                    None => agents_in_scope(app, project, agent).await?,
                };
                let snapshot = snapshot_of(app, project, agent, &agents, TokenBudget::DEFAULT).await?;
                let position = position_of(agent, &agents);
                self.knowledge = Some(Knowledge { kind, reasons, snapshot, position });
                // The session of a working agent changes often, and reading the snapshot takes long.
                let id = conversation.session.id();
                if let Some(session) = app.store.conversation(id).await? {
                    self.session = session;
                }
            }
        }
        Ok(())
    }

    fn decide(mut self, app: &App, ctx: &mut DomainContext<'_>) -> Result<Decision<()>, Problem> {
        let mut commit = Commit::new();
        if let Some(knowledge) = self.knowledge.take() {
            self.send(app, &mut commit, knowledge, ctx)?;
        }
        if self.ledger.value != self.ledger_before {
            commit.injection_ledger(self.agent.value.id(), &self.ledger)?;
        }
        if !self.agent_events.is_empty() {
            app.record_aggregate(&mut commit, &self.agent, cause(), self.agent_events)?;
        }
        Ok(Decision::Commit(commit, ()))
    }

    /// Adds the injection to the session, unless the agent has its content, or an undelivered injection has it.
    fn send(
        &mut self,
        app: &App,
        commit: &mut Commit,
        Knowledge { kind, reasons, snapshot, position }: Knowledge,
        ctx: &mut DomainContext<'_>,
    ) -> Result<(), Problem> {
        let (agent, ledger) = (&self.agent.value, &mut self.ledger.value);
        let conversation = &mut self.session.conversation;
        let session_id = conversation.session.id();
        let misses_brief = takes_brief(agent, &conversation.session);
        let brief_of = agent.brief_changed_at().filter(|_| misses_brief);
        let brief = brief_of.map(|_| brief_prompt(&self.project, agent));
        let replaced = conversation.queue.pending_injection().map(|pending| pending.message_id);
        let reasons = ledger.reasons_with(replaced, &reasons);
        let known = ledger.known_in(session_id);
        let priority = priority_of(&reasons);
        let budget = agent.brief().session_policy.and_then(|policy| policy.context_budget_tokens);
        let room = budget.filter(|_| priority != InjectionPriority::Required).map(|budget| {
            let window = conversation.session.metrics().context_window;
            budget.saturating_sub(window.map_or(0, |window| window.usage.total()))
        });
        let Some(composed) = compose(&snapshot, kind, known, brief.as_deref(), &reasons, room) else {
            return Ok(());
        };
        if ledger.is_undelivered(session_id, &composed.known, brief_of) {
            return Ok(());
        }
        let message_id = ctx.message_id();
        let events = conversation.inject(message_id, composed.content, ctx);
        if events.is_empty() {
            return Ok(());
        }
        let sent = SentInjection {
            message_id,
            session_id,
            snapshot_version: snapshot.snapshot_version,
            estimated_tokens: composed.estimated_tokens,
            priority,
            reasons,
            brief_of,
            known: composed.known,
            at: ctx.now,
        };
        ledger.record_sent(sent, replaced, position);
        let events = app.with_consequences(conversation, events, ctx);
        app.record(commit, &mut self.session, cause(), events)
    }
}

/// Whether the running agent lacks the current brief and can receive it. Without hot reload, the next run brings it (S2
/// `supportsHotBriefUpdate`; decision 94).
fn takes_brief(agent: &ProjectAgent, session: &AgentSession) -> bool {
    agent.brief_sync(session) == BriefSync::Pending && session.capabilities().is_none_or(|can| can.hot_reload)
}

/// The priority of the most important reason.
fn priority_of(reasons: &[InjectionReason]) -> InjectionPriority {
    let priorities = reasons.iter().map(InjectionReason::priority);
    priorities.min().unwrap_or(InjectionPriority::Supplementary)
}
