//! Skills of a session and hot reload (S0 8.4 "`EnabledSkillIds` is only mutable when Status == Idle or Interrupted", decisions 25
//! and 29).

use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::{AgentSkillId, CommandId, SessionEvent as E};

use super::Walk;

#[derive(Debug, Default)]
pub(crate) struct Kit {
    pub(crate) skills: Vec<AgentSkillId>,
    pub(crate) reloads: Option<Reload>,
}

/// How a reload completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    /// By a command.
    By(CommandId),
    /// With the next run.
    WithNextRun,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Enable(AgentSkillId),
    Disable(AgentSkillId),
    /// A reload; `impossible` if a sidecar is running whose adapter does not support it.
    Reload {
        impossible: bool,
    },
}

impl Kit {
    pub(crate) fn happened(&mut self, event: &E) {
        match event {
            E::SkillEnabled { skill_id } => self.skills.push(*skill_id),
            E::SkillDisabled { skill_id } => self.skills.retain(|skill| skill != skill_id),
            E::ReloadRequested { command } => {
                self.reloads = Some(command.map_or(Reload::WithNextRun, |c| Reload::By(c.command_id)));
            }
            E::CommandRefused { command_id, .. } => {
                self.reloads = self.reloads.filter(|reload| *reload != Reload::By(*command_id));
            }
            E::Reloaded {}
            | E::RunEnded { .. }
            | E::CancelRequested { .. }
            | E::Cancelled {}
            | E::Closed {}
            | E::Approved { .. }
            | E::Failed { .. }
            | E::ContextExhausted { .. }
            | E::VoluntaryHandoff { .. } => self.reloads = None,
            _ => {}
        }
    }

    pub(crate) fn refuses(&self, change: Change, walk: &Walk, turn_starts: bool) -> Option<&'static str> {
        if !matches!(walk.status, S::Idle | S::Interrupted) {
            return Some("invalid-transition");
        }
        if turn_starts {
            return Some("turn-starting");
        }
        if self.reloads.is_some() {
            return Some("reload-under-way");
        }
        match change {
            Change::Enable(skill) => {
                (!self.skills.contains(&skill) && self.skills.len() >= 20).then_some("too-many-skills")
            }
            Change::Disable(skill) => (!self.skills.contains(&skill)).then_some("skill-not-enabled"),
            Change::Reload { impossible } => impossible.then_some("not-supported"),
        }
    }
}
