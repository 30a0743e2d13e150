//! Pending adjustments of a session, and the settings that its agent reports.

use serde::{Deserialize, Serialize};

use super::{LifecycleCommand, PendingCommand};
use crate::value::{Adjustment, AgentSettings, Capabilities, CycleDirection, ThinkingLevel};
use crate::{CommandId, CommandRef, Events, RunId, SessionEvent, Timestamp};

/// The adjustments of a session that are under way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Adjustments {
    /// Requested changes of model, thinking level or conversation that are not acknowledged yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending: Vec<PendingAdjustment>,
    /// Model and thinking level that the agent last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_settings: Option<AgentSettings>,
    /// The owner cycled through the models: the session adopts the model that its agent reports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    model_follows: bool,
}

/// An adjustment that the sidecar has not acknowledged yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingAdjustment {
    pub adjustment: Adjustment,
    /// The command that carries it; attempt 0 while it waits for a sidecar.
    #[serde(rename = "order")]
    pub command: PendingCommand,
}

impl PendingAdjustment {
    /// Whether the owner requested it. Allowances are set by the control plane.
    pub(super) const fn is_of_owner(&self) -> bool {
        !matches!(self.adjustment, Adjustment::SetAllowance { .. })
    }
}

impl Adjustments {
    pub(super) fn pending(&self) -> &[PendingAdjustment] {
        &self.pending
    }

    pub(super) fn of_owner(&self) -> impl Iterator<Item = &PendingAdjustment> {
        self.pending.iter().filter(|pending| pending.is_of_owner())
    }

    pub(super) fn get(&self, command: CommandId) -> Option<&Adjustment> {
        let pending = self.pending.iter().find(|p| p.command.command_id == command)?;
        Some(&pending.adjustment)
    }

    pub(super) fn add(&mut self, adjustment: Adjustment, command: PendingCommand) {
        self.pending.push(PendingAdjustment { adjustment, command });
    }

    /// Adds an allowance. It replaces the one before, because only the latest counts.
    pub(super) fn set_allowance(&mut self, adjustment: Adjustment, command: PendingCommand) {
        self.pending.retain(PendingAdjustment::is_of_owner);
        self.add(adjustment, command);
    }

    pub(super) fn take(&mut self, command: CommandId) -> Option<PendingAdjustment> {
        let at = self.pending.iter().position(|p| p.command.command_id == command)?;
        Some(self.pending.remove(at))
    }

    pub(super) fn record_received(&mut self, command: CommandId, at: Timestamp) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.command.command_id == command) {
            pending.command.received_at.get_or_insert(at);
        }
    }

    /// Whether an adjustment waits for a run.
    pub(super) fn waits_for_run(&self) -> bool {
        self.pending.iter().any(|pending| pending.command.attempt == 0)
    }

    /// Whether an adjustment is pending that is not late.
    pub(super) fn is_under_way(&self) -> bool {
        self.pending.iter().any(|pending| !pending.command.late)
    }

    /// Whether an allowance was sent and not acknowledged yet.
    pub(super) fn is_allowance_under_way(&self) -> bool {
        self.pending.iter().any(|pending| !pending.is_of_owner())
    }

    /// At the end of the session.
    pub(super) fn drop_unsent(&mut self) {
        self.pending.retain(|pending| pending.command.attempt > 0);
    }

    /// Takes all adjustments at the end of a run. If `keep_unsent`, those that were not sent keep waiting.
    pub(super) fn take_at_run_end(&mut self, keep_unsent: bool) -> Vec<PendingAdjustment> {
        let (kept, ended) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| keep_unsent && pending.command.attempt == 0);
        self.pending = kept;
        ended
    }

    /// Sends the adjustments that waited for a run, and gives up those that its adapter does not support.
    pub(super) fn send_waiting(&mut self, run_id: RunId, can: Capabilities, now: Timestamp) -> Events {
        let mut events = Vec::new();
        self.pending.retain_mut(|pending| {
            if pending.command.attempt > 0 {
                return true;
            }
            if !can.can_adjust(&pending.adjustment) {
                let reason = format!("this agent cannot {}", pending.adjustment.what());
                let adjustment = pending.adjustment.clone();
                events.push(SessionEvent::AdjustmentAbandoned { adjustment, reason });
                return false;
            }
            (pending.command.attempt, pending.command.sent_at) = (1, now);
            let command = CommandRef { command_id: pending.command.command_id, run_id, attempt: 1 };
            events.push(SessionEvent::CommandReissued { kind: LifecycleCommand::Adjust, command });
            true
        });
        events
    }

    /// Sends the adjustment at `at` once more if its `received` is missing, otherwise marks it late.
    pub(super) fn resend(&mut self, at: usize, run_id: RunId, now: Timestamp) -> Option<SessionEvent> {
        let kind = LifecycleCommand::Adjust;
        let pending = &mut self.pending.get_mut(at)?.command;
        if pending.received_at.is_none() && pending.attempt < 2 {
            (pending.attempt, pending.sent_at) = (pending.attempt + 1, now);
            let command = CommandRef { command_id: pending.command_id, run_id, attempt: pending.attempt };
            return Some(SessionEvent::CommandReissued { kind, command });
        }
        pending.late = true;
        Some(SessionEvent::CommandLate { kind })
    }
}

impl Adjustments {
    pub(super) const fn agent_settings(&self) -> Option<&AgentSettings> {
        self.agent_settings.as_ref()
    }

    /// The model after the agent's current one, if the agent reported its models.
    pub(super) fn cycled(&self, direction: CycleDirection) -> Option<&str> {
        self.agent_settings.as_ref().and_then(|settings| settings.cycled(direction))
    }

    /// Whether the session adopts the model that its agent reports next.
    pub(super) fn adopts_model(&self) -> bool {
        let cycling = |p: &PendingAdjustment| matches!(p.adjustment, Adjustment::CycleModel { .. });
        self.model_follows || self.pending.iter().any(cycling)
    }

    /// Sets whether the agent chooses the model, as it does after the owner cycled through the models.
    pub(super) const fn let_agent_choose_model(&mut self, agent_chooses: bool) {
        self.model_follows = agent_chooses;
    }

    pub(super) fn choose_for_next_run(&mut self, model_id: &str, thinking_level: Option<ThinkingLevel>) {
        if let Some(settings) = &mut self.agent_settings {
            model_id.clone_into(&mut settings.model_id);
            settings.thinking_level = thinking_level.or(settings.thinking_level);
        }
    }

    /// Records the settings that the agent reports. Returns an event if model or thinking level changed.
    pub(super) fn record_settings(&mut self, settings: AgentSettings) -> Option<SessionEvent> {
        let before = self.agent_settings.as_ref().map(|s| (s.model_id.as_str(), s.thinking_level));
        let changed = before != Some((settings.model_id.as_str(), settings.thinking_level));
        let event = SessionEvent::AgentSettingsChanged {
            model_id: settings.model_id.clone(),
            thinking_level: settings.thinking_level,
        };
        self.agent_settings = Some(settings);
        changed.then_some(event)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::validation::BetweenTurns;
    use super::*;

    #[test]
    fn pending_commands_are_stored_as_order() {
        let command = PendingCommand {
            command_id: "01900000-0000-7000-8000-000000000001".parse().unwrap(),
            attempt: 1,
            sent_at: Timestamp::from_millis(1),
            received_at: None,
            late: false,
            cancel_accepted_at: None,
        };
        let adjustment = Adjustment::CycleModel { direction: CycleDirection::Forward };
        let stored = serde_json::to_value(PendingAdjustment { adjustment, command }).unwrap();
        assert_eq!(stored["order"], json!(command));
        let checking = BetweenTurns::Validating { ended: Vec::new(), command: Some(command) };
        let stored = serde_json::to_value(checking).unwrap();
        assert_eq!(stored["Validating"]["order"], json!(command));
    }
}
