//! The number and cost of an agent's injections (S2, "Cost model"; decision 89).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ProjectAgent, ProjectAgentEvent};
use crate::injection::{ContextInjectionPolicy, DeliveredInjection};
use crate::{AgentSessionId, DomainContext, Project, Timestamp};

/// The injections that an agent received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextUse {
    /// The number of injections.
    pub injections: u32,
    /// An estimate of their tokens.
    pub estimated_tokens: u64,
    /// The version of the latest snapshot that the agent received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_version: Option<u64>,
    /// When the agent received the latest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// The latest brief that came by an injection: the session that received it, and when that brief had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    brief: Option<(AgentSessionId, Timestamp)>,
}

impl ContextUse {
    pub(super) fn is_none(&self) -> bool {
        !self.has_any()
    }

    pub const fn has_any(&self) -> bool {
        self.injections > 0
    }

    /// When the brief had changed that `session` received by an injection.
    pub(super) fn brief_in(&self, session: AgentSessionId) -> Timestamp {
        let received = self.brief.filter(|(receiver, _)| *receiver == session);
        received.map_or(Timestamp::from_millis(0), |(_, changed)| changed)
    }
}

impl ProjectAgent {
    pub const fn context_use(&self) -> &ContextUse {
        &self.context_use
    }

    /// The policy of the brief, or else that of the project's control mode.
    pub fn injection_policy(&self, project: &Project) -> ContextInjectionPolicy {
        let own = self.brief().context_injection_policy.clone();
        own.unwrap_or_else(|| ContextInjectionPolicy::of_mode(project.control_mode().mode()))
    }

    /// Records that the brief of the project changed at `changed`, so that the session of the agent has an outdated one. Repeating it
    /// changes nothing.
    pub fn project_brief_changed(
        &mut self,
        changed: Timestamp,
        ctx: &DomainContext<'_>,
    ) -> Vec<ProjectAgentEvent> {
        if self.brief_changed_at().unwrap_or(self.created_at) >= changed {
            return Vec::new();
        }
        self.project_brief_changed_at = Some(changed);
        self.updated_at = ctx.now;
        vec![ProjectAgentEvent::ProjectBriefChanged {}]
    }

    /// Counts an injection that the agent received.
    pub fn context_injected(
        &mut self,
        delivered: DeliveredInjection,
        ctx: &DomainContext<'_>,
    ) -> Vec<ProjectAgentEvent> {
        let context = &mut self.context_use;
        context.injections = context.injections.saturating_add(1);
        context.estimated_tokens = context.estimated_tokens.saturating_add(delivered.estimated_tokens);
        context.snapshot_version = Some(delivered.snapshot_version);
        context.last_at = Some(ctx.now);
        if let Some(changed) = delivered.brief_of {
            context.brief = Some((delivered.session_id, changed));
        }
        self.updated_at = ctx.now;
        vec![ProjectAgentEvent::ContextInjected {
            message_id: delivered.message_id,
            session_id: delivered.session_id,
            snapshot_version: delivered.snapshot_version,
            estimated_tokens: delivered.estimated_tokens,
            priority: delivered.priority,
        }]
    }
}
