//! Events that cannot be applied are quarantined with their cause, and reprocessed once the cause is removed (decision 9).

use pilothouse_store::layout;
use pilothouse_store::table::{Condition, Item, Key, Write};
use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::{Server, started};

const LETTERS: &str = "/api/operations/dead-letters";
const REDRIVE: &str = "/api/operations/dead-letters/events/redrive";

/// The item of the subagent `helper`.
fn helper(session: &Session) -> Key {
    Key::new(layout::session_partition(session.id.parse().unwrap()), "SUB#helper")
}

/// An item that this version cannot read, as if a newer version had written it.
fn unreadable(key: Key) -> Write {
    let body = r#"{"of":"another version"}"#.to_owned();
    let kind = "subagent".to_owned();
    let item = Item { key, kind, version: 0, listing: None, due: None, expires_at: None, body };
    Write::Put(item, Condition::Always)
}

fn has(activity: &[Value], part: &str) -> bool {
    activity.iter().any(|line| line["summary"].as_str().is_some_and(|s| s.contains(part)))
}

/// The spend of the subagent cannot be counted while its item cannot be read.
#[tokio::test]
async fn quarantined_event_counts_when_it_is_redriven() {
    let mut server = Server::start(1).await;
    let operator = server.api_of_operator();
    let spent = json!({ "raw": {
        "type": "usage_update", "meterId": "helper", "modelId": "small", "subagentId": "helper",
        "costUsd": "0.25", "tokenUsage": { "inputTokens": 10 },
    } });
    let plays = script(&[turn(&[
        say("Working."),
        json!({ "waitForMessage": {} }),
        spent,
        say("After."),
        json!({ "waitForMessage": {} }),
        say("Going on."),
        json!({ "wait": 600_000 }),
    ])]);
    let session = started(&server, &plays).await;
    let other = started(
        &server,
        &script(&[turn(&[say("Working."), json!({ "waitForMessage": {} }), say("Me too.")])]),
    )
    .await;
    session.until_said("Working.").await;
    other.until_said("Working.").await;
    assert_eq!(operator.get(LETTERS).await.expect(200).body["queues"], json!([]));

    let damaged = unreadable(helper(&session));
    server.plant(damaged).await;
    session.say("Spend.", "Immediate").await;
    other.say("You too?", "Immediate").await;
    // Another session is not delayed, and other events of this one only for a limited time.
    other.until_said("Me too.").await;
    session.until_said("After.").await;
    let activity = session.activity().await;
    assert!(has(&activity, "is among the dead letters"), "{activity:#?}");
    assert_eq!(session.view().await["budget"]["estimatedCostUsd"], "0");

    let dead = operator.get(LETTERS).await.expect(200).body;
    let queue = &dead["queues"][0];
    assert_eq!((&queue["queue"], &queue["count"]), (&json!("events.fifo"), &json!(1)), "{dead:#}");
    let letter = &queue["letters"][0];
    assert_eq!((&letter["group"], &letter["receiveCount"]), (&json!(session.id), &json!(5)), "{dead:#}");
    assert!(letter["cause"].as_str().unwrap().contains("SUB#helper` cannot be read"), "{dead:#}");
    // Listing dead letters changes nothing.
    assert_eq!(operator.get(LETTERS).await.expect(200).body, dead);

    let repaired = Write::Delete(helper(&session), Condition::Always);
    server.plant(repaired).await;
    let stranger = server.api_of("someone-else");
    stranger.get(LETTERS).await.refused(404, "not-found");
    stranger.post(REDRIVE, json!({})).await.refused(404, "not-found");
    operator.post("/api/operations/dead-letters/nowhere/redrive", json!({})).await.refused(404, "not-found");

    let redriven = operator.post(REDRIVE, json!({})).await.expect(200).body;
    assert_eq!((&redriven["redrive"]["letters"], &redriven["left"]), (&json!(1), &json!(0)), "{redriven:#}");
    assert!(redriven["redrive"]["requests"].as_u64().unwrap() >= 3, "{redriven:#}");
    let view = session.until("the late usage", |v| v["budget"]["estimatedCostUsd"] == "0.25").await;
    assert_eq!(view["status"], "Running");
    session
        .until_activity("the late event", |all| {
            has(all, "which had been quarantined, was sent again and applied late")
        })
        .await;

    // The event counts once: nothing is left to redrive, and the session continues in order.
    let again = operator.post(REDRIVE, json!({})).await.expect(200).body;
    assert_eq!((&again["redrive"]["letters"], &again["left"]), (&json!(0), &json!(0)));
    session.say("Go on.", "Immediate").await;
    session.until_said("Going on.").await;
    assert_eq!(session.view().await["budget"]["estimatedCostUsd"], "0.25");
    let dead = operator.get(LETTERS).await.expect(200).body;
    assert_eq!(dead["queues"], json!([]));
    let latest = &dead["redrives"][0];
    assert_eq!(
        latest["id"], redriven["redrive"]["id"],
        "a redrive that sent nothing is not recorded: {dead:#}"
    );
    assert_eq!((&latest["by"], &latest["letters"]), (&json!(server.operator()), &json!(1)));
}
