//! Capabilities that the session needs and its agent lacks. The owner is notified once per run.

use super::AgentSession;
use crate::value::Capabilities;
use crate::{Events, SessionEvent};

/// A capability and the consequence of its absence.
#[derive(Clone, Copy)]
pub(crate) struct MissingCapability {
    /// Name of the capability in the session's view.
    capability: &'static str,
    /// Whether the session needs the capability and the agent lacks it.
    applies: fn(&AgentSession, Capabilities) -> bool,
    /// The consequence, as a sentence for the owner.
    consequence: &'static str,
}

impl AgentSession {
    /// Reported as soon as the capabilities are known.
    pub(super) const NO_PLANS: MissingCapability = MissingCapability {
        capability: "plans",
        applies: |session, can| session.definition.settings.agent.plan_approval_required && !can.plans,
        consequence: "The agent has no plan mode: it works without showing a plan first, although plan approval is required. \
                      Interrupt it if that is not acceptable.",
    };
    /// Reported after the agent's first turn.
    pub(super) const NO_CONTEXT_USAGE: MissingCapability = MissingCapability {
        capability: "contextUsage",
        applies: |_, can| !can.context_usage,
        consequence: "The agent does not report how full its context window is: you get no warning, and no handoff is requested \
                      before it is full.",
    };
    /// Reported when an immediate message is enqueued during a turn.
    pub(crate) const NO_STEERING: MissingCapability = MissingCapability {
        capability: "steerMidTurn",
        applies: |session, can| session.delivery.turn().is_some() && !can.steer_mid_turn,
        consequence: "The agent takes no messages within a turn: an Immediate message is delivered first after it.",
    };

    /// Whether a message can reach the agent now, within the running turn.
    pub fn takes_messages_now(&self) -> bool {
        self.delivery.turn().is_none() || self.capabilities().is_none_or(|can| can.steer_mid_turn)
    }

    /// Notifies the owner of a missing capability, unless it was reported in this run.
    pub(crate) fn report_missing(&mut self, missing: MissingCapability) -> Events {
        let MissingCapability { capability, applies, consequence } = missing;
        if self.status().is_terminal() || self.capabilities().is_none_or(|can| !applies(self, can)) {
            return Vec::new();
        }
        let Some(run) = self.run_state.current_mut() else { return Vec::new() };
        if !run.reported_missing.insert(capability.to_owned()) {
            return Vec::new();
        }
        let (capability, consequence) = (capability.to_owned(), consequence.to_owned());
        vec![SessionEvent::CapabilityMissing { capability, consequence }]
    }
}
