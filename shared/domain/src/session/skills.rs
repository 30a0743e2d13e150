//! Skills of a session, and hot loading (S0 8.4 `EnableSkill`, `DisableSkill`, `RequestReload`, `ConfirmReloaded`;
//! rulings 12, 25, 29).
//!
//! A change of skills takes effect with the next reload, or with the next run: each launch of a sidecar composes its
//! configuration anew. While a reload is under way no message is sent, so that no turn begins with half a configuration.

use super::{
    AgentSession, AgentSessionStatus, LifecycleCommand, Operation, Outstanding, ProcessState, SessionError,
};
use crate::{AgentSkillId, CommandId, CommandRef, Deadlines, DomainEvent, Events, Occasion, Timestamp};

impl AgentSession {
    /// The most skills of a session.
    pub const MAX_SKILLS: usize = 20;

    /// The skills that the session starts with, in their order, each once. For a session that was just created; those that
    /// do not fit are refused.
    pub fn equip(&mut self, skills: &[AgentSkillId]) -> Result<(), SessionError> {
        let mut equipped = Vec::with_capacity(skills.len());
        for skill in skills {
            if !equipped.contains(skill) {
                equipped.push(*skill);
            }
        }
        if equipped.len() > Self::MAX_SKILLS {
            return Err(SessionError::TooManySkills { max: Self::MAX_SKILLS });
        }
        self.enabled_skill_ids = equipped;
        Ok(())
    }

    /// The session is to fold a skill's memory pills into its instructions. For a session that was just created.
    pub const fn is_to_consolidate(&mut self, skill: AgentSkillId) {
        self.consolidates = Some(skill);
    }

    /// `EnableSkill(skillId)`: last in the order. One that is enabled already stays where it is. That the skill is its
    /// owner's and active is the caller's to see.
    pub fn enable_skill(&mut self, skill: AgentSkillId) -> Result<Events, SessionError> {
        self.ensure_skills_can_change(Operation::EnableSkill)?;
        if self.enabled_skill_ids.contains(&skill) {
            return Ok(Vec::new());
        }
        if self.enabled_skill_ids.len() >= Self::MAX_SKILLS {
            return Err(SessionError::TooManySkills { max: Self::MAX_SKILLS });
        }
        self.enabled_skill_ids.push(skill);
        self.skills_changed();
        Ok(vec![DomainEvent::SessionSkillEnabled { skill_id: skill }])
    }

    /// `DisableSkill(skillId)`.
    pub fn disable_skill(&mut self, skill: AgentSkillId) -> Result<Events, SessionError> {
        self.ensure_skills_can_change(Operation::DisableSkill)?;
        let at = self.enabled_skill_ids.iter().position(|enabled| *enabled == skill);
        self.enabled_skill_ids.remove(at.ok_or(SessionError::SkillNotEnabled)?);
        self.skills_changed();
        Ok(vec![DomainEvent::SessionSkillDisabled { skill_id: skill }])
    }

    /// `RequestReload()`: the sidecar is to take the configuration as it is composed now. Without a sidecar there is nothing
    /// to ask: the next one starts with it (ruling 25). An adapter that cannot take it in its life is ended instead; its
    /// conversation goes on with the next run.
    pub fn request_reload(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.ensure_skills_can_change(Operation::RequestReload)?;
        let Some(command) = self.command(cx) else {
            let mut events = vec![DomainEvent::ReloadRequested { command: None }];
            events.extend(self.confirm_reloaded()?);
            return Ok(events);
        };
        let can = self.capabilities().unwrap_or_default();
        if !can.hot_reload && !can.resume_conversation {
            return Err(SessionError::NotCapable { what: "take a new configuration while it runs" });
        }
        let hot = can.hot_reload.then_some(command);
        self.reload = Some(Self::outstanding_for(hot, cx));
        self.touch_control();
        let mut events = vec![DomainEvent::ReloadRequested { command: hot }];
        if hot.is_none() {
            events.extend(self.order_stop(cx));
        }
        Ok(events)
    }

    /// `ConfirmReloaded()`: the new configuration is in force.
    pub(crate) fn confirm_reloaded(&mut self) -> Result<Events, SessionError> {
        self.check(Operation::ConfirmReloaded)?;
        self.reload = None;
        self.config_changed = false;
        self.touch_control();
        Ok(vec![DomainEvent::Reloaded {}])
    }

    /// The sidecar took the new configuration. Only the outstanding command confirms (ruling 11).
    pub(super) fn reload_done(&mut self, command: CommandId) -> Result<Events, SessionError> {
        if self.reload.is_some_and(|reload| reload.command_id == command) {
            self.confirm_reloaded()
        } else {
            Err(SessionError::StaleAck)
        }
    }

    /// The sidecar has the command in its spool.
    pub(super) fn reload_received(&mut self, command: CommandId, at: Timestamp) {
        if let Some(reload) = self.reload.as_mut().filter(|reload| reload.command_id == command) {
            reload.received_at.get_or_insert(at);
        }
    }

    /// The sidecar will not take it: the old configuration stays in force. Whether it was this command.
    pub(super) fn reload_refused(&mut self, command: CommandId) -> bool {
        let refused = self.reload.take_if(|reload| reload.command_id == command).is_some();
        if refused {
            self.touch_control();
        }
        refused
    }

    /// The run is over: the next one starts with the new configuration.
    pub(super) fn reloaded_by_end_of_run(&mut self) -> Events {
        if self.reload.take().is_none() || self.status().is_terminal() {
            return Vec::new();
        }
        self.confirm_reloaded().unwrap_or_default()
    }

    /// When the reload that is under way is overdue.
    pub(super) fn reload_due(&self, limits: &Deadlines) -> Option<Timestamp> {
        // Attempt 0: the end of the run is awaited, which has its own deadline.
        let reload = self.reload.filter(|reload| self.is_live() && reload.attempt > 0 && !reload.late)?;
        Some(match reload.received_at {
            None => reload.sent_at + limits.received,
            Some(received) => received + limits.reloaded,
        })
    }

    /// No `received` in time: once more, then the process is stopped. No `done` in time: the process is stopped (ruling 12).
    /// The stop fulfils the request, as the next run starts with the new configuration; a turn that the agent began by
    /// itself is not ended for it.
    pub(super) fn on_reload_due(&mut self, process: ProcessState, cx: &mut Occasion<'_>) -> Events {
        let kind = LifecycleCommand::Reload;
        let may_stop = self.status().survives_its_process();
        let Some(run_id) = self.run.as_ref().map(|run| run.id) else { return Vec::new() };
        let Some(reload) = &mut self.reload else { return Vec::new() };
        if reload.received_at.is_none() && process == ProcessState::Dead {
            // The word of the run's end is on its way; if it never comes, the silence ends the run (ruling 13).
            reload.sent_at = cx.now;
            return Vec::new();
        }
        if reload.received_at.is_none() && reload.attempt < 2 {
            reload.attempt += 1;
            reload.sent_at = cx.now;
            let command = CommandRef { command_id: reload.command_id, run_id, attempt: reload.attempt };
            return vec![DomainEvent::CommandReissued { kind, command }];
        }
        reload.late = true;
        if may_stop { self.order_kill(false, cx) } else { vec![DomainEvent::CommandLate { kind }] }
    }

    /// Skills, and the configuration made of them, change between turns only, and not while one is being loaded.
    fn ensure_skills_can_change(&self, operation: Operation) -> Result<AgentSessionStatus, SessionError> {
        let status = self.check(operation)?;
        self.ensure_no_turn_starting()?;
        if self.reload.is_some() {
            return Err(SessionError::ReloadUnderWay);
        }
        Ok(status)
    }

    const fn skills_changed(&mut self) {
        self.config_changed = true;
        self.touch_control();
    }

    /// The reload that is under way.
    pub const fn reload(&self) -> Option<&Outstanding> {
        self.reload.as_ref()
    }

    /// Whether skills were enabled or disabled that its sidecar does not know yet.
    pub const fn config_changed(&self) -> bool {
        self.config_changed
    }

    /// The skill whose memory pills it folds into the instructions.
    pub const fn consolidates(&self) -> Option<AgentSkillId> {
        self.consolidates
    }
}
