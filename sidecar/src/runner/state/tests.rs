use pilothouse_domain::value::SessionOutcome;
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
fn begun() -> RunnerState {
    let mut state = RunnerState::default();
    state.set_max_iterations(Some(3));
    assert!(state.started(&turn(1), None));
    state
}

fn over(outcome: SessionOutcome) -> IterationOutcome {
    IterationOutcome::TurnEnded(turn(1), None, outcome)
}

/// Ends iteration `n` and begins the next one.
fn next(state: &mut RunnerState, n: u32) {
    assert_eq!(state.ended(turn(n), None, Completed, false), IterationOutcome::Continue);
    let (command, message) = ids(n.into());
    state.sent(command, message);
    assert!(!state.started(&turn(n + 1), Some(message)), "it continues within the published turn");
}

#[test]
fn turns_are_reported_unchanged_without_the_loop() {
    let mut state = RunnerState::default();
    assert!(state.started(&turn(1), None) && state.started(&turn(2), None));
    assert_eq!(
        state.ended(turn(2), None, Completed, false),
        IterationOutcome::TurnEnded(turn(2), None, Completed)
    );
    assert_eq!(state.expected(Some(turn(2))), Some(turn(2)));
}

#[test]
fn loop_runs_as_one_turn_until_all_are_settled() {
    let mut state = begun();
    next(&mut state, 1);
    assert_eq!(state.published_id(turn(2)), turn(1));
    assert_eq!(state.expected(Some(turn(1))), Some(turn(2)));
    assert_eq!(state.iterations(), (2, 3));
    assert_eq!(state.ended(turn(2), None, Completed, true), over(Completed));
    assert!(state.started(&turn(3), None), "the next turn is a separate one");
    assert_eq!(state.iterations(), (1, 3));
}

#[test]
fn loop_ends_at_the_iteration_limit() {
    let mut state = begun();
    next(&mut state, 1);
    next(&mut state, 2);
    assert_eq!(state.ended(turn(3), None, Completed, false), over(MaxIterations));
    let mut state = begun();
    next(&mut state, 1);
    next(&mut state, 2);
    assert_eq!(state.ended(turn(3), None, Completed, true), over(Completed), "all are settled at last");
}

#[test]
fn failed_iteration_determines_the_outcome_of_the_turn() {
    for outcome in [MaxIterations, ExecutionError, BudgetExceeded, QuotaExceeded] {
        let mut state = begun();
        next(&mut state, 1);
        assert_eq!(state.ended(turn(2), None, outcome, false), over(outcome));
    }
}

#[test]
fn turn_waits_for_a_quota_reset_and_continues() {
    let at = Timestamp::from_millis(1_000_000);
    let mut state = begun();
    state.quota_exceeded(Some(at));
    assert_eq!(state.ended(turn(1), None, QuotaExceeded, false), IterationOutcome::Wait);
    assert_eq!(state.due(), Some(at));
    state.pause();
    assert_eq!(state.due(), None, "while it is paused, no time comes");
    assert!(!state.take_held());
    state.resume();
    assert!(state.take_held());
    assert!(!state.take_held(), "once");
}

#[test]
fn quota_without_a_reset_waits_for_a_resume() {
    let mut state = begun();
    state.quota_exceeded(None);
    assert_eq!(state.ended(turn(1), None, QuotaExceeded, false), over(QuotaExceeded));
    let mut state = RunnerState { can_pause: true, ..begun() };
    state.quota_exceeded(None);
    assert_eq!(state.ended(turn(1), None, QuotaExceeded, false), IterationOutcome::Wait);
    assert_eq!(state.due(), None);
    state.pause();
    state.resume();
    assert!(state.take_held());
    let mut state = RunnerState { can_pause: true, ..begun() };
    assert_eq!(state.ended(turn(1), None, QuotaExceeded, false), over(QuotaExceeded), "it was not published");
}

#[test]
fn nothing_is_sent_while_paused() {
    let mut state = begun();
    state.pause();
    assert_eq!(state.ended(turn(1), None, Completed, false), IterationOutcome::Wait);
    assert_eq!(state.due(), None);
    state.resume();
    assert!(state.take_held());
}

#[test]
fn interrupt_ends_the_loop_in_every_state() {
    // Within an iteration.
    let mut state = begun();
    state.interrupt();
    assert_eq!(state.ended(turn(1), None, Completed, false), over(Completed), "it had just ended");
    let mut state = begun();
    state.interrupt();
    assert!(state.started(&turn(9), None), "it is a separate turn");
    // Between two iterations, with the instruction held.
    let mut state = begun();
    state.pause();
    state.ended(turn(1), None, Completed, false);
    state.interrupt();
    assert!(!state.take_held());
    assert!(state.started(&turn(9), None));
    // Between two iterations, with the instruction sent: the iteration begins and is interrupted.
    let mut state = begun();
    state.ended(turn(1), None, Completed, false);
    let (command, message) = ids(1);
    state.sent(command, message);
    state.interrupt();
    assert!(!state.started(&turn(2), Some(message)));
    assert!(state.started(&turn(9), None));
}

#[test]
fn lost_instruction_ends_the_turn() {
    let mut state = begun();
    state.ended(turn(1), None, Completed, false);
    let (command, message) = ids(1);
    state.sent(command, message);
    assert_eq!(state.lost(ids(2).0), None, "another one");
    assert_eq!(state.lost(command), Some(over(Completed)));
    assert_eq!(state.lost(command), None);
}

#[test]
fn owner_message_between_iterations_takes_precedence() {
    let mut state = begun();
    state.ended(turn(1), None, Completed, false);
    let (command, message) = ids(1);
    state.sent(command, message);
    assert_eq!(state.expected(Some(turn(1))), None, "the turn that the owner sees runs");
    assert!(!state.started(&turn(2), Some(ids(7).1)));
    assert_eq!(
        state.ended(turn(2), None, Completed, false),
        IterationOutcome::Wait,
        "the instruction is under way"
    );
    assert!(!state.started(&turn(3), Some(message)));
    assert_eq!(state.published_id(turn(3)), turn(1));
}

#[test]
fn agent_that_hands_off_is_not_asked_to_continue() {
    let mut state = begun();
    state.leaving();
    assert_eq!(state.ended(turn(1), None, Completed, false), over(Completed));
}
