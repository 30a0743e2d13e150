//! A session over the API, with helpers that wait for its states.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Api, Reply};

/// Generous for a busy machine; passing tests do not wait that long.
pub const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone)]
pub struct Session {
    pub api: Api,
    pub id: String,
    pub started: Value,
}

impl Api {
    /// A handle of an existing session.
    pub fn session(&self, id: &str) -> Session {
        Session::new(self.clone(), id.to_owned(), Value::Null)
    }
}

impl Session {
    /// A handle of an existing session.
    pub const fn new(api: Api, id: String, started: Value) -> Self {
        Self { api, id, started }
    }

    pub async fn start(api: &Api, body: Value) -> Self {
        let reply = api.post("/api/agents/sessions", body).await;
        assert!(matches!(reply.status, 201 | 202), "{}", reply.text);
        Self::of_start(api, reply.body)
    }

    /// The session of a new agent of a project.
    pub async fn spawn(api: &Api, body: Value) -> Self {
        Self::of_start(api, api.post("/api/agents/spawn", body).await.expect(201).body)
    }

    /// The session that a response names as started.
    pub fn of_start(api: &Api, started: Value) -> Self {
        let id = started["session"]["id"].as_str().unwrap().to_owned();
        Self { api: api.clone(), id, started }
    }

    /// The id of the project's agent that was spawned with the session.
    pub fn agent_id(&self) -> String {
        self.started["agent"]["id"].as_str().unwrap().to_owned()
    }

    /// The API key of its agent.
    pub fn api_key(&self) -> &str {
        self.started["apiKey"].as_str().unwrap()
    }

    /// `rest` names a resource of the session, such as `/pause`.
    pub fn path(&self, rest: &str) -> String {
        format!("/api/agents/sessions/{}{rest}", self.id)
    }

    pub async fn post(&self, rest: &str, body: Value) -> Reply {
        self.api.post(&self.path(rest), body).await
    }

    pub async fn patch(&self, rest: &str, body: Value) -> Reply {
        self.api.patch(&self.path(rest), body).await
    }

    pub async fn delete(&self, rest: &str) -> Reply {
        self.api.delete(&self.path(rest)).await
    }

    pub async fn get(&self, rest: &str) -> Reply {
        self.api.get(&self.path(rest)).await
    }

    pub async fn view(&self) -> Value {
        self.get("").await.expect(200).body
    }

    /// Returns the session. On a timeout, panics with the state and the logs.
    pub async fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.until_within(PATIENCE, what, async || {
            let view = self.view().await;
            condition(&view).then_some(view)
        })
        .await
    }

    pub async fn until_status(&self, status: &str) -> Value {
        self.until(status, |view| view["status"] == status).await
    }

    pub async fn until_activity(&self, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.until_within(PATIENCE, what, async || {
            let activity = self.activity().await;
            condition(&activity).then_some(activity)
        })
        .await
    }

    pub async fn until_messages(&self, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.until_within(PATIENCE, what, async || {
            let messages = self.messages().await;
            condition(&messages).then_some(messages)
        })
        .await
    }

    /// `text` is the whole message of the agent.
    pub async fn until_said(&self, text: &str) {
        self.until_messages(text, |all| all.iter().any(|m| m["content"] == text)).await;
    }

    /// Polls `look` until it returns a value. On a timeout, panics with the state and the logs.
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

    /// Oldest first.
    pub async fn activity(&self) -> Vec<Value> {
        self.api.all(&self.path("/activity")).await
    }

    /// Oldest first.
    pub async fn messages(&self) -> Vec<Value> {
        self.api.all(&self.path("/messages")).await
    }

    /// The messages of the agent and its subagents, without thoughts.
    pub async fn said(&self) -> Vec<String> {
        let by_agent = |m: &Value| m["source"] == "Agent" && m["thinking"] == false;
        texts(self.messages().await.iter().filter(|m| by_agent(m)))
    }

    pub async fn tool_calls(&self) -> Vec<Value> {
        self.api.all(&self.path("/tool-calls")).await
    }

    pub async fn queue(&self) -> Value {
        self.get("/messages/queue").await.expect(200).body
    }

    /// Returns the message as the server stored it.
    pub async fn say(&self, content: &str, priority: &str) -> Value {
        let body = json!({ "content": content, "priority": priority });
        self.post("/messages/queue", body).await.expect(201).body["message"].clone()
    }

    /// Waits until one raw event contains all these words.
    pub async fn until_reported(&self, words: &[&str]) {
        let has_reported = async || {
            let events: Vec<Value> = self.api.all(&self.path("/events")).await;
            let has_all = |event: String| words.iter().all(|word| event.contains(word));
            events.iter().any(|event| has_all(event.to_string())).then_some(())
        };
        self.until_within(PATIENCE, &words.join(" "), has_reported).await;
    }

    /// The state and the logs of the session, for failure messages.
    pub async fn everything(&self) -> String {
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        let get =
            async |rest: &str| self.api.try_send(reqwest::Method::GET, &self.path(rest), &[], None).await;
        let mut lines_of_state = vec![match get("").await {
            Ok(reply) => format!("session: {}", pretty(&reply.body)),
            Err(error) => format!("session: {error}"),
        }];
        if let Ok(reply) = get("/messages/queue").await {
            lines_of_state.push(format!("queue: {}", reply.text));
        }
        if let Ok(reply) = get("/activity?limit=200").await {
            let lines = reply.body["items"].as_array().into_iter().flatten();
            lines_of_state.extend(lines.map(|line| format!("activity: {line}")));
        }
        lines_of_state.extend(self.api.log_capture.logs(&self.id).await);
        lines_of_state.join("\n")
    }
}

pub(crate) fn texts<'a>(messages: impl Iterator<Item = &'a Value>) -> Vec<String> {
    messages.map(|m| m["content"].as_str().unwrap_or_default().to_owned()).collect()
}
