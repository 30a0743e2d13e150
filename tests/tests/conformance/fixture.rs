//! A server, a scripted model, and a session of one agent, with waits that return an error on a timeout.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_model_server::{ModelServer, Request};
use pilothouse_tests::{ServerProcess, Session};
use serde_json::{Value, json};

use crate::agents::{self, Agent};
use crate::script;

/// Limit of every wait.
const PATIENCE: Duration = Duration::from_secs(45);
/// Observation time for inactivity. An agent that is not held calls its model or a tool within milliseconds.
const WATCH: Duration = Duration::from_millis(700);
/// Deadlines keep their normal length.
const DEADLINE_DIVISOR: u32 = 1;

/// A timeout, or an event that must not occur.
#[derive(Debug, Clone)]
pub(crate) struct Fault(pub(crate) String);

pub(crate) type Seen<T> = Result<T, Fault>;

/// How far spending went beyond a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overshoot {
    /// In percent of the cap.
    pub(crate) percent: usize,
    /// Calls that began after the cap was reached.
    pub(crate) calls: usize,
}

pub(crate) struct AgentFixture {
    pub(crate) agent: Agent,
    pub(crate) server: ServerProcess,
    pub(crate) model: Option<ModelServer>,
    /// `None` until the verb `BudgetCap` has run.
    pub(crate) overshoot: Mutex<Option<Overshoot>>,
    session: Option<Session>,
    /// Whether later verbs need a new session.
    pub(crate) is_over: bool,
    _models: tempfile::NamedTempFile,
}

impl AgentFixture {
    pub(crate) async fn new(agent: Agent) -> Self {
        let model = if agent.has_model() {
            Some(ModelServer::start(script::of_model(agent)).await.unwrap())
        } else {
            None
        };
        let models = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(models.path(), agents::prices().to_string()).unwrap();
        let mut variables = agent.server_environment(model.as_ref());
        variables.push(("PILOTHOUSE_MODELS", models.path().display().to_string()));
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let server = ServerProcess::start_with(DEADLINE_DIVISOR, &variables).await;
        let overshoot = Mutex::new(None);
        let fixture =
            Self { agent, server, model, overshoot, session: None, is_over: false, _models: models };
        std::fs::create_dir_all(fixture.agent_home()).unwrap();
        fixture
    }

    /// Outside the data folder, which a confined agent cannot access.
    fn agent_home(&self) -> PathBuf {
        self.server.work_folder().with_file_name("agent-home")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.server.work_folder().join(name)
    }

    pub(crate) fn session(&self) -> Seen<&Session> {
        self.session.as_ref().ok_or_else(|| Fault("no session was started".into()))
    }

    /// Starts a new session with this objective.
    pub(crate) async fn start(&mut self, objective: &str) -> Seen<()> {
        self.start_with(objective, &json!({})).await
    }

    /// Starts a new session with more options of its adapter.
    pub(crate) async fn start_with(&mut self, objective: &str, more: &Value) -> Seen<()> {
        let home = self.agent_home();
        let mut options = self.agent.options(self.model.as_ref(), &home);
        for (name, value) in more.as_object().into_iter().flatten() {
            options[name] = value.clone();
        }
        if self.agent == Agent::Script {
            options = json!({ "script": script::of_script() });
        }
        let mut body = json!({
            "adapter": self.agent.adapter(), "workingDirectory": self.server.work_folder(), "objective": objective,
            "adapterOptions": options,
        });
        if matches!(self.agent, Agent::Claude | Agent::ClaudeAcp | Agent::Native) {
            body["modelId"] = json!("claude-sonnet-4-5");
        }
        // An agent that reports no cost accepts no cap; the control plane refuses its start with this message.
        body["budgetCapUsd"] = json!("1000");
        let reply = self.server.api().post("/api/agents/sessions", body).await;
        if !matches!(reply.status, 201 | 202) {
            return Err(Fault(format!("the start was refused: {}", reply.text)));
        }
        let id = reply.body["session"]["id"].as_str().unwrap_or_default().to_owned();
        self.session = Some(Session::new(self.server.api(), id, reply.body));
        Ok(())
    }

    /// Sends a request of the owner, which must be accepted.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Seen<Value> {
        let reply = self.session()?.post(path, body).await;
        if reply.status < 300 {
            Ok(reply.body)
        } else {
            Err(Fault(format!("{path} was refused: {} {}", reply.status, reply.body["detail"])))
        }
    }

    pub(crate) async fn say(&self, words: &str, priority: &str) -> Seen<String> {
        let sent = self.post("/messages/queue", json!({ "content": words, "priority": priority })).await?;
        Ok(sent["message"]["messageId"].as_str().unwrap_or_default().to_owned())
    }

    /// Polls `look` until it returns a value.
    pub(crate) async fn wait<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> Seen<T> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look().await {
                return Ok(found);
            }
            if Instant::now() >= give_up {
                let status = match &self.session {
                    Some(session) => session.view().await["status"].to_string(),
                    None => "no session".to_owned(),
                };
                return Err(Fault(format!("{what} did not happen; the session is {status}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Grants permissions that the agent requests meanwhile.
    pub(crate) async fn until(&self, statuses: &[&str]) -> Seen<Value> {
        let session = self.session()?;
        self.wait(&statuses.join(" or "), async || {
            let view = session.view().await;
            if statuses.iter().any(|status| view["status"] == *status) {
                return Some(view);
            }
            allow(session, &view).await;
            None
        })
        .await
    }

    /// Waits until the agent has said these words and is idle with an empty queue.
    pub(crate) async fn until_said(&self, words: &str) -> Seen<Value> {
        let session = self.session()?;
        let view = self
            .wait(&format!("`{words}`"), async || {
                let view = session.view().await;
                allow(session, &view).await;
                let failed = view["status"] == "Failed";
                let settled = failed || (view["status"] == "Idle" && view["inFlight"].is_null());
                (settled && (failed || session.said().await.iter().any(|said| said.contains(words))))
                    .then_some(view)
            })
            .await?;
        if view["status"] == "Failed" {
            return Err(Fault(format!("the session failed: {}", view["failureReason"]["message"])));
        }
        Ok(view)
    }

    /// `marker` is part of the command. Returns whether the agent asked for a permission first.
    pub(crate) async fn until_in_tool(&self, marker: &str) -> Seen<bool> {
        let session = self.session()?;
        let asked = std::cell::Cell::new(false);
        self.wait(&format!("a tool call with {marker}"), async || {
            let view = session.view().await;
            if allow(session, &view).await {
                asked.set(true);
                return None;
            }
            if self.agent.has_model() {
                return self.file(marker).exists().then_some(());
            }
            let is_it =
                |call: &Value| call["status"] == "Pending" && call["input"].to_string().contains(marker);
            session.tool_calls().await.iter().any(is_it).then_some(())
        })
        .await?;
        Ok(asked.get())
    }

    pub(crate) async fn cancel(&self) -> Seen<()> {
        self.post("/cancel", json!({ "force": true })).await?;
        self.wait("the end of the sidecar", async || self.server.sidecars().is_empty().then_some(())).await
    }

    pub(crate) async fn turn_count(&self) -> Seen<u64> {
        Ok(self.session()?.view().await["metrics"]["turnCount"].as_u64().unwrap_or_default())
    }

    /// Model calls in the agent's conversation.
    pub(crate) fn calls(&self) -> usize {
        let prompts = self.model.as_ref().map(ModelServer::prompts).unwrap_or_default();
        prompts.iter().filter(|prompt| prompt.step.is_some()).count()
    }

    /// For the calls from index `from` on, as shares of their total.
    pub(crate) fn cost_shares(&self, from: usize) -> Vec<f64> {
        let prompts = self.model.as_ref().map(ModelServer::prompts).unwrap_or_default();
        let calls = prompts.iter().filter(|prompt| prompt.step.is_some()).skip(from);
        let costs: Vec<f64> = calls.map(|call| self.agent.cost(call.usage.unwrap_or_default())).collect();
        let all: f64 = costs.iter().sum();
        costs.iter().map(|cost| cost / all).collect()
    }

    /// From index `from` on, including side requests.
    pub(crate) fn asked_since(&self, from: usize) -> Vec<Request> {
        self.model.as_ref().map(|model| model.prompts().split_off(from)).unwrap_or_default()
    }

    /// Waits until one raw event contains all these words.
    pub(crate) async fn until_reported(&self, words: &[&str]) -> Seen<()> {
        self.wait(&words.join(" "), async || self.has_reported(words).await.then_some(())).await
    }

    /// Waits for a limited time until a message is in the agent's conversation. Agents that read messages after a tool report them only
    /// then.
    pub(crate) async fn settle(&self, message: &str) {
        let give_up = Instant::now() + WATCH;
        while Instant::now() < give_up && !self.has_reported(&["message_ack", message, "injected"]).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn acknowledgements(&self, kind: &str) -> usize {
        let Some(session) = &self.session else { return 0 };
        let events = session.api.all(&session.path("/events")).await;
        events.iter().filter(|event| event.to_string().contains(kind)).count()
    }

    /// Model calls, progress of the tool with `marker`, and messages.
    async fn traces(&self, marker: &str) -> (usize, String, usize) {
        let prompts = self.model.as_ref().map_or(0, |model| model.prompts().len());
        let beat = std::fs::read_to_string(self.file(&format!("{marker}.beat"))).unwrap_or_default();
        let messages = match &self.session {
            Some(session) => session.messages().await.len(),
            None => 0,
        };
        (prompts, beat, messages)
    }

    /// Checks for a while that there is no model call, no message, and no progress of the tool with `marker`.
    pub(crate) async fn stands_still(&self, marker: &str) -> Seen<()> {
        let before = self.traces(marker).await;
        tokio::time::sleep(WATCH).await;
        let after = self.traces(marker).await;
        let changed = [
            (before.0 != after.0, "the agent called its model"),
            (before.1 != after.1, "the tool's process continued"),
            (before.2 != after.2, "the agent sent a message"),
        ];
        match changed.iter().find(|(changed, _)| *changed) {
            Some((_, what)) => Err(Fault(format!("{what} after the stop was confirmed"))),
            None => Ok(()),
        }
    }

    /// Whether one raw event contains all these words.
    pub(crate) async fn has_reported(&self, words: &[&str]) -> bool {
        let Some(session) = &self.session else { return false };
        let events = session.api.all(&session.path("/events")).await;
        let has_all = |event: &Value| words.iter().all(|word| event.to_string().contains(word));
        events.iter().any(has_all)
    }

    /// Includes their process groups.
    pub(crate) fn kill_sidecars(&self) {
        self.server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
    }

    /// Not its sidecar and guard. Returns the number of killed processes.
    pub(crate) fn kill_agent(&self) -> usize {
        let sidecars: Vec<i32> = self.server.sidecars().iter().map(|sidecar| sidecar.pid.as_raw()).collect();
        let all = processes();
        let is_below = |pid: i32| {
            let parent = |pid| all.iter().find(|process| process.pid == pid).map(|process| process.parent);
            std::iter::successors(parent(pid), |pid| parent(*pid)).any(|pid| sidecars.contains(&pid))
        };
        let is_ours = |pid: i32| all.iter().any(|process| process.pid == pid && process.is_ours);
        let agents = all.iter().filter(|p| !p.is_ours && is_ours(p.parent) && is_below(p.pid));
        agents.filter(|process| kill(Pid::from_raw(process.pid), Signal::SIGKILL).is_ok()).count()
    }

    /// The capabilities that the adapter of the run declared last.
    pub(crate) async fn declared(&self) -> Value {
        match &self.session {
            Some(session) => session.view().await["currentRun"]["capabilities"].clone(),
            None => Value::Null,
        }
    }
}

/// Grants the requested permission once. Returns whether there was a request.
pub(crate) async fn allow(session: &Session, view: &Value) -> bool {
    if view["status"] != "WaitingForInput" {
        return false;
    }
    let request = &view["pendingRequests"][0];
    let question = &request["questions"][0];
    let labels: Vec<_> = question["options"].as_array().into_iter().flatten().collect();
    let label = |option: &Value| option["label"].as_str().unwrap_or_default().to_owned();
    let once = |label: &String| {
        let label = label.to_lowercase();
        ["allow", "yes", "approve", "proceed"].iter().any(|word| label.contains(word))
            && !["lways", "session", "don't", "not "].iter().any(|word| label.contains(word))
    };
    let chosen = labels.iter().map(|option| label(option)).find(once);
    let chosen =
        chosen.or_else(|| labels.first().map(|option| label(option))).unwrap_or_else(|| "Allow".into());
    let answers = json!([{ "question": question["question"], "answer": chosen }]);
    // The next poll shows whether the request is closed.
    session.post("/answer", json!({ "requestId": request["id"], "answers": answers })).await;
    true
}

struct Process {
    pid: i32,
    parent: i32,
    /// Whether the process is one of Pilothouse's programs.
    is_ours: bool,
}

fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let read = |folder: &Path| {
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        let program = std::fs::read_link(folder.join("exe")).unwrap_or_default();
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(Process { pid, parent, is_ours: name.starts_with("pilothouse") })
    };
    entries.filter_map(|entry| read(&entry.path())).collect()
}
