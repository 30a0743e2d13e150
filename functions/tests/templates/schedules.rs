//! Schedules (S0 8.5 `AgentSchedule`): each time starts one session.

use std::time::Duration;

use pilothouse_broker::{Receipt, Received};
use pilothouse_domain::DomainEvent;
use pilothouse_domain::template::ScheduleSkip;
use pilothouse_functions::{clock, relay};
use serde_json::{Value, json};

use crate::stage::{Stage, schedule};

const NOON: &str = "2026-05-01T12:00:00.000Z";
/// Two o'clock in Berlin.
const DUE: &str = "2026-05-02T00:00:00.000Z";

async fn nightly() -> (Stage, String) {
    let stage = Stage::at(NOON).await;
    let path = stage.template(json!({ "schedule": schedule("0 2 * * *") })).await;
    (stage, path)
}

#[tokio::test]
async fn a_time_that_is_due_starts_a_session_from_the_template() {
    let (stage, path) = nightly().await;
    stage.set("2026-05-01T23:59:59.999Z");
    stage.tick().await;
    assert!(stage.sessions().await.is_empty(), "not yet");
    stage.set(DUE);
    stage.tick().await;
    let sessions = stage.sessions().await;
    assert_eq!(sessions.len(), 1);
    let id = sessions[0]["id"].as_str().unwrap();
    let session = stage.get(&format!("/sessions/{id}")).await.expect(200);
    assert_eq!((&session["objective"], &session["workingDirectory"]), (&json!("Tidy up"), &json!("/work")));
    assert_eq!((&session["modelId"], &session["budget"]["hardCapUsd"]), (&json!("small"), &json!("2")));
    assert_eq!(session["templateId"], path.trim_start_matches("/templates/"));
    assert_eq!(session["queuedReason"], "launching", "it has a slot");
    let template = stage.get(&path).await.expect(200);
    assert_eq!(template["schedule"]["lastRun"], json!({ "scheduledFor": DUE, "at": DUE, "sessionId": id }));
    assert_eq!(template["schedule"]["nextRunAt"], "2026-05-03T00:00:00.000Z");
    let ran = |event: &DomainEvent| matches!(event, DomainEvent::TemplateScheduleRan { .. });
    assert!(stage.journal(&path).await.iter().any(ran));
}

#[tokio::test]
async fn a_time_starts_one_session_however_many_look_at_once() {
    let (stage, path) = nightly().await;
    stage.set(DUE);
    let id: pilothouse_domain::AgentTemplateId = path.trim_start_matches("/templates/").parse().unwrap();
    let look = || clock::schedules::carry_out(&stage.app, id);
    let (a, b, c, d) = tokio::join!(look(), look(), look(), look());
    for outcome in [a, b, c, d] {
        outcome.unwrap();
    }
    stage.tick().await;
    assert_eq!(stage.sessions().await.len(), 1);
    stage.set("2026-05-03T00:00:10.000Z");
    stage.tick().await;
    assert_eq!(stage.sessions().await.len(), 2, "the next night");
}

#[tokio::test]
async fn what_was_missed_while_nobody_looked_is_caught_up_once() {
    let (stage, path) = nightly().await;
    stage.set("2026-05-09T12:00:00.000Z");
    stage.tick().await;
    stage.tick().await;
    assert_eq!(stage.sessions().await.len(), 1);
    let schedule = stage.get(&path).await.expect(200)["schedule"].take();
    assert_eq!(schedule["nextRunAt"], "2026-05-10T00:00:00.000Z");
}

#[tokio::test]
async fn a_deactivated_template_skips_its_time_and_says_so() {
    let (stage, path) = nightly().await;
    stage.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    for night in ["2026-05-02T00:00:00.000Z", "2026-05-03T00:00:00.000Z"] {
        stage.set(night);
        stage.tick().await;
    }
    assert!(stage.sessions().await.is_empty());
    let skipped: Vec<_> = stage
        .journal(&path)
        .await
        .into_iter()
        .filter_map(|event| match event {
            DomainEvent::TemplateScheduleSkipped { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(skipped, [ScheduleSkip::Deactivated], "once, and then it rests");
    let last = stage.get(&path).await.expect(200)["schedule"]["lastRun"].take();
    assert_eq!((&last["scheduledFor"], &last["sessionId"]), (&json!(DUE), &Value::Null));
    stage.post(&format!("{path}/activate"), Value::Null).await.expect(200);
    stage.set("2026-05-04T00:00:00.000Z");
    stage.tick().await;
    assert_eq!(stage.sessions().await.len(), 1);
}

#[tokio::test]
async fn a_scheduled_session_waits_in_line_when_the_pool_is_full() {
    let (stage, _) = nightly().await;
    stage.ask("PATCH", "/pool", json!({ "maxConcurrentSessions": 1 })).await.expect(200);
    let one = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
    stage.post("/sessions", one).await.expect(201);
    stage.set(DUE);
    stage.tick().await;
    let id = stage.sessions().await[1]["id"].as_str().unwrap().to_owned();
    let session = stage.get(&format!("/sessions/{id}")).await.expect(200);
    assert_eq!(
        (&session["objective"], &session["queuedReason"]),
        (&json!("Tidy up"), &json!("pool-exhausted"))
    );
}

/// In the cloud a sweep every minute finds what comes within the next, and sends a message that comes in its time.
#[tokio::test]
async fn a_time_is_found_a_minute_ahead_and_its_message_counts_once() {
    let (stage, _) = nightly().await;
    stage.set("2026-05-01T23:59:30.000Z");
    let due = stage.app.store.due_owned(stage.app.now() + relay::SOON, 10).await.unwrap();
    let (template, at) = due.first().unwrap();
    let message = relay::deadline_of_owned(template, *at, stage.app.now()).unwrap();
    assert_eq!((due.len(), message.delay), (1, Duration::from_secs(30)));
    stage.set("2026-05-01T23:58:59.000Z");
    assert!(stage.app.store.due_owned(stage.app.now() + relay::SOON, 10).await.unwrap().is_empty());

    stage.set(DUE);
    let received = |n: u32| Received {
        receipt: Receipt(format!("{n}")),
        group: message.group.clone(),
        body: message.body.clone(),
        receive_count: n,
        redriven: false,
    };
    // Delivered twice, it finds nothing to do.
    for n in 1..=2 {
        assert_eq!(clock::process(&stage.app, vec![received(n)]).await.done.len(), 1);
        assert_eq!(stage.sessions().await.len(), 1);
    }
}
