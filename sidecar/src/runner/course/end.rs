//! What becomes of the end of an iteration: the turn is over, or another one follows.

use pilothouse_domain::value::{SessionOutcome, SessionOutput};
use pilothouse_domain::{CommandId, Timestamp, TurnId};

use super::{Course, Next, Quota};

/// What becomes of the end of an iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The turn is over, with this outcome.
    Over(TurnId, Option<SessionOutput>, SessionOutcome),
    /// Another iteration follows: the agent is to be sent its instruction now.
    GoOn,
    /// Another iteration follows later.
    Hold,
}

impl Course {
    /// The agent ended a turn. `settled`: whether no deliverable is open.
    pub fn ended(
        &mut self,
        id: TurnId,
        output: Option<SessionOutput>,
        outcome: SessionOutcome,
        settled: bool,
    ) -> Ended {
        let (max, can_pause) = (self.max_iterations, self.can_pause);
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.inner.as_ref() == Some(&id)) else {
            return Ended::Over(id, output, outcome);
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
            // Somebody has to say when it goes on: the runtime did, or the session is paused, and resumed.
            SessionOutcome::QuotaExceeded
                if !stays && turn.quota.is_some_and(|quota| quota.reset_at.is_some() || can_pause) =>
            {
                None
            }
            outcome => Some(outcome),
        };
        if let Some(outcome) = over {
            return self.over(outcome).unwrap_or(Ended::Hold);
        }
        let quota = turn.quota.take();
        if matches!(turn.next, Next::Sent(..)) {
            // The owner's message came first; the instruction that was sent is the next iteration.
            return Ended::Hold;
        }
        if self.paused || (quota.is_some() && outcome == SessionOutcome::QuotaExceeded) {
            turn.next = Next::Held { until: quota.and_then(|quota| quota.reset_at) };
            return Ended::Hold;
        }
        Ended::GoOn
    }

    /// Ends the turn that runs.
    fn over(&mut self, outcome: SessionOutcome) -> Option<Ended> {
        self.turn.take().map(|turn| Ended::Over(turn.id, turn.output, outcome))
    }

    /// The instruction of a command was lost: the agent refused it. What is told then.
    pub fn lost(&mut self, command: CommandId) -> Option<Ended> {
        let turn = self.turn.as_mut()?;
        if !matches!(turn.next, Next::Sent(sent, _) if sent == command) {
            return None;
        }
        turn.next = Next::Nothing;
        // Within a turn, its end decides; after an interrupt, nothing is open any more.
        if turn.inner.is_some() {
            return None;
        }
        if turn.interrupted {
            self.turn = None;
            return None;
        }
        self.over(SessionOutcome::Completed)
    }

    /// The plan that pays is used up until then.
    pub fn quota_exceeded(&mut self, reset_at: Option<Timestamp>) {
        if let Some(turn) = &mut self.turn {
            turn.quota = Some(Quota { reset_at });
        }
    }

    /// The agent hands its work on, or its conversation is full: no iteration follows.
    pub fn leaving(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.leaving = true;
        }
    }

    /// The agent's conversation is over.
    pub fn over_and_out(&mut self) {
        self.turn = None;
    }
}
