//! What the agent asks before it goes on: it is let go, held, or given a message first (rulings 15, 29, 32).

use pilothouse_agent::governor::CallPurpose;

use super::driver::{Break, Driver};
use super::gate::Ask;

impl Driver {
    /// The agent asks whether it may go on. `again`: it was held.
    pub(super) async fn consider(&mut self, ask: Ask, again: bool) -> Result<(), Break> {
        // What it did before it asked is told before it has an answer.
        self.drain().await?;
        if ask.is_over() {
            return Ok(());
        }
        if let Ask::AfterTool(_) = ask {
            if !self.paused {
                self.steer().await?;
            }
            ask.go();
            return Ok(());
        }
        if let Ask::Model(call, _) = &ask
            && call.purpose == CallPurpose::BackgroundCompaction
        {
            // It never waits: the agent, which goes on beside it, asks again after its next turn.
            if self.paused || self.allowance.exceeded_by(call).is_some() {
                ask.stop("Not now: the conversation is summarised later.");
            } else {
                ask.go();
            }
            return Ok(());
        }
        if self.paused {
            self.asked = Some(ask);
            return self.settle_pause().await;
        }
        let turn = !matches!(&ask, Ask::Model(call, _) if call.purpose != CallPurpose::Turn);
        let now = again || matches!(ask, Ask::Model(..));
        if turn && now && self.work.is_some() && self.has_immediate() {
            // Nothing goes before it: the turn goes on with the message when the agent stands still.
            ask.stop("Not done: your owner has a message for you that goes before it.");
            return Ok(());
        }
        if let Ask::Model(call, _) = &ask
            && let Some(exceeded) = self.allowance.exceeded_by(call)
        {
            if !std::mem::replace(&mut self.over_budget, true) {
                self.events.emit(exceeded.event()).await?;
            }
            self.asked = Some(ask);
            return Ok(());
        }
        self.over_budget = false;
        ask.go();
        Ok(())
    }

    /// What holds the agent may be gone.
    pub(super) async fn reconsider(&mut self) -> Result<(), Break> {
        match self.asked.take() {
            Some(ask) => self.consider(ask, true).await,
            None => Ok(()),
        }
    }

    /// Whether nothing of the agent goes on: it is held, waits for its owner, or has nothing to do.
    pub(super) fn stands_still(&self) -> bool {
        let held = self.asked.as_ref().is_some_and(|ask| !ask.is_over());
        let waits = !self.setup.requests.waiting().is_empty();
        held || waits || (self.work.is_none() && self.compacting.is_empty())
    }

    /// Says that the pause is done, once it is (ruling 15).
    pub(super) async fn settle_pause(&mut self) -> Result<(), Break> {
        if self.paused && !self.pausing.is_empty() && self.stands_still() {
            self.drain().await?;
            for reply in std::mem::take(&mut self.pausing) {
                reply.done().await?;
            }
        }
        Ok(())
    }
}
