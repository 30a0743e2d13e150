//! Writes changes of projects and of their agents' trust, brakes on them, and guardrails that tripped on input or output, to the decision
//! logs (decision 75). Verdicts and decisions are written by the commits that make them.
//!
//! Writing an entry again replaces it, so a repeated message changes nothing.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::brake::{Brake, BrakeEvent, BrakeScope};
use pilothouse_domain::decision::{BrakeAction, BrakeActor, DecisionLogEntry, LoggedDecision};
use pilothouse_domain::journal::{AggregateJournalEntry, JournalEntry};
use pilothouse_domain::{ProjectAgent, ProjectAgentEvent, ProjectEvent, SessionEvent};
use pilothouse_store::Commit;

/// The guardrails that are logged in one commit.
const TRIPS: usize = 50;

pub(super) const fn concerns(event: &ProjectEvent) -> bool {
    matches!(event, ProjectEvent::ControlModeChanged { .. })
}

pub(super) const fn concerns_of_agent(event: &ProjectAgentEvent) -> bool {
    matches!(event, ProjectAgentEvent::TrustChanged { .. })
}

pub(super) const fn concerns_of_session(event: &SessionEvent) -> bool {
    matches!(event, SessionEvent::GuardrailTripped { .. })
}

/// Logs guardrails that tripped. A brief has at most 50, so an entry of the journal can have more than a transaction takes.
pub(super) async fn react_of_session(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    let Some(membership) = &entry.project else { return Ok(()) };
    let trips = entry.events.iter().filter_map(|event| match event {
        SessionEvent::GuardrailTripped { subject, guardrail } => Some((*subject, guardrail)),
        _ => None,
    });
    let logged: Vec<_> = LoggedDecision::of_trips(entry.id, trips).collect();
    for some in logged.chunks(TRIPS) {
        let mut commit = Commit::new();
        for logged in some {
            commit.log_decision(&DecisionLogEntry {
                owner_id: entry.owner_id.clone(),
                project_id: membership.project_id,
                agent_id: Some(membership.agent_id),
                session_id: Some(entry.session_id),
                at: entry.at,
                logged: logged.clone(),
            })?;
        }
        app.store.commit(commit).await?;
    }
    Ok(())
}

/// Logs a change of the control mode.
pub(super) async fn react_of_project(
    app: &App,
    entry: &AggregateJournalEntry<ProjectEvent>,
) -> Result<(), Problem> {
    let mut commit = Commit::new();
    for event in &entry.events {
        let ProjectEvent::ControlModeChanged { from, to, revision } = event else { continue };
        let project_id = entry.aggregate_id.parse().map_err(Problem::internal)?;
        commit.log_decision(&DecisionLogEntry {
            owner_id: entry.owner_id.clone(),
            project_id,
            agent_id: None,
            session_id: None,
            at: entry.at,
            logged: LoggedDecision::ControlMode {
                event_id: entry.id,
                from: *from,
                to: *to,
                revision: *revision,
            },
        })?;
    }
    Ok(app.store.commit(commit).await?)
}

/// Logs a change of an agent's trust.
pub(super) async fn react_of_agent(
    app: &App,
    entry: &AggregateJournalEntry<ProjectAgentEvent>,
) -> Result<(), Problem> {
    let mut commit = Commit::new();
    let agent_id = entry.aggregate_id.parse().map_err(Problem::internal)?;
    let agent = app.store.any_aggregate::<ProjectAgent>(agent_id).await?;
    let agent = agent.ok_or_else(|| Problem::internal(format!("agent {agent_id} is missing")))?;
    for event in &entry.events {
        let ProjectAgentEvent::TrustChanged { entry: change, session_id, .. } = event else { continue };
        commit.log_decision(&DecisionLogEntry {
            owner_id: entry.owner_id.clone(),
            project_id: agent.value.project_id(),
            agent_id: Some(agent_id),
            session_id: Some(*session_id),
            at: entry.at,
            logged: LoggedDecision::Trust { event_id: entry.id, change: change.clone() },
        })?;
    }
    Ok(app.store.commit(commit).await?)
}

/// Logs that a brake on a project, a workstream or an agent was pulled or released.
pub(super) async fn react_of_brake(
    app: &App,
    entry: &AggregateJournalEntry<BrakeEvent>,
) -> Result<(), Problem> {
    let id = entry.aggregate_id.parse().map_err(Problem::internal)?;
    let brake = app.store.any_aggregate::<Brake>(id).await?;
    let brake = brake.ok_or_else(|| Problem::internal(format!("brake {id} is missing")))?.value;
    let (project_id, agent_id) = match brake.scope() {
        BrakeScope::All {} | BrakeScope::Session { .. } => return Ok(()),
        BrakeScope::Project { project_id } | BrakeScope::Workstream { project_id, .. } => (*project_id, None),
        BrakeScope::Agent { agent_id } => {
            let agent = app.store.any_aggregate::<ProjectAgent>(*agent_id).await?;
            let agent = agent.ok_or_else(|| Problem::internal(format!("agent {agent_id} is missing")))?;
            (agent.value.project_id(), Some(*agent_id))
        }
    };
    let mut commit = Commit::new();
    for event in &entry.events {
        commit.log_decision(&DecisionLogEntry {
            owner_id: entry.owner_id.clone(),
            project_id,
            agent_id,
            session_id: None,
            at: entry.at,
            logged: LoggedDecision::Brake {
                event_id: entry.id,
                brake_id: id,
                scope: brake.scope().clone(),
                action: BrakeAction::of_event(event),
                by: BrakeActor::of_event(event, &brake),
                reason: brake.reason().to_string(),
            },
        })?;
    }
    Ok(app.store.commit(commit).await?)
}
