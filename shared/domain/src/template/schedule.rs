//! When a template starts a session by itself, and with what (S0 8.5 `AgentSchedule`; design note "Scheduled automation").

use serde::{Deserialize, Serialize};

use super::cron::CronExpression;
use super::zone::TimeZoneName;
use crate::text::{Objective, SessionName, WorkingDirectory};
use crate::{AgentSessionId, Timestamp};

/// A schedule (S0 8.5), with what its sessions are started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSchedule {
    /// At which times.
    pub cron_expression: CronExpression,
    /// Of which clock.
    pub time_zone: TimeZoneName,
    /// Whether it is switched on.
    pub is_enabled: bool,
    /// What the sessions are started with that a template does not say.
    pub launch: ScheduledLaunch,
}

/// What a scheduled session is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledLaunch {
    /// Where its agent runs.
    pub working_directory: WorkingDirectory,
    /// What it is to do.
    pub objective: Objective,
    /// Its name; none: made from the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SessionName>,
}

impl AgentSchedule {
    /// The first time after `after` that the schedule names, whether it is switched on or not.
    ///
    /// A time that clocks skip counts at the first moment after the gap; one that they show twice counts the first time
    /// only. None at the end of time.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut local = self.time_zone.on_the_wall(after);
        // Moments follow the clock on the wall, so the first one that is later is the answer. It is the first that is
        // tried but where clocks were set back, or forward.
        loop {
            local = self.cron_expression.next_on_the_wall(local)?;
            let moment = self.time_zone.first_moment_of(local)?;
            if moment > after {
                return Some(moment);
            }
        }
    }
}

/// A template's schedule with where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduled {
    /// The schedule.
    pub schedule: AgentSchedule,
    /// When it is due next. None while it is switched off, and after a time that found the template deactivated.
    pub next_run_at: Option<Timestamp>,
    /// The latest time that was due, and what came of it.
    pub last_run: Option<ScheduledRun>,
}

/// What came of a time that was due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledRun {
    /// The time that the schedule named.
    pub scheduled_for: Timestamp,
    /// When it was carried out.
    pub at: Timestamp,
    /// The session that was started; none: it was skipped.
    pub session_id: Option<AgentSessionId>,
}

impl Scheduled {
    pub(super) fn new(schedule: AgentSchedule, now: Timestamp) -> Self {
        let mut scheduled = Self { schedule, next_run_at: None, last_run: None };
        scheduled.wind(now);
        scheduled
    }

    /// Looks for the next time from now on; what was missed stays missed.
    pub(super) fn wind(&mut self, now: Timestamp) {
        self.next_run_at = if self.schedule.is_enabled { self.schedule.next_after(now) } else { None };
    }
}
