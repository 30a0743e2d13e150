//! The run's allowance (decision 32). Once it is spent, the adapter holds the agent, in addition to the pause from the
//! control plane.

use pilothouse_domain::Usd;

use super::connection::Inbound;
use super::driver::Driver;
use crate::adapter::Reply;
use crate::kit::allowance::exceeded;
use crate::kit::turns::DriverExit;

impl Driver {
    /// The rest of the allowance: by reported spend, and with the estimate for later calls deducted.
    fn left(&self) -> Option<(Usd, Usd)> {
        let meter = &self.translator.meter;
        let left = self.spending.allowance.left(meter.spent())?;
        Some((left, left.excess_over(meter.estimate())))
    }

    /// Zero if no call is known to follow.
    fn next_call(&self) -> Usd {
        let follows = self.translator.calls.any_open() || !self.deferred_requests.is_empty();
        self.translator.meter.next_call(follows)
    }

    /// Whether the allowance is spent, or does not cover the model call that follows.
    fn is_spent(&self) -> bool {
        self.turn.is_some() && self.left().is_some_and(|(_, left)| left.is_zero() || left < self.next_call())
    }

    /// Also stops a running tool, because its result would begin a model call.
    pub(super) async fn hold_when_spent(&mut self) -> Result<(), DriverExit> {
        if self.spending.held || !self.is_spent() {
            return Ok(());
        }
        self.hold().await
    }

    async fn hold(&mut self) -> Result<(), DriverExit> {
        if std::mem::replace(&mut self.spending.held, true) {
            return Ok(());
        }
        self.suspend();
        let estimate = self.translator.meter.estimate() + self.next_call();
        let left = self.left().map_or(Usd::ZERO, |(left, _)| left);
        let needed = Some(estimate).filter(|estimate| !estimate.is_zero());
        Ok(self.events.emit(exceeded(needed, left)).await?)
    }

    /// Defers a request of a held agent, so that no further tool starts.
    pub(super) async fn defer_when_spent(&mut self, inbound: Inbound) -> Result<Option<Inbound>, DriverExit> {
        if !matches!(inbound, Inbound::Request(..)) {
            return Ok(Some(inbound));
        }
        if self.turn.is_some() {
            // Some agents request permission for a call before they announce it.
            self.translator.meter.model_answers();
        }
        // The response would lead to another model call.
        self.deferred_requests.push_back(inbound);
        if !self.is_spent() {
            return Ok(self.deferred_requests.pop_back());
        }
        self.hold().await?;
        Ok(None)
    }

    /// Holds an agent of unknown spend before its first prompt: the control plane pauses the session, and resumes it
    /// with the owner's permission.
    pub(super) fn hold_when_unmetered(&mut self) {
        if self.published_capabilities.unmetered && !self.spending.allow_unmetered {
            self.spending.held = true;
            self.suspend();
        }
    }

    pub(super) async fn set_allowance(
        &mut self,
        allowance_usd: Option<String>,
        reply: Reply,
    ) -> Result<(), DriverExit> {
        if let Err(invalid) = self.spending.allowance.set(allowance_usd.as_deref()) {
            return Ok(reply.refuse(invalid.refusal()).await?);
        }
        reply.done().await?;
        let unmetered = self.published_capabilities.unmetered && !self.spending.allow_unmetered;
        if self.spending.held && !self.is_spent() && !unmetered {
            self.spending.held = false;
            if !self.spending.paused {
                self.resume_agent();
            }
        }
        Ok(())
    }
}
