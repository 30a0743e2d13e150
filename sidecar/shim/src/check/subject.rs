//! The shim under test: its process, its events, and the answers to its decisions.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Checked, Outcome};
use crate::backend::Backend;
use crate::client::ShimClient;
use crate::event::{AdapterEvent, AgentEvent, CompletionOutcome, Decision};
use crate::message::{AgentState, Plugin, Resolution};
use crate::stream::{EventStream, StreamEvent};
use crate::validation::{Expected, Received, validate};
use crate::{START_POLL, free_port};

const AGENT: &str = "checked-agent";
/// How long no event may come until the agent counts as silent.
const SILENCE: Duration = Duration::from_millis(500);
const RECONNECT: Duration = Duration::from_secs(5);

pub(super) struct Subject {
    pub(super) client: ShimClient,
    pub(super) plugin: Plugin,
    process: Group,
    bootstrap: PathBuf,
    stream: Option<EventStream>,
    /// Everything that was received, in order of arrival.
    received: Vec<Received>,
    /// How many of them belong to earlier turns.
    earlier: usize,
    _folder: TempDir,
    _backend: Backend,
}

/// A process that is killed with its group when it is dropped.
struct Group(Child);

impl Group {
    fn kill(&self) {
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            // The group may have ended.
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Subject {
    /// Starts a shim and waits until it is healthy.
    pub(super) async fn start(checked: &Checked) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("failed to prepare the check: {e}");
        // Readable for this user only, because the bootstrap contains tokens.
        let folder = tempfile::Builder::new().prefix("pilothouse-shim-").tempdir().map_err(failed)?;
        let uploads = folder.path().join("artifacts");
        let backend = Backend::start(AGENT, uploads, |_| {}).await.map_err(failed)?;
        let bootstrap = backend.bootstrap().map_err(failed)?;
        let path = folder.path().join("bootstrap.json");
        let content = serde_json::to_vec(&bootstrap).map_err(|e| failed(e.into()))?;
        std::fs::write(&path, content).map_err(failed)?;
        let port = free_port().map_err(failed)?;
        let mut command = Command::new(&checked.program);
        command.args(&checked.arguments).args(["--port", &port.to_string(), "--bootstrap"]).arg(&path);
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = command.spawn().map_err(|e| format!("failed to start `{}`: {e}", checked.program))?;
        let mut process = Group(process);
        let client = ShimClient::new(port, &bootstrap.request_token, AGENT, checked.limit);
        let client = client.map_err(|e| e.to_string())?;
        let stderr = process.0.stderr.take();
        let ready = async {
            loop {
                if let Ok(health) = client.health().await {
                    return health.plugin;
                }
                sleep(START_POLL).await;
            }
        };
        let plugin = tokio::select! {
            ready = timeout(checked.limit, ready) => {
                ready.map_err(|_| format!("it was not healthy within {} s", checked.limit.as_secs()))?
            }
            status = process.0.wait() => {
                let how = status.map_or_else(|e| e.to_string(), |status| status.to_string());
                return Err(format!("it ended at once: {how}; {}", last_words(stderr).await));
            }
        };
        drain(stderr);
        Ok(Self {
            client,
            plugin,
            process,
            bootstrap: path,
            stream: None,
            received: Vec::new(),
            earlier: 0,
            _folder: folder,
            _backend: backend,
        })
    }

    pub(super) fn has_deleted_bootstrap(&self) -> Outcome {
        let path = self.bootstrap.display();
        if self.bootstrap.exists() { Err(format!("{path} still exists")) } else { Ok(()) }
    }

    pub(super) async fn connect(&mut self) -> Outcome {
        self.stream = Some(EventStream::connect(&self.client, RECONNECT).await.map_err(|e| e.to_string())?);
        Ok(())
    }

    pub(super) async fn disconnect(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.close().await;
        }
    }

    /// The next message. `None` if the stream ends or the time is over before one arrives.
    async fn next(&mut self, until: Instant) -> Option<Received> {
        loop {
            let stream = self.stream.as_mut()?;
            match timeout_at(until, stream.next()).await {
                Ok(StreamEvent::Message(message)) => {
                    let received = validate(&message, Expected { agent_id: AGENT, run_id: "" });
                    self.received.push(received.clone());
                    return Some(received);
                }
                Ok(StreamEvent::Reconnected) => {}
                Ok(StreamEvent::Gone | StreamEvent::Oversized) | Err(_) => return None,
            }
        }
    }

    /// Waits for the completion of the turn. Allows every call, and chooses the first option.
    pub(super) async fn complete(&mut self, limit: Duration) -> Outcome {
        let until = Instant::now() + limit;
        loop {
            let Some(received) = self.next(until).await else {
                return Err(if Instant::now() < until {
                    "its event stream ended before `completion`".to_owned()
                } else {
                    format!("no `completion` came within {} s", limit.as_secs())
                });
            };
            let Some(AdapterEvent { event, .. }) = received.event() else { continue };
            match event {
                AgentEvent::Decision(decision) => {
                    let resolution = match decision {
                        Decision::ToolApproval(_) => Resolution::approve(),
                        Decision::Option(asked) => {
                            let first = asked.options.first().map_or("", |option| option.id.as_str());
                            Resolution::choose(first, "The first one.")
                        }
                    };
                    let taken = self.client.resolve(decision.id(), &resolution).await;
                    taken.map_err(|e| format!("it did not take the resolution of {}: {e}", decision.id()))?;
                }
                AgentEvent::Error(report) if !report.recoverable => return Err(report.message.clone()),
                _ => {}
            }
            if let Some(outcome) = completion(event) {
                self.earlier = self.received.len();
                return outcome;
            }
        }
    }

    /// Whether the current turn has ended.
    pub(super) fn has_completed(&self) -> bool {
        let mut current = self.received.iter().skip(self.earlier).filter_map(Received::event);
        current.any(|event| completion(&event.event).is_some())
    }

    pub(super) async fn completes_soon(&mut self) -> bool {
        self.complete(Duration::from_secs(5)).await.is_ok()
    }

    /// Reads the events up to a state, and checks that nothing follows.
    pub(super) async fn is_silent_after(&mut self, state: &AgentState) -> Outcome {
        let last = state.last_sequence().ok_or("the state has no `lastSequence`")?;
        while let Some(received) = self.next(Instant::now() + SILENCE).await {
            if received.source().and_then(|source| source.sequence).is_some_and(|sequence| sequence > last) {
                return Err(format!("after the state of sequence {last} came {received:?}"));
            }
        }
        Ok(())
    }

    /// Whether the event with this sequence comes once more, with the same id.
    pub(super) async fn repeats(&mut self, sequence: u64) -> bool {
        let known =
            self.events().rfind(|event| event.source.sequence == Some(sequence)).map(|it| it.source.clone());
        let until = Instant::now() + RECONNECT;
        while let Some(received) = self.next(until).await {
            if received.source() == known.as_ref() {
                // A repetition is no event of its own.
                self.received.pop();
                self.earlier = self.received.len();
                return true;
            }
        }
        false
    }

    fn events(&self) -> impl DoubleEndedIterator<Item = &AdapterEvent> {
        self.received.iter().filter_map(Received::event)
    }

    pub(super) fn last_sequence(&self) -> Option<u64> {
        self.events().filter_map(|event| event.source.sequence).max()
    }

    /// The latest state that the shim reported.
    pub(super) fn checkpoint(&self) -> Option<AgentState> {
        self.events().rev().find_map(|event| match &event.event {
            AgentEvent::RawProvider { event_type, payload, .. } if event_type == "checkpoint" => {
                AgentState::try_from(payload.clone()).ok()
            }
            _ => None,
        })
    }

    pub(super) fn order(&self) -> Outcome {
        let mut ids = std::collections::BTreeSet::new();
        let mut next = std::collections::BTreeMap::new();
        for source in self.received.iter().filter_map(Received::source) {
            let expected = next.entry(&source.run_id).or_insert(1);
            if source.sequence != Some(*expected) {
                return Err(format!("expected sequence {expected}, received {:?}", source.sequence));
            }
            *expected += 1;
            if !ids.insert(&source.event_id) {
                return Err(format!("the id {} came twice", source.event_id));
            }
        }
        Ok(())
    }

    pub(super) fn validity(&self) -> Outcome {
        let wrong = self.received.iter().find_map(|received| match received {
            Received::Valid(_) => None,
            Received::Repaired(event, repairs) => {
                let rules: Vec<_> = repairs.iter().map(ToString::to_string).collect();
                Some(format!("{} was repaired: {}", event.source.event_id, rules.join(", ")))
            }
            Received::PlainText(text) => Some(format!("plain text came: {text}")),
            Received::Draft(draft) => {
                draft.as_ref().err().map(|why| format!("a draft cannot be used: {why}"))
            }
            Received::Quarantined { errors, .. } => Some(errors.join(", ")),
        });
        wrong.map_or(Ok(()), Err)
    }

    /// Ends the process and its group.
    pub(super) async fn end(&mut self) {
        self.process.kill();
        let _ = self.process.0.wait().await;
    }
}

pub(super) fn brief(task: &str) -> Value {
    json!({ "agentId": AGENT, "role": "agent", "description": task, "instructions": "", "workstream": "",
        "readableWorkstreams": [], "constraints": [], "projectBrief": {}, "knowledgeSnapshot": {},
        "allowedTools": [], "mcpServers": [], "sessionPolicy": { "historyPolicy": "full" }, "providerConfig": {} })
}

/// The outcome of a completion: the agent can do the task of the check. `None` for another event.
fn completion(event: &AgentEvent) -> Option<Outcome> {
    let AgentEvent::Completion(completion) = event else { return None };
    Some(match completion.outcome {
        CompletionOutcome::Success => Ok(()),
        other => Err(format!("the outcome of its turn is {other:?}: {}", completion.summary)),
    })
}

async fn last_words(stderr: Option<ChildStderr>) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = stderr {
        let _ = timeout(Duration::from_secs(1), stderr.read_to_string(&mut text)).await;
    }
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it wrote nothing").to_owned()
}

/// Reads the rest, or the shim would block on a full pipe.
fn drain(stderr: Option<ChildStderr>) {
    if let Some(mut stderr) = stderr {
        tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
    }
}
