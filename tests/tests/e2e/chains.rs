//! Chains of sessions (S0 8.4, 8.10, decisions 30, 33 to 35).

use pilothouse_tests::{Api, PATIENCE, Session};
use serde_json::{Value, json};

use crate::notifications::until_published;
use crate::scripts::{say, script, short, turn, works_until_message};
use crate::server::{Server, started, work};

/// A turn that ends with a full context and a handoff document.
pub(crate) fn exhausts(words: &str) -> Value {
    turn(&[say(words), json!({ "contextExhausted": {} }), document(words)])
}

fn document(words: &str) -> Value {
    json!({ "handoff": { "summary": format!("{words} was done."), "remainingWork": format!("What follows {words}.") } })
}

/// Waits for the continuation of `session`.
pub(crate) async fn continuation(session: &Session) -> Session {
    let view = session.until("a continuation", |view| view["continuation"].is_string()).await;
    session.api.session(view["continuation"].as_str().unwrap())
}

async fn chain(api: &Api, id: &Value) -> Value {
    api.get(&format!("/api/agents/chains/{}", id.as_str().unwrap())).await.expect(200).body
}

/// Waits until `condition` holds for the chain of `session`.
async fn until_chain(session: &Session, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let id = session.view().await["chainId"].clone();
    session
        .until_within(PATIENCE, what, async || {
            let view = chain(&session.api, &id).await;
            condition(&view).then_some(view)
        })
        .await
}

/// A full context with a document continues in a second session, which inherits everything (decision 34).
#[tokio::test]
async fn full_context_continues_in_a_session_with_the_document() {
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

    // Commands that need the current session are refused with its id.
    let refused = first.post("/cancel", json!({})).await.refused(409, "continued");
    assert_eq!(refused.body["continuation"], second.id.as_str());
    // Closing the current session completes the chain (decision 35).
    second.post("/close", json!({})).await.expect(200);
    until_chain(&second, "the end of the chain", |view| view["status"] == "Completed").await;
}

/// Other contexts receive the events of a chain. Its owner is notified of its end.
#[tokio::test]
async fn events_of_a_chain_are_published_to_other_contexts() {
    let server = Server::start(1).await;
    let plays = json!({
        "steps": [turn(&[spends("1"), json!({ "contextExhausted": {} }), document("half")])],
        "continuations": [[turn(&[say("Done."), spends("0.5")])]],
    });
    let first = started(&server, &plays).await;
    let second = continuation(&first).await;
    second.until_status("Idle").await;
    second.post("/close", json!({})).await.expect(200);
    let chain = until_chain(&second, "the end of the chain", |view| view["status"] == "Completed").await;

    let listed = server.api().all("/api/agents/chains").await;
    assert_eq!((&listed[0]["id"], &listed[0]["totalCostUsd"]), (&chain["id"], &json!("1.5")));
    let created = until_published(&first, "SessionChainCreatedEvent").await;
    assert_eq!(
        (&created["chainId"], &created["firstSessionId"], &created["originalObjective"]),
        (&chain["id"], &json!(first.id), &chain["originalObjective"])
    );
    let initiated = until_published(&first, "SessionHandoffInitiatedEvent").await;
    assert_eq!(
        (&initiated["chainId"], &initiated["fromSessionId"], &initiated["handoffDocumentId"]),
        (&chain["id"], &json!(first.id), &chain["handoffDocuments"][0]["id"])
    );
    let added = until_published(&second, "SessionAddedToChainEvent").await;
    assert_eq!(
        (&added["chainId"], &added["newSessionId"], &added["position"]),
        (&chain["id"], &json!(second.id), &json!(2))
    );
    let completed = until_published(&second, "SessionChainCompletedEvent").await;
    assert_eq!(
        (&completed["chainId"], &completed["totalSessions"], &completed["totalCostUsd"]),
        (&chain["id"], &json!(2), &json!("1.5"))
    );
    assert_eq!(completed["ownerId"], second.view().await["ownerId"]);
    let notifications = server.api().all("/api/notifications").await;
    let of_the_end = notifications.iter().filter(|one| one["kind"] == "chain-completed").count();
    assert_eq!(of_the_end, 1, "{notifications:#?}");
}

fn spends(usd: &str) -> Value {
    json!({ "usage": { "costUsd": usd, "tokens": { "inputTokens": 100 } } })
}

async fn at(first: &Session, position: usize) -> Session {
    let mut session = first.clone();
    for _ in 1..position {
        session = continuation(&session).await;
    }
    session
}

/// Handoffs of a chain of five sessions: a document after the exhaustion, one before it, a handoff by the agent, and a sidecar that
/// is killed before it writes anything. The server is killed at every step.
#[tokio::test]
async fn chain_of_five_sessions_survives_kills_without_loss() {
    let mut server = Server::start(1).await;
    let full = || json!({ "contextExhausted": {} });
    let plays = json!({
        "steps": [turn(&[say("one"), spends("0.1"), json!({ "waitForMessage": {} }), full(), document("one")])],
        "continuations": [
            [turn(&[say("two"), spends("0.2"), document("two"), full()])],
            [turn(&[say("three"), spends("0.3"), json!({ "handOver": {
                "reason": "my context is polluted", "summary": "three was done.", "remainingWork": "four",
            } })])],
            [turn(&[say("four"), spends("0.4"), full(), json!({ "wait": 600_000 })])],
            [turn(&[say("five: {{handoff}}"), spends("0.5")])],
        ],
        "onMessage": [say("Heard: {{message}}")],
    });
    let first = started(&server, &plays).await;
    first.until_said("one").await;
    for later in ["first", "second"] {
        first.say(later, "Queued").await;
    }
    let third = json!({ "content": "third", "messageId": uuid::Uuid::now_v7() });
    first.post("/messages/queue", third.clone()).await.expect(201);
    server.restart().await;
    first.say("go on", "Immediate").await;
    for position in 1..=3 {
        at(&first, position).await.until_status("ContextExhausted").await;
        server.restart().await;
    }
    let fourth = at(&first, 4).await;
    fourth.until_status("ContextExhausted").await;
    let run = fourth.view().await["currentRun"]["id"].clone();
    server.restart().await;
    for sidecar in server.sidecars().iter().filter(|sidecar| run == sidecar.run.as_str()) {
        sidecar.kill9();
    }
    let fifth = at(&first, 5).await;
    server.restart().await;
    // A server that is killed before it starts a sidecar leaves a failed session that keeps its messages. The owner retries it.
    let begun = fifth.until("the end of the launch", |view| view["status"] != "Queued").await;
    if begun["status"] == "Failed" {
        fifth.post("/retry", json!({})).await.expect(202);
    }
    let view =
        fifth.until("all turns", |view| view["status"] == "Idle" && view["metrics"]["turnCount"] == 4).await;

    // Every message arrives once, in order, and only in the last session.
    let said = fifth.said().await;
    assert!(said[0].starts_with("five: ") && said[0].contains("- four"), "{said:?}");
    assert_eq!(said[1..], ["Heard: first", "Heard: second", "Heard: third"]);
    // A repeated message is recognised in every session and not delivered again (decision 28).
    for session in [&first, &fifth] {
        let known = session.post("/messages/queue", third.clone()).await.expect(201).body;
        assert_eq!(known["message"]["status"], "Delivered");
    }
    first.post("/messages/queue", json!({ "content": "new" })).await.refused(409, "continued");
    // Every session appears once.
    let chain = chain(&server.api(), &view["chainId"]).await;
    let sessions = chain["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 5, "{chain:#}");
    let costs: Vec<_> = sessions.iter().map(|it| it["totalCostUsd"].as_str().unwrap()).collect();
    assert_eq!(costs, ["0.1", "0.2", "0.3", "0.4", "0.5"]);
    let synthesized: Vec<_> =
        chain["handoffDocuments"].as_array().unwrap().iter().map(|it| it["synthesized"].clone()).collect();
    assert_eq!(synthesized, [false, false, false, true]);
    // The chain has one budget (decision 33).
    assert_eq!(chain["totalCostUsd"], "1.5");
    let budget = &view["budget"];
    assert_eq!(
        (&budget["carriedUsd"], &budget["estimatedCostUsd"], &budget["remainingUsd"]),
        (&json!("1"), &json!("0.5"), &json!("3.5"))
    );
    let pool = server.api().get("/api/agents/pool").await.expect(200).body;
    assert_eq!(pool["activeCount"], 1, "one slot for the whole chain: {pool}");
}

/// The agent hands off through its API; the raw event that follows is not counted again (decision 34).
#[tokio::test]
async fn agent_hands_off_once_through_its_api() {
    let server = Server::start(1).await;
    let idle = started(&server, &short()).await;
    idle.until_status("Idle").await;
    let at_rest = server.api_with(Some(idle.api_key().to_owned()));
    let whole = json!({ "reason": "r", "summary": "s", "remainingWork": "w" });
    let path = format!("/api/agent/sessions/{}/handoff", idle.id);
    at_rest.post(&path, whole).await.refused(409, "invalid-transition");
    assert_eq!(idle.view().await["handoffDocument"], Value::Null, "a refusal records no document");

    let first = started(&server, &works_until_message()).await;
    first.until_said("Working.").await;
    let agent = server.api_with(Some(first.api_key().to_owned()));
    let path = format!("/api/agent/sessions/{}/handoff", first.id);
    let wrong = json!({ "reason": "", "summary": "x".repeat(4001), "remainingWork": "", "more": 1 });
    let wrong = agent.post(&path, wrong).await.refused(422, "validation-failed");
    assert_eq!(wrong.violated(), ["more", "reason", "remainingWork", "summary"]);
    assert_eq!(first.view().await["status"], "Running", "bad input changes nothing");

    let document = json!({ "reason": "polluted", "summary": "Half.", "remainingWork": "The rest.", "keyDecisions": "None." });
    let response = agent.post(&path, document.clone()).await.expect(202);
    assert_eq!(response.body["status"], "ContextExhausted");
    let second = continuation(&first).await;
    second.until_status("Idle").await;
    let text = "What was done:\nHalf.\n\nWhat remains:\nThe rest.\n\nKey decisions:\nNone.";
    let said = second.said().await;
    assert!(said[0].contains(text), "{said:?}");
    // The run has ended, so its key is invalid.
    agent.post(&path, document).await.refused(401, "unauthenticated");
    let chain = chain(&server.api(), &first.view().await["chainId"]).await;
    assert_eq!((&chain["sessionCount"], &chain["handoffDocuments"][1]), (&json!(2), &Value::Null));
    let handoff = until_published(&first, "SessionVoluntaryHandoffEvent").await;
    assert_eq!((&handoff["sessionId"], &handoff["reason"]), (&json!(first.id), &json!("polluted")));
}

/// The budget of the chain is exhausted: the continuation waits until the cap is raised (decision 33).
#[tokio::test]
async fn continuation_waits_until_the_chain_has_budget() {
    let server = Server::start(1).await;
    let plays = json!({
        "steps": [turn(&[json!({ "contextExhausted": {} }), spends("2"), document("all")])],
        "continuations": [[turn(&[say("paid"), spends("0.25")])]],
    });
    let mut body = work(&server, &plays);
    body["budgetCapUsd"] = json!("1.5");
    let first = Session::start(&server.api(), body).await;
    let second = continuation(&first).await;
    let view = second.view().await;
    assert_eq!((&view["status"], &view["queuedReason"]), (&json!("Queued"), &json!("budget-exhausted")));
    assert_eq!(
        (&view["budget"]["carriedUsd"], &view["budget"]["overshootUsd"]),
        (&json!("2"), &json!("0.5"))
    );
    second.patch("/budget", json!({ "capUsd": "2" })).await.refused(422, "cap-below-spend");
    first.patch("/budget", json!({ "capUsd": "9" })).await.refused(409, "continued");
    second.patch("/budget", json!({ "capUsd": "2.5" })).await.expect(200);
    let view = second.until_status("Idle").await;
    assert_eq!(second.said().await, ["paid"]);
    assert_eq!(view["budget"]["remainingUsd"], "0.25");
}

/// The list and the details of chains are visible only to their owner (S0 8.9).
#[tokio::test]
async fn chains_are_visible_only_to_their_owner() {
    let server = Server::start(1).await;
    let plays = script(&[exhausts("Part one")]);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let first = started(&server, &plays).await;
        continuation(&first).await.until_status("Idle").await;
        ids.push(first.view().await["chainId"].as_str().unwrap().to_owned());
    }
    ids.reverse();
    let api = server.api();
    let listed = api.all("/api/agents/chains").await;
    let of = |page: &[Value]| page.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(of(&listed), ids, "latest first");
    let page = api.get("/api/agents/chains?limit=2").await.expect(200).body;
    assert_eq!(of(page["items"].as_array().unwrap()), ids[..2]);
    let cursor = page["nextCursor"].as_str().unwrap();
    let rest = api.get(&format!("/api/agents/chains?limit=2&cursor={cursor}")).await.expect(200).body;
    assert_eq!(of(rest["items"].as_array().unwrap()), ids[2..]);

    api.post(&format!("/api/agents/chains/{}/cancel", ids[0]), json!({})).await.expect(200);
    let cancelled = api.get("/api/agents/chains?status=Cancelled").await.expect(200).body;
    assert_eq!(of(cancelled["items"].as_array().unwrap()), ids[..1]);
    api.get("/api/agents/chains?status=Asleep").await.refused(422, "validation-failed");

    let client = server.client();
    let found = client.resolve_chain(&ids[1][ids[1].len() - 12..]).await.unwrap();
    assert_eq!(client.chain(found).await.unwrap().sessions.len(), 2);

    let other = server.api_of("somebody-else");
    assert_eq!(other.all("/api/agents/chains").await, Vec::<Value>::new());
    for (method, path) in [("GET", ""), ("POST", "/complete"), ("POST", "/cancel")] {
        let path = format!("/api/agents/chains/{}{path}", ids[1]);
        let reply = if method == "GET" { other.get(&path).await } else { other.post(&path, json!({})).await };
        reply.refused(404, "not-found");
    }
    api.get("/api/agents/chains/nonsense").await.refused(404, "not-found");
}

/// Completing closes a resting current session unless it has output to review. Cancelling ends all sessions of the chain
/// (decision 35).
#[tokio::test]
async fn chains_complete_and_cancel_with_their_sessions() {
    let server = Server::start(1).await;
    let api = server.api();
    let post = async |id: &Value, what: &str| {
        api.post(&format!("/api/agents/chains/{}/{what}", id.as_str().unwrap()), json!({})).await
    };
    let plays = json!({ "steps": [exhausts("Part one")], "continuations": [[turn(&[say("Done.")])]] });
    let second = continuation(&started(&server, &plays).await).await;
    let view = second.until_status("Idle").await;
    let completed = post(&view["chainId"], "complete").await.expect(200).body;
    assert_eq!(
        (&completed["status"], &completed["sessions"][1]["status"]),
        (&json!("Completed"), &json!("Completed"))
    );
    assert_eq!(second.view().await["status"], "Completed");
    let published = until_published(&second, "SessionChainCompletedEvent").await;
    assert_eq!(
        published,
        json!({ "chainId": view["chainId"], "ownerId": view["ownerId"], "totalSessions": 2, "totalCostUsd": "0" })
    );

    let reviewed = json!({ "turn": { "steps": [say("Done.")], "output": { "filesChanged": 1 } } });
    let plays = json!({ "steps": [exhausts("Part one")], "continuations": [[reviewed]] });
    let second = continuation(&started(&server, &plays).await).await;
    let view = second.until_status("Idle").await;
    post(&view["chainId"], "complete").await.refused(409, "review-pending");
    assert_eq!(chain(&api, &view["chainId"]).await["status"], "Active");
    let output = json!({ "outputId": view["output"]["outputId"] });
    second.post("/approve", output).await.expect(200);
    until_chain(&second, "the end of the chain", |it| it["status"] == "Completed").await;
    post(&view["chainId"], "complete").await.refused(409, "chain-over");
    post(&view["chainId"], "cancel").await.refused(409, "chain-over");

    let busy = json!({ "steps": [exhausts("Part one")], "continuations": [[turn(&[say("Busy."), json!({ "wait": 600_000 })])]] });
    let first = started(&server, &busy).await;
    let second = continuation(&first).await;
    second.until_said("Busy.").await;
    let id = second.view().await["chainId"].clone();
    post(&id, "complete").await.refused(409, "chain-busy");
    post(&id, "cancel").await.expect(200);
    let view = second.until_status("Cancelled").await;
    assert_eq!(first.view().await["status"], "ContextExhausted");
    let cancelled = until_published(&second, "SessionChainCancelledEvent").await;
    assert_eq!(cancelled, json!({ "chainId": id, "ownerId": view["ownerId"] }));
}

/// The owner continues a chain whose current session has ended, on the budget of the chain; otherwise the start is refused.
#[tokio::test]
async fn owner_attaches_a_session_to_an_own_chain() {
    let server = Server::start(1).await;
    let api = server.api();
    let plays = json!({
        "steps": [turn(&[spends("1"), json!({ "contextExhausted": {} }), document("half")])],
        "continuations": [[turn(&[say("Done."), spends("0.5")])]],
    });
    let second = continuation(&started(&server, &plays).await).await;
    let id = second.until_status("Idle").await["chainId"].clone();
    let attach = |chain: &Value, cap: &str| {
        let mut body = work(&server, &short());
        body["chainId"] = chain.clone();
        body["budgetCapUsd"] = json!(cap);
        body
    };
    let start = async |body: Value| api.post("/api/agents/sessions", body).await;
    start(attach(&id, "5")).await.refused(409, "chain-busy");
    second.post("/cancel", json!({})).await;
    second.until("its end", |it| it["status"] == "Cancelled" && it["currentRun"].is_null()).await;
    assert_eq!(
        start(attach(&id, "1.5")).await.refused(422, "validation-failed").violated(),
        ["budgetCapUsd"]
    );
    assert_eq!(
        start(attach(&json!(second.id), "5")).await.refused(422, "validation-failed").violated(),
        ["chainId"]
    );
    assert_eq!(chain(&api, &id).await["sessionCount"], 2, "refusals change nothing");

    let third = Session::start(&api, attach(&id, "5")).await;
    let view = third.until_status("Idle").await;
    assert_eq!((&view["chainId"], &view["continues"]), (&id, &json!(second.id)));
    assert_eq!(
        (&view["budget"]["carriedUsd"], &view["budget"]["remainingUsd"]),
        (&json!("1.5"), &json!("3.5"))
    );
    let chain = chain(&api, &id).await;
    assert_eq!(
        (&chain["currentSessionId"], &chain["sessions"][2]["position"]),
        (&json!(third.id), &json!(3))
    );
    assert_eq!(second.view().await["continuation"], third.id.as_str());
}
