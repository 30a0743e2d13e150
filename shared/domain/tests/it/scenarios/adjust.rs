//! Model, thinking level, compaction and fork (S1 5), and the allowance of a run (decision 32).

use pilothouse_domain::announcement::{NotificationKind, Publishable};
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand as C, ProcessState};
use pilothouse_domain::value::{
    Adjustment, AgentConversations, AgentSettings, Capabilities, ConversationBranch, ConversationTarget,
    CycleDirection, SessionOutcome, ThinkingLevel,
};
use pilothouse_domain::{
    AgentSession, AgentSessionId, CommandId, Deadlines, DomainContext, SessionChain, SessionEvent,
};
use uuid::Uuid;

use crate::scenario::{Scenario, completes, ends, starts, turn, used};

fn model(id: &str) -> Adjustment {
    Adjustment::SetModel { model_id: id.to_owned() }
}

const fn thinks(level: ThinkingLevel) -> Adjustment {
    Adjustment::SetThinkingLevel { level }
}

const fn next() -> Adjustment {
    Adjustment::CycleModel { direction: CycleDirection::Forward }
}

const fn compact() -> Adjustment {
    Adjustment::Compact { instructions: None }
}

fn fork() -> Adjustment {
    Adjustment::Fork { before_turn_id: turn("t1") }
}

/// The adjustments that concern the conversations of the agent.
fn of_conversations() -> [Adjustment; 3] {
    [
        Adjustment::NewConversation {},
        Adjustment::SwitchConversation { target: ConversationTarget::ConversationId("c1".to_owned()) },
        Adjustment::LabelTurn { turn_id: None, label: Some("good".to_owned()) },
    ]
}

/// The command of the oldest pending adjustment.
fn asked(scenario: &Scenario) -> CommandId {
    scenario.conv.session.adjustments().next().expect("a change is under way").command.command_id
}

fn made(scenario: Scenario) -> Scenario {
    let command = asked(&scenario);
    scenario
        .observes(AgentFact::CommandReceived(command))
        .observes(AgentFact::CommandDone(C::Adjust, command))
}

fn refused(scenario: Scenario, code: &str) -> Scenario {
    let refusal = AgentFact::CommandRefused {
        command: asked(&scenario),
        code: code.to_owned(),
        message: "no such model".to_owned(),
    };
    scenario.observes(refusal)
}

fn settings(model: &str) -> AgentFact {
    AgentFact::SettingsReported(AgentSettings {
        model_id: model.to_owned(),
        thinking_level: None,
        available_models: vec!["small".to_owned(), "large".to_owned()],
    })
}

fn chosen(scenario: &Scenario) -> String {
    scenario.conv.session.model_id().to_string()
}

fn idle_that_can(can: Capabilities) -> Scenario {
    Scenario::launching()
        .observes(AgentFact::SidecarReady(can))
        .observes(starts("t1"))
        .observes(completes("t1"))
}

#[test]
fn agent_abilities_may_be_reported_again() {
    idle_that_can(crate::scenario::can_all())
        .observes(AgentFact::SidecarReady(Capabilities { pause: true, ..Capabilities::default() }))
        .then_events(&["SessionCapabilityMissingEvent"])
        .then_status(S::Idle)
        .refuses("not-supported", |s| s.adjust(&[compact()]))
        .observes(AgentFact::SidecarReady(crate::scenario::can_all()))
        .when(|s| s.adjust(&[compact()]))
        .then_events(&["SessionAdjustmentRequestedEvent"]);
}

#[test]
fn model_takes_effect_once_the_agent_confirms_it() {
    let scenario = Scenario::running()
        .when(|s| s.adjust(&[model("large")]))
        .then_events(&["SessionAdjustmentRequestedEvent"])
        .then(chosen, &"m".to_owned());
    made(scenario)
        .then_events(&["SessionAdjustedEvent"])
        .then(chosen, &"large".to_owned())
        .then(|s| s.conv.session.adjustments().count(), &0)
        .observes(settings("large"))
        .then_events(&["SessionAgentSettingsChangedEvent"])
        .observes(settings("large"))
        .then_events(&[]);
}

#[test]
fn refused_choice_changes_nothing() {
    let scenario = Scenario::idle().when(|s| s.adjust(&[model("nonsense")]));
    refused(scenario, "invalid")
        .then_events(&["SessionCommandRefusedEvent", "SessionAdjustmentAbandonedEvent"])
        .then(chosen, &"m".to_owned())
        .then(|s| s.conv.session.adjustments().count(), &0);
    // The sidecar has no agent any more: the next agent starts with the model.
    let scenario = Scenario::idle().when(|s| s.adjust(&[model("large")]));
    refused(scenario, "no-agent").then_event("SessionAdjustedEvent").then(chosen, &"large".to_owned());
}

#[test]
fn combined_changes_are_requested_together_or_not_at_all() {
    let can = Capabilities { model_switch: true, ..Capabilities::default() };
    idle_that_can(can)
        .refuses("not-supported", |s| s.adjust(&[model("large"), thinks(ThinkingLevel::High)]))
        .when(|s| s.adjust(&[model("large")]));
    let scenario = Scenario::idle().when(|s| s.adjust(&[model("large"), thinks(ThinkingLevel::High)]));
    let scenario = made(made(scenario)).then(chosen, &"large".to_owned());
    assert_eq!(scenario.conv.session.thinking_level(), Some(ThinkingLevel::High));
}

#[test]
fn choice_without_an_agent_applies_to_the_next_one() {
    for scenario in
        [Scenario::launching(), Scenario::idle().when(|s| s.die(true)), Scenario::in_status(S::Failed)]
    {
        let scenario = scenario
            .when(|s| s.adjust(&[model("large"), thinks(ThinkingLevel::Low)]))
            .then_events(&[
                "SessionAdjustmentRequestedEvent",
                "SessionAdjustedEvent",
                "SessionAdjustmentRequestedEvent",
                "SessionAdjustedEvent",
            ])
            .then(chosen, &"large".to_owned());
        let shown = scenario.conv.session.agent_settings();
        assert_eq!((shown.model_id.as_str(), shown.thinking_level), ("large", Some(ThinkingLevel::Low)));
    }
}

#[test]
fn model_cycling_uses_the_agent_or_its_reported_models() {
    // The agent chooses the next model, and reports it before or after its `done`.
    let scenario = Scenario::idle().observes(settings("small")).when(|s| s.adjust(&[next()]));
    made(scenario.observes(settings("large"))).then(chosen, &"large".to_owned());
    let scenario = Scenario::idle().observes(settings("small")).when(|s| s.adjust(&[next()]));
    made(scenario).observes(settings("large")).then(chosen, &"large".to_owned());
    // Without an agent, the list that it reported decides.
    Scenario::idle()
        .observes(settings("small"))
        .when(|s| s.die(true))
        .when(|s| s.adjust(&[next()]))
        .then(chosen, &"large".to_owned());
    Scenario::idle().when(|s| s.die(true)).refuses("models-unknown", |s| s.adjust(&[next()]));
}

#[test]
fn changes_by_the_agent_are_shown_but_not_chosen() {
    let scenario = Scenario::running().observes(settings("large")).then(chosen, &"m".to_owned());
    assert_eq!(scenario.conv.session.agent_settings().model_id, "large");
}

#[test]
fn a_choice_survives_its_run_a_retry_and_the_context() {
    // The run ends before it answers, so the choice was not refused.
    let scenario = Scenario::idle()
        .when(|s| s.adjust(&[model("large"), next(), compact()]))
        .when(|s| s.die(false))
        .then(chosen, &"large".to_owned());
    let abandoned = |e: &&SessionEvent| matches!(e, SessionEvent::AdjustmentAbandoned { .. });
    assert_eq!(scenario.last.iter().filter(abandoned).count(), 2);
    let both = [model("large"), thinks(ThinkingLevel::Max)];
    let with_both = || made(made(Scenario::running().when(|s| s.adjust(&both))));
    with_both()
        .observes(ends(true))
        .when(Scenario::retry)
        .then(chosen, &"large".to_owned())
        .then(|s| s.conv.session.thinking_level(), &Some(ThinkingLevel::Max));
    let mut scenario = with_both().observes(AgentFact::ContextExhausted);
    let session = &scenario.conv.session;
    let (chain, _) =
        SessionChain::from_handoff(&scenario.last, session, scenario.now).expect("a chain begins");
    let ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut scenario.ids);
    let id = AgentSessionId::new(Uuid::from_u128(77));
    let (next, _) = session.continued(id, chain.next_place(), &ctx);
    assert_eq!((next.model_id().as_str(), next.thinking_level()), ("large", Some(ThinkingLevel::Max)));
}

#[test]
fn agent_only_change_wakes_the_session() {
    let scenario = Scenario::idle()
        .when(|s| s.die(true))
        .when(|s| s.adjust(&[compact()]))
        .then_events(&[
            "SessionAdjustmentRequestedEvent",
            "SessionSlotWantedEvent",
            "SessionRunRequestedEvent",
            "SessionAllocatedEvent",
        ])
        .wakes()
        .then_events(&["SessionRunReadyEvent", "SessionCommandReissuedEvent"]);
    made(scenario).then_events(&["SessionAdjustedEvent"]).then_status(S::Idle);
    // An agent that does not support the adjustment refuses it, and no further run starts for it.
    Scenario::idle()
        .when(|s| s.die(true))
        .when(|s| s.adjust(&[fork()]))
        .observes(AgentFact::SidecarReady(Capabilities::default()))
        .then_event("SessionAdjustmentAbandonedEvent")
        .then(|s| s.conv.session.adjustments().count(), &0)
        .when(|s| s.die(true))
        .then_no_event("SessionSlotWantedEvent");
}

#[test]
fn conversation_rewinds_only_between_turns() {
    Scenario::idle().when(|s| s.follow_up(1)).refuses("turn-starting", |s| s.adjust(&[fork()]));
    Scenario::idle().when(Scenario::reload).refuses("reload-under-way", |s| s.adjust(&[fork()]));
    Scenario::idle().observes(used("1")).refuses("budget-exhausted", |s| s.adjust(&[compact()]));
}

#[test]
fn conversations_change_only_between_turns() {
    for change in of_conversations() {
        let change = || [change.clone()];
        Scenario::running().refuses("invalid-transition", |s| s.adjust(&change()));
        Scenario::idle().when(|s| s.follow_up(1)).refuses("turn-starting", |s| s.adjust(&change()));
        Scenario::idle().when(Scenario::reload).refuses("reload-under-way", |s| s.adjust(&change()));
        let scenario =
            Scenario::idle().when(|s| s.adjust(&change())).then_events(&["SessionAdjustmentRequestedEvent"]);
        made(scenario).then_events(&["SessionAdjustedEvent"]).then_status(S::Idle);
        // Only the agent has the conversations.
        Scenario::idle().when(|s| s.die(true)).when(|s| s.adjust(&change())).then_events(&[
            "SessionAdjustmentRequestedEvent",
            "SessionSlotWantedEvent",
            "SessionRunRequestedEvent",
            "SessionAllocatedEvent",
        ]);
    }
}

#[test]
fn agent_with_one_conversation_refuses_others() {
    let can = Capabilities { conversations: false, ..crate::scenario::can_all() };
    for change in of_conversations() {
        idle_that_can(can).refuses("not-supported", |s| s.adjust(&[change]));
    }
}

#[test]
fn reported_conversations_replace_earlier_ones() {
    let conversations = |n: u32| AgentConversations {
        branches: vec![ConversationBranch {
            conversation_id: "c1".to_owned(),
            parent_id: None,
            last_turn_id: Some(turn("t1")),
            turns: n,
            is_current: true,
        }],
        labels: Vec::new(),
    };
    Scenario::idle()
        .then(|s| s.conv.session.conversations().cloned(), &None)
        .observes(AgentFact::ConversationsReported(conversations(1)))
        .then_events(&[])
        .observes(AgentFact::ConversationsReported(conversations(2)))
        .then(|s| s.conv.session.conversations().cloned(), &Some(conversations(2)));
}

#[test]
fn slow_change_is_reported_and_nothing_is_ended() {
    let scenario = Scenario::idle()
        .when(|s| s.adjust(&[compact()]))
        .when(|s| s.clock(30, ProcessState::Alive))
        .then_events(&["SessionCommandReissuedEvent"])
        .when(|s| s.clock(30, ProcessState::Alive))
        .then_events(&["SessionCommandLateEvent"])
        .then(|s| s.last[0].clone(), &SessionEvent::CommandLate { kind: C::Adjust })
        .then(|s| s.last[0].notification_kind(), &Some(NotificationKind::RunLate));
    // The owner is notified once, and the adjustment can still complete.
    made(scenario.when(|s| s.clock(25, ProcessState::Alive)).then_events(&[]))
        .then_events(&["SessionAdjustedEvent"]);

    let scenario = Scenario::idle().when(|s| s.adjust(&[compact()]));
    let received = AgentFact::CommandReceived(asked(&scenario));
    made(
        scenario
            .observes(received)
            .when(|s| s.clock_with_heartbeats(119))
            .then_events(&[])
            .when(|s| s.clock_with_heartbeats(1))
            .then_events(&["SessionCommandLateEvent"]),
    )
    .then_status(S::Idle);
}

#[test]
fn concurrent_changes_are_limited() {
    let mut scenario = Scenario::running();
    for n in 0..AgentSession::MAX_ADJUSTMENTS {
        scenario = scenario.when(|s| s.adjust(&[model(&format!("m{n}"))]));
    }
    scenario.refuses("adjustments-under-way", |s| s.adjust(&[model("more")]));
}

#[test]
fn session_end_leaves_no_pending_change() {
    let scenario =
        Scenario::idle().when(|s| s.die(true)).when(|s| s.adjust(&[compact()])).when(Scenario::cancel);
    assert_eq!(scenario.conv.session.adjustments().count(), 0);
    let scenario =
        Scenario::idle().when(|s| s.adjust(&[compact()])).when(Scenario::close).when(|s| s.die(true));
    assert_eq!(scenario.conv.session.adjustments().count(), 0);
}

fn allowance(scenario: &Scenario) -> String {
    scenario.conv.session.allowance_usd().expect("there is a run").to_string()
}

/// Decision 32: the cap less the spend of other runs.
#[test]
fn run_allowance_is_the_remainder_at_its_start() {
    Scenario::running()
        .then(allowance, &"1".to_owned())
        .observes(used("0.3"))
        .then(allowance, &"1".to_owned())
        .observes(completes("t1"))
        .when(|s| s.die(true))
        .when(|s| s.follow_up(1))
        .wakes()
        .then(allowance, &"0.7".to_owned())
        .then_no_event("SessionAllowanceChangedEvent")
        // The previous run spent more than was known.
        .observes_late(used("0.5"))
        .then_event("SessionAllowanceChangedEvent")
        .then(allowance, &"0.5".to_owned())
        .when(|s| s.raise_cap("3"))
        .then_event("SessionAllowanceChangedEvent")
        .then(allowance, &"2.5".to_owned());
}

#[test]
fn unpriced_agent_gets_no_allowance() {
    idle_that_can(Capabilities::default())
        .when(|s| s.raise_cap("3"))
        .then_events(&["SessionBudgetChangedEvent"]);
}

#[test]
fn unacknowledged_allowance_is_resent_and_the_latest_counts() {
    let scenario = Scenario::running().when(|s| s.raise_cap("2")).when(|s| s.raise_cap("3"));
    let sent = |e: &SessionEvent| match e {
        SessionEvent::AllowanceChanged { command, .. } => Some(command.command_id),
        _ => None,
    };
    let command = scenario.last.iter().find_map(sent).unwrap();
    scenario
        .when(|s| s.clock(30, ProcessState::Alive))
        .then_events(&["SessionCommandReissuedEvent"])
        .observes(AgentFact::CommandDone(C::Adjust, command))
        .then_events(&[])
        .observes(AgentFact::CommandDone(C::Adjust, command))
        .then_ignored("stale-ack");
}

#[test]
fn turn_outcome_is_shown() {
    let ended = |outcome| AgentFact::TurnCompleted { turn: turn("t1"), output: None, outcome };
    let outcome = |s: &Scenario| s.conv.session.last_outcome();
    Scenario::running()
        .then(outcome, &None)
        .observes(ended(SessionOutcome::MaxIterations))
        .then_status(S::Idle)
        .then(outcome, &Some(SessionOutcome::MaxIterations))
        .observes(starts("t2"))
        .observes(completes("t2"))
        .then(outcome, &Some(SessionOutcome::Completed));
    Scenario::running()
        .observes(ended(SessionOutcome::ExecutionError))
        .then_status(S::Failed)
        .then(outcome, &Some(SessionOutcome::ExecutionError));
    // The turn reached the agent's own limit. The session's budget depends on its spend and cap (decision 32).
    Scenario::running()
        .observes(ended(SessionOutcome::BudgetExceeded))
        .then_status(S::Idle)
        .then(outcome, &Some(SessionOutcome::BudgetExceeded))
        .then_no_event("SessionBudgetExhaustedEvent")
        .when(|s| s.follow_up(1))
        .then_event("MessageDispatchedEvent");
    // Only the report of an exhausted quota pauses the session (decision 39).
    Scenario::running()
        .observes(ended(SessionOutcome::QuotaExceeded))
        .then_status(S::Idle)
        .then(outcome, &Some(SessionOutcome::QuotaExceeded))
        .then_no_event("SessionQuotaExceededEvent");
}
