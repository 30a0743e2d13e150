//! Reads the work of an agent in a period from the journals of its sessions. The reads of a session are bounded: its latest entries, a
//! binary search, and the entries before the period.

use pilothouse_api::briefing::BriefingLimit;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSession, AgentSessionId, ProjectAgent, ProjectAgentEvent, SessionEvent, Usd};

use super::facts::{Period, Work, WorkEvent, WorkEventKind};
use crate::App;
use crate::problem::Problem;

/// The latest entries of a session that are read.
const LATEST: usize = 100;
/// The entries before the period that are searched for the usage at its begin.
const BEFORE: usize = 100;
/// The sessions of an agent before its current one that are read.
const EARLIER_SESSIONS: usize = 5;
/// The entries of the journal of an agent that are searched for its sessions.
const AGENT_ENTRIES: usize = 100;

/// The usage of a session at an entry of its journal, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Usage {
    cost_usd: Option<Usd>,
    turns: Option<u32>,
}

impl App {
    /// The work of an agent in the period, and the limit that omitted some of it.
    pub(super) async fn work_of_agent(
        &self,
        agent: &ProjectAgent,
        session: &AgentSession,
        period: Period,
    ) -> Result<(Work, Option<BriefingLimit>), Problem> {
        let (mut work, mut is_complete) = self.work_of_session(session, period).await?;
        if agent.session_count() > 1 && session.created_at() >= period.since {
            let (earlier, has_all) = self.earlier_sessions(agent, period).await?;
            is_complete &= has_all;
            if !has_all {
                work.spent_usd = None;
                work.turns = None;
            }
            for id in earlier {
                let Some(session) = self.store.session_of(agent.owner_id(), id).await? else { continue };
                let (of_session, has_all) = self.work_of_session(&session, period).await?;
                is_complete &= has_all;
                work.add(of_session);
            }
        }
        Ok((work, (!is_complete).then_some(BriefingLimit::Sessions)))
    }

    /// The sessions that the agent left in the period, latest first, and whether they are all.
    async fn earlier_sessions(
        &self,
        agent: &ProjectAgent,
        period: Period,
    ) -> Result<(Vec<AgentSessionId>, bool), Problem> {
        let listing =
            self.store.aggregate_journal::<ProjectAgent>(agent.id(), true, AGENT_ENTRIES, None).await?;
        let is_read =
            listing.next.is_none() || listing.items.last().is_some_and(|oldest| oldest.at < period.since);
        let in_period = listing.items.iter().filter(|entry| period.contains(entry.at));
        let left = in_period.flat_map(|entry| &entry.events).filter_map(|event| match event {
            ProjectAgentEvent::SessionChanged { from, .. } => Some(*from),
            ProjectAgentEvent::Spawned { .. }
            | ProjectAgentEvent::ToolApproved { .. }
            | ProjectAgentEvent::Crashed { .. }
            | ProjectAgentEvent::AutonomyAnswered { .. }
            | ProjectAgentEvent::BriefUpdated { .. }
            | ProjectAgentEvent::ProjectBriefChanged {}
            | ProjectAgentEvent::ContextInjected { .. }
            | ProjectAgentEvent::TrustChanged { .. }
            | ProjectAgentEvent::TrustConfigured { .. } => None,
        });
        let mut left: Vec<_> = left.collect();
        let has_all = is_read && left.len() <= EARLIER_SESSIONS;
        left.truncate(EARLIER_SESSIONS);
        Ok((left, has_all))
    }

    /// The work of a session in the period, and whether all of it was read.
    async fn work_of_session(&self, session: &AgentSession, period: Period) -> Result<(Work, bool), Problem> {
        if session.updated_at() < period.since {
            return Ok((Work::NONE, true));
        }
        let last = session.journal_sequence();
        let read_after = last.saturating_sub(LATEST as u64);
        let mut latest = self.store.journal(session.id(), read_after, LATEST).await?;
        // Later entries do not fit to the session as it was read.
        latest.retain(|entry| entry.sequence <= last);
        let is_whole = read_after == 0 || latest.first().is_some_and(|first| first.at < period.since);
        let begin = if is_whole {
            let before = latest.iter().take_while(|entry| entry.at < period.since).last();
            before.map_or(read_after, |entry| entry.sequence)
        } else {
            self.last_entry_while(session, |entry| entry.at < period.since).await?
        };
        let of_period = latest.iter().filter(|entry| entry.sequence > begin && period.contains(entry.at));
        let of_period: Vec<_> = of_period.collect();
        let unreported = self.unreported_files(session, &of_period).await?;
        let unreported = unreported.map(|entry| found(entry, WorkEventKind::UnreportedFiles));
        let events = of_period
            .iter()
            .copied()
            .flat_map(|entry| entry.events.iter().filter_map(|event| work_event(entry, event)))
            .chain(unreported)
            .collect();
        let (now, before) = (session.metrics(), self.usage_at(session, begin).await?);
        let spent = before.cost_usd.map(|before| now.usage.total_cost_usd().excess_over(before));
        let work = Work {
            spent_usd: spent.or(now.usage.total_cost_usd().is_zero().then_some(Usd::ZERO)),
            turns: before.turns.map(|before| now.turn_count.saturating_sub(before)),
            events,
        };
        let is_complete = is_whole && work.spent_usd.is_some() && work.turns.is_some();
        Ok((work, is_complete))
    }

    /// The usage of a session after the entry `sequence`, or before the first entry. It is unknown if the entries that show it expired, or
    /// are too far back.
    async fn usage_at(&self, session: &AgentSession, sequence: u64) -> Result<Usage, Problem> {
        let from = sequence.saturating_sub(BEFORE as u64);
        let limit = if sequence == 0 { 1 } else { BEFORE };
        let entries = self.store.journal(session.id(), from, limit).await?;
        let is_begin = entries.first().is_some_and(|entry| entry.sequence == 1);
        let known = if is_begin { Usage::NOTHING } else { Usage::default() };
        let up_to = entries.iter().filter(|entry| entry.sequence <= sequence);
        Ok(up_to.flat_map(|entry| &entry.events).fold(known, Usage::after))
    }
}

impl Usage {
    const NOTHING: Self = Self { cost_usd: Some(Usd::ZERO), turns: Some(0) };

    const fn after(self, event: &SessionEvent) -> Self {
        match event {
            SessionEvent::MetricsUpdated { total_cost_usd, turn_count, .. } => {
                Self { cost_usd: Some(*total_cost_usd), turns: Some(*turn_count) }
            }
            SessionEvent::TurnCompleted { turn_count, .. } => Self { turns: Some(*turn_count), ..self },
            // A turn that ends with an output has this event instead.
            SessionEvent::OutputReady { .. } => match self.turns {
                Some(turns) => Self { turns: Some(turns.saturating_add(1)), ..self },
                None => self,
            },
            _ => self,
        }
    }
}

fn work_event(entry: &JournalEntry, event: &SessionEvent) -> Option<WorkEvent> {
    use WorkEventKind as K;
    let kind = match event {
        SessionEvent::TurnCompleted { .. } => K::TurnCompleted,
        SessionEvent::Approved { .. } | SessionEvent::Closed {} => K::Completed,
        SessionEvent::Failed { .. } => K::Failed,
        SessionEvent::Cancelled {} => K::Cancelled,
        SessionEvent::DeliverablesChanged { .. } => K::DeliverablesChanged,
        SessionEvent::AfterStopActivity { .. } => K::ActedAfterStop,
        SessionEvent::EventsLost { .. } => K::EventsLost,
        _ => return None,
    };
    Some(found(entry, kind))
}

const fn found(entry: &JournalEntry, kind: WorkEventKind) -> WorkEvent {
    WorkEvent { session_id: entry.session_id, sequence: entry.sequence, at: entry.at, kind }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn metrics(cost: u16, turn_count: u32) -> SessionEvent {
        SessionEvent::MetricsUpdated {
            total_cost_usd: Usd::whole(cost),
            context_window_usage_percent: None,
            turn_count,
        }
    }

    #[test]
    fn usage_at_the_begin_is_the_latest_before_it() {
        let events = [metrics(1, 0), metrics(2, 1), SessionEvent::Closed {}];
        let usage = events.iter().fold(Usage::default(), Usage::after);
        assert_eq!(usage, Usage { cost_usd: Some(Usd::whole(2)), turns: Some(1) });
        let turn: SessionEvent = serde_json::from_value(serde_json::json!({
            "type": "AgentSessionTurnCompletedEvent", "turnCount": 4, "lastTurnAt": "2026-01-01T00:00:00Z",
        }))
        .unwrap();
        let usage = Usage::default().after(&turn);
        assert_eq!(usage, Usage { cost_usd: None, turns: Some(4) }, "a turn does not show the costs");
        let output: SessionEvent = serde_json::from_value(serde_json::json!({
            "type": "AgentSessionOutputReadyEvent", "outputId": "01900000-0000-7000-8000-000000000001", "filesChanged": 1, "testsAdded": 0,
            "allTestsPassing": true,
        }))
        .unwrap();
        assert_eq!(usage.after(&output).turns, Some(5), "a turn may end with an output");
    }
}
