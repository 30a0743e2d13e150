//! The section about risks: failures in the period, and obstacles of the work.

use pilothouse_api::briefing::{BriefingSection, BriefingSource};
use pilothouse_domain::decision::{Decision, DecisionSubject};
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::{BrakeId, Timestamp};

use super::automatic::AutomaticDecisions;
use super::draft::{Draft, Drafts};
use super::facts::{AgentFacts, BriefingFacts, WorkEventKind};
use super::words::{self, Names, count, quoted};

/// The kinds of risks, most serious first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Risk {
    Brake,
    SpendingCap,
    Ended,
    Unreachable,
    Paused,
    Budget,
    Blocked,
    Unreported,
    Guardrail,
    Anomaly,
    Trust,
}

pub(super) fn risks(
    facts: &BriefingFacts,
    names: &Names,
    automatic: &mut AutomaticDecisions<'_>,
) -> BriefingSection {
    let mut drafts = Drafts::new();
    for brake in facts.brakes.iter().filter(|brake| !is_release_open(facts, brake.id)) {
        let scope = words::braked(&brake.scope, names);
        let text = format!("A brake stops {scope}: {}.", quoted(&brake.reason));
        let source = BriefingSource::Brake { brake_id: brake.id };
        let draft = Draft::new(text, brake.pulled_at, source).with(automatic.take_brake(brake.id));
        drafts.push(Risk::Brake, draft);
    }
    if let Some(draft) = spending_risk(facts) {
        drafts.push(Risk::SpendingCap, draft);
    }
    for agent in &facts.agents {
        for (risk, draft) in risks_of(agent, facts, names.get(agent.id)) {
            drafts.push(risk, draft.of_agent(Some(agent.id)));
        }
    }
    for draft in automatic.take_trips(names) {
        drafts.push(Risk::Guardrail, draft);
    }
    for draft in automatic.take_lost_trust(names) {
        drafts.push(Risk::Trust, draft);
    }
    drafts.finish(facts.project_id)
}

fn is_release_open(facts: &BriefingFacts, brake: BrakeId) -> bool {
    let is_release = |decision: &Decision| matches!(&decision.subject, DecisionSubject::BrakeRelease { brake_id, .. } if *brake_id == brake);
    facts.open.iter().any(is_release)
}

fn spending_risk(facts: &BriefingFacts) -> Option<Draft> {
    let spending = facts.spending?;
    let (cap, drawn) = (spending.cap.usd(), spending.drawn_usd);
    // The sentence about the brake of the cap has it.
    if spending.is_braked {
        return None;
    }
    let text = if spending.is_exhausted {
        format!("The spending cap of ${cap} is used up: ${drawn} are drawn, and no agent can start.")
    } else if spending.cap.warns_at(drawn) {
        format!("The agents have drawn ${drawn} of the spending cap of ${cap}.")
    } else {
        return None;
    };
    Some(Draft::new(text, facts.period.until, BriefingSource::Project {}))
}

fn risks_of(agent: &AgentFacts, facts: &BriefingFacts, name: &str) -> Vec<(Risk, Draft)> {
    let session = &agent.session;
    let (at, source) = agent.session_source();
    let about = |text: String, at| Draft::new(text, at, source.clone());
    let mut risks = Vec::new();
    if let Some(at) = session.ended_at.filter(|at| facts.period.contains(*at)) {
        risks.extend(ended(agent, facts, name, at).map(|draft| (Risk::Ended, draft)));
    }
    let is_over = session.status.is_terminal();
    if let Some(since) = session.unreachable_since.filter(|_| !is_over) {
        let text = format!(
            "{name} is unreachable: nothing was received from its process since {}.",
            words::time(since)
        );
        risks.push((Risk::Unreachable, about(text, since)));
    } else if let Some(paused) = words::paused(session) {
        risks.push((Risk::Paused, about(format!("{name} {paused}."), at)));
    } else if session.budget_warns && !is_over {
        let text =
            format!("{name} has spent ${} of its budget of ${}.", session.spent_usd, session.budget_usd);
        risks.push((Risk::Budget, about(text, at)));
    }
    if let Some((counts, sequence)) =
        session.deliverables.filter(|(counts, _)| counts.blocked > 0 && !is_over)
    {
        let all = counts.pending.saturating_add(counts.passed).saturating_add(counts.blocked);
        let blocked = count(counts.blocked as usize, "deliverable");
        let are = if counts.blocked == 1 { "is" } else { "are" };
        let text = format!(
            "{blocked} of {name} {are} blocked by an external cause; {} of {all} are passed.",
            counts.passed
        );
        let source = BriefingSource::SessionEvent { session_id: session.id, sequence };
        let (at, source) = agent.event_at(sequence).unwrap_or((session.updated_at, source));
        risks.push((Risk::Blocked, Draft::new(text, at, source)));
    }
    let acted = agent.events(WorkEventKind::ActedAfterStop);
    let acted = Draft::about(format!("{name} acted after it had been stopped."), acted);
    let lost = agent.events(WorkEventKind::EventsLost);
    let lost = Draft::about(format!("Events of {name} are lost."), lost);
    let unreported = agent.events(WorkEventKind::UnreportedFiles);
    let text = format!("{name} left files in its workspace that are not saved as artifacts.");
    risks.extend(Draft::about(text, unreported).map(|draft| (Risk::Unreported, draft)));
    risks.extend(acted.into_iter().chain(lost).map(|draft| (Risk::Anomaly, draft)));
    risks
}

/// A session that ended without success, unless a decision about its recovery is open.
fn ended(agent: &AgentFacts, facts: &BriefingFacts, name: &str, at: Timestamp) -> Option<Draft> {
    let session = &agent.session;
    let is_about_recovery = |decision: &Decision| {
        decision.session_id() == Some(session.id)
            && matches!(decision.subject, DecisionSubject::CrashRecovery { .. })
    };
    let (text, kind) = match session.status {
        AgentSessionStatus::Failed if facts.open.iter().any(is_about_recovery) => return None,
        AgentSessionStatus::Failed => {
            let reason = session.failure.as_ref().map(|failure| {
                let message =
                    failure.message.as_ref().map(|it| format!(": {}", quoted(it))).unwrap_or_default();
                format!(" ({}{message})", failure.reason)
            });
            (format!("{name} failed{}.", reason.unwrap_or_default()), WorkEventKind::Failed)
        }
        AgentSessionStatus::Cancelled => (format!("{name} was cancelled."), WorkEventKind::Cancelled),
        _ => return None,
    };
    let (at, source) = agent.last_event(kind, at);
    Some(Draft::new(text, at, source))
}
