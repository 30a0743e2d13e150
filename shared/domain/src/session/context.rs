//! The context window (S0 8.4): warning, exhaustion, and a handoff that the agent decides on.

use super::{AgentSession, Operation, SessionError, State};
use crate::decision::CancelReason;
use crate::text::cut;
use crate::{DomainContext, Events, SessionChainId, SessionEvent};

impl AgentSession {
    /// Records a warning; allowed only while Running (S0 8.4 `RecordContextNearingLimit`).
    pub(crate) fn near_context_limit(&mut self, usage_percent: &str) -> Result<Events, SessionError> {
        self.check(Operation::RecordContextNearingLimit)?;
        Ok(vec![SessionEvent::ContextNearingLimit {
            usage_percent: cut(usage_percent, 20),
            model_context_limit: self.metrics().context_window.map(|w| w.model_context_limit),
        }])
    }

    /// Running → `ContextExhausted` (S0 8.4 `RecordContextExhausted`).
    pub(crate) fn exhaust_context(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        let chain_id = self.leave_for_good(Operation::RecordContextExhausted, ctx)?;
        Ok(vec![SessionEvent::ContextExhausted { chain_id }])
    }

    /// Running → `ContextExhausted` (S0 8.4 `RecordVoluntaryHandoff`).
    pub(crate) fn hand_over(
        &mut self,
        reason: &str,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let chain_id = self.leave_for_good(Operation::RecordVoluntaryHandoff, ctx)?;
        Ok(vec![SessionEvent::VoluntaryHandoff { reason: cut(reason, 1000), chain_id }])
    }

    /// Enters `ContextExhausted` and prepares the session for its continuation. Returns the chain that it belonged to before.
    fn leave_for_good(
        &mut self,
        operation: Operation,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Option<SessionChainId>, SessionError> {
        let document_awaited_until = self.document_time(ctx);
        self.transition(operation, State::ContextExhausted { document_awaited_until })?;
        self.count_held_turn(ctx);
        // S0 sets `CompletedAt` only for Completed, Failed and Cancelled: the work continues in another session.
        self.delivery.end_turns();
        self.forget_answers();
        self.record_review_cancelled(CancelReason::SessionEnded, ctx.now);
        self.cancel_accepted = false;
        self.configuration.drop_reload();
        self.updated_at = ctx.now;
        if self.consolidates().is_some() {
            // A consolidation that does not fit one context is given up; it has no continuation.
            return Ok(self.chain_id());
        }
        Ok(self.chain.begin_chain(|| ctx.chain_id()))
    }
}
