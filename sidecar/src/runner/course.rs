//! The state of the loop, without I/O: what is told, what is kept, and when it ends.
//!
//! Outside there is one turn; inside, the agent takes as many as it is given iterations. Their ids are translated both ways.

use pilothouse_domain::value::{SessionOutcome, SessionOutput};
use pilothouse_domain::{CommandId, MessageId, Timestamp, TurnId};

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

    /// The agent was sent its next instruction.
    pub fn sent(&mut self, command: CommandId, message: MessageId) {
        if let Some(turn) = &mut self.turn {
            turn.next = Next::Sent(command, message);
        }
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use SessionOutcome::{BudgetExceeded, Completed, ExecutionError, MaxIterations, QuotaExceeded};

    fn turn(n: u32) -> TurnId {
        TurnId::parse(format!("turn-{n}")).unwrap()
    }

    fn ids(n: u128) -> (CommandId, MessageId) {
        (CommandId::new(Uuid::from_u128(n)), MessageId::new(Uuid::from_u128(n)))
    }

    /// A loop of at most three iterations, in its first one.
    fn begun() -> Course {
        let mut course = Course::default();
        course.set_max_iterations(Some(3));
        assert!(course.started(&turn(1), None));
        course
    }

    fn over(outcome: SessionOutcome) -> Ended {
        Ended::Over(turn(1), None, outcome)
    }

    /// From the end of iteration `n` into the next one.
    fn next(course: &mut Course, n: u32) {
        assert_eq!(course.ended(turn(n), None, Completed, false), Ended::GoOn);
        let (command, message) = ids(n.into());
        course.sent(command, message);
        assert!(!course.started(&turn(n + 1), Some(message)), "it goes on within the turn that was told");
    }

    #[test]
    fn a_session_that_does_not_ask_for_it_is_told_as_it_is() {
        let mut course = Course::default();
        assert!(course.started(&turn(1), None) && course.started(&turn(2), None));
        assert_eq!(course.ended(turn(2), None, Completed, false), Ended::Over(turn(2), None, Completed));
        assert_eq!(course.expected(Some(turn(2))), Some(turn(2)));
    }

    #[test]
    fn it_goes_on_until_all_are_settled_as_one_turn() {
        let mut course = begun();
        next(&mut course, 1);
        assert_eq!(course.told_as(turn(2)), turn(1));
        assert_eq!(course.expected(Some(turn(1))), Some(turn(2)));
        assert_eq!(course.iterations(), (2, 3));
        assert_eq!(course.ended(turn(2), None, Completed, true), over(Completed));
        assert!(course.started(&turn(3), None), "the next turn is one of its own");
        assert_eq!(course.iterations(), (1, 3));
    }

    #[test]
    fn it_ends_at_the_most_iterations() {
        let mut course = begun();
        next(&mut course, 1);
        next(&mut course, 2);
        assert_eq!(course.ended(turn(3), None, Completed, false), over(MaxIterations));
        let mut course = begun();
        next(&mut course, 1);
        next(&mut course, 2);
        assert_eq!(course.ended(turn(3), None, Completed, true), over(Completed), "all are settled at last");
    }

    #[test]
    fn another_outcome_of_an_iteration_is_that_of_the_turn() {
        for outcome in [MaxIterations, ExecutionError, BudgetExceeded, QuotaExceeded] {
            let mut course = begun();
            next(&mut course, 1);
            assert_eq!(course.ended(turn(2), None, outcome, false), over(outcome));
        }
    }

    #[test]
    fn a_quota_with_a_reset_is_waited_for_and_the_turn_goes_on_then() {
        let at = Timestamp::from_millis(1_000_000);
        let mut course = begun();
        course.quota_exceeded(Some(at));
        assert_eq!(course.ended(turn(1), None, QuotaExceeded, false), Ended::Hold);
        assert_eq!(course.due(), Some(at));
        course.pause();
        assert_eq!(course.due(), None, "while it is paused, no time comes");
        assert!(!course.take_held());
        course.resume();
        assert!(course.take_held());
        assert!(!course.take_held(), "once");
    }

    #[test]
    fn a_quota_without_a_reset_is_waited_for_where_somebody_resumes_it() {
        let mut course = begun();
        course.quota_exceeded(None);
        assert_eq!(course.ended(turn(1), None, QuotaExceeded, false), over(QuotaExceeded));
        let mut course = Course { can_pause: true, ..begun() };
        course.quota_exceeded(None);
        assert_eq!(course.ended(turn(1), None, QuotaExceeded, false), Ended::Hold);
        assert_eq!(course.due(), None);
        course.pause();
        course.resume();
        assert!(course.take_held());
        let mut course = Course { can_pause: true, ..begun() };
        assert_eq!(
            course.ended(turn(1), None, QuotaExceeded, false),
            over(QuotaExceeded),
            "nobody was told of it"
        );
    }

    #[test]
    fn nothing_is_sent_while_it_is_paused() {
        let mut course = begun();
        course.pause();
        assert_eq!(course.ended(turn(1), None, Completed, false), Ended::Hold);
        assert_eq!(course.due(), None);
        course.resume();
        assert!(course.take_held());
    }

    #[test]
    fn an_interrupt_ends_the_loop_wherever_it_is() {
        // Within an iteration.
        let mut course = begun();
        course.interrupt();
        assert_eq!(course.ended(turn(1), None, Completed, false), over(Completed), "it had just ended");
        let mut course = begun();
        course.interrupt();
        assert!(course.started(&turn(9), None), "what comes then is a turn of its own");
        // Between two, the instruction held.
        let mut course = begun();
        course.pause();
        course.ended(turn(1), None, Completed, false);
        course.interrupt();
        assert!(!course.take_held());
        assert!(course.started(&turn(9), None));
        // Between two, the instruction sent: that iteration begins only to be interrupted.
        let mut course = begun();
        course.ended(turn(1), None, Completed, false);
        let (command, message) = ids(1);
        course.sent(command, message);
        course.interrupt();
        assert!(!course.started(&turn(2), Some(message)));
        assert!(course.started(&turn(9), None));
    }

    #[test]
    fn an_instruction_that_is_lost_ends_the_turn() {
        let mut course = begun();
        course.ended(turn(1), None, Completed, false);
        let (command, message) = ids(1);
        course.sent(command, message);
        assert_eq!(course.lost(ids(2).0), None, "another one");
        assert_eq!(course.lost(command), Some(over(Completed)));
        assert_eq!(course.lost(command), None);
    }

    #[test]
    fn a_message_of_the_owner_between_two_iterations_goes_first() {
        let mut course = begun();
        course.ended(turn(1), None, Completed, false);
        let (command, message) = ids(1);
        course.sent(command, message);
        assert_eq!(course.expected(Some(turn(1))), None, "the turn that the owner sees runs");
        assert!(!course.started(&turn(2), Some(ids(7).1)));
        assert_eq!(
            course.ended(turn(2), None, Completed, false),
            Ended::Hold,
            "the instruction is under way"
        );
        assert!(!course.started(&turn(3), Some(message)));
        assert_eq!(course.told_as(turn(3)), turn(1));
    }

    #[test]
    fn an_agent_that_hands_its_work_on_is_not_asked_to_go_on() {
        let mut course = begun();
        course.leaving();
        assert_eq!(course.ended(turn(1), None, Completed, false), over(Completed));
    }
}
