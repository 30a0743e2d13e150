//! A fake shim, for behaviour that real shims do not show on request: its variable `FAKE_SHIM` is a script of its
//! responses and events. `{requestToken}` and `{backendToken}` in it are the tokens of the bootstrap. The adapter that handles
//! it is real.
//!
//! The shim is this test program, in which the adapter runs only [`main`], an ignored test.

use std::collections::VecDeque;
use std::process::exit;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::Notify;

struct Fake {
    script: Value,
    bootstrap: Value,
    token: String,
    /// Number of the process, from 1, so that a script can differ after a restart.
    run: String,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    /// The messages of this process, and how many were sent.
    out: Vec<String>,
    sent: usize,
    sequence: u64,
    /// Every event by its sequence, for replays.
    log: Vec<(u64, String)>,
    /// Bodies of `/resolve` and `/inject-context`.
    heard: VecDeque<Value>,
    /// The description in the brief of its agent.
    description: String,
    paused: bool,
    drop_socket: bool,
    was_asked: bool,
    /// How many replays were requested.
    replays: usize,
}

type Shared = State<Arc<Fake>>;

#[test]
#[ignore = "the fake shim, which the adapter starts"]
fn main() {
    let script = serde_json::from_str(&std::env::var("FAKE_SHIM").unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(serve(script));
}

async fn serve(script: Value) {
    let [port, bootstrap] = ["--port", "--bootstrap"].map(argument);
    let text = std::fs::read_to_string(&bootstrap).unwrap();
    std::fs::remove_file(&bootstrap).unwrap();
    let bootstrap: Value = serde_json::from_str(&text).unwrap();
    let script = with_tokens(&script, &bootstrap);
    // Counts the processes of the session in its working directory.
    let count = std::fs::read_to_string("starts").map_or(0, |text| text.len()) + 1;
    std::fs::write("starts", "x".repeat(count)).unwrap();
    let fake = Arc::new(Fake {
        script,
        token: bootstrap["requestToken"].as_str().unwrap().to_owned(),
        bootstrap,
        run: format!("run-{count}"),
        inner: Mutex::default(),
        changed: Notify::new(),
    });
    fake.fault("start").await;
    let router = Router::new()
        .route("/health", get(health))
        .route("/events", get(events))
        .route("/{verb}", post(verb))
        .with_state(fake);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    axum::serve(listener, router).await.unwrap();
}

/// The test program knows no arguments of a shim, so that they follow `--`.
fn argument(name: &str) -> String {
    let arguments: Vec<_> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name).unwrap();
    arguments[at + 1].clone()
}

impl Fake {
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        let outcome = f(&mut self.inner.lock().unwrap());
        self.changed.notify_waiters();
        outcome
    }

    fn is_first(&self) -> bool {
        self.run == "run-1"
    }

    /// What the script demands of a phase of the protocol. `None`: it behaves.
    async fn fault(&self, phase: &str) -> Option<Response> {
        let key = if self.is_first() { phase.to_owned() } else { format!("{phase}-again") };
        match &self.script[key] {
            Value::String(fault) if fault == "die" => {
                eprintln!("dying in {phase}; {}", self.script["words"].as_str().unwrap_or_default());
                exit(3)
            }
            Value::String(fault) if fault == "hang" => std::future::pending().await,
            Value::String(fault) if fault == "slow" => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                None
            }
            Value::String(fault) if fault == "gate" => {
                // Until the test opens the named pipe.
                std::fs::read_to_string("gate").unwrap();
                None
            }
            Value::String(fault) if fault == "garbage" => Some("{\"not\": ".into_response()),
            Value::String(fault) if fault == "unhealthy" => {
                Some(Json(json!({ "status": "unhealthy" })).into_response())
            }
            Value::Array(answers) => {
                let n = self.with(|inner| {
                    inner.heard.push_back(json!({ "asked": phase }));
                    inner.heard.iter().filter(|heard| heard["asked"] == phase).count()
                });
                let answer = answers.get(n - 1)?;
                Some((StatusCode::BAD_REQUEST, Json(answer.clone())).into_response())
            }
            _ => None,
        }
    }

    fn state(&self) -> Value {
        let last = self.with(|inner| inner.sequence);
        json!({ "agentId": "a", "pluginName": "fake", "sessionId": "s", "checkpoint": { "sdk": "mock", "scriptPosition": 7 },
            "briefSnapshot": {}, "pendingDecisionIds": [], "lastSequence": last, "serializedBy": "pause" })
    }

    fn emit(&self, event: &Value, is_sent: bool) {
        self.with(|inner| {
            inner.sequence += 1;
            let n = inner.sequence;
            let message = self.message(&n.to_string(), n, event);
            inner.log.push((n, message.clone()));
            if is_sent {
                inner.out.push(message);
            }
        });
    }

    fn message(&self, id: &str, sequence: u64, event: &Value) -> String {
        json!({ "sourceEventId": format!("{}-{id}", self.run), "sourceSequence": sequence,
            "sourceOccurredAt": "2026-01-01T00:00:00Z", "runId": self.run, "event": event })
        .to_string()
    }

    /// Renews its token. The new one follows the others in the file of tokens.
    async fn renew(&self) {
        let url = format!("{}/api/token/renew", self.bootstrap["backendUrl"].as_str().unwrap());
        let token = &self.bootstrap["backendToken"];
        let body = json!({ "agentId": self.bootstrap["agentId"], "currentToken": token });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(url).bearer_auth(token.as_str().unwrap()).json(&body);
        let renewed: Value = request.send().await.unwrap().json().await.unwrap();
        let token = renewed["backendToken"].as_str().unwrap();
        keep_token(token);
        eprintln!("renewed {token}");
        self.emit(&filled(json!({ "type": "status", "message": format!("renewed {token}") })), true);
    }

    async fn until<T>(&self, mut done: impl FnMut(&mut Inner) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(done) = done(&mut self.inner.lock().unwrap()) {
                return done;
            }
            changed.await;
        }
    }

    /// The next resolution or injection.
    async fn hear(&self) -> Value {
        self.until(|inner| {
            let at = inner.heard.iter().position(|heard| heard["asked"].is_null())?;
            inner.heard.remove(at)
        })
        .await
    }

    async fn play(self: Arc<Self>, steps: Vec<Value>) {
        for step in steps {
            self.until(|inner| (!inner.paused).then_some(())).await;
            if let Some(event) = step.get("emit") {
                self.emit(&filled(event.clone()), true);
            } else if let Some(event) = step.get("skip") {
                self.emit(&filled(event.clone()), false);
            } else if let Some(event) = step.get("swap") {
                // Two events, the second one first.
                self.emit(&filled(event[0].clone()), false);
                self.emit(&filled(event[1].clone()), true);
                self.with(|inner| {
                    let first = inner.log[inner.log.len() - 2].1.clone();
                    inner.out.push(first);
                });
            } else if let Some(event) = step.get("same") {
                // Another event with the sequence of the last one.
                let message =
                    self.message("other", self.with(|inner| inner.sequence), &filled(event.clone()));
                self.with(|inner| inner.out.push(message));
            } else if step["oversized"] == true {
                self.with(|inner| inner.out.push("x".repeat(65 << 20)));
            } else if step["renew"] == true {
                self.renew().await;
            } else if let Some(text) = step["print"].as_str() {
                println!("{text}");
                eprintln!("{text}");
            } else if let Some(text) = step["raw"].as_str() {
                self.with(|inner| inner.out.push(text.to_owned()));
            } else if step["repeat"] == true {
                self.with(|inner| inner.out.extend(inner.out.last().cloned()));
            } else if step["hear"] == true {
                let heard = self.hear().await;
                self.emit(
                    &json!({ "type": "status", "agentId": "a", "message": format!("heard {heard}") }),
                    true,
                );
            } else if step["replayed"] == true {
                self.until(|inner| (inner.replays > 0).then_some(())).await;
            } else if step["describe"] == true {
                let message = self.with(|inner| format!("lines to {}", inner.description));
                self.emit(&json!({ "type": "status", "agentId": "a", "message": message }), true);
            } else if step["drop"] == true {
                self.with(|inner| inner.drop_socket = true);
            } else if step["checkpoint"] == true {
                let payload = self.state();
                self.emit(&json!({ "type": "raw_provider", "agentId": "a", "providerName": "fake", "eventType": "checkpoint",
                    "payload": payload }), true);
            } else if step["die"] == true {
                // Sent messages are in the buffers of the system, which delivers them after the exit.
                self.until(|inner| (inner.sent == inner.out.len()).then_some(())).await;
                eprintln!("dying in the turn {}", self.script["words"].as_str().unwrap_or_default());
                exit(3);
            } else if step["forever"] == true {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Puts the tokens into a script that names them, and into a file, for tests that look for them.
fn with_tokens(script: &Value, bootstrap: &Value) -> Value {
    let mut text = script.to_string();
    if !text.contains("Token}") {
        return script.clone();
    }
    for name in ["requestToken", "backendToken"] {
        let token = bootstrap[name].as_str().unwrap();
        keep_token(token);
        text = text.replace(&format!("{{{name}}}"), token);
    }
    serde_json::from_str(&text).unwrap()
}

fn keep_token(token: &str) {
    let mut tokens = std::fs::OpenOptions::new().create(true).append(true).open("tokens").unwrap();
    std::io::Write::write_all(&mut tokens, format!("{token}\n").as_bytes()).unwrap();
}

/// Events of scripts leave the agent out.
fn filled(mut event: Value) -> Value {
    event["agentId"] = "a".into();
    event
}

async fn health(State(fake): Shared) -> Response {
    if let Some(fault) = fake.fault("health").await {
        return fault;
    }
    // The checks after the first one.
    if fake.is_first()
        && fake.with(|inner| std::mem::replace(&mut inner.was_asked, true))
        && let Some(fault) = fake.fault("health-later").await
    {
        return fault;
    }
    let plugin = fake.script.get("plugin").cloned().unwrap_or(json!({}));
    Json(json!({ "status": "healthy", "agentStatus": "running", "uptimeMs": 1, "pendingEventBufferSize": 0,
        "plugin": { "name": "fake", "version": "1", "capabilities": plugin } }))
    .into_response()
}

async fn events(State(fake): Shared, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    assert_eq!(headers["authorization"], format!("Bearer {}", fake.token));
    upgrade.on_upgrade(|socket| send_events(socket, fake))
}

async fn send_events(mut socket: WebSocket, fake: Arc<Fake>) {
    loop {
        let next = fake
            .until(|inner| {
                if std::mem::take(&mut inner.drop_socket) {
                    return Some(None);
                }
                Some(Some(inner.out.get(inner.sent).cloned()?))
            })
            .await;
        let Some(message) = next else { return };
        if socket.send(Message::text(message)).await.is_err() {
            return;
        }
        fake.with(|inner| inner.sent += 1);
    }
}

async fn verb(
    State(fake): Shared,
    headers: HeaderMap,
    Path(verb): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    if headers["authorization"] != format!("Bearer {}", fake.token) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Some(fault) = fake.fault(&verb).await {
        return fault;
    }
    let handle = json!({ "id": "a", "pluginName": "fake", "status": "running", "sessionId": "s" });
    match verb.as_str() {
        "spawn" => {
            body["description"].as_str().unwrap().clone_into(&mut fake.inner.lock().unwrap().description);
            tokio::spawn(Arc::clone(&fake).play(steps(&fake.script["turn"])));
            Json(handle).into_response()
        }
        "resume" => {
            if fake.with(|inner| std::mem::take(&mut inner.paused)) {
                return Json(handle).into_response();
            }
            let position = &body["checkpoint"]["scriptPosition"];
            let said = json!({ "type": "status", "agentId": "a", "message": format!("resumed at {position} with {}", body["input"]) });
            fake.emit(&said, true);
            fake.emit(
                &json!({ "type": "completion", "agentId": "a", "summary": "", "artifactsProduced": [],
                "decisionsNeeded": [], "outcome": "success" }),
                true,
            );
            Json(handle).into_response()
        }
        "pause" => {
            fake.with(|inner| inner.paused = true);
            Json(fake.state()).into_response()
        }
        "kill" => Json(json!({ "state": fake.state(), "artifactsExtracted": 0, "cleanShutdown": true }))
            .into_response(),
        "resolve" | "inject-context" => {
            let heard = body.get("resolution").or(body.get("content")).cloned().unwrap_or(body);
            fake.with(|inner| inner.heard.push_back(heard));
            if fake.script[&verb] == "mute" {
                // The request takes effect and gets no answer.
                std::future::pending::<()>().await;
            }
            StatusCode::NO_CONTENT.into_response()
        }
        "replay" => {
            let from = body["fromSequence"].as_u64().unwrap();
            let to = body["toSequence"].as_u64().unwrap_or(u64::MAX);
            let n = fake.with(|inner| {
                let again: Vec<_> = inner
                    .log
                    .iter()
                    .filter(|(n, _)| (from..=to).contains(n))
                    .map(|it| it.1.clone())
                    .collect();
                let n = again.len();
                inner.out.extend(again);
                inner.replays += 1;
                n
            });
            Json(json!({ "replayed": n })).into_response()
        }
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

fn steps(steps: &Value) -> Vec<Value> {
    steps.as_array().cloned().unwrap_or_default()
}
