//! Handles the end of an iteration: either the turn ends, or another iteration begins.

use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::value::SessionOutcome;
use pilothouse_domain::{CommandId, Timestamp, TurnId};

use super::{PendingInstruction, Quota, RunnerState};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IterationOutcome {
    TurnEnded(TurnId, Option<SessionOutput>, SessionOutcome),
    /// Another iteration begins now. The caller sends its instruction.
    Continue,
    /// Another iteration begins later.
    Wait,
}

impl RunnerState {
    /// Handles the end of one of the agent's turns. `settled`: no deliverable is open.
    pub fn ended(
        &mut self,
        id: TurnId,
        output: Option<SessionOutput>,
        outcome: SessionOutcome,
        settled: bool,
    ) -> IterationOutcome {
        let (max, can_pause) = (self.max_iterations, self.can_pause);
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.inner.as_ref() == Some(&id)) else {
            return IterationOutcome::TurnEnded(id, output, outcome);
        };
        turn.output = output.or(turn.output.take());
        turn.inner = None;
        let stays = turn.leaving || turn.interrupted || max.is_none();
        let over = match outcome {
            SessionOutcome::Completed if settled || stays => Some(SessionOutcome::Completed),
            SessionOutcome::Completed if turn.iteration >= max.unwrap_or(0) => {
                Some(SessionOutcome::MaxIterations)
            }
            SessionOutcome::Completed => None,
            // Continuing later needs a trigger: the reported reset time, or the resume after a pause.
            SessionOutcome::QuotaExceeded
                if !stays && turn.quota.is_some_and(|quota| quota.reset_at.is_some() || can_pause) =>
            {
                None
            }
            outcome => Some(outcome),
        };
        if let Some(outcome) = over {
            return self.over(outcome).unwrap_or(IterationOutcome::Wait);
        }
        let quota = turn.quota.take();
        if matches!(turn.next, PendingInstruction::Sent(..)) {
            // The owner's message came first. The instruction that was sent begins the next iteration.
            return IterationOutcome::Wait;
        }
        if self.paused || (quota.is_some() && outcome == SessionOutcome::QuotaExceeded) {
            turn.next = PendingInstruction::Held { until: quota.and_then(|quota| quota.reset_at) };
            return IterationOutcome::Wait;
        }
        IterationOutcome::Continue
    }

    fn over(&mut self, outcome: SessionOutcome) -> Option<IterationOutcome> {
        self.turn.take().map(|turn| IterationOutcome::TurnEnded(turn.id, turn.output, outcome))
    }

    /// Handles an instruction that the agent refused. Returns the end of the turn, if any.
    pub fn lost(&mut self, command: CommandId) -> Option<IterationOutcome> {
        let turn = self.turn.as_mut()?;
        if !matches!(turn.next, PendingInstruction::Sent(sent, _) if sent == command) {
            return None;
        }
        turn.next = PendingInstruction::Nothing;
        // Within an iteration, its end decides. After an interrupt, no turn is open.
        if turn.inner.is_some() {
            return None;
        }
        if turn.interrupted {
            self.turn = None;
            return None;
        }
        self.over(SessionOutcome::Completed)
    }

    /// Records that the quota is exceeded until then.
    pub fn quota_exceeded(&mut self, reset_at: Option<Timestamp>) {
        if let Some(turn) = &mut self.turn {
            turn.quota = Some(Quota { reset_at });
        }
    }

    /// Records that the agent hands off its work or its context is full: no iteration follows.
    pub fn leaving(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.leaving = true;
        }
    }

    /// Records the end of the agent's conversation.
    pub fn conversation_ended(&mut self) {
        self.turn = None;
    }
}
