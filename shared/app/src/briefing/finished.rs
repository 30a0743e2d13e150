//! The section about finished work. Each kind of it is a variant of [`FinishedWork`] with its events in [`work_of`].

use pilothouse_api::briefing::{BriefingSection, BriefingSource};
use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentSessionStatus;

use super::draft::{Draft, Drafts};
use super::facts::{AgentFacts, BriefingFacts, Turns, WorkEventKind};
use super::words::{Names, count, quoted};

/// Work that an agent finished.
enum FinishedWork<'a> {
    /// The objective, after turns of which `turns` were in the period.
    Objective {
        objective: &'a str,
        turns: Turns,
    },
    Turns {
        turns: Turns,
        is_idle: bool,
    },
    Deliverables {
        passed: u32,
        all: u32,
    },
}

type Events = Vec<(Timestamp, BriefingSource)>;

impl FinishedWork<'_> {
    fn text(&self, agent: &str) -> String {
        match self {
            Self::Objective { objective, turns } => {
                let after = if turns.number() == 0 { String::new() } else { format!(" after {turns}") };
                format!("{agent} completed its objective {}{after}.", quoted(objective))
            }
            Self::Turns { turns, is_idle } => {
                let idle = if *is_idle { " and is idle" } else { "" };
                format!("{agent} finished {turns}{idle}.")
            }
            Self::Deliverables { passed, all } => {
                format!("{agent} has passed {passed} of {}.", count(*all as usize, "deliverable"))
            }
        }
    }

    /// The number of its events. Not all of them may have been read.
    const fn event_count(&self) -> usize {
        match self {
            Self::Objective { turns, .. } => turns.number() + 1,
            Self::Turns { turns, .. } => turns.number(),
            Self::Deliverables { .. } => 1,
        }
    }
}

pub(super) fn finished(facts: &BriefingFacts, names: &Names) -> BriefingSection {
    let mut drafts = Drafts::new();
    for agent in &facts.agents {
        for (work, events) in work_of(agent, facts) {
            if let Some(draft) = Draft::about(work.text(names.get(agent.id)), events) {
                drafts.push((), draft.of_agent(Some(agent.id)).with_count(work.event_count()));
            }
        }
    }
    drafts.finish(facts.project_id)
}

/// The work that an agent finished in the period, with the events that were read.
fn work_of<'a>(agent: &'a AgentFacts, facts: &BriefingFacts) -> Vec<(FinishedWork<'a>, Events)> {
    let turns = objective(agent, facts).or_else(|| turns(agent, facts));
    turns.into_iter().chain(deliverables(agent)).collect()
}

fn objective<'a>(agent: &'a AgentFacts, facts: &BriefingFacts) -> Option<(FinishedWork<'a>, Events)> {
    let session = &agent.session;
    let ended_at = session.ended_at.filter(|at| facts.period.contains(*at))?;
    if session.status != AgentSessionStatus::Completed {
        return None;
    }
    let mut events = vec![agent.last_event(WorkEventKind::Completed, ended_at)];
    events.extend(agent.events(WorkEventKind::TurnCompleted));
    Some((FinishedWork::Objective { objective: &session.objective, turns: agent.turns() }, events))
}

fn turns<'a>(agent: &AgentFacts, facts: &BriefingFacts) -> Option<(FinishedWork<'a>, Events)> {
    let session = &agent.session;
    let turns = agent.turns();
    if turns.number() == 0 {
        return None;
    }
    let waits = facts.open.iter().any(|decision| decision.session_id() == Some(session.id));
    let is_idle = session.status == AgentSessionStatus::Idle && !waits;
    let mut events = agent.events(WorkEventKind::TurnCompleted);
    if events.is_empty() {
        events.push(agent.session_source());
    }
    Some((FinishedWork::Turns { turns, is_idle }, events))
}

/// The deliverables, if they changed in the period and none is blocked.
fn deliverables<'a>(agent: &AgentFacts) -> Option<(FinishedWork<'a>, Events)> {
    let (counts, sequence) = agent.session.deliverables?;
    let event = agent.event_at(sequence).filter(|_| counts.passed > 0 && counts.blocked == 0)?;
    let all = counts.pending.saturating_add(counts.passed).saturating_add(counts.blocked);
    Some((FinishedWork::Deliverables { passed: counts.passed, all }, vec![event]))
}
