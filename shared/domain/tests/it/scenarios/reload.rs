//! Skills of a session and hot reload (S0 8.4; decisions 12, 25, 29).

use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand as C, ProcessState};
use pilothouse_domain::value::Capabilities;
use pilothouse_domain::{AgentSession, CommandId, SessionEvent};

use crate::scenario::{Scenario, can_all, skill, starts};

fn reload(scenario: &Scenario) -> CommandId {
    scenario.conv.session.reload().unwrap().command_id
}

fn reloaded(scenario: Scenario) -> Scenario {
    let command = reload(&scenario);
    scenario.observes(AgentFact::CommandDone(C::Reload, command))
}

/// An idle session whose adapter has the capabilities `can`.
fn idle_with(can: Capabilities) -> Scenario {
    Scenario::launching()
        .observes(AgentFact::SidecarReady(can))
        .observes(starts("t1"))
        .observes(crate::scenario::completes("t1"))
}

#[test]
fn skills_keep_their_order_without_duplicates() {
    let scenario = Scenario::idle()
        .when(|s| s.enable(2))
        .then(|s| s.last.clone(), &vec![SessionEvent::SkillEnabled { skill_id: skill(2) }])
        .then_events(&["SessionSkillEnabledEvent"])
        .when(|s| s.enable(1))
        .when(|s| s.enable(2))
        .then_events(&[])
        .then(|s| s.conv.session.enabled_skill_ids().to_vec(), &vec![skill(2), skill(1)])
        .then(|s| s.conv.session.config_changed(), &true)
        .when(|s| s.disable(2))
        .then(|s| s.last.clone(), &vec![SessionEvent::SkillDisabled { skill_id: skill(2) }])
        .then_events(&["SessionSkillDisabledEvent"])
        .refuses("skill-not-enabled", |s| s.disable(2));
    assert_eq!(scenario.conv.session.enabled_skill_ids(), [skill(1)]);
}

#[test]
fn a_session_has_a_bounded_number_of_skills() {
    let mut scenario = Scenario::idle();
    for n in 0..20 {
        scenario = scenario.when(|s| s.enable(n));
    }
    scenario.refuses("too-many-skills", |s| s.enable(20)).when(|s| s.enable(3));
    let mut session = Scenario::new().conv.session;
    let many: Vec<_> = (0..21).map(skill).collect();
    assert_eq!(session.set_skills(&many).unwrap_err().code(), "too-many-skills");
    assert!(session.set_skills(&[skill(1), skill(0), skill(1)]).is_ok());
    assert_eq!(session.enabled_skill_ids(), [skill(1), skill(0)]);
    assert_eq!(AgentSession::MAX_SKILLS, 20);
}

#[test]
fn a_reload_is_confirmed_by_its_own_acknowledgement() {
    let scenario = Scenario::idle()
        .when(|s| s.enable(1))
        .when(Scenario::reload)
        .then_events(&["SessionReloadRequestedEvent"])
        .then_status(S::Idle)
        .refuses("reload-under-way", Scenario::reload)
        .refuses("reload-under-way", |s| s.enable(2))
        .refuses("reload-under-way", |s| s.disable(1))
        .observes(AgentFact::CommandDone(C::Reload, CommandId::new(uuid::Uuid::from_u128(1))))
        .then_ignored("stale-ack");
    let scenario = reloaded(scenario)
        .then_events(&["SessionReloadedEvent"])
        .then(|s| s.conv.session.config_changed(), &false)
        .then(|s| s.conv.session.reload().is_none(), &true);
    // Interrupted sessions reload in the same way.
    reloaded(Scenario::interrupted().when(Scenario::reload)).then_status(S::Interrupted);
    drop(scenario);
}

#[test]
fn a_message_waits_for_the_reload() {
    let scenario = Scenario::idle()
        .when(Scenario::reload)
        .when(|s| s.follow_up(1))
        .then_queue(&[1], &[])
        .then_no_event("MessageDispatchedEvent");
    reloaded(scenario).then_event("MessageDispatchedEvent").then_queue(&[1], &[1]);
}

#[test]
fn no_reload_starts_while_a_turn_is_starting() {
    Scenario::idle()
        .when(|s| s.follow_up(1))
        .refuses("turn-starting", Scenario::reload)
        .refuses("turn-starting", |s| s.enable(1))
        .refuses("turn-starting", |s| s.disable(1));
}

#[test]
fn reload_without_a_sidecar_is_confirmed_at_once() {
    Scenario::idle()
        .when(|s| s.enable(1))
        .when(|s| s.die(true))
        .then_hibernated(S::Idle)
        .when(Scenario::reload)
        .then_events(&["SessionReloadRequestedEvent", "SessionReloadedEvent"])
        .then(|s| s.conv.session.config_changed(), &false);
}

#[test]
fn process_end_fulfils_the_reload() {
    Scenario::idle()
        .when(Scenario::reload)
        .when(|s| s.follow_up(1))
        .when(|s| s.die(true))
        .then_event("SessionReloadedEvent")
        .then_event("SessionSlotWantedEvent")
        .then(|s| s.conv.session.reload().is_none(), &true);
}

#[test]
fn adapter_without_reload_support_is_restarted() {
    let can = Capabilities { hot_reload: false, ..can_all() };
    idle_with(can)
        .when(Scenario::reload)
        .then_events(&["SessionReloadRequestedEvent", "SessionRunStopOrderedEvent"])
        .refuses("reload-under-way", Scenario::reload)
        .when(|s| s.die(true))
        .then_event("SessionReloadedEvent")
        .then_hibernated(S::Idle);
    let can = Capabilities { hot_reload: false, resume_conversation: false, ..can_all() };
    idle_with(can).refuses("not-supported", Scenario::reload);
}

#[test]
fn unreceived_reload_is_resent_once_then_the_process_is_stopped() {
    Scenario::idle()
        .when(Scenario::reload)
        .when(|s| s.clock(31, ProcessState::Alive))
        .then_events(&["SessionCommandReissuedEvent"])
        .when(|s| s.clock(31, ProcessState::Alive))
        .then_events(&["SessionRunStopOrderedEvent"])
        .when(|s| s.die(true))
        .then_event("SessionReloadedEvent")
        .then_hibernated(S::Idle);
}

#[test]
fn reload_timeout_ends_the_process() {
    let scenario = Scenario::idle().when(Scenario::reload);
    let command = reload(&scenario);
    scenario
        .observes(AgentFact::CommandReceived(command))
        .when(|s| s.clock_with_heartbeats(110))
        .then_no_event("SessionRunStopOrderedEvent")
        .when(|s| s.clock_with_heartbeats(15))
        .then_event("SessionRunStopOrderedEvent");
}

#[test]
fn refused_reload_keeps_the_old_configuration() {
    let scenario = Scenario::idle().when(|s| s.enable(1)).when(Scenario::reload).when(|s| s.follow_up(1));
    let command = reload(&scenario);
    scenario
        .observes(AgentFact::CommandRefused { command, code: "no".to_owned(), message: String::new() })
        .then_event("SessionCommandRefusedEvent")
        .then_no_event("SessionReloadedEvent")
        .then(|s| s.conv.session.config_changed(), &true)
        // The waiting message is sent.
        .then_queue(&[1], &[1]);
}

#[test]
fn turn_started_by_the_agent_does_not_block_a_reload() {
    let scenario = Scenario::idle().when(Scenario::reload).observes(starts("t9")).then_status(S::Running);
    reloaded(scenario).then_events(&["SessionReloadedEvent"]).then_status(S::Running);
    // The turn is not ended for a late reload.
    let scenario = Scenario::idle().when(Scenario::reload).observes(starts("t9"));
    let command = reload(&scenario);
    scenario
        .observes(AgentFact::CommandReceived(command))
        .when(|s| s.clock_with_heartbeats(125))
        .then_no_event("SessionRunStopOrderedEvent")
        .then_status(S::Running);
}

#[test]
fn session_end_ends_the_reload() {
    for end in [Scenario::close, Scenario::cancel] {
        let scenario = Scenario::idle().when(Scenario::reload);
        let command = reload(&scenario);
        let scenario = scenario.when(end).then(|s| s.conv.session.reload().is_none(), &true);
        scenario.observes(AgentFact::CommandDone(C::Reload, command)).then_ignored("stale-ack");
    }
}
