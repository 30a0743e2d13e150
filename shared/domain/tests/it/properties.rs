//! Random sequences of operations: whatever owner, agent, clock and runtime do, the invariants of S0 8.4 hold after each step, and
//! nothing hangs. Each step of a scenario also checks that settling twice does nothing.

use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::conversation::FactOutcome;
use pilothouse_domain::pool::Allocation;
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as C, ProcessState, RequestKind, RunCause, RunEnd,
    RunPhase, SessionSettings,
};
use pilothouse_domain::value::{
    Adjustment, AgentSettings, DeliverableCounts, FailureReason, MessageStatus, SessionOutcome,
};
use pilothouse_domain::{
    AgentSession, AgentSessionId, CommandId, Deadlines, DomainContext, MessageId, RunId, SessionEvent,
    SubAgentId, Usd,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::Value;
use uuid::Uuid;

use crate::inbox::Inbox;
use crate::reference::{Asked, Change, Input, Ledger, Reference};
use crate::scenario::{
    Scenario, asks, brake, calls, can_all, completes, criterion, ends, message, output, results, said,
    settings, shows, skill, starts, turn, used_by,
};

#[derive(Debug, Clone, Copy)]
enum Step {
    Owner(Owner, u8),
    Fact(Fact, u8),
    Late(Fact, u8),
    Clock(u16, u8),
    Heartbeat(u16),
    Death(bool),
    /// Declares the machine of the run lost.
    Lost,
    /// Pulls a brake on the session, or releases it.
    Brake(u8),
    /// Another session takes the only slot, or releases it.
    Neighbour,
}

#[derive(Debug, Clone, Copy)]
enum Owner {
    Interrupt,
    Pause,
    Resume,
    Cancel,
    ForceCancel,
    Close,
    Approve,
    Reject,
    Retry,
    RaiseCap,
    Steer,
    FollowUp,
    SteerTurn,
    Promote,
    Drop,
    Clear,
    Release,
    Move,
    Answer,
    RejectPlan,
    SubmitOutput,
    EnableSkill,
    DisableSkill,
    Reload,
    SetModel,
    Compact,
    Fork,
}

#[derive(Debug, Clone, Copy)]
enum Fact {
    Ready,
    ReadyWithoutPause,
    TurnStarted,
    TurnOfMessage,
    TurnCompleted,
    /// The turn ended at the cost limit that the agent knows.
    TurnOverBudget,
    TurnWithOutput,
    OtherTurnCompleted,
    Ended,
    EndedInError,
    Asked,
    PlanMode,
    PlanShown,
    Used,
    UsedBySubagent,
    SubAgentStarted,
    SubAgentEnded,
    NearingLimit,
    Exhausted,
    HandedOver,
    Written,
    Said,
    ToolStarted,
    ToolEnded,
    Received,
    Done,
    WrongDone,
    Refused,
    MessageRefused,
    Injecting,
    Injected,
    ValidationMet,
    ValidationFailed,
    OverBudget,
    OverQuota,
    Settings,
    Deliverables,
    AdjustDone,
    AdjustRefused,
}

/// The adjustment that an owner requests.
fn adjustment(what: Owner, n: u8) -> Adjustment {
    match what {
        Owner::Compact => Adjustment::Compact { instructions: None },
        Owner::Fork => Adjustment::Fork { before_turn_id: turn("t") },
        _ => Adjustment::SetModel { model_id: format!("model-{}", n % 3) },
    }
}

fn owner() -> impl Strategy<Value = Owner> {
    use Owner as O;
    prop_oneof![
        4 => prop_oneof![Just(O::Interrupt), Just(O::Pause), Just(O::Resume), Just(O::Retry)],
        4 => prop_oneof![Just(O::Steer), Just(O::FollowUp), Just(O::SteerTurn)],
        2 => prop_oneof![Just(O::Answer), Just(O::RejectPlan), Just(O::SubmitOutput)],
        2 => prop_oneof![Just(O::RaiseCap), Just(O::Resume)],
        2 => prop_oneof![Just(O::Promote), Just(O::Drop), Just(O::Clear), Just(O::Release), Just(O::Move)],
        2 => prop_oneof![1 => Just(O::EnableSkill), 1 => Just(O::DisableSkill), 2 => Just(O::Reload)],
        2 => prop_oneof![Just(O::SetModel), Just(O::Compact), Just(O::Fork)],
        2 => prop_oneof![
            1 => Just(O::Cancel),
            1 => Just(O::ForceCancel),
            2 => Just(O::Close),
            2 => Just(O::Approve),
            1 => Just(O::Reject)
        ],
    ]
}

fn fact() -> impl Strategy<Value = Fact> {
    use Fact as F;
    prop_oneof![
        6 => prop_oneof![3 => Just(F::Ready), 1 => Just(F::ReadyWithoutPause)],
        6 => prop_oneof![Just(F::TurnStarted), Just(F::TurnOfMessage), Just(F::TurnCompleted), Just(F::TurnOverBudget), Just(F::TurnWithOutput)],
        5 => prop_oneof![4 => Just(F::Done), 1 => Just(F::Received), 1 => Just(F::WrongDone), 1 => Just(F::Refused)],
        4 => prop_oneof![2 => Just(F::Injected), 1 => Just(F::Injecting), 1 => Just(F::MessageRefused)],
        3 => prop_oneof![Just(F::Asked), Just(F::PlanShown), Just(F::PlanMode)],
        3 => prop_oneof![2 => Just(F::Used), 1 => Just(F::UsedBySubagent)],
        1 => prop_oneof![Just(F::SubAgentStarted), Just(F::SubAgentEnded)],
        3 => prop_oneof![Just(F::Said), Just(F::ToolStarted), Just(F::ToolEnded)],
        2 => prop_oneof![1 => Just(F::ValidationMet), 3 => Just(F::ValidationFailed)],
        1 => prop_oneof![Just(F::OverBudget), Just(F::OverQuota), Just(F::Settings), Just(F::Deliverables)],
        1 => prop_oneof![2 => Just(F::AdjustDone), 1 => Just(F::AdjustRefused)],
        1 => prop_oneof![
            Just(F::OtherTurnCompleted),
            Just(F::Ended),
            Just(F::EndedInError),
            Just(F::NearingLimit),
            Just(F::Exhausted),
            Just(F::HandedOver),
            Just(F::Written),
        ],
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (owner(), any::<u8>()).prop_map(|(o, n)| Step::Owner(o, n)),
        12 => (fact(), any::<u8>()).prop_map(|(f, n)| Step::Fact(f, n)),
        1 => (fact(), any::<u8>()).prop_map(|(f, n)| Step::Late(f, n)),
        1 => (0..400u16, 0..4u8).prop_map(|(s, p)| Step::Clock(s, p)),
        2 => (0..80u16).prop_map(Step::Heartbeat),
        1 => any::<bool>().prop_map(Step::Death),
        1 => Just(Step::Lost),
        1 => any::<u8>().prop_map(Step::Brake),
        1 => Just(Step::Neighbour),
    ]
}

/// The session as it is stored, to check fields without a getter.
fn stored(scenario: &Scenario) -> Value {
    serde_json::to_value(&scenario.conv.session).unwrap()
}

fn in_flight(stored: &Value) -> Vec<(MessageId, CommandId, String)> {
    let field = |m: &Value, name: &str| m[name].as_str().unwrap().to_owned();
    let messages = stored["delivery"]["inFlight"].as_array().unwrap().iter();
    messages
        .map(|m| {
            (field(m, "messageId").parse().unwrap(), field(m, "commandId").parse().unwrap(), field(m, "step"))
        })
        .collect()
}

/// Low enough to be reached.
const MAX_RETRIES: u32 = 2;

struct Life {
    scenario: Scenario,
    inbox: Inbox,
    neighbour: AgentSession,
    neighbours_run: Option<RunId>,
    /// Not used for sessions with auto-continue: the model does not cover the time between turns.
    reference: Option<Reference>,
    calls: u32,
    spent: u32,
    cap: u32,
}

impl Life {
    fn new() -> Self {
        let settings = SessionSettings { max_retries: MAX_RETRIES, ..settings() };
        let mut scenario = Scenario::with(settings);
        scenario.allocate();
        Self::of(scenario)
    }

    fn of(scenario: Scenario) -> Self {
        let mut neighbour = serde_json::to_value(Scenario::new().conv.session).unwrap();
        neighbour["id"] = serde_json::to_value(AgentSessionId::new(Uuid::from_u128(8))).unwrap();
        let neighbour = serde_json::from_value(neighbour).unwrap();
        let reference =
            scenario.conv.session.auto_continue().is_none().then(|| Reference::of(&scenario, MAX_RETRIES));
        Self {
            scenario,
            inbox: Inbox::default(),
            neighbour,
            neighbours_run: None,
            reference,
            calls: 0,
            spent: 0,
            cap: 1,
        }
    }

    /// Usage reports of a sidecar out of order: totals grow, and some arrive late.
    fn usage(&mut self, subagent: Option<&str>, n: u8) -> AgentFact {
        self.spent += u32::from(n % 64);
        let total = if n.is_multiple_of(7) { self.spent / 2 } else { self.spent };
        let cents = if subagent.is_some() { u32::from(n % 40) } else { total };
        let mut fact = used_by(subagent, &format!("{}.{:02}", cents / 100, cents % 100));
        if let AgentFact::Used(report) = &mut fact {
            report.tokens.input_tokens = u64::from(cents) * 3;
            report.model = String::from(if n.is_multiple_of(3) { "m2" } else { "m" });
            report.context_window = n.is_multiple_of(2).then(|| Ledger::window(u64::from(n), &self.scenario));
        }
        fact
    }

    /// The command of a pending adjustment or allowance.
    fn adjusting(&self) -> Option<CommandId> {
        let pending = &stored(&self.scenario)["adjustments"]["pending"][0]["order"]["commandId"];
        pending.as_str().map(|id| id.parse().unwrap())
    }

    fn fact(&mut self, fact: Fact, n: u8) -> AgentFact {
        use Fact as F;
        let session = &self.scenario.conv.session;
        let reload = session.reload().map(|o| o.command_id);
        let outstanding = session.pending_command().map(|o| o.command_id).or(reload);
        let any_command = outstanding.unwrap_or(CommandId::new(Uuid::from_u128(999)));
        let about_messages =
            matches!(fact, F::TurnOfMessage | F::MessageRefused | F::Injecting | F::Injected);
        let flying = if about_messages { in_flight(&stored(&self.scenario)) } else { Vec::new() };
        let flying = flying.get(usize::from(n) % flying.len().max(1));
        let open_turn = session.turn().map_or_else(|| turn("t"), |t| t.id.clone());
        let new_turn = format!("t{n}");
        match fact {
            F::Ready => AgentFact::SidecarReady(can_all()),
            F::ReadyWithoutPause => {
                AgentFact::SidecarReady(pilothouse_domain::value::Capabilities { pause: false, ..can_all() })
            }
            F::TurnStarted => starts(&new_turn),
            F::TurnOfMessage => AgentFact::TurnStarted {
                turn: turn(&new_turn),
                message: flying.map(|f| f.0).or(Some(message(u128::from(n)))),
            },
            F::TurnCompleted => {
                AgentFact::TurnCompleted { turn: open_turn, output: None, outcome: SessionOutcome::Completed }
            }
            F::TurnOverBudget => AgentFact::TurnCompleted {
                turn: open_turn,
                output: None,
                outcome: SessionOutcome::BudgetExceeded,
            },
            F::TurnWithOutput => AgentFact::TurnCompleted {
                turn: open_turn,
                output: Some(output(u32::from(n))),
                outcome: SessionOutcome::Completed,
            },
            F::OtherTurnCompleted => completes(&new_turn),
            F::Ended => ends(false),
            F::EndedInError => ends(true),
            F::Asked => {
                self.calls += 1;
                asks(&format!("c{}", self.calls))
            }
            F::PlanMode => AgentFact::PlanModeEntered,
            F::PlanShown => {
                self.calls += 1;
                shows(&format!("c{}", self.calls))
            }
            F::Used => self.usage(None, n),
            F::UsedBySubagent => self.usage(Some(&format!("s{}", n % 3)), n),
            F::SubAgentStarted => AgentFact::SubAgentStarted {
                subagent: SubAgentId::parse(format!("s{}", n % 3)).unwrap(),
                model: None,
                objective: String::new(),
                call: None,
            },
            F::SubAgentEnded => AgentFact::SubAgentEnded {
                subagent: SubAgentId::parse(format!("s{}", n % 3)).unwrap(),
                failure: n.is_multiple_of(2).then(String::new),
            },
            F::NearingLimit => AgentFact::ContextNearingLimit { usage_percent: "85".to_owned() },
            F::Exhausted => AgentFact::ContextExhausted,
            F::HandedOver => AgentFact::HandedOver { reason: String::new() },
            F::Written => crate::scenarios::chains::written(&format!("part {}", n % 3)),
            F::Said => said(),
            F::ToolStarted => {
                self.calls += 1;
                calls(&format!("c{}", self.calls))
            }
            F::ToolEnded => results(&format!("c{}", self.calls.saturating_sub(u32::from(n % 3)))),
            F::Received => AgentFact::CommandReceived(any_command),
            F::Done => {
                let kind = match session.status() {
                    S::Pausing => C::Pause,
                    S::Resuming => C::Resume,
                    S::Cancelling => C::Stop,
                    _ if reload.is_some() => C::Reload,
                    _ => C::Interrupt,
                };
                AgentFact::CommandDone(kind, any_command)
            }
            F::WrongDone => AgentFact::CommandDone(C::Pause, CommandId::new(Uuid::from_u128(998))),
            F::Refused => AgentFact::CommandRefused {
                command: any_command,
                code: "no".to_owned(),
                message: String::new(),
            },
            F::MessageRefused => AgentFact::CommandRefused {
                command: flying.map_or(any_command, |f| f.1),
                code: if n.is_multiple_of(2) { "turn-over" } else { "busy" }.to_owned(),
                message: String::new(),
            },
            F::ValidationMet | F::ValidationFailed => {
                let order = &stored(&self.scenario)["delivery"]["turn"]["Between"]["Validating"]["order"]["commandId"];
                let command = order.as_str().map_or(any_command, |id| id.parse().unwrap());
                AgentFact::Validated { command, results: vec![criterion(matches!(fact, F::ValidationMet))] }
            }
            F::OverBudget => {
                AgentFact::BudgetExceeded { needed: Some(crate::scenario::usd("0.5")), left: None }
            }
            F::OverQuota => AgentFact::QuotaExceeded {
                message: None,
                reset_at: (!n.is_multiple_of(3))
                    .then(|| self.scenario.now + std::time::Duration::from_secs(u64::from(n))),
            },
            F::Settings => AgentFact::SettingsReported(AgentSettings {
                model_id: format!("model-{}", n % 3),
                ..AgentSettings::default()
            }),
            F::Deliverables => AgentFact::DeliverablesReported(DeliverableCounts {
                pending: u32::from(n),
                ..Default::default()
            }),
            F::AdjustDone => AgentFact::CommandDone(C::Adjust, self.adjusting().unwrap_or(any_command)),
            F::AdjustRefused => AgentFact::CommandRefused {
                command: self.adjusting().unwrap_or(any_command),
                code: if n.is_multiple_of(2) { "no-agent" } else { "invalid" }.to_owned(),
                message: String::new(),
            },
            F::Injecting => AgentFact::MessageInjecting(flying.map_or(message(u128::from(n)), |f| f.0)),
            F::Injected => AgentFact::MessageInjected(flying.map_or(message(u128::from(n)), |f| f.0)),
        }
    }

    /// Refusals are expected; checks that they change nothing.
    fn owner(&mut self, what: Owner, n: u8) {
        use Owner as O;
        let before = self.scenario.conv.clone();
        // The functions know which ids were used.
        let used = |id: &u128| before.closed_messages.iter().any(|m| m.message_id == message(*id));
        let id = (u128::from(n % 40)..1000).find(|id| !used(id)).unwrap_or_default();
        let request = before
            .session
            .pending_requests()
            .first()
            .map(|r| (r.id.clone(), matches!(r.kind, RequestKind::Plan { .. })));
        let some_output = before.session.output().map(|o| o.output_id);
        let expected = self.predict(what, n, id, request.as_ref().map(|(_, plan)| *plan));
        let turn_now = before.session.turn().map_or_else(|| turn("gone"), |t| t.id.clone());
        let scenario = &mut self.scenario;
        let refused = match what {
            O::Interrupt => scenario.interrupt(),
            O::Pause => scenario.pause(),
            O::Resume => scenario.resume(),
            O::Cancel => scenario.cancel(),
            O::ForceCancel => scenario.force_cancel(),
            O::Close => scenario.close(),
            O::Approve => some_output.map_or(Ok(()), |o| scenario.approve(o)),
            O::Reject => some_output.map_or(Ok(()), |o| scenario.reject(o)),
            O::Retry => scenario.retry(),
            O::RaiseCap => {
                self.cap += 1;
                scenario.raise_cap(&self.cap.to_string())
            }
            O::Steer => scenario.steer(id),
            O::FollowUp => scenario.follow_up(id),
            O::SteerTurn => scenario.send(
                id,
                pilothouse_domain::value::MessagePriority::Immediate,
                Some(turn_now.as_str()),
            ),
            O::Promote => scenario.commit(|c, _| c.queue.promote(message(id))),
            O::Drop => scenario.commit(|c, _| c.cancel_message(message(id))),
            O::Clear => {
                scenario.commit(|c, _| Ok::<_, pilothouse_domain::queue::QueueError>(c.clear_queue()))
            }
            O::Release => scenario.commit(|c, _| c.queue.release(message(id))),
            O::Move => scenario.commit(|c, _| c.queue.move_to(message(id), usize::from(n % 5))),
            O::Answer => match &request {
                Some((id, true)) => scenario.approve_plan(id.as_str()),
                Some((id, false)) => scenario.answer(id.as_str()),
                None => scenario.answer("nothing"),
            },
            O::RejectPlan => scenario.reject_plan(request.as_ref().map_or("nothing", |(id, _)| id.as_str())),
            O::SubmitOutput => scenario.commit(|c, ctx| c.session.submit_output(output(u32::from(n)), ctx)),
            O::EnableSkill => scenario.commit(|c, _| c.session.enable_skill(skill(n % 25))),
            O::DisableSkill => scenario.commit(|c, _| c.session.disable_skill(skill(n % 25))),
            O::Reload => scenario.reload(),
            O::SetModel | O::Compact | O::Fork => scenario.adjust(&[adjustment(what, n)]),
        };
        if self.reference.is_some() {
            assert_eq!(refused.err(), expected, "{what:?} while {}", before.session.status());
        }
        if refused.is_err() {
            assert_eq!(self.scenario.conv, before, "a refusal of {what:?} changed something");
        }
        let input = match what {
            _ if refused.is_err() => Input::Other,
            O::Steer | O::FollowUp => Input::Sent(message(id), None),
            O::SteerTurn => Input::Sent(message(id), Some(&turn_now)),
            O::Move => Input::Moved(message(id), usize::from(n % 5)),
            O::Release => Input::Released(message(id)),
            O::Clear => Input::Cleared,
            _ => Input::Other,
        };
        self.follow(input);
    }

    /// The refusal that the reference model predicts for an operation of the owner.
    fn predict(&self, what: Owner, n: u8, id: u128, request: Option<bool>) -> Option<&'static str> {
        use Owner as O;
        let (Some(model), session) = (&self.reference, &self.scenario.conv.session) else { return None };
        let id = message(id);
        match what {
            O::Interrupt => model.refuses(Asked::Interrupt),
            O::Pause => {
                let possible = session.capabilities().is_none_or(|can| can.pause);
                model.refuses(Asked::Pause { possible })
            }
            O::Resume => model.refuses(Asked::Resume),
            O::Cancel | O::ForceCancel => model.refuses(Asked::Cancel),
            O::Close => model.refuses(Asked::Close),
            O::Approve | O::Reject => session.output().and_then(|_| model.refuses(Asked::Review)),
            O::Retry => model.refuses(Asked::Retry),
            O::RaiseCap => model.refuses(Asked::Cap(u64::from(self.cap + 1) * 100)),
            O::SubmitOutput => model.refuses(Asked::Submit),
            O::RejectPlan if request == Some(false) => Some("wrong-request"),
            O::Answer | O::RejectPlan => model.refuses(Asked::Decide { there: request.is_some() }),
            O::Steer | O::FollowUp => model.mail.refuses_new(id, None, &model.walk),
            O::SteerTurn => {
                let open = model.walk.turn.clone().unwrap_or_else(|| turn("gone"));
                model.mail.refuses_new(id, Some(&open), &model.walk)
            }
            O::Promote => model.mail.refuses_change(id, true, false),
            O::Release => model.mail.refuses_change(id, false, true),
            O::Drop | O::Move => model.mail.refuses_change(id, false, false),
            O::Clear => None,
            O::EnableSkill => {
                model.kit.refuses(Change::Enable(skill(n % 25)), &model.walk, model.mail.turn_starts())
            }
            O::DisableSkill => {
                model.kit.refuses(Change::Disable(skill(n % 25)), &model.walk, model.mail.turn_starts())
            }
            O::Reload => {
                let can = session.capabilities().unwrap_or_default();
                let impossible = session.is_live() && !can.hot_reload && !can.resume_conversation;
                model.kit.refuses(Change::Reload { impossible }, &model.walk, model.mail.turn_starts())
            }
            O::SetModel | O::Compact | O::Fork => {
                let asked = match what {
                    O::SetModel => Asked::Choose,
                    O::Compact => Asked::Compact,
                    _ => Asked::Fork,
                };
                let can = session.capabilities().filter(|_| session.is_live());
                let impossible = can.is_some_and(|can| !can.can_adjust(&adjustment(what, n)));
                let full = (session.adjustments().count() >= AgentSession::MAX_ADJUSTMENTS)
                    .then_some("adjustments-under-way");
                full.or_else(|| model.refuses(asked)).or(impossible.then_some("not-supported"))
            }
        }
    }

    fn follow(&mut self, input: Input<'_>) {
        if let Some(reference) = &mut self.reference {
            reference.step(input, &self.scenario);
        }
    }

    /// Reports a fact to the session and to the reference model.
    fn observe(&mut self, fact: &AgentFact, late: bool) {
        let of_before_retry = self.scenario.conv.session.status() == S::Queued
            && matches!(self.scenario.conv.session.run().map(|run| run.phase), Some(RunPhase::Ending { .. }));
        if late {
            self.scenario.observe_late(fact.clone());
        } else {
            self.scenario.observe(fact.clone());
        }
        let input = if late || of_before_retry {
            Input::ToldLate(fact)
        } else {
            Input::Told { fact, waits: self.scenario.outcome == Some(FactOutcome::Deferred) }
        };
        self.follow(input);
    }

    /// Pulls or releases one of two brakes, of which one ends processes.
    fn brake(&mut self, n: u8) {
        let n = n % 2;
        let in_force = self.scenario.brakes.iter().any(|pulled| pulled.id() == brake(n));
        let expected = self.reference.as_ref().map(|model| model.refuses(Asked::Hold).is_none());
        if in_force {
            self.scenario.release_brake(n).unwrap();
        } else {
            let behavior = if n == 0 { BrakeBehavior::Pause } else { BrakeBehavior::Kill };
            self.scenario.pull(n, behavior).unwrap();
            let held = self.scenario.last.iter().any(|event| matches!(event, SessionEvent::Held { .. }));
            assert!(expected.is_none_or(|expected| held == expected), "held: {held}");
        }
    }

    fn neighbour(&mut self) {
        let mut ctx = DomainContext::new(self.scenario.now, Deadlines::default(), &mut self.scenario.ids);
        if let Some(run) = self.neighbours_run.take() {
            self.scenario.pool.release(self.neighbour.id(), run);
            self.neighbour.record_run_ended(run, RunEnd::Drained, None, &mut ctx).unwrap();
            let retried = self.neighbour.retry(None, true, &ctx);
            if retried.is_err() {
                // Often enough, another neighbour replaces it.
                self.neighbour = Self::new().neighbour;
            }
            if self.scenario.pool.next_waiting().is_some() {
                self.scenario.allocate();
            }
        } else if let (Allocation::Allocated(run), _) =
            self.scenario.pool.allocate(&mut self.neighbour, &mut ctx).unwrap()
        {
            self.neighbours_run = Some(run);
        } else {
            self.scenario.pool.stop_waiting(self.neighbour.id());
        }
    }

    fn step(&mut self, step: Step) {
        let before = self.scenario.conv.session.clone();
        self.scenario.last.clear();
        // Each step has another API key; only a start may adopt it.
        self.calls += 1;
        self.scenario.key = format!("hash-{}", self.calls);
        match step {
            // A failed session is usually retried.
            Step::Fact(..) if before.status() == S::Failed => self.owner(Owner::Retry, 0),
            Step::Owner(owner, n) => self.owner(owner, n),
            Step::Fact(fact, n) => {
                let fact = self.fact(fact, n);
                // Without a run there are no facts, and the first fact of a sidecar is its readiness.
                let ready = matches!(fact, AgentFact::SidecarReady(_));
                match before.run().map(|run| run.phase) {
                    Some(RunPhase::Launching) if ready => self.observe(&fact, false),
                    Some(RunPhase::Live | RunPhase::Ending { .. }) if !ready => self.observe(&fact, false),
                    _ => {}
                }
            }
            Step::Late(fact, n) => {
                let fact = self.fact(fact, n);
                self.observe(&fact, true);
            }
            Step::Clock(seconds, process) => {
                use ProcessState as P;
                let process = [P::Alive, P::Dead, P::Unknown, P::Unreachable][usize::from(process)];
                self.scenario.clock(u64::from(seconds), process).unwrap();
            }
            Step::Heartbeat(seconds) => self.scenario.clock_with_heartbeats(u64::from(seconds)).unwrap(),
            Step::Death(drained) => self.scenario.die(drained).unwrap(),
            Step::Lost => self.scenario.lose().unwrap(),
            Step::Brake(n) => self.brake(n),
            Step::Neighbour => self.neighbour(),
        }
        if matches!(
            step,
            Step::Clock(..) | Step::Heartbeat(_) | Step::Lost | Step::Brake(_) | Step::Neighbour
        ) {
            self.follow(Input::Other);
        }
        if let Step::Death(drained) = step {
            self.follow(Input::Died { drained });
        }
        self.check(&before, step);
        self.inbox.follow(&self.scenario.conv.session);
        // The next step loads what this one stored.
        self.scenario.conv.session = serde_json::from_value(stored(&self.scenario)).unwrap();
    }

    fn check(&self, before: &AgentSession, step: Step) {
        let scenario = &self.scenario;
        let session = &scenario.conv.session;
        let status = session.status();
        let json = stored(scenario);

        let usage = &session.metrics().usage;
        assert_eq!(usage.total_cost_usd(), session.budget().estimated_cost_usd());
        assert!(usage.total_cost_usd() >= before.metrics().usage.total_cost_usd(), "spend shrinks");
        let by_model = usage.cost_usd_by_model().values().copied().sum::<Usd>();
        assert_eq!(by_model, usage.total_cost_usd(), "a cost has no model");
        let by_subagents = scenario.conv.subagents.values().map(|s| s.usage.total_cost_usd()).sum::<Usd>();
        assert!(by_subagents <= usage.total_cost_usd());
        assert!(status != S::Running || !session.budget().exhausted(), "Running with nothing left");

        let between = !json["delivery"]["turn"]["Between"].is_null();
        assert!(!session.is_validating() || status == S::Running, "{status} validates");
        assert!(!between || session.turn().is_none(), "between two turns in one");
        assert!(
            !between
                || matches!(
                    status,
                    S::Running | S::Pausing | S::Paused | S::Resuming | S::Interrupting | S::Cancelling
                )
        );
        let auto = session.auto_continue();
        assert!(auto.is_none_or(|a| a.current_continuation_count <= a.max_continuations));

        // Status and the fields that depend on it.
        assert_eq!(
            session.completed_at().is_some(),
            matches!(status, S::Completed | S::Failed | S::Cancelled)
        );
        if before.completed_at().is_some() && status.is_terminal() {
            assert_eq!(session.completed_at(), before.completed_at(), "it is set once");
        }
        assert_eq!(session.pending_command().is_some(), status.is_intermediate());
        assert_eq!(session.failure().is_some(), status == S::Failed);
        let reason = session.failure().map(|failure| failure.reason);
        assert!(
            !matches!(reason, Some(FailureReason::BudgetExhausted | FailureReason::ManualCancellation)),
            "failed with {reason:?}"
        );
        assert!(!session.cancel_accepted() || status.is_intermediate(), "a cancellation was forgotten");
        let waits_for = session.pending_requests().first().map(|r| match r.kind {
            RequestKind::Question { .. } => S::WaitingForInput,
            RequestKind::Plan { .. } => S::WaitingForApproval,
        });
        // A brake keeps requests open while the session is stopped.
        let keeps = matches!(status, S::Pausing | S::Paused | S::Resuming);
        assert!(keeps || waits_for == status.is_waiting().then_some(status), "{status} with {waits_for:?}");

        // Brakes.
        let held = session.is_held();
        assert!(!held || !status.is_terminal(), "{status} is held");
        let works = status == S::Running || (status.is_waiting() && session.run().is_some());
        assert!(!held || !works, "{status} although a brake holds it");
        assert!(!held || session.slot_wanted().is_none(), "a held session wants a slot");
        let launches = session.run().is_some_and(|run| run.phase == RunPhase::Launching);
        assert!(!held || !launches, "a held session is launched");
        let stopped: Vec<_> = scenario.brakes.iter().map(pilothouse_domain::Brake::id).collect();
        assert!(
            session.held_by().iter().all(|by| stopped.contains(&by.brake_id)),
            "held by a released brake"
        );
        let no_turn = matches!(status, S::Queued | S::Idle | S::Interrupted) || status.is_terminal();
        assert!(session.turn().is_none() || !no_turn, "a turn is open while {status}");
        let in_between = status.is_intermediate() || status == S::Paused;
        assert!(
            in_between || json["delivery"]["deferred"].as_array().unwrap().is_empty(),
            "facts wait while {status}"
        );
        assert!(
            !session.hibernated() || status.survives_its_process() || status == S::Resuming,
            "{status} hibernates"
        );
        assert!(!session.hibernated() || !session.is_live());
        assert!(
            session.run().is_some() || session.hibernated() || status.is_terminal() || status == S::Queued,
            "{status} without a run"
        );
        assert!(session.retry_count() <= session.settings().max_retries);
        assert_eq!(session.api_key_hash().is_some(), session.started_at().is_some());
        // Only transitions of the table, one after the other; only the owner retries.
        let retried = before.status().is_terminal() && status != before.status();
        assert!(
            !retried || matches!(step, Step::Owner(Owner::Retry, _) | Step::Fact(..)),
            "{} left by {step:?}",
            before.status()
        );

        // An exhausted session has a chain, and its agent may write its document while it lives.
        assert_eq!(session.chain_id().is_some(), status == S::ContextExhausted);
        let may_write = status == S::ContextExhausted && session.run().is_some();
        assert!(!session.awaits_document() || may_write, "a document is awaited that no agent can write");

        assert!(session.control_version() >= before.control_version());
        let same_place =
            before.status() == status && before.run().map(|r| r.id) == session.run().map(|r| r.id);
        let silent = matches!(
            step,
            Step::Owner(Owner::Steer | Owner::FollowUp | Owner::SteerTurn | Owner::Promote | Owner::Drop, _)
                | Step::Fact(Fact::Used | Fact::UsedBySubagent | Fact::Said | Fact::Injected, _)
                | Step::Late(..)
        );
        let moved = scenario.last.iter().any(|e| {
            !matches!(
                e,
                SessionEvent::MetricsUpdated { .. }
                    | SessionEvent::BudgetWarning { .. }
                    | SessionEvent::BudgetExhausted { .. }
                    | SessionEvent::AllowanceChanged { .. }
                    | SessionEvent::AfterStopActivity { .. }
                    | SessionEvent::CommandReissued { .. }
            ) && !e.name().starts_with("Message")
                && !e.name().starts_with("AgentMessage")
        });
        if silent && same_place && !moved {
            assert_eq!(
                session.control_version(),
                before.control_version(),
                "{step:?} moved the control version"
            );
        }

        let flying = in_flight(&json);
        let open = scenario.conv.queue.messages();
        for (i, m) in open.iter().enumerate() {
            assert!(m.status == MessageStatus::Pending);
            assert!(open[..i].iter().all(|other| other.message_id != m.message_id), "twice in the queue");
            assert!(open[..i].iter().all(|other| other.priority <= m.priority), "out of order");
            assert!(!(m.sent && m.delivery_uncertain));
            let flies = flying.iter().filter(|f| f.0 == m.message_id).count();
            assert_eq!(flies, usize::from(m.sent), "sent and in flight differ");
        }
        for (id, _, step) in &flying {
            assert!(step == "Injected" || scenario.conv.queue.get(*id).is_some(), "in flight and gone");
        }
        assert!(!matches!(status, S::Completed | S::Cancelled) || open.is_empty(), "{status} with messages");

        let skills = session.enabled_skill_ids();
        assert!(skills.len() <= AgentSession::MAX_SKILLS);
        assert!(skills.iter().enumerate().all(|(i, id)| !skills[..i].contains(id)), "a skill twice");
        assert!(session.reload().is_none() || session.run().is_some(), "a reload of nothing");
        assert!(session.reload().is_none() || !status.is_terminal());

        let lease = scenario.pool.leases().get(&session.id()).map(|lease| lease.run_id);
        assert_eq!(lease, session.run().map(|run| run.id), "leases and runs differ");
        assert!(scenario.pool.leases().len() <= 1);
        assert!(session.slot_wanted() != Some(RunCause::Wake) || session.run().is_none());
        let in_line = scenario.pool.waiting().iter().any(|w| w.session_id == session.id());
        assert!(session.slot_wanted().is_none() || in_line, "wants a slot but is not in line");
    }

    /// Checks that everything ends when the agent is dead, the runtime knows no process, and the owner is inactive.
    fn rest_alone(mut self) {
        if self.neighbours_run.is_some() {
            self.step(Step::Neighbour);
        }
        for n in 0..2 {
            if self.scenario.brakes.iter().any(|pulled| pulled.id() == brake(n)) {
                self.step(Step::Brake(n));
            }
        }
        for _ in 0..200 {
            let session = &self.scenario.conv.session;
            if session.next_deadline(&Deadlines::default()).is_none() && session.slot_wanted().is_none() {
                break;
            }
            self.step(Step::Clock(600, 2));
        }
        let session = &self.scenario.conv.session;
        let rests = session.status().is_terminal()
            || matches!(session.status(), S::Idle | S::Interrupted | S::Paused)
            || session.waits_for_budget();
        assert!(rests, "hangs in {}", session.status());
        assert!(
            session.run().is_none() && session.slot_wanted().is_none(),
            "a run is left in {}",
            session.status()
        );
        assert!(session.next_deadline(&Deadlines::default()).is_none(), "something is due for ever");
        let can_go_out =
            matches!(session.status(), S::Idle | S::Interrupted) && !session.budget().exhausted();
        assert!(!can_go_out || self.scenario.conv.queue.next_pending().is_none(), "a message is forgotten");
        let back: AgentSession = serde_json::from_value(stored(&self.scenario)).unwrap();
        assert_eq!(back, *session);
    }
}

/// A rare case that was found by chance: the process dies during a resume, and the turn with it.
#[test]
fn session_that_dies_during_resume_wakes_without_its_turn() {
    let mut life = Life::new();
    for step in [
        Step::Owner(Owner::Steer, 0),
        Step::Fact(Fact::Ready, 0),
        Step::Clock(30, 0),
        Step::Fact(Fact::TurnStarted, 0),
        Step::Clock(30, 0),
        Step::Owner(Owner::Pause, 0),
        Step::Fact(Fact::Done, 0),
        Step::Owner(Owner::Resume, 0),
        Step::Clock(600, 2),
    ] {
        life.step(step);
    }
    let session = &life.scenario.conv.session;
    assert_eq!((session.status(), session.turn()), (S::Resuming, None));
    assert_eq!(session.run().map(|run| run.phase), Some(RunPhase::Launching));
    life.rest_alone();
}

/// Minimum number of steps checked for every thousand sequences.
const STEPS_OF_A_THOUSAND: u32 = 37_000;

/// Number of sequences to run: all with `PILOTHOUSE_PROPERTIES=full`, otherwise half, because each takes a while.
fn lives(all: u32) -> u32 {
    if std::env::var("PILOTHOUSE_PROPERTIES").is_ok_and(|how| how == "full") { all } else { all / 2 }
}

/// Seed from the environment instead of the fixed one, to search further or to reproduce a failure.
fn seed() -> u64 {
    std::env::var("PILOTHOUSE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(8_4)
}

#[test]
fn random_histories_keep_the_invariants_and_never_hang() {
    let lives = lives(2700);
    assert!(live(lives, Life::new) >= lives * STEPS_OF_A_THOUSAND / 1000);
}

/// The same for sessions with auto-continue (decision 36).
#[test]
fn random_auto_continue_histories_keep_invariants_and_end() {
    live(1000, || Life::of(Scenario::looping_launching(3)));
}

fn live(cases: u32, begin: impl Fn() -> Life) -> u32 {
    let seed = seed();
    let config =
        Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..Config::default() };
    let lives = prop::collection::vec(step(), 1..80);
    let mut reached = std::collections::BTreeMap::<S, u32>::new();
    let mut steps_done = 0;
    let counts = std::cell::RefCell::new((&mut reached, &mut steps_done));
    let result = TestRunner::new(config).run(&lives, |steps| {
        let mut life = begin();
        let mut over_for = 0;
        for step in steps {
            life.step(step);
            let status = life.scenario.conv.session.status();
            let (reached, steps_done) = &mut *counts.borrow_mut();
            *reached.entry(status).or_default() += 1;
            **steps_done += 1;
            // Little happens to an ended session. After some late facts another sequence starts.
            over_for = if status.is_terminal() { over_for + 1 } else { 0 };
            if over_for == 8 {
                std::mem::replace(&mut life, begin()).rest_alone();
                over_for = 0;
            }
        }
        life.rest_alone();
        Ok(())
    });
    if let Err(failure) = result {
        // These are the smallest failing steps; the seed reproduces them.
        panic!("PILOTHOUSE_SEED={seed}: {failure}");
    }
    println!("{steps_done} steps, by status: {reached:?}");
    // A property that never reaches a status does not test it.
    for status in S::ALL {
        assert!(
            reached.get(&status).is_some_and(|times| *times > cases / 20),
            "{status} was hardly met: {reached:?}"
        );
    }
    steps_done
}
