//! State of the loop, without I/O: which events pass, which are withheld, and when the loop ends.
//!
//! The control plane sees one turn; the agent takes one turn for each iteration. Turn ids are translated both ways.
//!
//! | module | purpose |
//! |---|---|
//! | here | the turn that is published, and the beginning of its iterations |
//! | [`end`] | the end of an iteration |
//! | [`pending_instruction`] | the next instruction: sent, or held until it is due |

mod end;
mod pending_instruction;
#[cfg(test)]
mod tests;

use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::{CommandId, MessageId, Timestamp, TurnId};

pub use self::end::IterationOutcome;

#[derive(Debug, Default)]
pub struct RunnerState {
    max_iterations: Option<u32>,
    /// Whether the agent can be paused, and therefore is paused when its quota is exceeded.
    can_pause: bool,
    turn: Option<Turn>,
    paused: bool,
}

/// The turn that the control plane sees.
#[derive(Debug)]
struct Turn {
    id: TurnId,
    /// The agent's current turn; `None` between two of them.
    inner: Option<TurnId>,
    iteration: u32,
    /// The latest output of the agent.
    output: Option<SessionOutput>,
    next: PendingInstruction,
    /// Set while the quota is exceeded.
    quota: Option<Quota>,
    /// The agent is about to end: no iteration follows.
    leaving: bool,
    /// An interrupt is in progress: no iteration follows.
    interrupted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Quota {
    /// When the quota resets, if the runtime reported it.
    reset_at: Option<Timestamp>,
}

/// The pending step between two iterations.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PendingInstruction {
    Nothing,
    /// The next instruction was sent, and its iteration has not begun.
    Sent(CommandId, MessageId),
    /// The instruction is sent when it is due and nothing is paused.
    Held {
        until: Option<Timestamp>,
    },
}

impl RunnerState {
    /// Creates the loop. `can_pause`: the agent can be paused.
    pub fn new(can_pause: bool) -> Self {
        Self { can_pause, ..Self::default() }
    }

    /// Activates the loop with a limit. Without one, all turns of the agent are published unchanged.
    pub fn set_max_iterations(&mut self, max: Option<u32>) {
        self.max_iterations = max;
    }

    pub const fn is_active(&self) -> bool {
        self.max_iterations.is_some()
    }

    /// The number so far in the current turn, and the limit.
    pub fn iterations(&self) -> (u32, u32) {
        (self.turn.as_ref().map_or(0, |turn| turn.iteration), self.max_iterations.unwrap_or(0))
    }

    /// Handles the start of one of the agent's turns. Returns whether to publish it, which is false for an iteration
    /// within the current turn.
    pub fn started(&mut self, id: &TurnId, message: Option<MessageId>) -> bool {
        if !self.is_active() {
            return true;
        }
        if let Some(turn) = &mut self.turn {
            let awaited = matches!(turn.next, PendingInstruction::Sent(_, sent) if Some(sent) == message);
            if awaited || !turn.interrupted {
                // An owner's message can also begin an iteration. The instruction that was sent then begins a later
                // one.
                if awaited || matches!(turn.next, PendingInstruction::Held { .. }) {
                    turn.next = PendingInstruction::Nothing;
                }
                turn.inner = Some(id.clone());
                turn.iteration += 1;
                return false;
            }
        }
        self.turn = Some(Turn {
            id: id.clone(),
            inner: Some(id.clone()),
            iteration: 1,
            output: None,
            next: PendingInstruction::Nothing,
            quota: None,
            leaving: false,
            interrupted: false,
        });
        true
    }

    /// The published turn that the agent's turn `id` belongs to.
    pub fn published_id(&self, id: TurnId) -> TurnId {
        match &self.turn {
            Some(turn) if turn.inner.as_ref() == Some(&id) => turn.id.clone(),
            _ => id,
        }
    }

    /// Translates the expected turn of a message into the agent's turn. `None` between two iterations, because the
    /// published turn is still running.
    pub fn expected(&self, id: Option<TurnId>) -> Option<TurnId> {
        match (&self.turn, id) {
            (Some(turn), Some(id)) if turn.id == id && !turn.interrupted => turn.inner.clone(),
            (_, id) => id,
        }
    }
}
