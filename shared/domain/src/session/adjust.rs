//! How the agent works: its model, how deeply it thinks, its conversation (S1 5; rulings 10 to 12).
//!
//! A change is asked of the sidecar, and is the session's own once that made it. Without a sidecar a choice of model or
//! thinking level is the session's at once, and its next run begins with it; what only an agent can do wakes one. Being
//! late only notifies: an agent in a long call is not dead.

use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus, LifecycleCommand, Operation, Outstanding, SessionError};
use crate::text::{ModelId, cut};
use crate::value::{Adjustment, AgentSettings, ThinkingLevel};
use crate::{CommandId, CommandRef, Deadlines, DomainEvent, Events, Occasion, Timestamp};

/// A change that the sidecar has yet to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingAdjustment {
    /// What changes.
    pub adjustment: Adjustment,
    /// The command; attempt 0 while it waits for a sidecar.
    pub order: Outstanding,
}

impl PendingAdjustment {
    const fn is_the_owners(&self) -> bool {
        !matches!(self.adjustment, Adjustment::SetAllowance { .. })
    }
}

impl Adjustment {
    /// What it is to the session.
    pub const fn operation(&self) -> Operation {
        match self {
            Self::SetModel { .. } | Self::CycleModel { .. } | Self::SetThinkingLevel { .. } => {
                Operation::RequestAdjustment
            }
            Self::Compact { .. } => Operation::RequestCompact,
            Self::Fork { .. } => Operation::RequestFork,
            Self::SetAllowance { .. } => Operation::ChangeBudget,
        }
    }

    /// What an adapter would have to be able to do, for a refusal.
    pub(crate) const fn what(&self) -> &'static str {
        match self {
            Self::SetModel { .. } | Self::CycleModel { .. } => "change its model while it runs",
            Self::SetThinkingLevel { .. } => "change how deeply it thinks while it runs",
            Self::Compact { .. } => "summarise its conversation when it is asked to",
            Self::Fork { .. } => "go back in its conversation",
            Self::SetAllowance { .. } => "price a model call before it is sent",
        }
    }

    /// Whether it is a choice that the next run can begin with.
    const fn is_a_choice(&self) -> bool {
        matches!(self, Self::SetModel { .. } | Self::SetThinkingLevel { .. })
    }
}

impl AgentSession {
    /// The most changes of its owner's that may be under way at once.
    pub const MAX_ADJUSTMENTS: usize = 16;

    /// `Adjust`: changes how the agent works; all of `adjustments` or none. What they change is told by the agent's own
    /// settings.
    pub fn adjust(
        &mut self,
        adjustments: &[Adjustment],
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let under_way = self.adjustments().count();
        if under_way + adjustments.len() > Self::MAX_ADJUSTMENTS {
            return Err(SessionError::AdjustmentsUnderWay { max: Self::MAX_ADJUSTMENTS });
        }
        for adjustment in adjustments {
            self.ensure_can_adjust(adjustment)?;
        }
        let mut events = Vec::new();
        for adjustment in adjustments {
            events.extend(self.order_adjustment(adjustment, cx));
        }
        Ok(events)
    }

    fn ensure_can_adjust(&self, adjustment: &Adjustment) -> Result<(), SessionError> {
        self.check(adjustment.operation())?;
        match adjustment {
            Adjustment::Compact { .. } => self.ensure_budget()?,
            Adjustment::Fork { .. } => {
                self.ensure_no_turn_starting()?;
                if self.reload.is_some() {
                    return Err(SessionError::ReloadUnderWay);
                }
            }
            Adjustment::CycleModel { direction } if !self.is_live() => {
                let known = self.agent_settings.as_ref().and_then(|settings| settings.cycled(*direction));
                known.ok_or(SessionError::ModelsUnknown)?;
            }
            _ => {}
        }
        match self.capabilities().filter(|_| self.is_live()) {
            Some(can) if !can.can_adjust(adjustment) => {
                Err(SessionError::NotCapable { what: adjustment.what() })
            }
            _ => Ok(()),
        }
    }

    fn order_adjustment(&mut self, adjustment: &Adjustment, cx: &mut Occasion<'_>) -> Events {
        self.touch_control();
        let command = self.command(cx);
        let requested = DomainEvent::AdjustmentRequested { adjustment: adjustment.clone(), command };
        let waits = matches!(adjustment, Adjustment::Compact { .. } | Adjustment::Fork { .. });
        if command.is_none() && !waits {
            return vec![requested, self.make_adjustment(adjustment.clone())];
        }
        let order = Self::outstanding_for(command, cx);
        self.pending_adjustments.push(PendingAdjustment { adjustment: adjustment.clone(), order });
        vec![requested]
    }

    /// The change is made: a choice is the session's own from now on, over its runs.
    fn make_adjustment(&mut self, adjustment: Adjustment) -> DomainEvent {
        match &adjustment {
            Adjustment::SetModel { model_id } => {
                self.choose_model(model_id);
                self.model_follows = false;
            }
            Adjustment::SetThinkingLevel { level } => self.settings.thinking_level = Some(*level),
            Adjustment::CycleModel { direction } => {
                if self.is_live() {
                    // Which it is stands in what the agent tells.
                    self.model_follows = true;
                } else if let Some(next) = self.agent_settings.as_ref().and_then(|s| s.cycled(*direction)) {
                    let next = next.to_owned();
                    self.choose_model(&next);
                }
            }
            Adjustment::Compact { .. } | Adjustment::Fork { .. } | Adjustment::SetAllowance { .. } => {}
        }
        if !self.is_live()
            && let Some(settings) = &mut self.agent_settings
        {
            // What the next run begins with.
            self.model_id.as_str().clone_into(&mut settings.model_id);
            settings.thinking_level = self.settings.thinking_level.or(settings.thinking_level);
        }
        DomainEvent::Adjusted { adjustment }
    }

    fn choose_model(&mut self, model: &str) {
        if let Ok(model) = ModelId::parse(model) {
            self.model_id = model;
        }
    }

    /// The agent tells what it works with. Nothing when that is known.
    pub(crate) fn record_settings(&mut self, settings: AgentSettings) -> Events {
        let settings = settings.fitted();
        let cycling = |p: &PendingAdjustment| matches!(p.adjustment, Adjustment::CycleModel { .. });
        if self.model_follows || self.pending_adjustments.iter().any(cycling) {
            self.choose_model(&settings.model_id);
        }
        if self.agent_settings.as_ref() == Some(&settings) {
            return Vec::new();
        }
        let before = self.agent_settings.as_ref().map(|s| (s.model_id.clone(), s.thinking_level));
        let event = DomainEvent::AgentSettingsChanged {
            model_id: settings.model_id.clone(),
            thinking_level: settings.thinking_level,
        };
        let told = before != Some((settings.model_id.clone(), settings.thinking_level));
        self.agent_settings = Some(settings);
        if told { vec![event] } else { Vec::new() }
    }

    /// The sidecar made the change (ruling 11).
    pub(super) fn adjustment_done(&mut self, command: CommandId) -> Result<Events, SessionError> {
        let pending = self.take_adjustment(command).ok_or(SessionError::StaleAck)?;
        if !pending.is_the_owners() {
            return Ok(Vec::new());
        }
        self.touch_control();
        Ok(vec![self.make_adjustment(pending.adjustment)])
    }

    /// The sidecar has the command in its spool.
    pub(super) fn adjustment_received(&mut self, command: CommandId, at: Timestamp) {
        let mut all = self.pending_adjustments.iter_mut();
        if let Some(pending) = all.find(|pending| pending.order.command_id == command) {
            pending.order.received_at.get_or_insert(at);
        }
    }

    /// The sidecar will not make the change. Where it has no agent any more, a choice is for the next one.
    pub(crate) fn adjustment_refused(&mut self, command: CommandId, code: &str) -> Events {
        let Some(pending) = self.take_adjustment(command) else { return Vec::new() };
        if !pending.is_the_owners() {
            return Vec::new();
        }
        self.touch_control();
        if code == "no-agent" && pending.adjustment.is_a_choice() {
            return vec![self.make_adjustment(pending.adjustment)];
        }
        let reason = "the agent refused".to_owned();
        vec![DomainEvent::AdjustmentAbandoned { adjustment: pending.adjustment, reason }]
    }

    fn take_adjustment(&mut self, command: CommandId) -> Option<PendingAdjustment> {
        let at = self.pending_adjustments.iter().position(|p| p.order.command_id == command)?;
        Some(self.pending_adjustments.remove(at))
    }

    /// A sidecar is up: what waited for one is asked of it, after `begin`; what its adapter cannot do is given up.
    pub(super) fn send_waiting_adjustments(&mut self, cx: &Occasion<'_>) -> Events {
        let Some(run) = &self.run else { return Vec::new() };
        let (run_id, can) = (run.id, run.capabilities.unwrap_or_default());
        let mut events = Vec::new();
        self.pending_adjustments.retain_mut(|pending| {
            if pending.order.attempt > 0 {
                return true;
            }
            if !can.can_adjust(&pending.adjustment) {
                let reason = format!("this agent cannot {}", pending.adjustment.what());
                let adjustment = pending.adjustment.clone();
                events.push(DomainEvent::AdjustmentAbandoned { adjustment, reason });
                return false;
            }
            (pending.order.attempt, pending.order.sent_at) = (1, cx.now);
            let command = CommandRef { command_id: pending.order.command_id, run_id, attempt: 1 };
            events.push(DomainEvent::CommandReissued { kind: LifecycleCommand::Adjust, command });
            true
        });
        events
    }

    /// The run is over. A choice that nobody refused is for the next one; what the agent was asked to do and did not is
    /// given up, unless it was never asked.
    pub(super) fn adjustments_of_ended_run(&mut self) -> Events {
        let mut events = Vec::new();
        for pending in std::mem::take(&mut self.pending_adjustments) {
            if pending.order.attempt == 0 && !self.status().is_terminal() {
                self.pending_adjustments.push(pending);
            } else if pending.adjustment.is_a_choice() {
                events.push(self.make_adjustment(pending.adjustment));
            } else if pending.is_the_owners() {
                let reason = "its sidecar ended first".to_owned();
                events.push(DomainEvent::AdjustmentAbandoned { adjustment: pending.adjustment, reason });
            }
        }
        events
    }

    /// What waits for a sidecar, where the session rests: one is woken for it.
    pub(crate) fn wants_agent_to_adjust(&self) -> bool {
        matches!(self.status(), AgentSessionStatus::Idle | AgentSessionStatus::Interrupted)
            && self.pending_adjustments.iter().any(|pending| pending.order.attempt == 0)
    }

    /// Whether a change is under way that is not known to be late: it keeps its sidecar.
    pub(super) fn is_adjusting(&self) -> bool {
        self.pending_adjustments.iter().any(|pending| !pending.order.late)
    }

    /// When the next change that is under way is overdue. A change that is known to be late is so no more than once.
    pub(super) fn adjustment_due(&self, limits: &Deadlines) -> Option<Timestamp> {
        self.pending_adjustments.iter().filter_map(|pending| Self::overdue(&pending.order, limits)).min()
    }

    fn overdue(order: &Outstanding, limits: &Deadlines) -> Option<Timestamp> {
        (order.attempt > 0 && !order.late).then(|| match order.received_at {
            None => order.sent_at + limits.received,
            Some(received) => received + limits.reloaded,
        })
    }

    /// No `received` in time: once more. No `done`, or still no `received`: the owner is told, and nothing is ended.
    pub(super) fn on_adjustment_due(&mut self, cx: &Occasion<'_>) -> Events {
        let kind = LifecycleCommand::Adjust;
        let Some(run_id) = self.run.as_ref().map(|run| run.id) else { return Vec::new() };
        let due = |pending: &&mut PendingAdjustment| {
            Self::overdue(&pending.order, &cx.deadlines).is_some_and(|at| at <= cx.now)
        };
        let Some(pending) = self.pending_adjustments.iter_mut().find(due) else { return Vec::new() };
        let order = &mut pending.order;
        if order.received_at.is_none() && order.attempt < 2 {
            (order.attempt, order.sent_at) = (order.attempt + 1, cx.now);
            let command = CommandRef { command_id: order.command_id, run_id, attempt: order.attempt };
            return vec![DomainEvent::CommandReissued { kind, command }];
        }
        order.late = true;
        vec![DomainEvent::CommandLate { kind }]
    }

    /// Tells the run what it may spend, when that is not what it knows (ruling 32): another cap, late spend of an earlier
    /// run, or spend of the chain. An adapter that does not price its calls is told nothing.
    pub(crate) fn tell_allowance(&mut self, cx: &mut Occasion<'_>) -> Option<DomainEvent> {
        let prices = self.is_live() && self.capabilities().is_some_and(|can| can.budget_before_call);
        let allowance_usd = self.allowance_usd().filter(|_| prices)?;
        let run = self.run.as_mut().filter(|run| run.allowance_told != Some(allowance_usd))?;
        run.allowance_told = Some(allowance_usd);
        let command = self.command(cx)?;
        let adjustment = Adjustment::SetAllowance { allowance_usd: Some(allowance_usd.to_string()) };
        // Only the latest counts.
        self.pending_adjustments.retain(PendingAdjustment::is_the_owners);
        let order = Self::outstanding_for(Some(command), cx);
        self.pending_adjustments.push(PendingAdjustment { adjustment, order });
        Some(DomainEvent::AllowanceChanged { allowance_usd, command })
    }

    /// Whether the run has yet to hear what it may spend now.
    pub(super) fn is_allowance_under_way(&self) -> bool {
        self.pending_adjustments.iter().any(|pending| !pending.is_the_owners())
    }

    /// The changes of its owner's that are under way, oldest first.
    pub fn adjustments(&self) -> impl Iterator<Item = &PendingAdjustment> {
        self.pending_adjustments.iter().filter(|pending| pending.is_the_owners())
    }

    /// A change that is under way, by its command.
    pub fn pending_adjustment(&self, command: CommandId) -> Option<&Adjustment> {
        let pending = self.pending_adjustments.iter().find(|p| p.order.command_id == command)?;
        Some(&pending.adjustment)
    }

    /// What the agent works with; before it told, what it is to begin with.
    pub fn agent_settings(&self) -> AgentSettings {
        self.agent_settings.clone().unwrap_or_else(|| AgentSettings {
            model_id: cut(self.model_id.as_str(), AgentSettings::MAX_NAME),
            thinking_level: self.settings.thinking_level,
            available_models: Vec::new(),
        })
    }

    /// How deeply its agent is to think, where its owner chose that.
    pub const fn thinking_level(&self) -> Option<ThinkingLevel> {
        self.settings.thinking_level
    }
}
