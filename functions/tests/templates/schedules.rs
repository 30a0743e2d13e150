//! Schedules (S0 8.5 `AgentSchedule`): each scheduled time starts one session.

use std::time::Duration;

use pilothouse_broker::{Receipt, Received};
use pilothouse_domain::TemplateEvent;
use pilothouse_domain::template::ScheduleSkip;
use pilothouse_functions::events::{clock, relay};
use serde_json::{Value, json};

use crate::fixture::{TemplatesFixture, schedule};

const NOON: &str = "2026-05-01T12:00:00.000Z";
/// Two o'clock in Berlin.
const DUE: &str = "2026-05-02T00:00:00.000Z";

async fn nightly() -> (TemplatesFixture, String) {
    let fixture = TemplatesFixture::at(NOON).await;
    let path = fixture.template(json!({ "schedule": schedule("0 2 * * *") })).await;
    (fixture, path)
}

#[tokio::test]
async fn due_time_starts_a_session_from_the_template() {
    let (fixture, path) = nightly().await;
    fixture.set("2026-05-01T23:59:59.999Z");
    fixture.tick().await;
    assert!(fixture.sessions().await.is_empty(), "not yet");
    fixture.set(DUE);
    fixture.tick().await;
    let sessions = fixture.sessions().await;
    assert_eq!(sessions.len(), 1);
    let id = sessions[0]["id"].as_str().unwrap();
    let session = fixture.get(&format!("/sessions/{id}")).await.expect(200);
    assert_eq!((&session["objective"], &session["workingDirectory"]), (&json!("Tidy up"), &json!("/work")));
    assert_eq!((&session["modelId"], &session["budget"]["hardCapUsd"]), (&json!("small"), &json!("2")));
    assert_eq!(session["templateId"], path.trim_start_matches("/templates/"));
    assert_eq!(session["queuedReason"], "launching", "it has a slot");
    let template = fixture.get(&path).await.expect(200);
    assert_eq!(template["schedule"]["lastRun"], json!({ "scheduledFor": DUE, "at": DUE, "sessionId": id }));
    assert_eq!(template["schedule"]["nextRunAt"], "2026-05-03T00:00:00.000Z");
    let ran = |event: &TemplateEvent| matches!(event, TemplateEvent::ScheduleRan { .. });
    assert!(fixture.journal(&path).await.iter().any(ran));
}

#[tokio::test]
async fn model_that_the_operator_no_longer_allows_skips_the_time() {
    let (mut fixture, path) = nightly().await;
    fixture.allow_models(&["large"]);
    fixture.set(DUE);
    fixture.tick().await;
    assert!(fixture.sessions().await.is_empty());
    let skipped = |event: &TemplateEvent| {
        matches!(event, TemplateEvent::ScheduleSkipped { reason: ScheduleSkip::ModelNotAllowed, .. })
    };
    assert!(fixture.journal(&path).await.iter().any(skipped));
    let template = fixture.get(&path).await.expect(200);
    assert_eq!(template["schedule"]["nextRunAt"], "2026-05-03T00:00:00.000Z");
}

#[tokio::test]
async fn template_without_an_adapter_skips_the_time() {
    let (mut fixture, path) = nightly().await;
    fixture.without_default_adapter();
    fixture.set(DUE);
    fixture.tick().await;
    fixture.tick().await;
    assert!(fixture.sessions().await.is_empty());
    let skips = fixture.journal(&path).await.into_iter().filter_map(|event| match event {
        TemplateEvent::ScheduleSkipped { reason, .. } => Some(reason),
        _ => None,
    });
    assert_eq!(skips.collect::<Vec<_>>(), [ScheduleSkip::NoAdapter], "skipped once");
    let template = fixture.get(&path).await.expect(200);
    assert_eq!(template["schedule"]["nextRunAt"], "2026-05-03T00:00:00.000Z");

    fixture.ask("PUT", &path, json!({ "adapter": "script" })).await.expect(200);
    fixture.set("2026-05-03T00:00:00.000Z");
    fixture.tick().await;
    assert_eq!(fixture.sessions().await.len(), 1);
}

#[tokio::test]
async fn concurrent_sweeps_start_one_session_per_time() {
    let (fixture, path) = nightly().await;
    fixture.set(DUE);
    let id: pilothouse_domain::AgentTemplateId = path.trim_start_matches("/templates/").parse().unwrap();
    let look = || clock::schedules::carry_out(&fixture.app, id);
    let (a, b, c, d) = tokio::join!(look(), look(), look(), look());
    for outcome in [a, b, c, d] {
        outcome.unwrap();
    }
    fixture.tick().await;
    assert_eq!(fixture.sessions().await.len(), 1);
    fixture.set("2026-05-03T00:00:10.000Z");
    fixture.tick().await;
    assert_eq!(fixture.sessions().await.len(), 2, "the next night");
}

#[tokio::test]
async fn missed_times_are_caught_up_once() {
    let (fixture, path) = nightly().await;
    fixture.set("2026-05-09T12:00:00.000Z");
    fixture.tick().await;
    fixture.tick().await;
    assert_eq!(fixture.sessions().await.len(), 1);
    let schedule = fixture.get(&path).await.expect(200)["schedule"].take();
    assert_eq!(schedule["nextRunAt"], "2026-05-10T00:00:00.000Z");
}

#[tokio::test]
async fn deactivated_template_skips_its_time_with_a_notice() {
    let (fixture, path) = nightly().await;
    fixture.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    for night in ["2026-05-02T00:00:00.000Z", "2026-05-03T00:00:00.000Z"] {
        fixture.set(night);
        fixture.tick().await;
    }
    assert!(fixture.sessions().await.is_empty());
    let skipped: Vec<_> = fixture
        .journal(&path)
        .await
        .into_iter()
        .filter_map(|event| match event {
            TemplateEvent::ScheduleSkipped { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(skipped, [ScheduleSkip::Deactivated], "skipped once");
    let last = fixture.get(&path).await.expect(200)["schedule"]["lastRun"].take();
    assert_eq!((&last["scheduledFor"], &last["sessionId"]), (&json!(DUE), &Value::Null));
    fixture.post(&format!("{path}/activate"), Value::Null).await.expect(200);
    fixture.set("2026-05-04T00:00:00.000Z");
    fixture.tick().await;
    assert_eq!(fixture.sessions().await.len(), 1);
}

#[tokio::test]
async fn unmetered_agent_skips_its_time_until_it_is_allowed() {
    let (fixture, path) = nightly().await;
    fixture.set(DUE);
    fixture.tick().await;
    fixture.is_unmetered(&fixture.sessions().await[0]).await;
    fixture.set("2026-05-03T00:00:00.000Z");
    fixture.tick().await;
    assert_eq!(fixture.sessions().await.len(), 1, "its cap cannot be enforced");
    let skipped = fixture.journal(&path).await.into_iter().rev().find_map(|event| match event {
        TemplateEvent::ScheduleSkipped { reason, next_run_at, .. } => Some((reason, next_run_at)),
        _ => None,
    });
    let next = "2026-05-04T00:00:00.000Z";
    assert_eq!(skipped, Some((ScheduleSkip::Unmetered, Some(next.parse().unwrap()))));
    fixture.ask("PUT", &path, json!({ "allowUnmetered": true })).await.expect(200);
    fixture.set(next);
    fixture.tick().await;
    assert_eq!(fixture.sessions().await.len(), 2);
}

#[tokio::test]
async fn scheduled_session_queues_when_the_pool_is_full() {
    let (fixture, _) = nightly().await;
    fixture.ask("PATCH", "/pool", json!({ "maxConcurrentSessions": 1 })).await.expect(200);
    let one = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
    fixture.post("/sessions", one).await.expect(201);
    fixture.set(DUE);
    fixture.tick().await;
    let id = fixture.sessions().await[1]["id"].as_str().unwrap().to_owned();
    let session = fixture.get(&format!("/sessions/{id}")).await.expect(200);
    assert_eq!(
        (&session["objective"], &session["queuedReason"]),
        (&json!("Tidy up"), &json!("pool-exhausted"))
    );
}

/// In the cloud a sweep every minute finds the deadlines of the next minute and sends delayed messages.
#[tokio::test]
async fn due_time_is_found_a_minute_ahead_and_counted_once() {
    let (fixture, _) = nightly().await;
    fixture.set("2026-05-01T23:59:30.000Z");
    let due = fixture.app.store.due_aggregates(fixture.app.now() + relay::SOON, 10).await.unwrap();
    let (template, at) = due.first().unwrap();
    let message = relay::deadline_of_aggregate(template, *at, fixture.app.now()).unwrap();
    assert_eq!((due.len(), message.delay), (1, Duration::from_secs(30)));
    fixture.set("2026-05-01T23:58:59.000Z");
    assert!(fixture.app.store.due_aggregates(fixture.app.now() + relay::SOON, 10).await.unwrap().is_empty());

    fixture.set(DUE);
    let received = |n: u32| Received {
        receipt: Receipt(format!("{n}")),
        group: message.group.clone(),
        body: message.body.clone(),
        receive_count: n,
        redriven: false,
    };
    // A repeated delivery finds no due time.
    for n in 1..=2 {
        assert_eq!(clock::process(&fixture.app, vec![received(n)]).await.done.len(), 1);
        assert_eq!(fixture.sessions().await.len(), 1);
    }
}
