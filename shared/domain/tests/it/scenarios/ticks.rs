//! Ticks of a project (S2, "Tick Service"; decision 67).

use pilothouse_domain::tick::{Tick, TickClock, TickConfig, TickDeadline, TickError, TickMode};
use pilothouse_domain::{ProjectAgentId, Timestamp};
use proptest::prelude::*;
use uuid::Uuid;

fn agent(n: u128) -> ProjectAgentId {
    ProjectAgentId::new(Uuid::from_u128(n))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn clock() -> TickClock {
    TickClock::new(TickConfig::default()).unwrap()
}

fn manual() -> TickClock {
    TickClock::new(TickConfig { mode: TickMode::Manual, ..TickConfig::default() }).unwrap()
}

#[test]
fn ticks_advance_only_while_an_agent_is_active() {
    let mut clock = clock();
    assert_eq!(clock.at(at(10_000)), Tick::ZERO);
    assert!(clock.agent_active(agent(1), at(10_000)));
    assert!(!clock.agent_active(agent(2), at(11_500)), "it runs already");
    assert_eq!(clock.at(at(12_999)), Tick::new(2));
    assert!(!clock.agent_inactive(agent(1), at(13_000)), "another agent is active");
    assert!(clock.agent_inactive(agent(2), at(13_250)));
    assert!(!clock.agent_inactive(agent(2), at(20_000)), "it stands still already");
    assert_eq!(clock.at(at(99_000)), Tick::new(3));
}

#[test]
fn set_of_active_agents_changes_only_with_an_agent() {
    let mut clock = clock();
    assert!(!clock.set_active(agent(1), false, at(0)), "it is not active");
    assert!(clock.set_active(agent(1), true, at(0)));
    let started = clock.clone();
    assert!(!clock.set_active(agent(1), true, at(5000)));
    assert_eq!(clock, started);
    assert!(clock.set_active(agent(1), false, at(7000)));
    assert_eq!((clock.is_running(), clock.at(at(99_000))), (false, Tick::new(7)));
}

#[test]
fn parts_of_ticks_add_up() {
    let mut clock = clock();
    for n in 0..10 {
        clock.agent_active(agent(1), at(n * 10_000));
        clock.agent_inactive(agent(1), at(n * 10_000 + 400));
    }
    assert_eq!(clock.at(at(1_000_000)), Tick::new(4));
}

#[test]
fn manual_ticks_advance_on_request_only() {
    let mut clock = manual();
    assert!(!clock.agent_active(agent(1), at(0)));
    assert_eq!(clock.at(at(60_000)), Tick::ZERO);
    assert_eq!(clock.advance(5), Ok(Tick::new(5)));
    assert_eq!(clock.advance(0), Err(TickError::Advance));
    assert_eq!(clock.advance(TickClock::MAX_ADVANCE + 1), Err(TickError::Advance));
    assert_eq!(self::clock().advance(1), Err(TickError::NotManual));
}

#[test]
fn a_changed_interval_keeps_the_current_tick() {
    let mut clock = clock();
    clock.agent_active(agent(1), at(0));
    assert_eq!(clock.configure(TickConfig { interval_ms: 100, ..clock.config() }, at(5_900)), Ok(true));
    assert_eq!(clock.at(at(5_900)), Tick::new(5));
    assert_eq!(clock.at(at(6_100)), Tick::new(7));
    assert_eq!(clock.configure(clock.config(), at(6_100)), Ok(false));
    let invalid = TickConfig { interval_ms: 9, ..clock.config() };
    assert_eq!(clock.configure(invalid, at(7_000)), Err(TickError::Interval));
}

#[test]
fn a_change_of_mode_stops_and_starts_the_clock() {
    let mut clock = clock();
    clock.agent_active(agent(1), at(0));
    clock.configure(TickConfig { mode: TickMode::Manual, ..clock.config() }, at(3_000)).unwrap();
    clock.advance(10).unwrap();
    assert_eq!(clock.at(at(100_000)), Tick::new(13));
    clock.configure(TickConfig::default(), at(100_000)).unwrap();
    assert_eq!(clock.at(at(102_000)), Tick::new(15));
}

#[test]
fn deadlines_have_an_estimated_time_while_the_clock_runs() {
    let mut clock = clock();
    assert_eq!(clock.deadline(Tick::new(3), at(0)), TickDeadline::Stopped);
    clock.agent_active(agent(1), at(1_000));
    assert_eq!(clock.deadline(Tick::new(3), at(2_500)), TickDeadline::At(at(4_000)));
    assert_eq!(clock.deadline(Tick::new(3), at(4_000)), TickDeadline::Due);
    clock.configure(TickConfig { interval_ms: 100, ..clock.config() }, at(2_000)).unwrap();
    assert_eq!(clock.deadline(Tick::new(3), at(2_000)), TickDeadline::At(at(2_200)));
}

#[test]
fn the_clock_survives_storage() {
    let mut clock = clock();
    clock.agent_active(agent(1), at(1_000));
    let text = serde_json::to_string(&clock).unwrap();
    assert_eq!(serde_json::from_str::<TickClock>(&text).unwrap(), clock);
}

#[derive(Debug, Clone)]
enum Step {
    Active(u8),
    Inactive(u8),
    Wait(u16),
    Interval(u16),
    Manual(bool),
    Advance(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3_u8).prop_map(Step::Active),
        3 => (0..3_u8).prop_map(Step::Inactive),
        4 => (0..5000_u16).prop_map(Step::Wait),
        1 => (10..2000_u16).prop_map(Step::Interval),
        1 => any::<bool>().prop_map(Step::Manual),
        1 => any::<u8>().prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn ticks_never_go_back(steps in prop::collection::vec(step(), 1..80)) {
        let (mut clock, mut now) = (clock(), 0);
        for step in steps {
            let before = clock.at(at(now));
            match step {
                Step::Active(n) => { clock.agent_active(agent(n.into()), at(now)); }
                Step::Inactive(n) => { clock.agent_inactive(agent(n.into()), at(now)); }
                Step::Wait(millis) => now += i64::from(millis),
                Step::Interval(millis) => {
                    let config = TickConfig { interval_ms: millis.into(), ..clock.config() };
                    clock.configure(config, at(now)).unwrap();
                }
                Step::Manual(manual) => {
                    let mode = if manual { TickMode::Manual } else { TickMode::WallClock };
                    clock.configure(TickConfig { mode, ..clock.config() }, at(now)).unwrap();
                }
                Step::Advance(ticks) => { let _ = clock.advance(ticks.into()); }
            }
            prop_assert!(clock.at(at(now)) >= before);
            let runs = clock.config().mode == TickMode::WallClock && !clock.active_agents().is_empty();
            prop_assert_eq!(clock.is_running(), runs);
            // A deadline is due at its estimated time, and not a millisecond earlier.
            if let TickDeadline::At(time) = clock.deadline(clock.at(at(now)).plus(3), at(now)) {
                let due = clock.at(at(now)).plus(3);
                prop_assert!(clock.at(time) >= due);
                prop_assert!(clock.at(at(time.as_millis() - 1)) < due);
            }
        }
    }
}
