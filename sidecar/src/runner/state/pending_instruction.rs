//! The next instruction: sent, or held until it is due and nothing is paused.

use pilothouse_domain::{CommandId, MessageId, Timestamp};

use super::{PendingInstruction, RunnerState};

impl RunnerState {
    /// Records that the next instruction was sent.
    pub fn sent(&mut self, command: CommandId, message: MessageId) {
        if let Some(turn) = &mut self.turn {
            turn.next = PendingInstruction::Sent(command, message);
        }
    }

    /// `None` without a held instruction, or if it waits for a resume.
    pub fn due(&self) -> Option<Timestamp> {
        match self.turn.as_ref().map(|turn| &turn.next) {
            Some(PendingInstruction::Held { until }) if !self.paused => *until,
            _ => None,
        }
    }

    /// Takes the held instruction, if it may be sent now. The caller sends it and calls [`Self::sent`].
    pub fn take_held(&mut self) -> bool {
        match &mut self.turn {
            Some(turn) if !self.paused && matches!(turn.next, PendingInstruction::Held { .. }) => {
                turn.next = PendingInstruction::Nothing;
                true
            }
            _ => false,
        }
    }

    /// Records that the agent is being paused.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Records that the agent is being resumed, which also sends a held instruction.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Records an interrupt: the agent's turn ends without `turn_completed`.
    pub fn interrupt(&mut self) {
        self.paused = false;
        let Some(turn) = &mut self.turn else { return };
        turn.interrupted = true;
        if turn.inner.is_none() && !matches!(turn.next, PendingInstruction::Sent(..)) {
            self.turn = None;
        }
    }
}
