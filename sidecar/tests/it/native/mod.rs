//! The native agent in a sidecar with a scripted model. Only the model is fake.

mod additions;
mod context;
mod conversations;
mod governed;
mod images;
mod money;
mod requests;
mod resume;
mod safety;
mod settings;
mod stopping;
mod turns;

use std::path::{Path, PathBuf};

use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use serde_json::{Value, json};

use crate::gateway::{Delivered, Gateway};
use crate::sidecar::{Folders, Sidecar, config};

/// Must not become visible.
const KEY: &str = "sk-ant-a-key-that-nobody-sees";
/// The agents' initial model.
const MODEL: &str = "anthropic/claude-sonnet-4-5";

struct Agent {
    gateway: Gateway,
    folders: Folders,
    model: ModelServer,
    sidecar: Sidecar,
}

impl Agent {
    /// A sidecar that waits for `begin`.
    async fn idle(script: Script) -> Self {
        Self::of(script, |gateway| Folders::of_adapter(gateway, "native")).await
    }

    /// Like [`Self::idle`], in a project.
    async fn governed(script: Script) -> Self {
        Self::of(script, |gateway| Folders::governed(gateway, "native")).await
    }

    async fn of(script: Script, folders: impl FnOnce(&Gateway) -> Folders) -> Self {
        let model = ModelServer::start(script).await.unwrap();
        let gateway = Gateway::start().await;
        let folders = folders(&gateway);
        let sidecar = folders.start_with(&environment(&model));
        Self { gateway, folders, model, sidecar }
    }

    async fn says(steps: impl IntoIterator<Item = Step>) -> Self {
        let agent = Self::idle(Script::of(steps)).await;
        agent.begin(|_| {});
        agent
    }

    fn begin(&self, change: impl FnOnce(&mut Begin)) {
        let mut begin = Begin {
            config: self.config(),
            resume_conversation: false,
            prompt: Some("do the work".into()),
            images: Vec::new(),
            allowance_usd: None,
            allow_unmetered: false,
        };
        change(&mut begin);
        self.gateway.send(Command::Begin(Box::new(begin)));
    }

    fn config(&self) -> AgentSessionConfig {
        let mut config = config(json!({ "maxRetries": 2, "retryDelayMs": 10 }));
        config.model_id = MODEL.into();
        config.working_directory = self.folders.work().to_str().unwrap().into();
        config
    }

    fn work(&self) -> PathBuf {
        self.folders.work()
    }

    /// Kills the sidecar, and starts the session's next run, which resumes the conversation.
    async fn killed_and_resumed(&mut self, prompt: Option<&str>) {
        self.killed().await;
        let prompt = prompt.map(str::to_owned);
        self.begin(|begin| (begin.resume_conversation, begin.prompt) = (true, prompt));
    }

    /// Kills the sidecar, and prepares the session's next run.
    async fn killed(&mut self) {
        self.sidecar.signal(nix::sys::signal::Signal::SIGKILL);
        let gateway = Gateway::of_session(&self.gateway).await;
        self.folders.next_run(&gateway);
        self.gateway = gateway;
        let next = self.folders.start_with(&environment(&self.model));
        let killed = std::mem::replace(&mut self.sidecar, next);
        killed.ended().await;
    }

    /// The agent's texts, calls and results, in order.
    fn story(&self) -> Vec<String> {
        let delivered = self.gateway.delivered();
        delivered.iter().filter(|e| !e.kind().ends_with("_ack")).map(line).collect()
    }

    /// The model's requests without the refused ones.
    fn requests(&self) -> Vec<Value> {
        let requests = self.model.requests();
        for request in &requests {
            assert!(!request.is_refused(), "the model refused: {:?}\n{:#}", request.refused, request.body);
        }
        requests.into_iter().map(|request| request.body).collect()
    }

    fn last_request(&self) -> Value {
        self.requests().pop().expect("the model was asked")
    }
}

fn environment(model: &ModelServer) -> [(&'static str, String); 2] {
    [("ANTHROPIC_BASE_URL", model.base_url()), ("ANTHROPIC_API_KEY", KEY.to_owned())]
}

fn line(event: &Delivered) -> String {
    match event.kind() {
        "tool_result" => {
            let error = if event.body["isError"] == true { "error" } else { "ok" };
            format!("result {error}: {}", event.body["content"].as_str().unwrap_or("?").trim())
        }
        "assistant_message" => event.short()["assistant_message ".len()..].to_owned(),
        _ => event.kind().to_owned(),
    }
}

fn bash(command: &str) -> Step {
    Step::tool("bash", json!({ "command": command }))
}

/// A command that signals its start, and ends on [`let_go`].
fn waiting(work: &Path, name: &str) -> String {
    let fifo = work.join(name);
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    format!("touch {name}.begun; read word < {name}; echo went on")
}

async fn begun(agent: &Agent, name: &str) {
    let mark = agent.work().join(format!("{name}.begun"));
    agent.gateway.until(name, |_| mark.exists().then_some(())).await;
}

fn let_go(agent: &Agent, name: &str) {
    std::fs::write(agent.work().join(name), "go\n").unwrap();
}
