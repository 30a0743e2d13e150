//! Authentication and authorization (decisions 8, 9).

use pilothouse_app::function::{CallerKind, HttpFunction};
use pilothouse_domain::{AgentSessionId, EnvelopeId, RunId, Timestamp};
use pilothouse_functions::catalog::{HTTP_FUNCTIONS, cloud_functions};
use pilothouse_tests::{PATIENCE, Session};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::keys::EnvelopeKey;
use pilothouse_wire::{Envelope, Signed};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::bodies::ask;
use crate::scripts::{endless, short, works_until_message};
use crate::server::{Server, started};
use crate::tokens;

fn functions_for(caller: CallerKind, server: &Server) -> Vec<HttpFunction> {
    let functions = if server.in_cloud() { cloud_functions() } else { HTTP_FUNCTIONS.to_vec() };
    functions.into_iter().copied().filter(|f| f.caller == caller).collect()
}

/// On every route, the session of another owner is indistinguishable from an unknown one, and stays unchanged.
#[tokio::test]
async fn session_of_another_owner_is_not_found() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let message = session.say("Mine.", "Queued").await["messageId"].as_str().unwrap().to_owned();
    let before = session.view().await;
    let stranger = server.api_of("someone-else");
    let nobodys = "01900000-0000-7000-8000-00000000ffff";
    let functions = functions_for(CallerKind::Owner, &server);
    let about_one: Vec<_> = functions.iter().filter(|f| f.path.contains("/sessions/{id}")).collect();
    assert!(about_one.len() > 25);
    for function in about_one {
        let theirs = ask(&stranger, function, &session.id, &message).await;
        let none = ask(&stranger, function, nobodys, &message).await;
        assert_eq!(theirs.status, 404, "{}: {}", function.name, theirs.text);
        assert_eq!(theirs.body["code"], "not-found", "{}", function.name);
        assert_eq!(
            (&theirs.body, theirs.status),
            (&none.body, none.status),
            "{} distinguishes them",
            function.name
        );
    }
    for list in ["/api/agents/sessions", "/api/agents/sessions/history"] {
        assert_eq!(stranger.get(list).await.expect(200).body["items"], json!([]));
    }
    assert_eq!(session.view().await, before, "the session is unchanged");
    assert_eq!(session.queue().await["items"].as_array().unwrap().len(), 1);
}

/// Every route refuses a token that is missing, expired, forged, unsigned, or for another audience.
#[tokio::test]
async fn invalid_tokens_are_refused_everywhere() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let before = session.view().await;
    server.api_with(Some(tokens::good(&server))).get(&session.path("")).await.expect(200);
    let functions = functions_for(CallerKind::Owner, &server);
    assert!(functions.len() > 30);
    let mut bad = tokens::bad(&server);
    bad.push(("a session's API key", Some(session.api_key().to_owned())));
    for (fault, token) in bad {
        let api = server.api_with(token);
        for function in &functions {
            let reply = ask(&api, function, &session.id, "01900000-0000-7000-8000-000000000002").await;
            assert_eq!(reply.status, 401, "{fault} at {}: {}", function.name, reply.text);
            if server.in_cloud() {
                continue; // API Gateway refuses it without a problem document.
            }
            assert_eq!(reply.body["code"], "unauthenticated", "{fault} at {}", function.name);
            assert_eq!(reply.header("www-authenticate"), "Bearer");
        }
    }
    assert_eq!(session.view().await, before, "the session is unchanged");
    assert_eq!(server.api().get("/api/agents/pool").await.expect(200).body["maxCount"], 20);
}

async fn ids(session: &Session) -> (AgentSessionId, RunId) {
    let view = session.view().await;
    (session.id.parse().unwrap(), view["currentRun"]["id"].as_str().unwrap().parse().unwrap())
}

fn envelope(session: AgentSessionId, run: RunId, sequence: Option<u64>, body: Value) -> Envelope<Value> {
    let message_id = EnvelopeId::new(Uuid::now_v7());
    let time = Timestamp::from_millis(0);
    Envelope {
        protocol_version: PROTOCOL_VERSION,
        session_id: session,
        run_id: run,
        message_id,
        sequence,
        time,
        occurred_at: None,
        traceparent: None,
        body,
    }
}

async fn until_refused(server: &Server, session: &Session, count: usize) {
    let refused = async || {
        let log = server.log_of("intake").await;
        (log.matches("a message was refused").count() >= count).then_some(())
    };
    session.until_within(PATIENCE, "the refusals", refused).await;
}

/// An envelope signed with the key of another run is refused and consumes no sequence.
#[tokio::test]
async fn envelope_signed_with_a_foreign_key_is_refused() {
    let server = Server::start(1).await;
    let (mine, theirs) =
        (started(&server, &works_until_message()).await, started(&server, &works_until_message()).await);
    mine.until_said("Working.").await;
    theirs.until_said("Working.").await;
    let (a, b) = (ids(&mine).await, ids(&theirs).await);
    let secret = server.root_secret().await;
    let key_of_a = secret.envelope_key(a.1);
    let failure = json!({ "type": "session_end", "isError": true, "reason": "forged" });
    let seal = |envelope: &Envelope<Value>, kid: &str, signer, key: &EnvelopeKey| {
        Signed::seal(envelope, kid, signer, key).unwrap()
    };

    let mut forged: Vec<Signed> = (1..=30)
        .map(|sequence| {
            seal(
                &envelope(b.0, b.1, Some(sequence), failure.clone()),
                secret.id(),
                Signer::Sidecar,
                &key_of_a,
            )
        })
        .collect();
    // Only the runtime may report the exit of a run.
    let over = json!({ "type": "run_exited", "drained": true });
    forged.push(seal(&envelope(b.0, b.1, None, over.clone()), secret.id(), Signer::Runtime, &key_of_a));
    forged.push(seal(&envelope(a.0, a.1, None, over.clone()), secret.id(), Signer::Runtime, &key_of_a));
    forged.push(seal(&envelope(a.0, a.1, None, over), secret.id(), Signer::Sidecar, &key_of_a));
    // Derived from a secret that is not in use.
    forged.push(seal(&envelope(a.0, a.1, Some(99), failure.clone()), "another", Signer::Sidecar, &key_of_a));
    let count = forged.len();
    server.publish(a, &forged).await;
    until_refused(&server, &mine, count).await;
    // Signed with its own key, for a session without such a run.
    let astray = seal(&envelope(b.0, a.1, Some(1), failure), secret.id(), Signer::Sidecar, &key_of_a);
    server.publish(a, &[astray]).await;

    for session in [&mine, &theirs] {
        assert_eq!(session.view().await["status"], "Running");
        session.say("go", "Immediate").await;
        session.until_status("Idle").await;
        assert_eq!(session.said().await, ["Working.", "Told: go"]);
        let activity = session.activity().await;
        assert!(!activity.iter().any(|l| l["summary"].as_str().unwrap().contains("lost")), "{activity:#?}");
    }
}

#[tokio::test]
async fn old_signed_envelope_is_not_applied_again() {
    let server = Server::start(1).await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    let a = ids(&session).await;
    let secret = server.root_secret().await;
    let failure = json!({ "type": "session_end", "isError": true, "reason": "replayed" });
    let old = Signed::seal(
        &envelope(a.0, a.1, Some(1), failure),
        secret.id(),
        Signer::Sidecar,
        &secret.envelope_key(a.1),
    );
    server.publish(a, &[old.unwrap()]).await;
    session.say("go", "Immediate").await;
    session.until_status("Idle").await;
}

/// An API key is valid only for its session and while its run lives (decision 8).
#[tokio::test]
async fn api_key_works_only_for_its_live_session() {
    let server = Server::start(1).await;
    let mine = started(&server, &works_until_message()).await;
    let theirs = started(&server, &endless()).await;
    mine.until_said("Working.").await;
    theirs.until_said("Working.").await;
    let of_agents = functions_for(CallerKind::Agent, &server);
    assert!(of_agents.len() >= 4);
    let agent = server.api_with(Some(mine.api_key().to_owned()));
    let changed = format!("{}0", &mine.api_key()[..mine.api_key().len() - 1]);
    let changed =
        if changed == mine.api_key() { format!("{}1", &changed[..changed.len() - 1]) } else { changed };
    for function in &of_agents {
        if function.path.contains("/sessions/{id}") {
            ask(&agent, function, &theirs.id, "").await.refused(404, "not-found");
        }
        for (fault, token) in
            [("none", None), ("changed", Some(changed.clone())), ("an owner's", Some(server.token("local")))]
        {
            let reply = ask(&server.api_with(token), function, &mine.id, "").await;
            assert_eq!(
                (reply.status, reply.body["code"].as_str()),
                (401, Some("unauthenticated")),
                "{fault}: {}",
                function.name
            );
        }
        // A handoff would end the run that the other calls need.
        if function.name == "agent-handoff" {
            continue;
        }
        let reply = ask(&agent, function, &mine.id, "").await;
        // The session has no such skill, and no project.
        let missing = ["{skillId}", "/artifacts", "/knowledge", "/decisions/", "/coherence"];
        if missing.iter().any(|part| function.path.contains(part)) {
            reply.refused(404, "not-found");
            continue;
        }
        assert!(matches!(reply.status, 201 | 202), "{}: {}", function.name, reply.text);
    }
    let logs = mine.api.all(&mine.path("/logs")).await;
    assert!(
        logs.iter().any(|l| l["stream"] == "decision" && l["content"] == "I take the left path."),
        "{logs:#?}"
    );
    mine.say("go", "Immediate").await;
    let view = mine.until("the announced output", |v| v["hasPendingReview"] == true).await;
    assert_eq!((&view["status"], &view["output"]["filesChanged"]), (&json!("Idle"), &json!(1)));
    assert_eq!(theirs.view().await["hasPendingReview"], false);

    mine.post("/approve", json!({ "outputId": view["output"]["outputId"] })).await.expect(200);
    mine.until("the end of the run", |v| v["currentRun"].is_null()).await;
    for function in &of_agents {
        ask(&agent, function, &mine.id, "").await.refused(401, "unauthenticated");
    }
}

/// A retry replaces the key: the old one becomes invalid (decision 8).
#[tokio::test]
async fn a_retry_replaces_the_api_key() {
    let server = Server::start(1).await;
    let session = started(&server, &json!({
        "steps": [{ "turn": { "steps": [{ "say": "One." }, { "end": { "error": true } }] } }, { "turn": { "steps": [{ "wait": 600_000 }] } }],
    })).await;
    session.until_status("Failed").await;
    let retried = session.post("/retry", json!({ "additionalInstruction": "Again" })).await.expect(202);
    session.until("the second run", |v| v["currentRun"]["ordinal"] == 2 && v["status"] != "Queued").await;
    let log = |key: &str| {
        let api = server.api_with(Some(key.to_owned()));
        let path = format!("/api/agent/sessions/{}/log", session.id);
        async move { api.post(&path, json!({ "content": "Here." })).await }
    };
    log(session.api_key()).await.refused(401, "unauthenticated");
    log(retried.body["apiKey"].as_str().unwrap()).await.expect(201);
}

#[tokio::test]
async fn gateway_token_grants_only_the_queues_of_its_run() {
    let server = Server::start(1).await;
    let (mine, theirs) = (started(&server, &endless()).await, started(&server, &endless()).await);
    mine.until_said("Working.").await;
    theirs.until_said("Working.").await;
    let (a, b) = (ids(&mine).await, ids(&theirs).await);
    let secret = server.root_secret().await;
    let token = secret.gateway_token(a.0, a.1);
    let tag = token.as_str().rsplit('.').next().unwrap();
    let wrong = [
        None,
        Some(format!("{}.{}.{tag}", b.0, b.1)),
        Some(format!("{}.{}.{tag}", a.0, b.1)),
        Some(format!("{}.{}.{tag}", b.0, a.1)),
        Some(format!("{}.{}.", a.0, a.1)),
        Some(server.token("local")),
        Some(mine.api_key().to_owned()),
    ];
    let receive = json!({ "max": 10, "waitSeconds": 0.0 });
    for token in wrong {
        let api = server.api_with(token);
        for path in ["events", "drafts", "commands/receive", "commands/delete"] {
            let body = match path {
                "events" => json!({ "entries": [] }),
                "drafts" => json!({ "kind": "text", "part": 0, "text": "Not mine" }),
                "commands/delete" => json!({ "receipts": [] }),
                _ => receive.clone(),
            };
            api.post(&format!("/internal/gateway/{path}"), body).await.refused(401, "unauthenticated");
        }
        let blob = format!("/internal/gateway/blobs/{}", "0".repeat(64));
        assert_eq!(api.send(Method::PUT, &blob, &[], Some(b"x".to_vec())).await.status, 401);
        let image = format!("/internal/gateway/images/{}", "0".repeat(64));
        api.get(&image).await.refused(401, "unauthenticated");
    }
    // A command for the other run is queued; this token cannot receive it.
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::freeze);
    theirs.post("/interrupt", json!({})).await.expect(202);
    let api = server.api_with(Some(token.as_str().to_owned()));
    let received = api.post("/internal/gateway/commands/receive", receive).await.expect(200);
    assert_eq!(received.body["messages"], json!([]));
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::thaw);
    theirs.until_status("Interrupted").await;
    assert_eq!(mine.view().await["status"], "Running");
}

/// Keys and tokens never appear in stored or displayed data.
#[tokio::test]
async fn secrets_are_neither_stored_nor_shown() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    let (id, run) = ids(&session).await;
    let key = session.api_key().to_owned();
    let token = server.root_secret().await.gateway_token(id, run).as_str().to_owned();
    let mut shown = session.view().await.to_string() + &server.log_of("intake").await;
    shown += &json!(session.activity().await).to_string();
    let kept = server.kept(id).await;
    for secret in [key.rsplit('.').next().unwrap(), token.rsplit('.').next().unwrap()] {
        assert!(secret.len() >= 32 && !shown.contains(secret));
        assert!(
            !kept.windows(secret.len()).any(|window| window == secret.as_bytes()),
            "a secret is in the table"
        );
    }
}
