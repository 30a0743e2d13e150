//! Adjustments while a session lives: model, thinking level, compaction and fork of its conversation, other conversations (S1 5;
//! decisions 10 to 12, 100).
//!
//! An adjustment is sent to the sidecar and takes effect when the sidecar acknowledges it. Without a sidecar, a choice of model or
//! thinking level takes effect at once for the next run; other adjustments start a run. A late acknowledgement only notifies the
//! owner, because an agent in a long model call is not dead.

use super::{AgentSession, AgentSessionStatus, Operation, PendingAdjustment, PendingCommand, SessionError};
use crate::text::ModelId;
use crate::value::{Adjustment, AgentSettings, Capabilities, ThinkingLevel};
use crate::{CommandId, Deadlines, DomainContext, Events, SessionEvent, Timestamp};

impl Adjustment {
    /// The operation that the session's status has to allow.
    pub const fn operation(&self) -> Operation {
        match self {
            Self::SetModel { .. } | Self::CycleModel { .. } | Self::SetThinkingLevel { .. } => {
                Operation::RequestAdjustment
            }
            Self::Compact { .. } => Operation::RequestCompact,
            Self::Fork { .. }
            | Self::NewConversation {}
            | Self::SwitchConversation { .. }
            | Self::LabelTurn { .. } => Operation::RequestFork,
            Self::SetAllowance { .. } => Operation::ChangeBudget,
        }
    }

    /// The missing ability in a refusal: "this agent cannot …".
    pub(crate) const fn what(&self) -> &'static str {
        match self {
            Self::SetModel { .. } | Self::CycleModel { .. } => "change its model while it runs",
            Self::SetThinkingLevel { .. } => "change its thinking level while it runs",
            Self::Compact { .. } => "summarise its conversation on request",
            Self::Fork { .. } => "rewind its conversation",
            Self::NewConversation {} => "begin another conversation within the session",
            Self::SwitchConversation { .. } => "switch between conversations",
            Self::LabelTurn { .. } => "label its turns",
            Self::SetAllowance { .. } => "enforce an allowance",
        }
    }

    /// Whether only an agent can carry it out.
    const fn needs_agent(&self) -> bool {
        !matches!(
            self,
            Self::SetModel { .. }
                | Self::CycleModel { .. }
                | Self::SetThinkingLevel { .. }
                | Self::SetAllowance { .. }
        )
    }

    /// Whether the next run can start with it.
    const fn is_a_choice(&self) -> bool {
        matches!(self, Self::SetModel { .. } | Self::SetThinkingLevel { .. })
    }
}

impl AgentSession {
    /// Most adjustments of the owner that may be pending at once.
    pub const MAX_ADJUSTMENTS: usize = 16;

    /// Whether all of `adjustments` can be requested.
    pub(crate) fn check_adjust(&self, adjustments: &[Adjustment]) -> Result<(), SessionError> {
        let under_way = self.adjustments().count();
        if under_way + adjustments.len() > Self::MAX_ADJUSTMENTS {
            return Err(SessionError::AdjustmentsUnderWay { max: Self::MAX_ADJUSTMENTS });
        }
        adjustments.iter().try_for_each(|adjustment| self.ensure_can_adjust(adjustment))
    }

    /// Requests all of `adjustments`, or none if one is refused.
    pub fn adjust(
        &mut self,
        adjustments: &[Adjustment],
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.check_adjust(adjustments)?;
        let mut events = Vec::new();
        for adjustment in adjustments {
            events.extend(self.order_adjustment(adjustment, ctx));
        }
        Ok(events)
    }

    /// Uses the model that the agent's brief names: at once if the agent can change it, otherwise from the next run on.
    pub fn prefer_model(&mut self, model_id: &ModelId, ctx: &mut DomainContext<'_>) -> Events {
        let change = Adjustment::SetModel { model_id: model_id.to_string() };
        match self.adjust(std::slice::from_ref(&change), ctx) {
            Ok(events) => events,
            Err(_)
                if matches!(self.status(), AgentSessionStatus::Completed | AgentSessionStatus::Cancelled) =>
            {
                Events::new()
            }
            Err(_) => {
                self.touch_control();
                vec![self.make_adjustment(change)]
            }
        }
    }

    fn ensure_can_adjust(&self, adjustment: &Adjustment) -> Result<(), SessionError> {
        self.check(adjustment.operation())?;
        match adjustment {
            Adjustment::Compact { .. } => {
                self.ensure_not_held()?;
                self.spending.ensure_budget()?;
            }
            Adjustment::Fork { .. }
            | Adjustment::NewConversation {}
            | Adjustment::SwitchConversation { .. }
            | Adjustment::LabelTurn { .. } => {
                self.ensure_no_turn_starting()?;
                if self.reload().is_some() {
                    return Err(SessionError::ReloadUnderWay);
                }
            }
            Adjustment::SetModel { model_id } => {
                if let Ok(model) = ModelId::parse(model_id) {
                    self.definition.settings.allowed_models.check(&model)?;
                }
            }
            Adjustment::CycleModel { .. } if !self.definition.settings.allowed_models.is_unlimited() => {
                return Err(SessionError::ModelsLimited);
            }
            Adjustment::CycleModel { direction } if !self.is_live() => {
                let known = self.adjustments.cycled(*direction);
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

    fn order_adjustment(&mut self, adjustment: &Adjustment, ctx: &mut DomainContext<'_>) -> Events {
        self.touch_control();
        let command = self.run_state.command(ctx);
        let requested = SessionEvent::AdjustmentRequested { adjustment: adjustment.clone(), command };
        if command.is_none() && !adjustment.needs_agent() {
            return vec![requested, self.make_adjustment(adjustment.clone())];
        }
        let pending = PendingCommand::new(command, ctx);
        self.adjustments.add(adjustment.clone(), pending);
        vec![requested]
    }

    /// Applies an acknowledged adjustment to the session.
    fn make_adjustment(&mut self, adjustment: Adjustment) -> SessionEvent {
        match &adjustment {
            Adjustment::SetModel { model_id } => {
                self.definition.choose_model(model_id);
                self.adjustments.let_agent_choose_model(false);
            }
            Adjustment::SetThinkingLevel { level } => self.definition.choose_thinking_level(*level),
            Adjustment::CycleModel { direction } => {
                if self.is_live() {
                    // The agent reports which model it chose.
                    self.adjustments.let_agent_choose_model(true);
                } else if let Some(next) = self.adjustments.cycled(*direction) {
                    let next = next.to_owned();
                    self.definition.choose_model(&next);
                }
            }
            Adjustment::Compact { .. }
            | Adjustment::Fork { .. }
            | Adjustment::NewConversation {}
            | Adjustment::SwitchConversation { .. }
            | Adjustment::LabelTurn { .. }
            | Adjustment::SetAllowance { .. } => {}
        }
        if !self.is_live() {
            let model = self.definition.model_id.as_str();
            self.adjustments.choose_for_next_run(model, self.definition.settings.thinking_level);
        }
        SessionEvent::Adjusted { adjustment }
    }

    /// Records the settings that the agent reports. Does nothing if they are known.
    pub(crate) fn record_settings(&mut self, settings: AgentSettings) -> Events {
        let settings = settings.fitted();
        if self.adjustments.adopts_model() {
            self.definition.choose_model(&settings.model_id);
        }
        self.adjustments.record_settings(settings).into_iter().collect()
    }

    /// Handles the acknowledgement of an adjustment (decision 11).
    pub(super) fn adjustment_done(&mut self, command: CommandId) -> Result<Events, SessionError> {
        let pending = self.adjustments.take(command).ok_or(SessionError::StaleAck)?;
        if !pending.is_of_owner() {
            return Ok(Vec::new());
        }
        self.touch_control();
        Ok(vec![self.make_adjustment(pending.adjustment)])
    }

    /// Handles a refused adjustment. If the sidecar has no agent any more, a choice applies to the next run.
    pub(crate) fn adjustment_refused(&mut self, command: CommandId, code: &str) -> Events {
        let Some(pending) = self.adjustments.take(command) else { return Vec::new() };
        if !pending.is_of_owner() {
            return Vec::new();
        }
        self.touch_control();
        if code == "no-agent" && pending.adjustment.is_a_choice() {
            return vec![self.make_adjustment(pending.adjustment)];
        }
        let reason = "the agent refused".to_owned();
        vec![SessionEvent::AdjustmentAbandoned { adjustment: pending.adjustment, reason }]
    }

    /// Sends the adjustments that waited for a sidecar, after `begin`, and gives up those that the adapter does not support.
    pub(super) fn send_waiting_adjustments(&mut self, ctx: &DomainContext<'_>) -> Events {
        let Some(run) = self.run_state.current() else { return Vec::new() };
        let (run_id, can) = (run.id, run.capabilities.unwrap_or_default());
        self.adjustments.send_waiting(run_id, can, ctx.now)
    }

    /// Handles the end of the run. Choices apply to the next run. Other adjustments are given up if they were sent, and keep
    /// waiting if not.
    pub(super) fn adjustments_of_ended_run(&mut self) -> Events {
        let mut events = Vec::new();
        for pending in self.adjustments.take_at_run_end(!self.status().is_terminal()) {
            if pending.adjustment.is_a_choice() {
                events.push(self.make_adjustment(pending.adjustment));
            } else if pending.is_of_owner() {
                let reason = "its sidecar ended first".to_owned();
                events.push(SessionEvent::AdjustmentAbandoned { adjustment: pending.adjustment, reason });
            }
        }
        events
    }

    /// Whether a resting session needs a run to carry out adjustments.
    pub(crate) fn wants_agent_to_adjust(&self) -> bool {
        matches!(self.status(), AgentSessionStatus::Idle | AgentSessionStatus::Interrupted)
            && self.adjustments.waits_for_run()
    }

    /// Whether an adjustment is pending that is not late. Such a session does not hibernate.
    pub(super) fn is_adjusting(&self) -> bool {
        self.adjustments.is_under_way()
    }

    /// When the next pending adjustment is late. A late one is not reported again.
    pub(super) fn adjustment_deadline(&self, limits: &Deadlines) -> Option<Timestamp> {
        let overdue = |pending: &PendingAdjustment| self.overdue(&pending.command, limits);
        self.adjustments.pending().iter().filter_map(overdue).min()
    }

    fn overdue(&self, command: &PendingCommand, limits: &Deadlines) -> Option<Timestamp> {
        (command.attempt > 0 && !command.late).then(|| match command.received_at {
            None => self.run_state.counted_from(command.sent_at) + limits.received_timeout,
            Some(received) => self.run_state.counted_from(received) + limits.reload_timeout,
        })
    }

    /// Handles a late acknowledgement: sends the command once more if `received` is missing, otherwise notifies the owner.
    pub(super) fn on_adjustment_deadline(&mut self, ctx: &DomainContext<'_>) -> Events {
        let Some(run_id) = self.run_state.current_id() else { return Vec::new() };
        let due = |pending: &PendingAdjustment| {
            self.overdue(&pending.command, &ctx.deadlines).is_some_and(|at| at <= ctx.now)
        };
        let at = self.adjustments.pending().iter().position(due);
        at.and_then(|at| self.adjustments.resend(at, run_id, ctx.now)).into_iter().collect()
    }

    /// Sends the run its allowance if it changed (decision 32): after a change of the cap, late spend of an earlier run, or spend
    /// of the chain. Adapters that do not enforce an allowance are skipped.
    pub(crate) fn send_allowance(&mut self, ctx: &mut DomainContext<'_>) -> Option<SessionEvent> {
        let reachable = self.is_live() && self.unreachable_since().is_none();
        let takes = |can: Capabilities| can.allowance || can.budget_before_call;
        let takes_allowance = reachable && self.capabilities().is_some_and(takes);
        let allowance_usd = self.allowance_usd().filter(|_| takes_allowance)?;
        let run = self.run_state.current_mut().filter(|run| run.sent_allowance != Some(allowance_usd))?;
        run.sent_allowance = Some(allowance_usd);
        let command = self.run_state.command(ctx)?;
        let adjustment = Adjustment::SetAllowance { allowance_usd: Some(allowance_usd.to_string()) };
        let pending = PendingCommand::new(Some(command), ctx);
        self.adjustments.set_allowance(adjustment, pending);
        Some(SessionEvent::AllowanceChanged { allowance_usd, command })
    }

    /// Whether an allowance was sent and not acknowledged yet.
    pub(super) fn is_allowance_under_way(&self) -> bool {
        self.adjustments.is_allowance_under_way()
    }

    /// Pending adjustments of the owner, oldest first.
    pub fn adjustments(&self) -> impl Iterator<Item = &PendingAdjustment> {
        self.adjustments.of_owner()
    }

    pub fn pending_adjustment(&self, command: CommandId) -> Option<&Adjustment> {
        self.adjustments.get(command)
    }

    /// The settings that the agent reported, or the ones that it will start with.
    pub fn agent_settings(&self) -> AgentSettings {
        let reported = self.adjustments.agent_settings().cloned();
        reported.unwrap_or_else(|| self.definition.agent_settings())
    }

    pub const fn thinking_level(&self) -> Option<ThinkingLevel> {
        self.definition.settings.thinking_level
    }
}
