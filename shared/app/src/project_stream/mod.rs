//! The live stream of a project (S2, "WebSocket message protocol"; decision 82): reads the journals of the project, of its agents, of
//! their sessions, and of the brakes that may stop them. No order holds between journals; within each one, every entry is sent once.
//!
//! | module | contents |
//! |---|---|
//! | `artifacts` | artifacts as events |
//! | `contents` | the events that a journal entry of a session contains |
//! | `state` | the state of a project, and its place in the stream |

mod artifacts;
mod contents;
mod state;

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use pilothouse_api::brakes::BrakeSummary;
use pilothouse_api::decisions::DecisionView;
use pilothouse_api::project_stream::{
    AgentEvent, AgentEventContent, BrakeMessage, DecisionResolved, EventEnvelope, JournalRef, ProjectMessage,
    ProjectMessageBody, ProjectPosition, RoutedEvent, SessionPosition, StateSync, TrustUpdate,
};
use pilothouse_domain::brake::BrakeEvent;
use pilothouse_domain::decision::{BrakeAction, DecisionChange, DecisionStatus};
use pilothouse_domain::journal::{AggregateJournalEntry, Cause, JournalEntry};
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{
    AgentSessionId, Brake, BrakeId, Project, ProjectAgent, ProjectAgentEvent, ProjectAgentId, ProjectEvent,
    ProjectId, UserId,
};
use serde::{Deserialize, Serialize};

use crate::App;
use crate::problem::Problem;
use crate::projects::CONCURRENT_READS;
use contents::contents;
use state::{agents_where, concerns};

/// Entries per read.
const READ: usize = 100;
/// Released brakes of which the position keeps how far they were read.
const RELEASED_BRAKES: usize = 8;

/// What can change in a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProjectSource {
    Project,
    Agent(ProjectAgentId),
    Session(AgentSessionId),
    /// The brakes of the owner.
    Brakes,
}

/// A reader of the stream of a project.
pub struct ProjectStream {
    app: App,
    owner: UserId,
    project: Project,
    position: ProjectPosition,
    unread: BTreeSet<ProjectSource>,
}

/// What an entry becomes.
enum Outgoing {
    Body(ProjectMessageBody),
    /// The state of the project.
    State,
}

/// What a page of a journal becomes.
enum Page {
    Messages(Vec<ProjectMessage>),
    /// An entry that was not sent has expired.
    Expired,
}

impl App {
    /// Opens the stream of a project of `owner` after a cursor. If it is absent, unknown or too old, also returns the state of the
    /// project, which is the first message.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if the owner has no such project.
    pub async fn project_stream(
        &self,
        owner: &UserId,
        id: ProjectId,
        after: Option<&str>,
    ) -> Result<(ProjectStream, Option<ProjectMessage>), Problem> {
        let project = self.store.aggregate::<Project>(owner, id).await?.ok_or_else(Problem::no_project)?;
        let known = after.and_then(ProjectPosition::decode).filter(|at| {
            at.project_id == id
                && at.project <= project.version
                && at.agents.keys().all(|agent| project.value.agents().contains_key(agent))
        });
        let mut position = None;
        if let Some(known) = known
            && self.can_resume(owner, &known).await?
        {
            position = Some(known);
        }
        let mut stream = ProjectStream {
            app: self.clone(),
            owner: owner.clone(),
            project: project.value,
            position: position.clone().unwrap_or_else(|| ProjectPosition::new(id, 0)),
            unread: BTreeSet::new(),
        };
        let first = if position.is_none() { Some(stream.restart().await?) } else { None };
        stream.unread = stream.sources().into_iter().collect();
        Ok((stream, first))
    }

    /// Whether all journals of a position belong to the owner's project and reach that far. A client can send any position.
    async fn can_resume(&self, owner: &UserId, position: &ProjectPosition) -> Result<bool, Problem> {
        let id = position.project_id;
        let journals: Vec<_> = position.journals().collect();
        for some in journals.chunks(CONCURRENT_READS) {
            let checks = some.iter().map(async |journal| -> Result<bool, Problem> {
                let Some((sequence, _)) = position.of(*journal) else { return Ok(false) };
                let reached = match *journal {
                    JournalRef::Project => Some(sequence),
                    JournalRef::Agent(agent) => {
                        let agent = self.store.aggregate::<ProjectAgent>(owner, agent).await?;
                        agent.map(|agent| agent.version)
                    }
                    JournalRef::Session(session) => {
                        let agent = position.sessions.get(&session).map(|at| at.agent);
                        let session = self.store.session_of(owner, session).await?;
                        let is_member =
                            |of: &ProjectMembership| of.project_id == id && Some(of.agent_id) == agent;
                        let session = session.filter(|it| it.project().is_some_and(is_member));
                        session.map(|session| session.journal_sequence())
                    }
                    JournalRef::Brake(brake) => {
                        self.store.aggregate::<Brake>(owner, brake).await?.map(|brake| brake.version)
                    }
                };
                Ok(reached.is_some_and(|reached| sequence <= reached))
            });
            if try_join_all(checks).await?.contains(&false) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl ProjectStream {
    pub const fn position(&self) -> &ProjectPosition {
        &self.position
    }

    /// Everything whose changes the stream shows. It grows while the stream is read.
    pub fn sources(&self) -> Vec<ProjectSource> {
        let agents = self.position.agents.keys().copied().map(ProjectSource::Agent);
        let sessions = self.position.sessions.keys().copied().map(ProjectSource::Session);
        let fixed = [ProjectSource::Project, ProjectSource::Brakes];
        fixed.into_iter().chain(agents).chain(sessions).collect()
    }

    /// Only these sources are read next.
    pub fn read_only(&mut self, sources: impl IntoIterator<Item = ProjectSource>) {
        self.unread.clear();
        sources.into_iter().for_each(|source| self.mark_changed(source));
    }

    /// Marks a source to be read. One that the stream does not show is ignored.
    pub fn mark_changed(&mut self, source: ProjectSource) {
        let is_shown = match source {
            ProjectSource::Project | ProjectSource::Brakes => true,
            ProjectSource::Agent(id) => self.position.agents.contains_key(&id),
            ProjectSource::Session(id) => self.position.sessions.contains_key(&id),
        };
        if is_shown {
            self.unread.insert(source);
        }
    }

    /// Reads a page of a source that changed. `None` if there is nothing left to read. The messages have to be sent in their order.
    pub async fn read(&mut self) -> Result<Option<Vec<ProjectMessage>>, Problem> {
        let Some(source) = self.next_source() else { return Ok(None) };
        let begun = self.position.within;
        let page = match source {
            ProjectSource::Project => self.read_project().await?,
            ProjectSource::Agent(id) => self.read_agent(id).await?,
            ProjectSource::Session(id) => self.read_session(id).await?,
            ProjectSource::Brakes => self.read_brakes().await?,
        };
        // The rest of the entry does not exist, as the client claimed.
        self.position.within.take_if(|within| Some(*within) == begun);
        match page {
            Page::Messages(messages) => Ok(Some(messages)),
            Page::Expired => {
                let state = self.restart().await?;
                self.unread = self.sources().into_iter().collect();
                Ok(Some(vec![state]))
            }
        }
    }

    /// The next source to read. A journal of which an entry was sent in part comes first, because the position holds one such entry.
    fn next_source(&mut self) -> Option<ProjectSource> {
        let begun = self.position.within.map(|(journal, _)| match journal {
            JournalRef::Project => ProjectSource::Project,
            JournalRef::Agent(id) => ProjectSource::Agent(id),
            JournalRef::Session(id) => ProjectSource::Session(id),
            JournalRef::Brake(_) => ProjectSource::Brakes,
        });
        if let Some(source) = begun {
            self.unread.remove(&source);
        }
        begun.or_else(|| self.unread.pop_first())
    }

    /// Moves to the present, which the message shows.
    async fn restart(&mut self) -> Result<ProjectMessage, Problem> {
        let (state, position) = self.app.project_state(&self.owner, self.position.project_id).await?;
        self.position = position;
        Ok(self.message(ProjectMessageBody::StateSync(Box::new(StateSync::Whole(Box::new(state))))))
    }

    fn message(&self, body: ProjectMessageBody) -> ProjectMessage {
        ProjectMessage { cursor: self.position.encode(), body }
    }

    /// The state of the project as a message at the current position. It may show what later messages report.
    async fn state(&self) -> Result<ProjectMessageBody, Problem> {
        let (state, _) = self.app.project_state(&self.owner, self.position.project_id).await?;
        Ok(ProjectMessageBody::StateSync(Box::new(StateSync::Whole(Box::new(state)))))
    }

    /// Adds the messages of an entry, except those that were sent, and moves behind it with `moved`.
    async fn push(
        &mut self,
        messages: &mut Vec<ProjectMessage>,
        (journal, sequence): (JournalRef, u64),
        outgoing: Vec<Outgoing>,
        moved: impl FnOnce(&mut Self),
    ) -> Result<(), Problem> {
        let seen = self.position.of(journal).map_or(0, |(_, seen)| seen);
        let last = outgoing.len() as u64;
        let mut moved = Some(moved);
        for (number, outgoing) in (1..).zip(outgoing) {
            if number == last {
                self.position.advance(journal, sequence);
                moved.take().into_iter().for_each(|moved| moved(self));
            } else if number > seen {
                self.position.within = Some((journal, number));
            }
            if number > seen {
                let body = match outgoing {
                    Outgoing::Body(body) => body,
                    Outgoing::State => self.state().await?,
                };
                messages.push(self.message(body));
            }
        }
        if last == 0 {
            self.position.advance(journal, sequence);
            moved.take().into_iter().for_each(|moved| moved(self));
        }
        Ok(())
    }

    /// A change of the project is shown by its state, once for all entries of a page.
    async fn read_project(&mut self) -> Result<Page, Problem> {
        let id = self.position.project_id;
        let entries =
            self.app.store.aggregate_journal_after::<Project>(id, self.position.project, READ).await?;
        let Some(last) = entries.last().map(|entry| entry.sequence) else {
            return Ok(Page::Messages(Vec::new()));
        };
        let project = self.app.store.aggregate::<Project>(&self.owner, id).await?;
        self.project = project.ok_or_else(Problem::no_project)?.value;
        if entries.len() == READ {
            self.unread.insert(ProjectSource::Project);
        }
        for event in entries.iter().flat_map(|entry| &entry.events) {
            match event {
                ProjectEvent::AgentAdded { agent_id, .. } => {
                    self.position.agents.entry(*agent_id).or_insert(0);
                    self.unread.insert(ProjectSource::Agent(*agent_id));
                }
                ProjectEvent::Created { .. }
                | ProjectEvent::Updated {}
                | ProjectEvent::ControlModeChanged { .. }
                | ProjectEvent::TicksAdvanced { .. }
                | ProjectEvent::Archived {}
                | ProjectEvent::Restored {} => {}
            }
        }
        let mut messages = Vec::new();
        self.push(&mut messages, (JournalRef::Project, last), vec![Outgoing::State], |_| {}).await?;
        Ok(Page::Messages(messages))
    }

    async fn read_agent(&mut self, id: ProjectAgentId) -> Result<Page, Problem> {
        let Some((after, _)) = self.position.of(JournalRef::Agent(id)) else {
            return Ok(Page::Messages(Vec::new()));
        };
        let entries = self.app.store.aggregate_journal_after::<ProjectAgent>(id, after, READ).await?;
        if entries.len() == READ {
            self.unread.insert(ProjectSource::Agent(id));
        }
        let mut messages = Vec::new();
        for entry in entries {
            let outgoing = entry.events.iter().flat_map(|event| of_agent(id, event)).collect();
            let place = (JournalRef::Agent(id), entry.sequence);
            self.push(&mut messages, place, outgoing, |stream| stream.follow_sessions(id, &entry)).await?;
        }
        Ok(Page::Messages(messages))
    }

    /// Follows the sessions that an agent has since an entry, and the one before.
    fn follow_sessions(&mut self, id: ProjectAgentId, entry: &AggregateJournalEntry<ProjectAgentEvent>) {
        for event in &entry.events {
            let (kept, new) = match event {
                ProjectAgentEvent::Spawned { session_id, .. } => (None, *session_id),
                ProjectAgentEvent::SessionChanged { from, to } => (Some(*from), *to),
                ProjectAgentEvent::ToolApproved { .. }
                | ProjectAgentEvent::BriefUpdated { .. }
                | ProjectAgentEvent::ProjectBriefChanged {}
                | ProjectAgentEvent::ContextInjected { .. }
                | ProjectAgentEvent::Crashed { .. }
                | ProjectAgentEvent::AutonomyAnswered { .. }
                | ProjectAgentEvent::TrustChanged { .. }
                | ProjectAgentEvent::TrustConfigured { .. } => continue,
            };
            let sessions = &mut self.position.sessions;
            sessions.retain(|session, at| at.agent != id || Some(*session) == kept || *session == new);
            sessions.entry(new).or_insert(SessionPosition { agent: id, sequence: 0 });
            self.unread.insert(ProjectSource::Session(new));
        }
    }

    async fn read_session(&mut self, id: AgentSessionId) -> Result<Page, Problem> {
        let journal = JournalRef::Session(id);
        let Some((after, _)) = self.position.of(journal) else { return Ok(Page::Messages(Vec::new())) };
        let entries = self.app.store.journal(id, after, READ).await?;
        if entries.first().is_some_and(|entry| entry.sequence != after + 1) {
            return Ok(Page::Expired);
        }
        if entries.len() == READ {
            self.unread.insert(ProjectSource::Session(id));
        }
        let mut messages = Vec::new();
        for entry in entries {
            let outgoing = self.of_session(&entry).await?;
            self.push(&mut messages, (journal, entry.sequence), outgoing, |_| {}).await?;
        }
        Ok(Page::Messages(messages))
    }

    async fn of_session(&self, entry: &JournalEntry) -> Result<Vec<Outgoing>, Problem> {
        let Some(of) = &entry.project else { return Ok(Vec::new()) };
        let mut bodies = Vec::new();
        for content in contents(entry, of) {
            bodies.push(routed(entry, of.agent_id, bodies.len(), content));
        }
        for change in &entry.decisions {
            bodies.extend(self.of_decision(entry, of.agent_id, bodies.len(), *change).await?);
        }
        Ok(bodies.into_iter().map(Outgoing::Body).collect())
    }

    /// A decision that opened is an event. The copy of the decision may be newer than the entry.
    async fn of_decision(
        &self,
        entry: &JournalEntry,
        agent_id: ProjectAgentId,
        number: usize,
        DecisionChange { id, state }: DecisionChange,
    ) -> Result<Option<ProjectMessageBody>, Problem> {
        let Some(decision) = self.app.store.decision_of(&self.owner, id).await? else { return Ok(None) };
        Ok(Some(match state {
            DecisionStatus::Pending | DecisionStatus::Suspended | DecisionStatus::Orphaned => {
                let content = AgentEventContent::Decision {
                    subtype: decision.kind(),
                    decision_id: id,
                    decision: Some(Box::new(DecisionView::of(&decision))),
                };
                routed(entry, agent_id, number, content)
            }
            DecisionStatus::Resolving
            | DecisionStatus::Resolved
            | DecisionStatus::AutoResolved
            | DecisionStatus::Expired
            | DecisionStatus::Cancelled => ProjectMessageBody::DecisionResolved(Box::new(
                DecisionResolved::of(&decision, agent_id, state),
            )),
        }))
    }

    /// Reads the journals of the brakes in force, and of those whose release was not sent. A brake that was pulled and released between
    /// two reads is not sent.
    async fn read_brakes(&mut self) -> Result<Page, Problem> {
        let in_force = self.app.store.brakes(&self.owner).await?;
        for brake in in_force.iter() {
            if concerns(&brake.scope, &self.project, &self.position) {
                self.position.brakes.entry(brake.id).or_insert(0);
            }
        }
        let mut messages = Vec::new();
        let mut known: Vec<BrakeId> = self.position.brakes.keys().copied().collect();
        let (position, released) = (&mut self.position, known.iter().filter(|id| !in_force.has(**id)));
        for id in released.rev().skip(RELEASED_BRAKES) {
            position.brakes.remove(id);
        }
        // See `read`.
        known.sort_by_key(|id| {
            self.position.within.is_none_or(|(journal, _)| journal != JournalRef::Brake(*id))
        });
        for id in known {
            self.read_brake(id, &mut messages).await?;
        }
        Ok(Page::Messages(messages))
    }

    async fn read_brake(&mut self, id: BrakeId, messages: &mut Vec<ProjectMessage>) -> Result<(), Problem> {
        let journal = JournalRef::Brake(id);
        let Some((after, _)) = self.position.of(journal) else { return Ok(()) };
        let entries = self.app.store.aggregate_journal_after::<Brake>(id, after, READ).await?;
        if entries.is_empty() {
            return Ok(());
        }
        if entries.len() == READ {
            self.unread.insert(ProjectSource::Brakes);
        }
        let Some(brake) = self.app.store.aggregate::<Brake>(&self.owner, id).await? else { return Ok(()) };
        for entry in entries {
            let outgoing = entry.events.iter().map(|event| self.of_brake(&brake.value, event)).collect();
            self.push(messages, (journal, entry.sequence), outgoing, |_| {}).await?;
        }
        Ok(())
    }

    fn of_brake(&self, brake: &Brake, event: &BrakeEvent) -> Outgoing {
        let affected_agent_ids = agents_where(&self.project, &self.position, |session, of| match event {
            BrakeEvent::Pulled { .. } | BrakeEvent::Released { .. } => {
                brake.scope().contains(session, Some(of))
            }
            BrakeEvent::SessionsReleased { session_ids, .. } => session_ids.contains(&session),
        });
        Outgoing::Body(ProjectMessageBody::Brake(Box::new(BrakeMessage {
            action: BrakeSummary::of(brake),
            change: BrakeAction::of_event(event),
            affected_agent_ids,
        })))
    }
}

fn of_agent(id: ProjectAgentId, event: &ProjectAgentEvent) -> Vec<Outgoing> {
    // A change of autonomy opens or ends a decision that no session has.
    let changes_autonomy = !event.autonomy_changes().is_empty();
    match event {
        ProjectAgentEvent::TrustChanged { entry, .. } => {
            let update = Outgoing::Body(ProjectMessageBody::TrustUpdate(TrustUpdate::of(id, entry)));
            std::iter::once(update).chain(changes_autonomy.then_some(Outgoing::State)).collect()
        }
        // A crash can open such a decision, too.
        ProjectAgentEvent::BriefUpdated { .. }
        | ProjectAgentEvent::ProjectBriefChanged {}
        | ProjectAgentEvent::ContextInjected { .. }
        | ProjectAgentEvent::Crashed { .. }
        | ProjectAgentEvent::AutonomyAnswered { .. }
        | ProjectAgentEvent::SessionChanged { .. } => vec![Outgoing::State],
        // The change of the project shows a new configuration.
        ProjectAgentEvent::TrustConfigured { .. } if changes_autonomy => vec![Outgoing::State],
        // The change of the project shows a new agent, and the decision shows an approval.
        ProjectAgentEvent::TrustConfigured { .. }
        | ProjectAgentEvent::Spawned { .. }
        | ProjectAgentEvent::ToolApproved { .. } => Vec::new(),
    }
}

/// An event number `number` of an entry, with its workspaces.
fn routed(
    entry: &JournalEntry,
    agent_id: ProjectAgentId,
    number: usize,
    content: AgentEventContent,
) -> ProjectMessageBody {
    let route = content.event_type().route();
    let (run_id, source_occurred_at) = match &entry.cause {
        Cause::Agent { run_id, occurred_at, .. } => (Some(*run_id), *occurred_at),
        Cause::Owner { .. } | Cause::AgentApi { .. } | Cause::Reaction { .. } | Cause::Clock => (None, None),
    };
    ProjectMessageBody::Event(Box::new(RoutedEvent {
        workspace: route.primary,
        secondary_workspaces: route.secondary.to_vec(),
        envelope: EventEnvelope {
            source_event_id: format!("{}.{number}", entry.id),
            source_sequence: entry.sequence,
            run_id,
            source_occurred_at,
            ingested_at: entry.at,
            agent_id,
            session_id: entry.session_id,
            session_status: entry.status,
            event: AgentEvent { agent_id, content },
        },
    }))
}
