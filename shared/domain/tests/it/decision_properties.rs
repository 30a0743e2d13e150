//! Decisions of a project under random histories, and every state with every operation (decision 77).
//!
//! Each decision has one final state and one winner; a call is allowed at most once for each approval, and never after the decision is
//! over otherwise; a grant is used at most once and never after the end; a request that waits under a policy with a timeout has a deadline.

use std::collections::BTreeSet;

use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::decision::{DecisionState, DecisionStatus as D, OnTimeout, Resolution};
use pilothouse_domain::effect::{ActionKind, Severity};
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand as C, ProcessState};
use pilothouse_domain::tick::{TickConfig, TickMode};
use pilothouse_domain::value::input_hash;
use pilothouse_domain::{CommandId, DecisionId, RunId, SessionEvent};
use proptest::prelude::*;
use serde_json::json;

use crate::inbox::Inbox;
use crate::scenario::{Scenario, call, can_all, starts};
use crate::scenarios::decision_timeouts::{in_project, permission, policy, under, wall_clock};
use crate::scenarios::grants::approve;

#[derive(Debug, Clone, Copy)]
enum Op {
    Ask {
        harmless: bool,
        on_timeout: OnTimeout,
    },
    Approve,
    Modify,
    Reject,
    /// Time passes, and deadlines are processed.
    Wait(u8),
    /// Ticks are advanced by hand, after a change of the mode if necessary.
    Advance(u8),
    WallClock,
    Hold(u8, bool),
    Release(u8),
    /// The process ends: hibernation or a crash.
    Die(bool),
    /// The sidecar of the next run is ready, and a turn starts.
    Wake,
    /// The sidecar received the latest answer. Repeated, it is a redelivery.
    Acknowledge,
    /// The sidecar refuses the latest answer.
    Refuse,
    /// The call that asked returns.
    Return,
    /// The agent repeats its call.
    Repeat,
    Interrupt,
    Kill,
}

fn op() -> impl Strategy<Value = Op> {
    let on_timeout = prop_oneof![
        Just(OnTimeout::AutoRecommend),
        Just(OnTimeout::Escalate),
        Just(OnTimeout::Cancel),
        Just(OnTimeout::Extend),
    ];
    prop_oneof![
        4 => (any::<bool>(), on_timeout).prop_map(|(harmless, on_timeout)| Op::Ask { harmless, on_timeout }),
        3 => Just(Op::Approve),
        1 => Just(Op::Modify),
        1 => Just(Op::Reject),
        3 => (1_u8..30).prop_map(Op::Wait),
        2 => (1_u8..30).prop_map(Op::Advance),
        1 => Just(Op::WallClock),
        2 => (1_u8..3, any::<bool>()).prop_map(|(n, kill)| Op::Hold(n, kill)),
        3 => (1_u8..3).prop_map(Op::Release),
        2 => any::<bool>().prop_map(Op::Die),
        3 => Just(Op::Wake),
        2 => Just(Op::Acknowledge),
        1 => Just(Op::Refuse),
        2 => Just(Op::Return),
        4 => Just(Op::Repeat),
        1 => Just(Op::Interrupt),
        1 => Just(Op::Kill),
    ]
}

/// A session of a project with what its store, its sidecar and its agent know.
struct World {
    scenario: Scenario,
    inbox: Inbox,
    answer: Option<CommandId>,
    granted: BTreeSet<DecisionId>,
    is_manual: bool,
    asked_in: BTreeSet<Option<RunId>>,
}

impl World {
    fn new() -> Self {
        let scenario = in_project(wall_clock());
        Self {
            scenario,
            inbox: Inbox::default(),
            answer: None,
            granted: BTreeSet::new(),
            is_manual: false,
            asked_in: BTreeSet::new(),
        }
    }

    fn step(&mut self, op: Op) {
        let scenario = &mut self.scenario;
        scenario.last.clear();
        // A refusal changes nothing.
        let _ = match op {
            Op::Ask { harmless, on_timeout } => {
                // An agent does not use the id of a call twice in a run.
                let run = scenario.conv.session.run().map(|run| run.id);
                if scenario.conv.session.is_live() && self.asked_in.insert(run) {
                    let kind = if harmless { ActionKind::Update } else { ActionKind::Delete };
                    *scenario = under(scenario.clone(), policy(on_timeout), permission(kind, Severity::Low));
                }
                Ok(())
            }
            Op::Approve => approve(scenario, None),
            Op::Modify => approve(scenario, Some(json!({ "command": "ls" }))),
            Op::Reject => crate::scenarios::grants::deny(scenario, "keep it"),
            Op::Wait(seconds) => scenario.clock_with_heartbeats(u64::from(seconds)),
            Op::Advance(ticks) => {
                self.is_manual = true;
                scenario.tick(|clock, now| {
                    clock.configure(TickConfig { mode: TickMode::Manual, ..wall_clock() }, now).unwrap();
                    clock.advance(u64::from(ticks)).unwrap();
                })
            }
            Op::WallClock => {
                self.is_manual = false;
                scenario.tick(|clock, now| {
                    clock.configure(wall_clock(), now).unwrap();
                })
            }
            Op::Hold(n, kill)
                if !scenario.brakes.iter().any(|brake| brake.id() == crate::scenario::brake(n)) =>
            {
                scenario.pull(n, if kill { BrakeBehavior::Kill } else { BrakeBehavior::Pause })
            }
            Op::Hold(..) => Ok(()),
            Op::Release(n) => scenario.release_brake(n),
            Op::Die(drained) => scenario.die(drained),
            Op::Wake => {
                if scenario.conv.session.run().is_some() {
                    scenario.observe(AgentFact::SidecarReady(can_all()));
                    scenario.observe(starts("t9"));
                }
                Ok(())
            }
            Op::Acknowledge => {
                if let Some(command) = self.answer {
                    scenario.observe(AgentFact::CommandReceived(command));
                    scenario.observe(AgentFact::CommandDone(C::Answer, command));
                }
                Ok(())
            }
            Op::Refuse => {
                if let Some(command) = self.answer {
                    let (code, message) = ("invalid".to_owned(), "not waiting".to_owned());
                    scenario.observe(AgentFact::CommandRefused { command, code, message });
                }
                Ok(())
            }
            Op::Return => {
                if scenario.conv.session.run().is_some() {
                    let ended = AgentFact::ToolEnded { call: call("q1"), is_error: false, subagent: None };
                    scenario.observe(ended);
                }
                Ok(())
            }
            Op::Repeat => {
                self.repeat();
                Ok(())
            }
            Op::Interrupt => scenario.interrupt(),
            Op::Kill => scenario.cancel(),
        };
        self.check();
    }

    fn repeat(&mut self) {
        let session = &mut self.scenario.conv.session;
        for input in [json!({}), json!({ "command": "ls" })] {
            let Some((decision, events)) = session.use_grant("Bash", &input_hash(&input), &call("q2")) else {
                continue;
            };
            assert!(!session.status().is_terminal() && !session.is_held(), "an execution after the end");
            assert!(self.granted.insert(decision), "a grant was used twice");
            let state = self.inbox.with_id(decision).state.clone();
            let ruling = state.ruling().expect("a person or a policy approved it");
            assert!(matches!(ruling.resolution, Resolution::Approve { .. } | Resolution::Modify { .. }));
            assert!(matches!(state.status(), D::Resolved | D::AutoResolved), "{state:?}");
            self.scenario.last.extend(events);
        }
    }

    fn check(&mut self) {
        let session = &self.scenario.conv.session;
        // Checks that each decision has one final state.
        self.inbox.follow(session);
        for event in &self.scenario.last {
            if let SessionEvent::InputReceived { command: Some(command), .. } = event {
                self.answer = Some(command.command_id);
            }
        }
        let waits = session.status().is_waiting() && !session.is_held();
        for request in session.pending_requests().iter().filter(|_| waits) {
            let has_due_tick = request.timeout.as_ref().is_some_and(|timeout| timeout.due_tick.is_some());
            let deadline = request.expires_at.is_some() || (self.is_manual && has_due_tick);
            assert!(deadline, "a request without a deadline: {request:?}");
        }
        let stored = serde_json::to_value(session).unwrap();
        self.scenario.conv.session = serde_json::from_value(stored).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_give_each_decision_one_end(ops in prop::collection::vec(op(), 1..40)) {
        let mut world = World::new();
        for op in ops {
            world.step(op);
        }
    }
}

/// The state of the decision after each of `ops`.
fn after(ops: &[Op]) -> D {
    let mut world = World::new();
    for op in ops {
        world.step(*op);
    }
    world.inbox.about(&call("q1")).status()
}

#[test]
fn every_state_of_a_decision_takes_every_operation() {
    use Op as O;
    let ask = |harmless, on_timeout| O::Ask { harmless, on_timeout };
    let timed = ask(true, OnTimeout::AutoRecommend);
    let states: [(D, &[Op]); 7] = [
        (D::Pending, &[timed]),
        (D::Suspended, &[timed, O::Hold(1, false)]),
        (D::Resolving, &[timed, O::Approve]),
        (D::Resolved, &[timed, O::Approve, O::Return]),
        (D::AutoResolved, &[timed, O::Wait(20), O::Return]),
        (D::Expired, &[ask(true, OnTimeout::Cancel), O::Wait(20)]),
        (D::Cancelled, &[timed, O::Return]),
    ];
    // The state after each operation: approve, reject, wait, advance, hold, release, die, return, kill.
    let ops = [
        O::Approve,
        O::Reject,
        O::Wait(20),
        O::Advance(20),
        O::Hold(1, false),
        O::Release(1),
        O::Die(true),
        O::Return,
        O::Kill,
    ];
    let reached = states.map(|(state, path)| {
        assert_eq!(after(path), state, "{path:?}");
        (state, ops.map(|op| after(&[path, &[op]].concat())))
    });
    let open = [D::Resolving, D::Resolving, D::Resolving, D::Resolving, D::Suspended, D::Pending, D::Pending];
    // A process that dies before it confirmed its pause interrupts the session.
    let held = [D::Suspended; 5].into_iter().chain([D::Pending, D::Cancelled]);
    let sent = [D::Resolving; 6].into_iter().chain([D::Resolved]);
    let row = |rest: [D; 2], first: &mut dyn Iterator<Item = D>| -> [D; 9] {
        first.chain(rest).collect::<Vec<_>>().try_into().unwrap()
    };
    let expected = [
        (D::Pending, row([D::Cancelled, D::Cancelled], &mut open.into_iter())),
        (D::Suspended, row([D::Cancelled, D::Suspended], &mut held.into_iter())),
        (D::Resolving, row([D::Resolved, D::Resolving], &mut sent.into_iter())),
        (D::Resolved, [D::Resolved; 9]),
        (D::AutoResolved, [D::AutoResolved; 9]),
        (D::Expired, [D::Expired; 9]),
        (D::Cancelled, [D::Cancelled; 9]),
    ];
    assert_eq!(reached, expected);
}

#[test]
fn the_end_of_a_killed_session_ends_its_decisions() {
    let mut world = World::new();
    world.step(Op::Ask { harmless: true, on_timeout: OnTimeout::Escalate });
    world.step(Op::Kill);
    world.scenario = world.scenario.clone().confirms(C::Stop);
    world.check();
    assert_eq!(world.scenario.conv.session.status(), S::Cancelled);
    assert!(matches!(world.inbox.about(&call("q1")).state, DecisionState::Cancelled { .. }));
    world.scenario.clock(60, ProcessState::Alive).unwrap();
    world.check();
    assert!(matches!(world.inbox.about(&call("q1")).state, DecisionState::Cancelled { .. }));
}
