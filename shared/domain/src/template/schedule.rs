//! Schedules of templates (S0 8.5 `AgentSchedule`; design note "Scheduled automation").

use serde::{Deserialize, Serialize};

use super::cron::CronExpression;
use super::zone::TimeZoneName;
use super::{AgentTemplate, ScheduleSkip, TemplateError, TemplateEvent, TemplateSection};
use crate::text::{Objective, SessionName, WorkingDirectory};
use crate::{AgentSessionId, DomainContext, Timestamp};

/// A schedule (S0 8.5) with the parameters of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSchedule {
    pub cron_expression: CronExpression,
    pub time_zone: TimeZoneName,
    pub is_enabled: bool,
    /// Parameters of the sessions that the template does not have.
    pub launch: ScheduledLaunch,
}

/// Parameters of a scheduled session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledLaunch {
    pub working_directory: WorkingDirectory,
    pub objective: Objective,
    /// If missing, the name is made from the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SessionName>,
}

impl AgentSchedule {
    /// The first time of the schedule after `after`, whether or not the schedule is enabled.
    ///
    /// A local time that is skipped when clocks go forward counts at the first moment after the gap. A local time that occurs twice
    /// counts only the first time. `None` if no time is in range.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut local = self.time_zone.local_time(after);
        // Moments follow local times, so the first later one is the answer. It is the first candidate, except around a change of
        // the clocks.
        loop {
            local = self.cron_expression.next_local_time(local)?;
            let moment = self.time_zone.first_instant_of(local)?;
            if moment > after {
                return Some(moment);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduled {
    pub schedule: AgentSchedule,
    /// Next due time. `None` while the schedule is disabled, and after a due time found the template deactivated.
    pub next_run_at: Option<Timestamp>,
    /// The latest due time and its result.
    pub last_run: Option<ScheduledRun>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledRun {
    pub scheduled_for: Timestamp,
    /// When it was processed.
    pub at: Timestamp,
    /// The session that was started; `None` if the time was skipped.
    pub session_id: Option<AgentSessionId>,
}

impl Scheduled {
    pub(super) fn new(schedule: AgentSchedule, now: Timestamp) -> Self {
        let mut scheduled = Self { schedule, next_run_at: None, last_run: None };
        scheduled.set_next_run(now);
        scheduled
    }

    /// Sets the next due time after `now`. Missed times stay missed.
    pub(super) fn set_next_run(&mut self, now: Timestamp) {
        self.next_run_at = if self.schedule.is_enabled { self.schedule.next_after(now) } else { None };
    }
}

/// A scheduled time that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct DueRun<'a> {
    pub scheduled_for: Timestamp,
    /// Parameters of the session to start.
    pub launch: &'a ScheduledLaunch,
}

impl AgentTemplate {
    /// Sets or clears the schedule (S0 8.4 `UpdateSchedule`). Only times after now count.
    pub fn update_schedule(
        &mut self,
        schedule: Option<AgentSchedule>,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<TemplateEvent>, TemplateError> {
        if schedule.as_ref() == self.schedule() {
            return Ok(Vec::new());
        }
        self.change(TemplateSection::Schedule, ctx, |it| {
            it.scheduled = schedule.map(|schedule| Scheduled::new(schedule, ctx.now));
            Ok(())
        })
    }

    /// The scheduled time that is due at `now`. Several missed times count as one.
    pub fn due_run(&self, now: Timestamp) -> Option<DueRun<'_>> {
        let scheduled = self.scheduled.as_ref()?;
        let scheduled_for = scheduled.next_run_at.filter(|at| *at <= now)?;
        Some(DueRun { scheduled_for, launch: &scheduled.schedule.launch })
    }

    /// Records that the due time started `session`. Does nothing if no time was due.
    pub fn record_run(&mut self, session: AgentSessionId, ctx: &DomainContext<'_>) -> Vec<TemplateEvent> {
        let Some((scheduled_for, next_run_at)) = self.record_occurrence(Some(session), true, ctx) else {
            return Vec::new();
        };
        vec![TemplateEvent::ScheduleRan { scheduled_for, session_id: session, next_run_at }]
    }

    /// Records that the due time started no session. Does nothing if no time was due.
    pub fn record_skip(&mut self, reason: ScheduleSkip, ctx: &DomainContext<'_>) -> Vec<TemplateEvent> {
        let goes_on = match reason {
            ScheduleSkip::Deactivated => false,
            ScheduleSkip::PoolLineFull
            | ScheduleSkip::Unmetered
            | ScheduleSkip::ModelNotAllowed
            | ScheduleSkip::NoAdapter => true,
        };
        let Some((scheduled_for, next_run_at)) = self.record_occurrence(None, goes_on, ctx) else {
            return Vec::new();
        };
        vec![TemplateEvent::ScheduleSkipped { scheduled_for, reason, next_run_at }]
    }

    fn record_occurrence(
        &mut self,
        session_id: Option<AgentSessionId>,
        goes_on: bool,
        ctx: &DomainContext<'_>,
    ) -> Option<(Timestamp, Option<Timestamp>)> {
        let scheduled_for = self.due_run(ctx.now)?.scheduled_for;
        let scheduled = self.scheduled.as_mut()?;
        scheduled.last_run = Some(ScheduledRun { scheduled_for, at: ctx.now, session_id });
        scheduled.next_run_at = None;
        if goes_on {
            scheduled.set_next_run(ctx.now);
        }
        Some((scheduled_for, scheduled.next_run_at))
    }
}
