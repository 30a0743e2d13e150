//! The state of the loop, without I/O: what is told, what is kept, and when it ends.
//!
//! Outside there is one turn; inside, the agent takes as many as it is given iterations. Their ids are translated both ways.
//!
//! | module | what it is |
//! |---|---|
//! | here | the turn that is told, and how its iterations begin in it |
//! | [`end`] | what becomes of an iteration's end |
//! | [`hold`] | the next instruction: sent, or held until its time |

mod end;
mod hold;
#[cfg(test)]
mod tests;

use pilothouse_domain::value::SessionOutput;
use pilothouse_domain::{CommandId, MessageId, Timestamp, TurnId};

pub use self::end::Ended;

/// The loop of one agent.
#[derive(Debug, Default)]
pub struct Course {
    max_iterations: Option<u32>,
    /// Whether the agent can be paused, and so is when its plan is used up.
    can_pause: bool,
    turn: Option<Turn>,
    paused: bool,
}

/// The turn as it is told.
#[derive(Debug)]
struct Turn {
    id: TurnId,
    /// The agent's own turn that runs now; none between two of them.
    inner: Option<TurnId>,
    iteration: u32,
    /// The last output that the agent gave.
    output: Option<SessionOutput>,
    next: Next,
    /// The plan that pays is used up.
    quota: Option<Quota>,
    /// The agent is on its way out: no iteration follows.
    leaving: bool,
    /// An interrupt is under way: nothing follows by itself.
    interrupted: bool,
}

/// How long the plan that pays is used up.
#[derive(Debug, Clone, Copy)]
struct Quota {
    /// Until when, where the runtime said.
    reset_at: Option<Timestamp>,
}

/// What follows between two iterations.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    Nothing,
    /// The agent was sent its next instruction, and has not begun.
    Sent(CommandId, MessageId),
    /// It is sent when the time has come and nothing is paused.
    Held {
        until: Option<Timestamp>,
    },
}

impl Course {
    /// The loop of an agent that can be paused, or cannot.
    pub fn new(can_pause: bool) -> Self {
        Self { can_pause, ..Self::default() }
    }

    /// Goes on from here as a session asks for it; none: each turn is told as it is.
    pub fn set_max_iterations(&mut self, max: Option<u32>) {
        self.max_iterations = max;
    }

    /// Whether a session asks for it.
    pub const fn is_active(&self) -> bool {
        self.max_iterations.is_some()
    }

    /// Iterations of the turn that runs, and the most that it may have.
    pub fn iterations(&self) -> (u32, u32) {
        (self.turn.as_ref().map_or(0, |turn| turn.iteration), self.max_iterations.unwrap_or(0))
    }

    /// The agent began a turn. Whether that is told: it is not when the turn that runs goes on with it.
    pub fn started(&mut self, id: &TurnId, message: Option<MessageId>) -> bool {
        if !self.is_active() {
            return true;
        }
        if let Some(turn) = &mut self.turn {
            let awaited = matches!(turn.next, Next::Sent(_, sent) if Some(sent) == message);
            if awaited || !turn.interrupted {
                // A message of the owner can begin an iteration, too; then an instruction that was sent is yet to come.
                if awaited || matches!(turn.next, Next::Held { .. }) {
                    turn.next = Next::Nothing;
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
            next: Next::Nothing,
            quota: None,
            leaving: false,
            interrupted: false,
        });
        true
    }

    /// The turn by which something of the agent's turn `id` is told.
    pub fn told_as(&self, id: TurnId) -> TurnId {
        match &self.turn {
            Some(turn) if turn.inner.as_ref() == Some(&id) => turn.id.clone(),
            _ => id,
        }
    }

    /// What the agent calls the turn that a message expects. Between two of its turns it expects none: the turn that the
    /// sender sees still runs.
    pub fn expected(&self, id: Option<TurnId>) -> Option<TurnId> {
        match (&self.turn, id) {
            (Some(turn), Some(id)) if turn.id == id && !turn.interrupted => turn.inner.clone(),
            (_, id) => id,
        }
    }
}
