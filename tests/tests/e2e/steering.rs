//! Messages to an agent that works, rests, is paused or interrupted (decisions 28 to 30).

use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::scripts::{endless, say, script, short, turn, works_until_message};
use crate::server::{Server, started};

/// The messages of people and the agent in the order of their recording.
async fn conversation(session: &Session) -> Vec<String> {
    let line = |m: &Value| format!("{}: {}", m["source"].as_str().unwrap(), m["content"].as_str().unwrap());
    session.messages().await.iter().map(line).collect()
}

fn contents(queue: &Value) -> Vec<&str> {
    queue["items"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect()
}

fn id(message: &Value) -> &str {
    message["messageId"].as_str().unwrap()
}

#[tokio::test]
async fn an_immediate_message_steers_the_running_turn() {
    let server = Server::start(1).await;
    let mut plays = endless();
    plays["onSteer"] = json!("I hear you: {{message}}");
    let session = started(&server, &plays).await;
    session.until_said("Working.").await;
    let message = session.say("to the left", "Immediate").await;
    assert_eq!((&message["status"], &message["source"]), (&json!("Pending"), &json!("User")));
    session.until_said("I hear you: to the left").await;
    let view = session.view().await;
    assert_eq!((&view["status"], &view["metrics"]["turnCount"]), (&json!("Running"), &json!(0)));
    assert_eq!(
        conversation(&session).await,
        ["Agent: Working.", "User: to the left", "Agent: I hear you: to the left"]
    );
    let delivered = &session.messages().await[1];
    assert_eq!(delivered["messageId"], message["messageId"]);
    assert_eq!(contents(&session.queue().await), Vec::<&str>::new());
}

/// Queued follow-ups wait for the end of the turn and get one turn each, in order; a promoted one goes first.
#[tokio::test]
async fn follow_ups_get_one_turn_each_and_promoted_ones_go_first() {
    let server = Server::start(1).await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    for content in ["one", "two", "three"] {
        session.say(content, "Queued").await;
    }
    assert_eq!(contents(&session.queue().await), ["one", "two", "three"]);
    let third = session.queue().await["items"][2]["messageId"].as_str().unwrap().to_owned();
    // The promoted message is Immediate and enters the running turn.
    session.patch(&format!("/messages/queue/{third}/promote"), json!({})).await.expect(200);
    session.until("all turns", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 3).await;
    assert_eq!(
        conversation(&session).await,
        [
            "Agent: Working.",
            "User: three",
            "Agent: Told: three",
            "User: one",
            "Agent: You said: one",
            "User: two",
            "Agent: You said: two",
        ]
    );
    session.patch(&format!("/messages/queue/{third}/promote"), json!({})).await.refused(404, "not-found");
}

#[tokio::test]
async fn pending_messages_are_edited_moved_and_cancelled() {
    let server = Server::start(1).await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    let mut ids = Vec::new();
    for content in ["a", "b", "c", "d"] {
        ids.push(id(&session.say(content, "Queued").await).to_owned());
    }
    let path = |n: usize| format!("/messages/queue/{}", ids[n]);
    let queue = session.patch(&path(0), json!({ "content": "A, edited" })).await.expect(200).body;
    assert_eq!(contents(&queue), ["A, edited", "b", "c", "d"]);
    let queue = session.patch(&path(3), json!({ "position": 0 })).await.expect(200).body;
    assert_eq!(contents(&queue), ["d", "A, edited", "b", "c"]);
    let queue = session.patch(&path(0), json!({ "content": "A", "position": 9 })).await.expect(200).body;
    assert_eq!(contents(&queue), ["d", "b", "c", "A"]);
    let queue = session.delete(&path(1)).await.expect(200).body;
    assert_eq!(contents(&queue), ["d", "c", "A"]);
    session.delete(&path(1)).await.refused(404, "not-found");
    session.patch(&path(1), json!({ "content": "B" })).await.refused(404, "not-found");
    session.patch(&format!("{}/promote", path(1)), json!({})).await.refused(404, "not-found");

    session.say("go", "Immediate").await;
    session.until("all turns", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 4).await;
    assert_eq!(session.said().await, ["Working.", "Told: go", "You said: d", "You said: c", "You said: A"]);
}

/// `DELETE` of the queue cancels all unsent messages and returns them.
#[tokio::test]
async fn clearing_cancels_unsent_messages() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let ids = [
        session.say("a", "Queued").await["messageId"].clone(),
        session.say("b", "Queued").await["messageId"].clone(),
    ];
    let cleared = session.delete("/messages/queue").await.expect(200).body;
    assert_eq!(cleared["cancelled"], json!(ids));
    assert_eq!(session.queue().await["items"], json!([]));
    assert_eq!(session.delete("/messages/queue").await.expect(200).body["cancelled"], json!([]));
}

/// A sent message can be neither edited, moved nor cancelled (decision 28).
#[tokio::test]
async fn sent_message_cannot_be_changed() {
    let server = Server::start(1).await;
    let deaf = json!({ "ignore": { "command": "steering_message" } });
    let session =
        started(&server, &script(&[turn(&[deaf, say("Working."), json!({ "wait": 600_000 })])])).await;
    session.until_said("Working.").await;
    let message = session.say("hello?", "Immediate").await;
    let path = format!("/messages/queue/{}", id(&message));
    session.patch(&path, json!({ "content": "goodbye" })).await.refused(409, "already-sent");
    session.patch(&path, json!({ "position": 0 })).await.refused(409, "already-sent");
    session.delete(&path).await.refused(409, "already-sent");
    session.post(&format!("{path}/release"), json!({})).await.refused(409, "already-sent");
    assert_eq!(session.delete("/messages/queue").await.expect(200).body["cancelled"], json!([]));
    let queue = session.queue().await;
    assert_eq!((&queue["items"][0]["content"], &queue["items"][0]["sent"]), (&json!("hello?"), &json!(true)));
}

/// A message whose delivery is unknown is shown as uncertain and never resent automatically (decision 30).
#[tokio::test]
async fn message_lost_with_its_sidecar_is_uncertain_or_pending() {
    let server = Server::start(1).await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    // The suspended sidecar receives no message.
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::freeze);
    session.say("hello?", "Immediate").await;
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
    session.until_status("Failed").await;
    let queue = session.queue().await;
    assert_eq!(contents(&queue), ["hello?"], "kept on Failed");
    // The drained spool shows that the message was not received, so it is pending again.
    assert_eq!(
        (&queue["items"][0]["sent"], &queue["items"][0]["deliveryUncertain"]),
        (&json!(false), &json!(false))
    );
    session.post("/retry", json!({})).await.expect(202);
    session
        .until_messages("the message", |all| all.iter().filter(|m| m["content"] == "hello?").count() == 1)
        .await;
}

/// A message of either priority starts a turn in an idle session at once.
#[tokio::test]
async fn a_message_to_an_idle_session_starts_a_turn() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    session.say("first", "Queued").await;
    session.until("a turn", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 2).await;
    let recorded = session.messages().await;
    session.say("second", "Immediate").await;
    session.until("a turn", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 3).await;
    let messages = session.messages().await;
    assert_eq!(messages[..recorded.len()], recorded, "a recorded message keeps its text and its time");
    assert_eq!(session.said().await, ["Done.", "You said: first", "You said: second"]);
}

/// Paused sessions accept and hold messages; on resume the Immediate ones are sent first (decision 29).
#[tokio::test]
async fn resume_sends_waiting_messages_with_immediate_ones_first() {
    let server = Server::start(1).await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    session.post("/pause", json!({})).await.expect(202);
    session.until_status("Paused").await;
    session.say("later", "Queued").await;
    session.say("now", "Immediate").await;
    let queue = session.queue().await;
    assert_eq!(contents(&queue), ["now", "later"]);
    assert!(queue["items"].as_array().unwrap().iter().all(|m| m["sent"] == false));
    session.post("/resume", json!({})).await.expect(202);
    session.until("both turns", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 2).await;
    assert_eq!(session.said().await, ["Working.", "Told: now", "You said: later"]);
}

/// A message to an interrupted session is sent at once and starts a turn (decision 29).
#[tokio::test]
async fn a_message_to_an_interrupted_session_starts_a_turn() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    session.post("/interrupt", json!({})).await.expect(202);
    session.until_status("Interrupted").await;
    session.say("Do this instead.", "Queued").await;
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["Working.", "You said: Do this instead."]);
}

/// A repeated message with the same id gets the same response and is not delivered again; another text is refused (decision 28).
#[tokio::test]
async fn sending_is_idempotent_by_message_id() {
    let server = Server::start(1).await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    let message_id = "01900000-0000-7000-8000-00000000abcd";
    let body = json!({ "messageId": message_id, "content": "once", "priority": "Queued" });
    let other = json!({ "messageId": message_id, "content": "something else", "priority": "Queued" });
    let first = session.post("/messages/queue", body.clone()).await.expect(201);
    assert_eq!(first.body["message"]["messageId"], message_id);
    let again = session.post("/messages/queue", body.clone()).await.expect(201);
    assert_eq!(again.body, first.body);
    session.post("/messages/queue", other.clone()).await.refused(409, "idempotency-mismatch");
    assert_eq!(contents(&session.queue().await), ["once"]);

    session.say("go on", "Immediate").await;
    session.until("both turns", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 2).await;
    // This also holds after the delivery, and once the session accepts no more messages.
    session.post("/messages/queue", body.clone()).await.expect(201);
    session.post("/messages/queue", other).await.refused(409, "idempotency-mismatch");
    session.post("/close", json!({})).await.expect(200);
    session.post("/messages/queue", body).await.expect(201);
    assert_eq!(session.said().await, ["Working.", "Told: go on", "You said: once"]);
}

#[tokio::test]
async fn concurrent_sends_of_one_message_deliver_it_once() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let body = json!({ "messageId": "01900000-0000-7000-8000-00000000abcd", "content": "once" });
    let sends = (0..8).map(|_| session.post("/messages/queue", body.clone()));
    for reply in futures_util::future::join_all(sends).await {
        reply.expect(201);
    }
    assert_eq!(contents(&session.queue().await), ["once"]);
}

/// Steering for a turn that has ended is refused and not sent (decision 30).
#[tokio::test]
async fn steering_for_an_ended_turn_is_refused() {
    let server = Server::start(1).await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    let turn = session.view().await["currentTurn"]["id"].clone();
    let steer = |content: &str, turn: &Value| json!({ "content": content, "priority": "Immediate", "expectedTurnId": turn });
    session.post("/messages/queue", steer("no", &json!("another-turn"))).await.refused(409, "turn-over");
    session.post("/messages/queue", steer("yes", &turn)).await.expect(201);
    session.until_status("Idle").await;
    session.post("/messages/queue", steer("too late", &turn)).await.refused(409, "turn-over");
    assert_eq!(session.said().await, ["Working.", "Told: yes"]);
    assert_eq!(contents(&session.queue().await), Vec::<&str>::new());
}
