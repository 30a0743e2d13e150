//! Chains of sessions (S0 8.4, 8.10, rulings 30, 33 to 35).

use pilothouse_tests::{Api, PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, turn};
use crate::server::{Server, started, work};

/// A turn that ends with a full context, and a document.
fn exhausts(words: &str) -> Value {
    turn(&[say(words), json!({ "contextExhausted": {} }), document(words)])
}

fn document(words: &str) -> Value {
    json!({ "handoff": { "summary": format!("{words} was done."), "remainingWork": format!("What follows {words}.") } })
}

/// The session that goes on with the work of `session`, once it is there.
async fn continuation(session: &Session) -> Session {
    let view = session.until("a continuation", |view| view["continuation"].is_string()).await;
    session.api.session(view["continuation"].as_str().unwrap())
}

async fn chain(api: &Api, id: &Value) -> Value {
    api.get(&format!("/api/agents/chains/{}", id.as_str().unwrap())).await.expect(200).body
}

/// The chain of `session` once `condition` holds.
async fn until_chain(session: &Session, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let id = session.view().await["chainId"].clone();
    session
        .until_within(PATIENCE, what, async || {
            let view = chain(&session.api, &id).await;
            condition(&view).then_some(view)
        })
        .await
}

/// A full context with a document: a second session goes on, with everything that was carried over (ruling 34).
#[tokio::test]
async fn a_full_context_is_followed_by_a_session_that_has_the_document() {
    let server = Server::start(1).await;
    let script = json!({
        "steps": [exhausts("Part one")],
        "continuations": [[turn(&[say("Had: {{handoff}}"), say("For: {{objective}}")])]],
    });
    let mut body = work(&server, &script);
    body["labels"] = json!({ "team": "blue" });
    let first = Session::start(&server.api(), body).await;
    let second = continuation(&first).await;
    let view = second.until_status("Idle").await;
    assert_eq!(
        second.said().await,
        [
            "Had: What was done:\nPart one was done.\n\nWhat remains:\nWhat follows Part one.",
            "For: Keep the promise of this test"
        ]
    );
    let before = first.view().await;
    assert_eq!(before["status"], "ContextExhausted");
    for same in ["workingDirectory", "objective", "adapter", "labels", "chainId", "modelId", "name"] {
        assert_eq!(view[same], before[same], "{same}");
    }
    assert_eq!(view["continues"], first.id.as_str());

    let chain = chain(&server.api(), &view["chainId"]).await;
    assert_eq!((&chain["status"], &chain["sessionCount"]), (&json!("Active"), &json!(2)));
    assert_eq!(chain["currentSessionId"], second.id.as_str());
    let handoff = &chain["handoffDocuments"][0];
    assert_eq!((&handoff["fromSessionId"], &handoff["toSessionId"]), (&json!(first.id), &json!(second.id)));
    assert_eq!((&handoff["summary"], &handoff["synthesized"]), (&json!("Part one was done."), &json!(false)));

    // What can only be done there is refused here, with the name of who goes on.
    let refused = first.post("/cancel", json!({})).await.refused(409, "continued");
    assert_eq!(refused.body["continuation"], second.id.as_str());
    // Closing the current session completes the chain (ruling 35).
    second.post("/close", json!({})).await.expect(200);
    until_chain(&second, "the end of the chain", |view| view["status"] == "Completed").await;
}
