//! The loop, step by step.

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
    assert_eq!(course.ended(turn(2), None, Completed, false), Ended::Hold, "the instruction is under way");
    assert!(!course.started(&turn(3), Some(message)));
    assert_eq!(course.told_as(turn(3)), turn(1));
}

#[test]
fn an_agent_that_hands_its_work_on_is_not_asked_to_go_on() {
    let mut course = begun();
    course.leaving();
    assert_eq!(course.ended(turn(1), None, Completed, false), over(Completed));
}
