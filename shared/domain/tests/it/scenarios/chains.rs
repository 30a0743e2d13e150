//! Chains: exhaustion, documents, handoffs, the shared budget (S0 8.4, decisions 30, 33 to 35).

use pilothouse_domain::chain::{ChainError, ChainOperation as Op, HandedOver, SessionChainStatus as C};
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, SessionError};
use pilothouse_domain::value::{HandoffDocument, RecordedHandoff, SessionTask, SessionTaskStatus};
use pilothouse_domain::{
    AgentSessionId, ChainEvent, Deadlines, DomainContext, SessionChain, SessionEvent, Usd,
};
use proptest::prelude::*;
use uuid::Uuid;

use crate::scenario::{Ids, Scenario, ends, starts, usd, used};

pub(crate) fn written(words: &str) -> AgentFact {
    AgentFact::HandoffWritten(Box::new(document(words)))
}

fn document(words: &str) -> HandoffDocument {
    HandoffDocument::of_agent(words, "the rest", None)
}

fn session(n: u128) -> AgentSessionId {
    AgentSessionId::new(Uuid::from_u128(n))
}

fn begun(scenario: &Scenario) -> SessionChain {
    SessionChain::from_handoff(&scenario.last, &scenario.conv.session, scenario.now)
        .expect("a chain begins")
        .0
}

fn recorded(scenario: &Scenario) -> RecordedHandoff {
    scenario.conv.session.handoff_document().expect("a document").clone()
}

/// An exhausted session with its document, whose run has ended.
fn over() -> (Scenario, SessionChain) {
    let scenario = Scenario::running().observes(AgentFact::ContextExhausted);
    let chain = begun(&scenario);
    let mut scenario = scenario.observes(written("half"));
    scenario.die(true).unwrap();
    (scenario, chain)
}

fn hand_over(scenario: &mut Scenario, chain: &mut SessionChain) -> HandedOver {
    let document = recorded(scenario);
    // Avoid an id that the scenario's session already has.
    scenario.ids.0 = scenario.ids.0.max(1_000);
    let mut ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut scenario.ids);
    chain.hand_over(&mut scenario.conv, &document, &mut ctx).unwrap()
}

#[test]
fn first_exhaustion_starts_a_chain_and_later_ones_do_not() {
    let scenario = Scenario::running().observes(AgentFact::ContextExhausted);
    let first = &scenario.conv.session;
    let (chain, events) = SessionChain::from_handoff(&scenario.last, first, scenario.now).unwrap();
    assert_eq!(Some(chain.id()), first.chain_id());
    assert_eq!(chain.current_session_id(), first.id());
    assert_eq!((chain.len(), chain.handoffs().len(), chain.status()), (1, 0, C::Active));
    let created = ChainEvent::Created {
        chain_id: chain.id(),
        original_objective: first.objective().as_str().to_owned(),
        first_session_id: first.id(),
    };
    assert_eq!(events, [created]);
    assert_eq!(scenario.last[0], SessionEvent::ContextExhausted { chain_id: None });

    let (mut scenario, mut chain) = over();
    let mut next = hand_over(&mut scenario, &mut chain).continuation;
    let mut pool = SessionPool::default();
    let mut ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut scenario.ids);
    pool.allocate(&mut next.session, &mut ctx).unwrap();
    scenario.conv = next;
    let scenario =
        scenario.observes(AgentFact::SidecarReady(crate::scenario::can_all())).observes(starts("t1"));
    let handed_over = scenario.clone().observes(AgentFact::HandedOver { reason: "full".to_owned() });
    let chain_id = Some(chain.id());
    assert_eq!(handed_over.last[0], SessionEvent::VoluntaryHandoff { reason: "full".to_owned(), chain_id });
    let scenario = scenario.observes(AgentFact::ContextExhausted);
    assert_eq!(scenario.last[0], SessionEvent::ContextExhausted { chain_id });
    assert_eq!(scenario.conv.session.chain_id(), chain_id);
    assert_eq!(SessionChain::from_handoff(&scenario.last, &scenario.conv.session, scenario.now), None);
}

/// The agent may write its document until a deadline, or until `session_end` (decision 34).
#[test]
fn exhausted_agent_is_stopped_after_its_document_or_timeout() {
    let stopped = |scenario: &Scenario| {
        scenario.last.iter().any(|event| matches!(event, SessionEvent::RunStopOrdered { .. }))
    };
    let waiting = Scenario::running().observes(AgentFact::ContextExhausted);
    assert!(!stopped(&waiting) && waiting.conv.session.awaits_document());
    assert!(stopped(&waiting.clone().observes(written("half"))));
    assert!(stopped(&waiting.clone().observes(ends(true))), "an end with an error ends it too");
    let mut late = waiting;
    late.clock_with_heartbeats(119).unwrap();
    assert!(!stopped(&late) && late.conv.session.awaits_document());
    late.clock_with_heartbeats(2).unwrap();
    assert!(stopped(&late));
    // If the document came first, there is nothing to wait for.
    assert!(stopped(&Scenario::running().observes(written("half")).observes(AgentFact::ContextExhausted)));
}

/// The API call and the raw event of one handoff count once, in either order (decision 34).
#[test]
fn duplicate_handoff_counts_once() {
    let over = || AgentFact::HandedOver { reason: "full".to_owned() };
    let mut scenario = Scenario::running();
    scenario
        .commit::<SessionError>(|conv, ctx| {
            let mut events = conv.observe(over(), "hash", ctx).events;
            events.extend(conv.observe(written("half"), "hash", ctx).events);
            Ok(events)
        })
        .unwrap();
    assert_eq!(scenario.conv.session.status(), S::ContextExhausted);
    let handoff = SessionEvent::VoluntaryHandoff { reason: "full".to_owned(), chain_id: None };
    assert!(scenario.last.contains(&handoff), "{:?}", scenario.last);
    assert!(!scenario.happened("ContextExhaustedEvent"), "{:?}", scenario.last);
    let first = recorded(&scenario);
    let scenario = scenario.observes(over()).observes(written("half"));
    assert_eq!(recorded(&scenario), first);
    assert!(scenario.last.is_empty());
}

#[test]
fn agent_document_replaces_a_synthesized_one_only() {
    let mut scenario = Scenario::running().observes(AgentFact::ContextExhausted);
    let synthesized =
        HandoffDocument::synthesized(scenario.conv.session.handoff_source(&["I read the tests.".to_owned()]));
    scenario
        .commit::<SessionError>(|conv, ctx| Ok(conv.session.record_handoff(synthesized.clone(), ctx)))
        .unwrap();
    assert!(recorded(&scenario).document.summary.as_str().contains("I read the tests."));
    let mut scenario = scenario.observes(written("half"));
    assert_eq!(recorded(&scenario).document, document("half"));
    scenario.commit::<SessionError>(|conv, ctx| Ok(conv.session.record_handoff(synthesized, ctx))).unwrap();
    assert_eq!(recorded(&scenario).document, document("half"));
}

#[test]
fn synthesized_document_lists_tasks_and_stays_within_bounds() {
    let task = |id: &str, status| SessionTask {
        id: id.to_owned(),
        subject: format!("task {id} {}", "x".repeat(400)),
        status,
        active_form: None,
        updated_at: Scenario::new().now,
    };
    let tasks: Vec<_> = (0..100).map(|n| task(&n.to_string(), SessionTaskStatus::Pending)).collect();
    let scenario = Scenario::running().observes(AgentFact::TasksReplaced(tasks));
    let words = vec!["ä\0".repeat(5000); 9];
    let document = HandoffDocument::synthesized(scenario.conv.session.handoff_source(&words));
    assert!(document.synthesized && document.remaining_work.as_str().contains("task 0"));
    assert!(document.remaining_work.as_str().chars().count() <= 4000);
    assert!(document.summary.as_str().chars().count() <= 4000);
}

#[test]
fn task_list_is_replaced_as_a_whole() {
    let task = |id: &str| SessionTask {
        id: id.to_owned(),
        subject: format!("task {id}"),
        status: SessionTaskStatus::Completed,
        active_form: None,
        updated_at: Scenario::new().now,
    };
    let scenario = Scenario::running()
        .observes(AgentFact::TasksReplaced(vec![task("1"), task("2")]))
        .observes(AgentFact::TasksReplaced(vec![task("3")]));
    assert_eq!(scenario.last, [SessionEvent::TaskListUpdated { task_count: 1, completed_count: 1 }]);
    let tasks = &scenario.conv.session.task_list().unwrap().tasks;
    assert_eq!(tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["3"]);
}

#[test]
fn texts_of_the_agent_are_cut_or_replaced_and_never_refused() {
    let document = HandoffDocument::of_agent(&"ä".repeat(4001), "", Some(""));
    assert_eq!(document.summary.as_str(), "ä".repeat(3999) + "…");
    assert_eq!(document.remaining_work.as_str(), "The agent did not say what remains.");
    assert_eq!(document.key_decisions, None);
}

/// The continuation inherits the settings (decision 34) and the waiting messages in their order (decision 30).
#[test]
fn continuation_inherits_from_its_predecessor() {
    let scenario = Scenario::running()
        .when(|s| s.follow_up(1))
        .when(|s| s.follow_up(2))
        .observes(used("0.4"))
        .observes(AgentFact::ContextExhausted);
    let mut chain = begun(&scenario);
    let mut scenario = scenario.observes(written("half"));
    scenario.die(true).unwrap();
    assert!(chain.waits_for_continuation(&scenario.conv.session));
    let before = scenario.conv.clone();
    let handed = hand_over(&mut scenario, &mut chain);

    let next = &handed.continuation;
    assert_eq!(next.queue, before.queue);
    assert!(scenario.conv.queue.messages().is_empty());
    let (old, new) = (&scenario.conv.session, &next.session);
    assert_eq!((old.continuation(), new.status()), (Some(new.id()), S::Queued));
    assert_eq!(new.working_directory(), old.working_directory());
    assert_eq!(new.settings(), old.settings());
    assert_eq!(new.objective(), chain.original_objective());
    assert_eq!(new.continues().unwrap().document.as_ref(), old.handoff_document());
    assert_eq!((new.budget().carried_usd(), new.budget().estimated_cost_usd()), (usd("0.4"), Usd::ZERO));
    assert_eq!(new.budget().remaining_usd(), usd("0.6"));
    let handoff = chain.handoff_from(old.id()).unwrap();
    assert_eq!((handoff.id, handoff.to_session_id), (recorded(&scenario).id, Some(new.id())));
    // The handoff happens once.
    assert!(!chain.waits_for_continuation(&scenario.conv.session));
    // Further operations are refused with the id of the continuation.
    let refused = scenario.conv.session.check(pilothouse_domain::session::Operation::RequestCancel);
    assert_eq!(refused, Err(SessionError::Continued { continuation: new.id() }));
}

/// A message whose delivery is uncertain stays marked as uncertain (decision 30).
#[test]
fn unacknowledged_messages_move_and_uncertain_ones_remain() {
    let scenario = Scenario::running().when(|s| s.steer(1));
    let scenario = scenario.observes(AgentFact::ContextExhausted);
    let mut chain = begun(&scenario);
    let mut scenario = scenario.observes(written("half"));
    scenario.die(false).unwrap();
    let handed = hand_over(&mut scenario, &mut chain);
    let [message] = handed.continuation.queue.messages() else { panic!("one message") };
    assert!(message.delivery_uncertain && !message.sent);
}

/// A handoff moves the slot to the continuation, even if other sessions wait in line (decision 21).
#[test]
fn the_slot_goes_to_the_continuation() {
    let (mut scenario, mut chain) = over();
    let mut pool = SessionPool::default();
    pool.configure(1).unwrap();
    let mut ids = Ids(50_000);
    let mut ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut ids);
    let mut other = Scenario::new().conv.session;
    let from = other.id();
    pool.allocate(&mut other, &mut ctx).unwrap();
    let mut handed = hand_over(&mut scenario, &mut chain);
    let mut ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut ids);
    let (allocation, _) = pool.transfer(from, &mut handed.continuation.session, &mut ctx).unwrap();
    assert!(matches!(allocation, Allocation::Allocated(_)));
    assert_eq!(pool.leases().keys().copied().collect::<Vec<_>>(), [handed.continuation.session.id()]);
    let again = pool.transfer(from, &mut handed.continuation.session, &mut ctx).unwrap();
    assert_eq!(again, (Allocation::NotWanted, Vec::new()));
}

/// If the budget is used up, the continuation stays Queued until the cap is raised (decision 33).
#[test]
fn unaffordable_continuation_waits_for_the_cap() {
    let scenario = Scenario::running().observes(AgentFact::ContextExhausted);
    let mut chain = begun(&scenario);
    let mut scenario = scenario.observes(written("half")).observes(used("1.2"));
    scenario.die(true).unwrap();
    let mut next = hand_over(&mut scenario, &mut chain).continuation.session;
    let mut pool = SessionPool::default();
    let mut ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut scenario.ids);
    assert!(next.waits_for_budget());
    assert_eq!(pool.allocate(&mut next, &mut ctx).unwrap(), (Allocation::NotWanted, Vec::new()));
    assert_eq!(next.change_budget(crate::scenario::cap("1.2")).unwrap_err().code(), "cap-below-spend");
    let events = next.change_budget(crate::scenario::cap("2")).unwrap();
    assert!(events.iter().any(|event| matches!(event, SessionEvent::SlotWanted { .. })));
    assert!(matches!(pool.allocate(&mut next, &mut ctx).unwrap().0, Allocation::Allocated(_)));
}

/// Late spend counts once, however often it is reported (decision 33).
#[test]
fn late_spend_counts_once() {
    let (mut scenario, mut chain) = over();
    let mut next = hand_over(&mut scenario, &mut chain).continuation.session;
    scenario.observe_late(used("0.9"));
    assert!(scenario.last.contains(&SessionEvent::LateSpend { total_cost_usd: usd("0.9") }));
    let events = next.carry_spend(usd("0.9"));
    assert!(events.iter().any(|event| matches!(event, SessionEvent::BudgetWarning { .. })));
    assert_eq!(next.carry_spend(usd("0.9")), Vec::new());
    assert_eq!(next.carry_spend(usd("0.5")), Vec::new(), "counted spend is not taken back");
    assert_eq!(next.budget().account_usd(), usd("0.9"));
}

/// A late document replaces the inherited one before the continuation has started. After that it is sent as a message (decision
/// 34).
#[test]
fn late_document_replaces_the_first_or_is_reported() {
    let (mut scenario, mut chain) = over();
    let from = scenario.conv.session.id();
    let mut next = hand_over(&mut scenario, &mut chain).continuation;
    let scenario = scenario.observes(written("more"));
    let late = recorded(&scenario);
    assert_eq!(chain.correct_document(from, &late).len(), 1);
    assert_eq!(chain.correct_document(from, &late), Vec::new(), "an identical document");

    let mut ids = Ids(70_000);
    let mut ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut ids);
    next.receive_late_document(from, &late, &mut ctx);
    assert_eq!(next.session.continues().unwrap().document, Some(late));
    assert!(next.queue.messages().is_empty());

    // A running session receives the document as messages, however long it is.
    let mut begun = Scenario::running();
    let long = RecordedHandoff {
        document: HandoffDocument::of_agent(&"a".repeat(4000), &"b".repeat(4000), None),
        ..recorded(&scenario)
    };
    begun.commit::<SessionError>(|conv, ctx| Ok(conv.receive_late_document(from, &long, ctx))).unwrap();
    let said: String = begun.conv.queue.messages().iter().map(|m| m.content.as_str()).collect();
    assert!(said.contains(&"a".repeat(4000)) && said.contains(&"b".repeat(4000)), "nothing is cut");
}

#[test]
fn document_of_the_current_session_waits_for_the_next_one() {
    let (scenario, mut chain) = over();
    let (current, waiting) = (scenario.conv.session.id(), recorded(&scenario));
    let not_current = ChainError::NotCurrent { given: session(1), current };
    assert_eq!(chain.initiate_handoff(session(1), &waiting), Err(not_current));
    let initiated = ChainEvent::HandoffInitiated {
        chain_id: chain.id(),
        from_session_id: current,
        handoff_document_id: waiting.id,
        synthesized: false,
    };
    assert_eq!(chain.initiate_handoff(current, &waiting), Ok(vec![initiated]));
    assert_eq!(chain.handoffs()[0].to_session_id, None);
    let added = ChainEvent::SessionAdded { chain_id: chain.id(), new_session_id: session(2), position: 2 };
    assert_eq!(chain.attach_session(session(2), scenario.now), Ok(vec![added]));
    assert_eq!(chain.handoffs()[0].to_session_id, Some(session(2)));
}

/// The whole transition table: no operation leaves Completed and Cancelled.
#[test]
fn ended_chain_stays_ended() {
    for from in C::ALL {
        for operation in Op::ALL {
            let to = match (from, operation) {
                (C::Active, Op::InitiateHandoff | Op::AttachSession) => Some(C::Active),
                (C::Active, Op::Complete) => Some(C::Completed),
                (C::Active, Op::Cancel) => Some(C::Cancelled),
                (C::Completed | C::Cancelled, _) => None,
            };
            assert_eq!(operation.next(from), to, "{operation:?} from {from}");
        }
    }
    let (scenario, chain) = over();
    let mut cancelled = chain.clone();
    assert_eq!(cancelled.cancel(scenario.now).unwrap(), [ChainEvent::Cancelled { chain_id: chain.id() }]);
    assert_eq!((cancelled.status(), cancelled.completed_at()), (C::Cancelled, Some(scenario.now)));
    let document = recorded(&scenario);
    for end in [
        |chain: &mut SessionChain, now| chain.complete(S::Idle, Usd::ZERO, now),
        |chain: &mut SessionChain, now| chain.cancel(now),
    ] {
        let mut chain = chain.clone();
        end(&mut chain, scenario.now).unwrap();
        let ended = chain.clone();
        let over = ChainError::NotActive { status: chain.status() };
        assert_eq!(chain.initiate_handoff(scenario.conv.session.id(), &document), Err(over.clone()));
        assert_eq!(chain.attach_session(session(1), scenario.now), Err(over.clone()));
        assert_eq!(chain.complete(S::Idle, Usd::ZERO, scenario.now), Err(over.clone()));
        assert_eq!(chain.cancel(scenario.now), Err(over));
        assert_eq!(chain, ended, "a refusal changes nothing");
        assert!(!chain.waits_for_continuation(&scenario.conv.session));
    }
}

#[test]
fn chain_completes_with_its_current_session() {
    let (scenario, chain) = over();
    for status in S::ALL {
        let mut chain = chain.clone();
        let result = chain.complete(status, usd("1"), scenario.now);
        if matches!(status, S::Idle | S::Completed) {
            let completed =
                ChainEvent::Completed { chain_id: chain.id(), total_sessions: 1, total_cost_usd: usd("1") };
            assert_eq!(result.unwrap(), [completed], "{status}");
            assert_eq!(
                (chain.status(), chain.completed_at()),
                (C::Completed, Some(scenario.now)),
                "{status}"
            );
        } else {
            assert_eq!(result.unwrap_err().code(), "chain-busy", "{status}");
            assert_eq!((chain.status(), chain.completed_at()), (C::Active, None));
        }
    }
}

/// The owner attaches a session when the current one has ended and no continuation is pending. The waiting messages move to it.
#[test]
fn owner_attaches_a_session_when_the_current_one_has_ended() {
    let (_, chain) = over();
    for status in S::ALL {
        let mut scenario = Scenario::in_status(status);
        if scenario.conv.session.run().is_some() && status.is_terminal() {
            assert_eq!(
                chain.ensure_open(&scenario.conv.session).unwrap_err().code(),
                "chain-busy",
                "{status}"
            );
            scenario.die(true).unwrap();
        }
        let open = matches!(status, S::Cancelled | S::Completed | S::Failed);
        assert_eq!(chain.ensure_open(&scenario.conv.session).is_ok(), open, "{status}");
    }
    let mut failed = Scenario::running().observes(used("0.3")).when(|s| s.follow_up(1)).observes(ends(true));
    failed.die(true).unwrap();
    let (owner, objective) =
        (failed.conv.session.owner_id().clone(), failed.conv.session.objective().clone());
    let mut chain =
        SessionChain::create(chain.id(), owner, objective, failed.conv.session.id(), failed.now).0;
    let mut ids = Ids(90_000);
    let ctx = DomainContext::new(failed.now, Deadlines::default(), &mut ids);
    // All scenarios use the same session id.
    let mut same = Scenario::new().conv;
    let refused = chain.admit(&mut same, &mut failed.conv.clone(), &ctx).unwrap_err();
    assert_eq!(refused.code(), "already-in-chain");

    let fresh = SessionChain::create(
        chain.id(),
        chain.owner_id().clone(),
        chain.original_objective().clone(),
        session(3),
        failed.now,
    );
    let mut chain = fresh.0;
    let admitted = chain.admit(&mut same, &mut failed.conv, &ctx).unwrap();
    let new = same.session.id();
    let added = ChainEvent::SessionAdded { chain_id: chain.id(), new_session_id: new, position: 2 };
    assert_eq!(admitted.of_chain, [added]);
    assert!(chain.handoffs().is_empty(), "the context window of its session was never full");
    assert_eq!((admitted.of_current.len(), admitted.of_new.len()), (1, 1));
    assert_eq!(chain.current_session_id(), new);
    assert_eq!(same.queue.messages().len(), 1);
    assert!(failed.conv.queue.messages().is_empty());
    assert_eq!(same.session.budget().remaining_usd(), usd("0.7"));
    assert_eq!(failed.retry().unwrap_err(), "continued", "two sessions must not work on one account");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Write,
    Correct(u8),
    Attach,
    Complete(bool),
    Cancel,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Write),
        2 => any::<u8>().prop_map(Step::Correct),
        4 => Just(Step::Attach),
        1 => any::<bool>().prop_map(Step::Complete),
        1 => Just(Step::Cancel),
    ]
}

proptest! {
    /// The invariants of S0 8.4 hold after any sequence of operations.
    #[test]
    fn the_invariants_hold(steps in proptest::collection::vec(step(), 0..60)) {
        let (scenario, mut chain) = over();
        let mut document = recorded(&scenario);
        let mut fresh = 1_000_u128;
        for step in steps {
            fresh += 1;
            document.id = pilothouse_domain::HandoffDocumentId::new(Uuid::from_u128(fresh));
            let before = chain.clone();
            let current = chain.current_session_id();
            let result = match step {
                Step::Write => chain.initiate_handoff(current, &document),
                Step::Correct(n) => {
                    let at = usize::from(n) % chain.len();
                    let from = chain.sessions().nth(at).unwrap().session_id;
                    Ok(chain.correct_document(from, &document))
                }
                Step::Attach => chain.attach_session(session(fresh), scenario.now),
                Step::Complete(idle) => {
                    chain.complete(if idle { S::Idle } else { S::Running }, Usd::ZERO, scenario.now)
                }
                Step::Cancel => chain.cancel(scenario.now),
            };
            if result.is_err() {
                prop_assert_eq!(&chain, &before);
            }
            check(&chain);
        }
    }
}

fn check(chain: &SessionChain) {
    let sessions: Vec<_> = chain.sessions().collect();
    for (at, chained) in sessions.iter().enumerate() {
        assert_eq!(usize::try_from(chained.position).unwrap(), at + 1, "positions are contiguous");
    }
    assert_eq!(chain.current_session_id(), sessions.last().unwrap().session_id);
    let position = |id| sessions.iter().find(|s| s.session_id == id).map(|s| s.position);
    for handoff in chain.handoffs() {
        let from = position(handoff.from_session_id).expect("it is of the chain");
        match handoff.to_session_id {
            Some(to) => assert_eq!(position(to), Some(from + 1), "adjacent"),
            None => {
                assert_eq!(handoff.from_session_id, chain.current_session_id(), "only the last one waits");
            }
        }
    }
    assert_eq!(chain.completed_at().is_some(), chain.status() != C::Active);
    assert!(chain.handoffs().len() <= chain.len());
    let stored = serde_json::to_string(chain).unwrap();
    assert_eq!(serde_json::from_str::<SessionChain>(&stored).unwrap(), *chain);
}
