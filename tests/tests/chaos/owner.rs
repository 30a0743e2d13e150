//! An owner of the sessions: sends random requests, retries those without a response, and records the responses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pilothouse_domain::Timestamp;
use pilothouse_sqlite::system_clock;
use pilothouse_tests::{Api, Reply};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::check::START;
use crate::script;

/// Temporary lacks of resources. Such a refusal changes nothing, and the request is retried.
const REFUSED_FOR_NOW: [&str; 2] = ["storage-full", "server-at-capacity"];
const OPEN: usize = 7;
const AWAY: Duration = Duration::from_mins(1);
/// The part of the rounds of an owner that pull a brake.
const BRAKES: f64 = 0.01;

/// A request with its response.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Name in the catalog.
    pub(crate) function: &'static str,
    /// For a start, the created session.
    pub(crate) session: String,
    pub(crate) path: String,
    pub(crate) body: Value,
    pub(crate) status: u16,
    /// Number of attempts.
    pub(crate) sent: u32,
}

/// Requests and responses of all owners.
#[derive(Default)]
pub(crate) struct Ledger {
    asked: Mutex<Vec<Asked>>,
    open: Mutex<Vec<String>>,
    wrong: Mutex<Vec<(String, String, String)>>,
    braked: Mutex<Vec<(Timestamp, Timestamp)>>,
    counter: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Ledger {
    pub(crate) fn sessions(&self) -> Vec<String> {
        let started = |asked: &&Asked| START.contains(&asked.function) && asked.status < 300;
        lock(&self.asked).iter().filter(started).map(|asked| asked.session.clone()).collect()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }

    /// Session, description, evidence of each unexpected response.
    pub(crate) fn wrong(&self) -> Vec<(String, String, String)> {
        lock(&self.wrong).clone()
    }

    /// Times from the response to a brake on all sessions to the request that released it.
    pub(crate) fn braked(&self) -> Vec<(Timestamp, Timestamp)> {
        lock(&self.braked).clone()
    }

    pub(crate) fn summary(&self) -> String {
        let asked = lock(&self.asked);
        let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for one in asked.iter() {
            let count = counts.entry(one.function).or_default();
            count.0 += u32::from(one.status < 300);
            count.1 += 1;
        }
        let repeated = asked.iter().filter(|one| one.sent > 1).count();
        let counts: Vec<_> = counts.iter().map(|(name, (yes, all))| format!("{name} {yes}/{all}")).collect();
        format!("{} requests, {repeated} retried: {}", asked.len(), counts.join(", "))
    }

    fn unique(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// One of several clients that command the same sessions.
pub(crate) struct Owner {
    api: Api,
    folder: PathBuf,
    ledger: std::sync::Arc<Ledger>,
    rng: StdRng,
}

impl Owner {
    pub(crate) const fn new(api: Api, folder: PathBuf, ledger: std::sync::Arc<Ledger>, rng: StdRng) -> Self {
        Self { api, folder, ledger, rng }
    }

    /// Sends commands until `enough` is set.
    pub(crate) async fn command(mut self, enough: &AtomicBool) {
        while !enough.load(Ordering::SeqCst) {
            let open = lock(&self.ledger.open).clone();
            if self.rng.random_bool(BRAKES) {
                self.brake(&open).await;
            }
            match open.choose(&mut self.rng) {
                Some(id) if open.len() >= OPEN || self.rng.random_bool(0.9) => self.one(&id.clone()).await,
                _ => self.start().await,
            }
            // The pace of a busy person, without a condition to wait for.
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(5..90))).await;
        }
    }

    /// Pulls a brake on all sessions or on one, and releases it after a while, unless the server does.
    async fn brake(&mut self, open: &[String]) {
        let scope = match open.choose(&mut self.rng) {
            Some(id) if self.rng.random_bool(0.6) => json!({ "type": "session", "sessionId": id }),
            _ => json!({ "type": "all" }),
        };
        let all = scope["type"] == "all";
        let behavior = if self.rng.random_bool(0.7) { "pause" } else { "kill" };
        let mut body = json!({ "scope": scope, "behavior": behavior, "reason": "It does the wrong thing" });
        let timed = self.rng.random_bool(0.2);
        if timed {
            body["releaseAfterSeconds"] = json!(self.rng.random_range(1..3));
        }
        let pulled = self.ask("brake-pull", "-", Method::POST, "/api/brake".to_owned(), body).await;
        if timed || pulled.status >= 300 {
            return;
        }
        let (clock, from) = (system_clock(), system_clock()());
        // As long as a person looks at it.
        tokio::time::sleep(Duration::from_millis(self.rng.random_range(20..1500))).await;
        if all {
            lock(&self.ledger.braked).push((from, clock()));
        }
        let path = format!("/api/brakes/{}/release", pulled.body["id"].as_str().unwrap());
        self.ask("brakes-release", "-", Method::POST, path, json!({})).await;
    }

    async fn start(&mut self) {
        let name = format!("session {}", self.ledger.unique());
        let mut body = json!({
            "workingDirectory": self.folder, "objective": "Whatever happens", "name": name,
            "budgetCapUsd": format!("0.{}", self.rng.random_range(10..60)), "warnAtPercent": self.rng.random_range(40..90),
            "requestTimeoutSeconds": self.rng.random_range(2..5), "planApprovalRequired": self.rng.random_bool(0.7),
            "adapterOptions": { "script": script::script(&mut self.rng) },
        });
        if self.rng.random_bool(0.7) {
            body["defaultAnswer"] = json!("left");
        }
        let reply =
            self.ask("sessions-start", "", Method::POST, "/api/agents/sessions".to_owned(), body).await;
        if let Some(id) = reply.body["session"]["id"].as_str() {
            lock(&self.ledger.open).push(id.to_owned());
        }
    }

    async fn one(&mut self, id: &str) {
        let at = format!("/api/agents/sessions/{id}");
        let Ok(reply) = self.api.try_send(Method::GET, &at, &[], None).await else { return };
        let view = reply.body;
        let status = view["status"].as_str().unwrap_or_default().to_owned();
        let retried = view["retryCount"].as_u64() >= view["maxRetries"].as_u64();
        if matches!(status.as_str(), "Completed" | "Cancelled" | "ContextExhausted")
            || (status == "Failed" && retried)
        {
            lock(&self.ledger.open).retain(|open| open != id);
        }
        let fitting: &[&str] = match status.as_str() {
            "Running" => &[
                "steer",
                "steer",
                "steer",
                "queue",
                "queue",
                "pause",
                "interrupt",
                "budget",
                "cancel",
                "queue-of",
            ],
            "Idle" => &["queue", "steer", "close", "approve", "approve", "reject", "queue", "cancel"],
            "Interrupted" => &["steer", "queue", "queue-of", "queue-of", "cancel"],
            "Paused" => &["resume", "resume", "resume", "steer", "budget", "budget", "cancel"],
            "WaitingForInput" => &["answer", "answer", "answer", "steer", "interrupt", "cancel"],
            "WaitingForApproval" => &["plan", "plan", "plan", "queue", "interrupt"],
            "Failed" => &["retry"],
            "Queued" => &["queue", "queue", "cancel", "budget"],
            "Interrupting" | "Pausing" | "Resuming" => &["steer", "queue", "cancel", "interrupt", "resume"],
            _ => &["steer", "cancel"],
        };
        let any = [
            "steer",
            "queue",
            "pause",
            "resume",
            "interrupt",
            "cancel",
            "answer",
            "plan",
            "approve",
            "reject",
            "close",
            "retry",
            "budget",
            "queue-of",
        ];
        let kind =
            if self.rng.random_bool(0.9) { fitting.choose(&mut self.rng) } else { any.choose(&mut self.rng) };
        self.act(kind.copied().unwrap_or("steer"), id, &at, &view).await;
    }

    async fn act(&mut self, kind: &str, id: &str, at: &str, view: &Value) {
        let post = Method::POST;
        match kind {
            "steer" | "queue" => self.say(kind, id, at, view).await,
            "pause" => _ = self.ask("sessions-pause", id, post, format!("{at}/pause"), json!({})).await,
            "resume" => _ = self.ask("sessions-resume", id, post, format!("{at}/resume"), json!({})).await,
            "interrupt" => {
                let body = json!({ "clearQueue": self.rng.random_bool(0.2) });
                self.ask("sessions-interrupt", id, post, format!("{at}/interrupt"), body).await;
            }
            // Rarely, because few commands apply to a cancelled session.
            "cancel" if self.rng.random_bool(0.08) => {
                let body = json!({ "force": self.rng.random_bool(0.3) });
                self.ask("sessions-cancel", id, post, format!("{at}/cancel"), body).await;
            }
            "answer" | "plan" => {
                for request in view["pendingRequests"].as_array().into_iter().flatten() {
                    self.decide(id, at, request).await;
                }
            }
            "approve" | "reject" => {
                let output = view["output"]["outputId"].clone();
                let output = if output.is_null() { json!(Uuid::now_v7()) } else { output };
                let function = if kind == "approve" { "sessions-approve" } else { "sessions-reject" };
                self.ask(function, id, post, format!("{at}/{kind}"), json!({ "outputId": output })).await;
            }
            "close" if self.rng.random_bool(0.3) => {
                _ = self.ask("sessions-close", id, post, format!("{at}/close"), json!({})).await;
            }
            "retry" => {
                let instruction = format!("Once more, for the {}th time.", self.ledger.unique());
                let body =
                    json!({ "fresh": self.rng.random_bool(0.4), "additionalInstruction": instruction });
                self.ask("sessions-retry", id, post, format!("{at}/retry"), body).await;
            }
            "budget" => {
                // No other request sets this cap.
                let spent: f64 =
                    view["budget"]["estimatedCostUsd"].as_str().and_then(|s| s.parse().ok()).unwrap_or(0.0);
                let cap =
                    format!("{:.3}{:06}", spent + self.rng.random_range(0.05..0.6), self.ledger.unique());
                self.ask(
                    "sessions-budget",
                    id,
                    Method::PATCH,
                    format!("{at}/budget"),
                    json!({ "capUsd": cap }),
                )
                .await;
            }
            "queue-of" => self.rearrange(id, at).await,
            _ => {}
        }
    }

    async fn say(&mut self, kind: &str, id: &str, at: &str, view: &Value) {
        let priority = if kind == "steer" { "Immediate" } else { "Queued" };
        let content = format!("message {} of this test", self.ledger.unique());
        let mut body = json!({ "content": content, "priority": priority, "messageId": Uuid::now_v7() });
        if let Some(turn) = view["currentTurn"]["id"].as_str().filter(|_| self.rng.random_bool(0.1)) {
            body["expectedTurnId"] = json!(turn);
        }
        self.ask("messages-enqueue", id, Method::POST, format!("{at}/messages/queue"), body).await;
    }

    /// Uses a unique text, by which the checks identify the message that an agent receives.
    async fn decide(&mut self, id: &str, at: &str, request: &Value) {
        let request_id = &request["id"];
        if let Some(questions) = request["questions"].as_array() {
            let answer = format!("right, answer {}", self.ledger.unique());
            let answers: Vec<_> =
                questions.iter().map(|q| json!({ "question": q["question"], "answer": answer })).collect();
            let body = json!({ "requestId": request_id, "answers": answers });
            self.ask("requests-answer", id, Method::POST, format!("{at}/answer"), body).await;
        } else if self.rng.random_bool(0.5) {
            self.ask(
                "plan-approve",
                id,
                Method::POST,
                format!("{at}/plan/approve"),
                json!({ "requestId": request_id }),
            )
            .await;
        } else {
            let feedback = format!("The other way round, plan {}.", self.ledger.unique());
            let body = json!({ "requestId": request_id, "feedback": feedback });
            self.ask("plan-reject", id, Method::POST, format!("{at}/plan/reject"), body).await;
        }
    }

    /// Promotes, releases, edits or cancels a waiting message.
    async fn rearrange(&mut self, id: &str, at: &str) {
        let Ok(reply) = self.api.try_send(Method::GET, &format!("{at}/messages/queue"), &[], None).await
        else {
            return;
        };
        let messages = reply.body["items"].as_array().cloned().unwrap_or_default();
        let Some(message) = messages.choose(&mut self.rng) else { return };
        let at = format!("{at}/messages/queue/{}", message["messageId"].as_str().unwrap_or_default());
        match self.rng.random_range(0..10) {
            0..3 => self.ask("messages-promote", id, Method::PATCH, format!("{at}/promote"), json!({})).await,
            3..7 => self.ask("messages-release", id, Method::POST, format!("{at}/release"), json!({})).await,
            7 => self.ask("messages-edit", id, Method::PATCH, at, json!({ "position": 0 })).await,
            _ => self.ask("messages-cancel", id, Method::DELETE, at, Value::Null).await,
        };
    }

    /// Retries until there is a response, always with the same key, and sometimes sends the request once more afterwards.
    pub(crate) async fn ask(
        &mut self,
        function: &'static str,
        session: &str,
        method: Method,
        path: String,
        body: Value,
    ) -> Reply {
        let key = Uuid::now_v7().to_string();
        let give_up = Instant::now() + AWAY;
        let bytes = (!body.is_null()).then(|| body.to_string().into_bytes());
        let mut sent = 0;
        let first = loop {
            sent += 1;
            match self.api.try_send(method.clone(), &path, &[("Idempotency-Key", &key)], bytes.clone()).await
            {
                // Retries sooner than the response suggests.
                Ok(reply) if is_refused_for_now(&reply) => {
                    assert!(Instant::now() < give_up, "{method} {path} is still refused: {}", reply.text);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(reply) => break reply,
                Err(error) => {
                    assert!(Instant::now() < give_up, "{method} {path} got no response: {error:?}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        let succeeded = first.status < 300;
        let stop = matches!(function, "sessions-pause" | "sessions-interrupt" | "sessions-cancel");
        if first.status >= 500 || (stop && first.body["code"] == "version-conflict") {
            self.wrong(
                session,
                "a request got an unexpected response",
                format!("{method} {path} {body}: {}", first.text),
            );
        }
        if succeeded && self.rng.random_bool(0.25) {
            sent += 1;
            if let Ok(second) =
                self.api.try_send(method.clone(), &path, &[("Idempotency-Key", &key)], bytes).await
                && (second.status, &second.body) != (first.status, &first.body)
                && !is_refused_for_now(&second)
                && !enqueued_since(function, &first, &second)
            {
                let evidence = format!(
                    "{method} {path} {body}\nfirst  {} {}\nsecond {} {}",
                    first.status, first.text, second.status, second.text
                );
                self.wrong(
                    session,
                    "the same request with the same key got two different responses",
                    evidence,
                );
            }
        }
        let session = if session.is_empty() {
            first.body["session"]["id"].as_str().unwrap_or_default()
        } else {
            session
        };
        let asked = Asked { function, session: session.to_owned(), path, body, status: first.status, sent };
        lock(&self.ledger.asked).push(asked);
        first
    }

    fn wrong(&self, session: &str, what: &str, evidence: String) {
        lock(&self.ledger.wrong).push((session.to_owned(), what.to_owned(), evidence));
    }
}

/// Whether the server refuses for a temporary lack of resources.
pub(crate) fn is_refused_for_now(reply: &Reply) -> bool {
    REFUSED_FOR_NOW.iter().any(|code| reply.body["code"] == *code)
}

/// Two responses to a repeated message id show the current state of the message (decision 28).
fn enqueued_since(function: &str, first: &Reply, second: &Reply) -> bool {
    let id = |reply: &Reply| reply.body["message"]["messageId"].clone();
    function == "messages-enqueue" && first.status == second.status && id(first) == id(second)
}
