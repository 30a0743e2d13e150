//! A session over the API, and waiting for what must become of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Api, Reply};

/// How long anything may take to happen. Long, for a busy machine; a test that passes does not wait for it.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// A session of an owner.
#[derive(Clone)]
pub struct Session {
    /// Requests of its owner.
    pub api: Api,
    /// Its id.
    pub id: String,
    /// What starting it answered.
    pub started: Value,
}

impl Session {
    /// A handle of a session that is there.
    pub const fn new(api: Api, id: String, started: Value) -> Self {
        Self { api, id, started }
    }

    /// Starts a session, and expects it to be accepted.
    pub async fn start(api: &Api, body: Value) -> Self {
        let reply = api.post("/api/agents/sessions", body).await;
        assert!(matches!(reply.status, 201 | 202), "{}", reply.text);
        let id = reply.body["session"]["id"].as_str().unwrap().to_owned();
        Self { api: api.clone(), id, started: reply.body }
    }

    /// The key of its agent.
    pub fn api_key(&self) -> &str {
        self.started["apiKey"].as_str().unwrap()
    }

    /// The path of something that belongs to it: `/pause`.
    pub fn path(&self, rest: &str) -> String {
        format!("/api/agents/sessions/{}{rest}", self.id)
    }

    /// A POST to something of its own.
    pub async fn post(&self, rest: &str, body: Value) -> Reply {
        self.api.post(&self.path(rest), body).await
    }

    /// A PATCH to something of its own.
    pub async fn patch(&self, rest: &str, body: Value) -> Reply {
        self.api.patch(&self.path(rest), body).await
    }

    /// A DELETE of something of its own.
    pub async fn delete(&self, rest: &str) -> Reply {
        self.api.delete(&self.path(rest)).await
    }

    /// A GET of something of its own.
    pub async fn get(&self, rest: &str) -> Reply {
        self.api.get(&self.path(rest)).await
    }

    /// The session as it stands.
    pub async fn view(&self) -> Value {
        self.get("").await.expect(200).body
    }

    /// The session once `condition` holds. Panics with everything that is known when it does not in time.
    pub async fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.until_within(PATIENCE, what, async || {
            let view = self.view().await;
            condition(&view).then_some(view)
        })
        .await
    }

    /// The session once it has this status.
    pub async fn until_status(&self, status: &str) -> Value {
        self.until(status, |view| view["status"] == status).await
    }

    /// The activity stream once `condition` holds for it.
    pub async fn until_activity(&self, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.until_within(PATIENCE, what, async || {
            let activity = self.activity().await;
            condition(&activity).then_some(activity)
        })
        .await
    }

    /// The conversation once `condition` holds for it.
    pub async fn until_messages(&self, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.until_within(PATIENCE, what, async || {
            let messages = self.messages().await;
            condition(&messages).then_some(messages)
        })
        .await
    }

    /// Once the agent has said exactly this.
    pub async fn until_said(&self, text: &str) {
        self.until_messages(text, |all| all.iter().any(|m| m["content"] == text)).await;
    }

    /// What `look` finds, as soon as it does. Panics with everything that is known when it does not in time.
    pub async fn until_within<T>(
        &self,
        patience: Duration,
        what: &str,
        look: impl AsyncFn() -> Option<T>,
    ) -> T {
        let give_up = Instant::now() + patience;
        let mut pause = Duration::from_millis(10);
        loop {
            if let Some(found) = look().await {
                return found;
            }
            let late = Instant::now() >= give_up;
            assert!(!late, "`{what}` did not happen within {patience:?}\n{}", self.everything().await);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Everything that was recorded, oldest first.
    pub async fn activity(&self) -> Vec<Value> {
        self.api.all(&self.path("/activity")).await
    }

    /// The conversation, oldest first.
    pub async fn messages(&self) -> Vec<Value> {
        self.api.all(&self.path("/messages")).await
    }

    /// What the agent and its subagents said, without what was thought.
    pub async fn said(&self) -> Vec<String> {
        let by_agent = |m: &Value| m["source"] == "Agent" && m["thinking"] == false;
        texts(self.messages().await.iter().filter(|m| by_agent(m)))
    }

    /// Tool calls, oldest first.
    pub async fn tool_calls(&self) -> Vec<Value> {
        self.api.all(&self.path("/tool-calls")).await
    }

    /// The queue.
    pub async fn queue(&self) -> Value {
        self.get("/messages/queue").await.expect(200).body
    }

    /// Says something, and returns the message as it stands then.
    pub async fn say(&self, content: &str, priority: &str) -> Value {
        let body = json!({ "content": content, "priority": priority });
        self.post("/messages/queue", body).await.expect(201).body["message"].clone()
    }

    /// Waits until the sidecar told something in which all these words are.
    pub async fn until_told(&self, words: &[&str]) {
        let told = async || {
            let events: Vec<Value> = self.api.all(&self.path("/events")).await;
            let has_all = |event: String| words.iter().all(|word| event.contains(word));
            events.iter().any(|event| has_all(event.to_string())).then_some(())
        };
        self.until_within(PATIENCE, &words.join(" "), told).await;
    }

    /// Everything that is known about the session, for a person who looks for what went wrong.
    pub async fn everything(&self) -> String {
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        let get =
            async |rest: &str| self.api.try_send(reqwest::Method::GET, &self.path(rest), &[], None).await;
        let mut told = vec![match get("").await {
            Ok(reply) => format!("session: {}", pretty(&reply.body)),
            Err(error) => format!("session: {error}"),
        }];
        if let Ok(reply) = get("/messages/queue").await {
            told.push(format!("queue: {}", reply.text));
        }
        if let Ok(reply) = get("/activity?limit=200").await {
            let lines = reply.body["items"].as_array().into_iter().flatten();
            told.extend(lines.map(|line| format!("activity: {line}")));
        }
        told.extend(self.api.witness.logs(&self.id).await);
        told.join("\n")
    }
}

/// The texts of messages.
pub(crate) fn texts<'a>(messages: impl Iterator<Item = &'a Value>) -> Vec<String> {
    messages.map(|m| m["content"].as_str().unwrap_or_default().to_owned()).collect()
}
