//! Full disks. If the server's disk is full, the session is paused. If the sidecar's disk is full, the sidecar itself holds its
//! agent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus, SessionError};
use crate::value::Disk;
use crate::{DomainContext, Events, SessionEvent, Timestamp};

/// Records that the session waits for space on a full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FullDisk {
    pub disk: Disk,
    pub since: Timestamp,
    /// When the server checks for space again; `None` if the sidecar reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    look_at: Option<Timestamp>,
}

impl AgentSession {
    /// Time between two checks of the server's disk.
    const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(5);

    pub const fn full_disk(&self) -> Option<&FullDisk> {
        self.full_disk.as_ref()
    }

    /// Pauses a running session because the server's disk is nearly full, while this can still be recorded. A session that cannot
    /// be paused continues until its spool stops it.
    pub fn pause_for_disk(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        if self.status() != AgentSessionStatus::Running || self.full_disk.is_some() {
            return Vec::new();
        }
        let Ok(paused) = self.request_pause(ctx) else { return Vec::new() };
        let look_at = Some(ctx.now + Self::DISK_CHECK_INTERVAL);
        self.full_disk = Some(FullDisk { disk: Disk::Server, since: ctx.now, look_at });
        let mut events = vec![SessionEvent::DiskFull { disk: Disk::Server }];
        events.extend(paused);
        events
    }

    /// When the server checks its disk again.
    pub(super) fn disk_deadline(&self) -> Option<Timestamp> {
        self.full_disk.and_then(|full| full.look_at)
    }

    /// Postpones the check, as there is no space yet or the pause is not confirmed.
    pub fn postpone_disk_check(&mut self, ctx: &DomainContext<'_>) {
        if let Some(look_at) = self.full_disk.as_mut().and_then(|full| full.look_at.as_mut()) {
            *look_at = ctx.now + Self::DISK_CHECK_INTERVAL;
        }
    }

    /// Resumes the session now that there is space. If that is refused, for example because the budget is used up, the session
    /// stays Paused until the owner resumes it.
    pub(super) fn on_disk_deadline(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        if self.status() == AgentSessionStatus::Pausing {
            self.postpone_disk_check(ctx);
            return Vec::new();
        }
        let Some(full) = self.full_disk.take() else { return Vec::new() };
        self.touch_control();
        let mut events = vec![SessionEvent::DiskFreed { disk: full.disk }];
        if self.status() == AgentSessionStatus::Paused {
            match self.request_resume(ctx) {
                Ok(resumed) => events.extend(resumed),
                // The owner resumes the session when the budget allows it.
                Err(SessionError::BudgetExhausted { .. } | SessionError::Unmetered) => {}
                // Nothing else refuses the resume of a Paused session. If something does after all, the journal records it.
                Err(refusal) => {
                    let (fact, reason) = ("DiskFreed".to_owned(), refusal.to_string());
                    events.push(SessionEvent::FactIgnored { fact, reason });
                }
            }
        }
        events
    }

    /// Records what the sidecar reports about its disk, so that the owner sees why its agent waits.
    pub fn observe_worker_disk(&mut self, is_full: bool, ctx: &DomainContext<'_>) -> Events {
        let disk = Disk::Worker;
        match self.full_disk {
            None if is_full => {
                self.full_disk = Some(FullDisk { disk, since: ctx.now, look_at: None });
                self.touch_control();
                vec![SessionEvent::DiskFull { disk }]
            }
            Some(FullDisk { disk: Disk::Worker, .. }) if !is_full => {
                self.full_disk = None;
                self.touch_control();
                vec![SessionEvent::DiskFreed { disk }]
            }
            _ => Vec::new(),
        }
    }

    pub(super) const fn forget_full_disk(&mut self) {
        self.full_disk = None;
    }

    pub(super) fn is_paused_for_disk(&self) -> bool {
        self.full_disk.is_some_and(|full| full.disk == Disk::Server)
    }
}
