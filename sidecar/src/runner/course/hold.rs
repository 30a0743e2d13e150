//! The next instruction: sent, or held until its time has come and nothing is paused.

use pilothouse_domain::{CommandId, MessageId, Timestamp};

use super::{Course, Next};

impl Course {
    /// The agent was sent its next instruction.
    pub fn sent(&mut self, command: CommandId, message: MessageId) {
        if let Some(turn) = &mut self.turn {
            turn.next = Next::Sent(command, message);
        }
    }

    /// When the next instruction is due; none: when somebody says so, or never.
    pub fn due(&self) -> Option<Timestamp> {
        match self.turn.as_ref().map(|turn| &turn.next) {
            Some(Next::Held { until }) if !self.paused => *until,
            _ => None,
        }
    }

    /// Whether an instruction was held back, and may go now. It counts as sent to nobody until [`Self::sent`].
    pub fn take_held(&mut self) -> bool {
        match &mut self.turn {
            Some(turn) if !self.paused && matches!(turn.next, Next::Held { .. }) => {
                turn.next = Next::Nothing;
                true
            }
            _ => false,
        }
    }

    /// The agent is to be suspended.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// It is to go on. An instruction that was held goes with it, whatever it was held for.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Its turn is to end without an end that is told.
    pub fn interrupt(&mut self) {
        self.paused = false;
        let Some(turn) = &mut self.turn else { return };
        turn.interrupted = true;
        if turn.inner.is_none() && !matches!(turn.next, Next::Sent(..)) {
            self.turn = None;
        }
    }
}
