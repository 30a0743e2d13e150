//! The text that an agent is writing, on the live stream of its session (decision 95).
//!
//! Functions in the cloud cannot reach the model of these tests, and only the embedded server streams drafts.

use futures_util::StreamExt as _;
use pilothouse_domain::RunId;
use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_tests::{Api, PATIENCE, ServerProcess, Session};
use pilothouse_wire::gateway::SendDraft;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use uuid::Uuid;

use crate::scripts::endless;
use crate::server::{Server, started};

struct Follower(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Follower {
    async fn of(url: &str, token: &str, session: &str) -> Self {
        let url =
            format!("{}/ws/agents/sessions/{session}/stream?drafts=true", url.replacen("http", "ws", 1));
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        Self(connect_async(request).await.unwrap().0)
    }

    /// The next message of a type.
    async fn next(&mut self, kind: &str) -> Value {
        loop {
            let frame = timeout(PATIENCE, self.0.next()).await.unwrap().unwrap().unwrap();
            if !frame.is_text() {
                continue;
            }
            let message: Value = serde_json::from_str(&frame.into_text().unwrap()).unwrap();
            if message["type"] == kind {
                return message["data"].clone();
            }
        }
    }
}

/// The text of the scripted model.
const TEXT: &str = "The teapot is in the cupboard, behind the cups.";

/// Two followers see the beginning of the text while the model is silent in the middle of it, also the one that comes late, and then
/// both see the complete text.
async fn follow_a_text(adapter: &str, options: impl FnOnce(&ModelServer, &ServerProcess) -> Value) {
    let script = Script::of([Step::text(TEXT).waiting_inside("rest")]);
    let model = ModelServer::start(script).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", "a-key-of-a-test")];
    let server = ServerProcess::start_with(1, &environment).await;
    let work = json!({ "workingDirectory": server.work_folder(), "objective": "Find it", "adapter": adapter,
        "budgetCapUsd": "5", "modelId": "claude-sonnet-4-5", "adapterOptions": options(&model, &server) });
    let session = Session::start(&server.api(), work).await;
    timeout(PATIENCE, model.wait_for(1)).await.unwrap();
    let mut followers = Vec::new();
    for _ in 0..2 {
        let mut follower = Follower::of(server.url(), &server.token("local"), &session.id).await;
        let draft = follower.next("draft").await;
        assert_eq!((&draft["kind"], &draft["part"]), (&json!("text"), &json!(0)));
        let written = draft["text"].as_str().unwrap();
        assert!(!written.is_empty() && TEXT.starts_with(written) && written != TEXT, "{written}");
        followers.push(follower);
    }
    let said = session.messages().await;
    assert!(said.iter().all(|message| message["source"] != "Agent"), "nothing is stored yet: {said:?}");
    model.open("rest");
    for mut follower in followers {
        while !follower.next("activity").await.to_string().contains(TEXT) {}
    }
}

#[tokio::test]
async fn followers_see_the_text_while_the_native_agent_writes_it() {
    follow_a_text("native", |_, _| json!({})).await;
}

#[tokio::test]
async fn followers_see_the_text_while_claude_code_writes_it() {
    let Some(binary) = crate::agents_claude::binary() else { return };
    let options = |model: &ModelServer, server: &ServerProcess| {
        // Empty, so that the user's shell profile has no effect.
        let home = server.work_folder().join("agent-home");
        std::fs::create_dir_all(&home).unwrap();
        json!({ "binary": binary, "environment": { "HOME": home, "ANTHROPIC_BASE_URL": model.base_url(),
            "ANTHROPIC_API_KEY": "a-key-of-a-test", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" } })
    };
    follow_a_text("claude", options).await;
}

/// Only the current run of a session can send its drafts, and only followers who ask for them receive them, after the events before them.
#[tokio::test]
async fn drafts_are_for_the_current_run_and_limited() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let view = session.view().await;
    let run: RunId = view["currentRun"]["id"].as_str().unwrap().parse().unwrap();
    let secret = server.root_secret().await;
    let sidecar = |run| {
        let token = secret.gateway_token(session.id.parse().unwrap(), run);
        server.api_with(Some(token.as_str().to_owned()))
    };
    let send = async |api: &Api, part: u32, text: &str| {
        api.post("/internal/gateway/drafts", json!({ "kind": "thinking", "part": part, "text": text })).await
    };
    let current = sidecar(run);
    assert_eq!(send(&current, 0, "Hm").await.expect(200).body, json!({}), "nobody follows");
    let mut follower = Follower::of(server.url(), &server.token("local"), &session.id).await;
    follower.next("caught_up").await;
    let early = json!({ "kind": "text", "part": 0, "text": "Too early", "after": 1_000_000 });
    let answer = current.post("/internal/gateway/drafts", early).await.expect(200).body;
    assert_eq!(answer["isEarly"], true, "an event before the text is on its way: {answer}");
    assert!(send(&current, 1, "Hm, tea").await.expect(200).body["followers"].is_number());
    let expected = json!({ "kind": "thinking", "part": 1, "text": "Hm, tea" });
    assert_eq!(follower.next("draft").await, expected);
    let earlier = sidecar(RunId::new(Uuid::from_u128(7)));
    assert_eq!(send(&earlier, 2, "Not mine").await.status, 410);
    send(&current, 2, &"x".repeat(SendDraft::MAX_BYTES + 1)).await.refused(422, "validation-failed");
    send(&current, 3, "!").await.expect(200);
    assert_eq!(follower.next("draft").await["part"], 3);
}
