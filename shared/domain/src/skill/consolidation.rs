//! Consolidation: an agent merges memory pills into the instructions of a skill, and the owner approves the result (S0 8.7
//! `StartSkillConsolidationCommand`, `ConsolidateSkillCommand`).
//!
//! A consolidation lasts as long as its session. The skill keeps the agent's proposal, which is applied when the owner closes or
//! approves the session.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentSkill, SkillError, SkillEvent};
use crate::text::SkillInstructions;
use crate::{AgentSessionId, DomainContext, MemoryPillId, Timestamp};

/// A consolidation in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Consolidation {
    /// The session that carries it out.
    pub session_id: AgentSessionId,
    /// The pills that the session received: all that were active at its start.
    pub pill_ids: Vec<MemoryPillId>,
    pub started_at: Timestamp,
    /// Latest proposal of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
}

/// New instructions that the agent of a consolidation proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// The pills that the new instructions contain.
    pub pill_ids: Vec<MemoryPillId>,
    /// The new instructions.
    pub updated_instructions: SkillInstructions,
    pub proposed_at: Timestamp,
}

impl AgentSkill {
    /// Starts a consolidation of all active pills in the session `session_id`.
    pub fn start_consolidation(
        &mut self,
        session_id: AgentSessionId,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        if let Some(consolidation) = &self.consolidation {
            return Err(SkillError::ConsolidationUnderWay { session_id: consolidation.session_id });
        }
        if self.active_pills.is_empty() {
            return Err(SkillError::NothingToConsolidate);
        }
        let pill_ids: Vec<_> = self.active_pills.iter().map(|pill| pill.id).collect();
        let pill_count = pill_ids.len();
        self.change(ctx, |skill| {
            skill.consolidation =
                Some(Consolidation { session_id, pill_ids, started_at: ctx.now, proposal: None });
            Ok(SkillEvent::ConsolidationStarted { session_id, pill_count })
        })
    }

    /// Stores a proposal. Its pills must be among those that the session received, and still active.
    pub fn propose_consolidation(
        &mut self,
        session_id: AgentSessionId,
        pill_ids: Vec<MemoryPillId>,
        updated_instructions: SkillInstructions,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        let given = match &self.consolidation {
            Some(consolidation) if consolidation.session_id == session_id => &consolidation.pill_ids,
            _ => return Err(SkillError::NotConsolidating { session_id }),
        };
        let pill_ids: Vec<_> = pill_ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let foreign: Vec<_> = pill_ids.iter().copied().filter(|id| !given.contains(id)).collect();
        if !foreign.is_empty() {
            return Err(SkillError::PillsNotActive { pill_ids: foreign });
        }
        self.ensure_active(&pill_ids)?;
        let same = |proposal: &Proposal| {
            proposal.pill_ids == pill_ids && proposal.updated_instructions == updated_instructions
        };
        if self.consolidation.as_ref().and_then(|c| c.proposal.as_ref()).is_some_and(same) {
            return Ok(Vec::new());
        }
        self.change(ctx, |skill| {
            let pill_count = pill_ids.len();
            if let Some(consolidation) = &mut skill.consolidation {
                consolidation.proposal =
                    Some(Proposal { pill_ids, updated_instructions, proposed_at: ctx.now });
            }
            Ok(SkillEvent::ConsolidationProposed { session_id, pill_count })
        })
    }

    /// Applies the proposal, because the session is Completed. Pills that the owner dismissed meanwhile stay dismissed. If no
    /// proposal or none of its pills is left, nothing is applied.
    pub fn finish_consolidation(
        &mut self,
        session_id: AgentSessionId,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        if self.consolidation.as_ref().is_none_or(|c| c.session_id != session_id) {
            return Ok(Vec::new());
        }
        let Some(proposal) = self.consolidation.as_ref().and_then(|c| c.proposal.clone()) else {
            return Ok(self.abandon_consolidation(session_id, "the agent proposed nothing", ctx));
        };
        let still_active = |id: &MemoryPillId| self.active_pills.iter().any(|pill| pill.id == *id);
        let pill_ids: Vec<_> = proposal.pill_ids.into_iter().filter(still_active).collect();
        if pill_ids.is_empty() {
            return Ok(self.abandon_consolidation(session_id, "its pills were dismissed meanwhile", ctx));
        }
        let events = self.consolidate_memory_pills(&pill_ids, proposal.updated_instructions, ctx)?;
        self.consolidation = None;
        Ok(events)
    }

    /// Ends the consolidation without applying anything, because its session ended in another way.
    pub fn abandon_consolidation(
        &mut self,
        session_id: AgentSessionId,
        reason: &str,
        ctx: &DomainContext<'_>,
    ) -> Vec<SkillEvent> {
        if self.consolidation.take_if(|c| c.session_id == session_id).is_none() {
            return Vec::new();
        }
        self.updated_at = ctx.now;
        vec![SkillEvent::ConsolidationAbandoned { session_id, reason: reason.to_owned() }]
    }

    /// Marks the pills as consolidated, replaces the instructions and increments the version (S0 8.4 `ConsolidateMemoryPills`).
    pub fn consolidate_memory_pills(
        &mut self,
        pill_ids: &[MemoryPillId],
        updated_instructions: SkillInstructions,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<SkillEvent>, SkillError> {
        let pill_ids: BTreeSet<_> = pill_ids.iter().copied().collect();
        self.ensure_active(&pill_ids)?;
        let mut changed = self.clone();
        for id in &pill_ids {
            let pill = changed.take_pill(*id)?.consolidated(ctx.now);
            changed.settled.push(pill);
        }
        let mut events = changed.update_instructions(updated_instructions, true, ctx)?;
        *self = changed;
        events.push(SkillEvent::Consolidated {
            new_version: self.version,
            consolidated_pill_count: pill_ids.len(),
        });
        Ok(events)
    }

    /// Checks that the pills are active and that there is at least one.
    fn ensure_active<'a>(&self, ids: impl IntoIterator<Item = &'a MemoryPillId>) -> Result<(), SkillError> {
        let mut none = true;
        let active = |id: &MemoryPillId| self.active_pills.iter().any(|pill| pill.id == *id);
        let pill_ids: Vec<_> =
            ids.into_iter().inspect(|_| none = false).filter(|id| !active(id)).copied().collect();
        match (none, pill_ids.is_empty()) {
            (true, _) => Err(SkillError::NothingToConsolidate),
            (false, true) => Ok(()),
            (false, false) => Err(SkillError::PillsNotActive { pill_ids }),
        }
    }
}
