//! Skills of a session and hot reload (S0 8.4 `EnableSkill`, `DisableSkill`, `RequestReload`, `ConfirmReloaded`; decisions 12, 25,
//! 29).
//!
//! A change of skills takes effect with the next reload or the next run, when the configuration is composed again. While a reload
//! is pending no message is sent, so that a turn starts with a complete configuration.

use super::{
    AgentSession, AgentSessionStatus, LifecycleCommand, Operation, PendingCommand, ProcessState,
    SessionDefinition, SessionError,
};
use crate::{AgentSkillId, CommandId, Deadlines, DomainContext, Events, SessionEvent, SkillEvent, Timestamp};

impl AgentSession {
    pub const MAX_SKILLS: usize = SessionDefinition::MAX_SKILLS;

    /// In their order and without duplicates. Refused if there are too many.
    pub fn set_skills(&mut self, skills: &[AgentSkillId]) -> Result<(), SessionError> {
        self.definition.set_skills(skills)
    }

    /// Makes a new session consolidate the memory pills of a skill.
    pub const fn mark_as_consolidation(&mut self, skill: AgentSkillId) {
        self.definition.consolidates = Some(skill);
    }

    /// Enables a skill, as the last in order. Does nothing if it is enabled. The caller ensures that the skill is active and
    /// belongs to the session's owner.
    pub fn enable_skill(&mut self, skill: AgentSkillId) -> Result<Events, SessionError> {
        self.ensure_skills_can_change(Operation::EnableSkill)?;
        if !self.definition.enable_skill(skill)? {
            return Ok(Vec::new());
        }
        self.skills_changed();
        Ok(vec![SessionEvent::SkillEnabled { skill_id: skill }])
    }

    pub fn disable_skill(&mut self, skill: AgentSkillId) -> Result<Events, SessionError> {
        self.ensure_skills_can_change(Operation::DisableSkill)?;
        self.definition.disable_skill(skill)?;
        self.skills_changed();
        Ok(vec![SessionEvent::SkillDisabled { skill_id: skill }])
    }

    /// Requests a reload of the configuration. Without a sidecar it is confirmed at once, as the next run starts with the new
    /// configuration (decision 25). If the adapter cannot reload, its process is stopped and the next run continues the
    /// conversation.
    pub fn request_reload(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        self.ensure_skills_can_change(Operation::RequestReload)?;
        let Some(command) = self.run_state.command(ctx) else {
            let mut events = vec![SessionEvent::ReloadRequested { command: None }];
            events.extend(self.confirm_reloaded()?);
            return Ok(events);
        };
        let can = self.capabilities().unwrap_or_default();
        if !can.hot_reload && !can.resume_conversation {
            return Err(SessionError::NotCapable { what: "take a new configuration while it runs" });
        }
        let hot = can.hot_reload.then_some(command);
        self.configuration.request_reload(PendingCommand::new(hot, ctx));
        self.touch_control();
        let mut events = vec![SessionEvent::ReloadRequested { command: hot }];
        if hot.is_none() {
            events.extend(self.order_stop(ctx));
        }
        Ok(events)
    }

    pub(crate) fn confirm_reloaded(&mut self) -> Result<Events, SessionError> {
        self.check(Operation::ConfirmReloaded)?;
        Ok(self.activate_configuration())
    }

    fn activate_configuration(&mut self) -> Events {
        self.configuration.confirm();
        self.touch_control();
        vec![SessionEvent::Reloaded {}]
    }

    /// Handles the acknowledgement of a reload. It has to name the pending command (decision 11).
    pub(super) fn reload_done(&mut self, command: CommandId) -> Result<Events, SessionError> {
        if self.configuration.is_reloading_with(command) {
            self.confirm_reloaded()
        } else {
            Err(SessionError::StaleAck)
        }
    }

    /// Gives up a refused reload; the old configuration stays active. Returns whether the reload was this command.
    pub(super) fn reload_refused(&mut self, command: CommandId) -> bool {
        let refused = self.configuration.is_reloading_with(command);
        if refused {
            self.configuration.drop_reload();
            self.touch_control();
        }
        refused
    }

    /// Confirms a pending reload when the run ends, as the next run starts with the new configuration.
    pub(super) fn reloaded_by_end_of_run(&mut self) -> Events {
        if !self.configuration.drop_reload() || self.status().is_terminal() {
            return Vec::new();
        }
        self.activate_configuration()
    }

    /// When the acknowledgement of the pending reload is late.
    pub(super) fn reload_deadline(&self, limits: &Deadlines) -> Option<Timestamp> {
        // With attempt 0 the reload waits for the end of the run, which has its own deadline.
        let reload = self.reload().filter(|reload| self.is_live() && reload.attempt > 0 && !reload.late)?;
        Some(match reload.received_at {
            None => self.run_state.counted_from(reload.sent_at) + limits.received_timeout,
            Some(received) => self.run_state.counted_from(received) + limits.reload_timeout,
        })
    }

    /// Handles a late acknowledgement (decision 12). A command that was not received is sent once more; after that the process is
    /// stopped, which completes the reload. If the agent has started a turn meanwhile, the owner is only notified.
    pub(super) fn on_reload_deadline(
        &mut self,
        process: ProcessState,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        let Some(run_id) = self.run_state.current_id() else { return Vec::new() };
        if self.reload().is_none() {
            return Vec::new();
        }
        if process == ProcessState::Dead && self.configuration.postpone_unreceived(ctx.now) {
            // The report of the run's end will follow. If it does not, the silence ends the run (decision 13).
            return Vec::new();
        }
        match self.configuration.resend(run_id, ctx.now) {
            Some(resent) => vec![resent],
            None if self.status().survives_its_process() => self.order_kill(false, ctx),
            None => vec![SessionEvent::CommandLate { kind: LifecycleCommand::Reload }],
        }
    }

    /// Skills may change only between turns and while no reload is pending.
    fn ensure_skills_can_change(&self, operation: Operation) -> Result<AgentSessionStatus, SessionError> {
        let status = self.check(operation)?;
        self.ensure_no_turn_starting()?;
        if self.reload().is_some() {
            return Err(SessionError::ReloadUnderWay);
        }
        Ok(status)
    }

    const fn skills_changed(&mut self) {
        self.configuration.record_change();
        self.touch_control();
    }

    pub const fn reload(&self) -> Option<&PendingCommand> {
        self.configuration.reload()
    }

    /// Whether skills changed since the sidecar received its configuration.
    pub const fn config_changed(&self) -> bool {
        self.configuration.is_changed()
    }

    /// The skill whose memory pills this session consolidates.
    pub const fn consolidates(&self) -> Option<AgentSkillId> {
        self.definition.consolidates
    }
}

impl SessionEvent {
    /// The event of a skill that the session's agent changed, for the journal of the session. Agents only record memory pills and
    /// propose consolidations.
    pub fn of_skill(event: &SkillEvent) -> Option<Self> {
        match event {
            SkillEvent::MemoryPillRecorded { skill_id, pill_id, session_id, category } => {
                Some(Self::MemoryPillRecorded {
                    skill_id: *skill_id,
                    pill_id: *pill_id,
                    session_id: *session_id,
                    category: *category,
                })
            }
            SkillEvent::ConsolidationProposed { session_id, pill_count } => {
                Some(Self::SkillConsolidationProposed { session_id: *session_id, pill_count: *pill_count })
            }
            SkillEvent::Created { .. }
            | SkillEvent::Updated {}
            | SkillEvent::InstructionsUpdated { .. }
            | SkillEvent::Deactivated {}
            | SkillEvent::Activated {}
            | SkillEvent::MemoryPillDismissed { .. }
            | SkillEvent::ConsolidationStarted { .. }
            | SkillEvent::ConsolidationAbandoned { .. }
            | SkillEvent::Consolidated { .. } => None,
        }
    }
}
