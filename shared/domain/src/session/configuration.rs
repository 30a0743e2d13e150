//! The configuration of the sidecar: the pending reload, and whether skills have changed.

use serde::{Deserialize, Serialize};

use super::{LifecycleCommand, PendingCommand};
use crate::{CommandId, CommandRef, RunId, SessionEvent, Timestamp};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigurationState {
    /// The pending reload; attempt 0 if the end of the run completes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reload: Option<PendingCommand>,
    /// Whether skills changed since the sidecar received its configuration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    changed: bool,
    /// The sidecar has the configuration as it was composed at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    composed_at: Option<Timestamp>,
}

impl ConfigurationState {
    pub(super) const fn reload(&self) -> Option<&PendingCommand> {
        self.reload.as_ref()
    }

    pub(super) const fn is_changed(&self) -> bool {
        self.changed
    }

    pub(super) const fn record_change(&mut self) {
        self.changed = true;
    }

    pub(super) const fn request_reload(&mut self, reload: PendingCommand) {
        self.reload = Some(reload);
    }

    /// Records that the sidecar has the current configuration.
    pub(super) fn confirm(&mut self) {
        if let Some(reload) = self.reload.take() {
            self.composed_at = Some(reload.sent_at);
        }
        self.changed = false;
    }

    /// Records that a new sidecar starts with the current configuration. A pending reload stays pending.
    pub(super) const fn record_start(&mut self) {
        self.changed = false;
    }

    /// Records that the configuration is composed for a sidecar that became ready.
    pub(super) const fn record_composition(&mut self, now: Timestamp) {
        self.composed_at = Some(now);
    }

    pub(super) const fn composed_at(&self) -> Option<Timestamp> {
        self.composed_at
    }

    /// Gives up a pending reload. Returns whether there was one.
    pub(super) const fn drop_reload(&mut self) -> bool {
        self.reload.take().is_some()
    }

    pub(super) fn is_reloading_with(&self, command: CommandId) -> bool {
        self.reload.is_some_and(|reload| reload.command_id == command)
    }

    /// Records that the sidecar stored the command in its spool.
    pub(super) fn record_received(&mut self, command: CommandId, at: Timestamp) {
        if let Some(reload) = self.reload.as_mut().filter(|reload| reload.command_id == command) {
            reload.received_at.get_or_insert(at);
        }
    }

    /// Restarts the deadline of a command that a dead process cannot receive.
    pub(super) fn postpone_unreceived(&mut self, now: Timestamp) -> bool {
        let unreceived = self.reload.as_mut().filter(|reload| reload.received_at.is_none());
        unreceived.map(|reload| reload.sent_at = now).is_some()
    }

    /// Sends the command once more if its `received` is missing. Otherwise marks the reload late and returns `None`.
    pub(super) fn resend(&mut self, run_id: RunId, now: Timestamp) -> Option<SessionEvent> {
        let reload = self.reload.as_mut()?;
        if reload.received_at.is_some() || reload.attempt >= 2 {
            reload.late = true;
            return None;
        }
        reload.attempt += 1;
        reload.sent_at = now;
        let command = CommandRef { command_id: reload.command_id, run_id, attempt: reload.attempt };
        Some(SessionEvent::CommandReissued { kind: LifecycleCommand::Reload, command })
    }
}
