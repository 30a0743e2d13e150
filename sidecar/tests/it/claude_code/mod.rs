//! The real Claude Code in a sidecar, with a scripted model. Only the model is fake.
//!
//! The binary comes from `PILOTHOUSE_CLAUDE` or from `tests/agents`. Without it, each test reports that it is
//! skipped.

mod deliverables;
mod fake;
mod governed;
mod limits;
mod requests;
mod resume;
mod settings;
mod start;
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
const MODEL: &str = "claude-sonnet-4-5";

pub(crate) fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("PILOTHOUSE_CLAUDE").map(PathBuf::from);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents/node_modules/.bin/claude");
    let found = named.or(Some(installed)).filter(|path| path.is_file());
    if found.is_none() {
        eprintln!("not tested: Claude Code is not installed here (`tests/agents` installs it)");
    }
    found
}

pub(crate) struct Agent {
    pub(crate) gateway: Gateway,
    pub(crate) folders: Folders,
    pub(crate) model: ModelServer,
    pub(crate) sidecar: Sidecar,
    binary: PathBuf,
    /// The variable with the credentials.
    with: &'static str,
}

impl Agent {
    /// A sidecar that waits for `begin`. `None` if there is no Claude Code.
    async fn idle(script: Script) -> Option<Self> {
        Self::logged_in(script, "ANTHROPIC_API_KEY").await
    }

    /// An agent with a subscription instead of an API key.
    async fn on_a_plan(steps: impl IntoIterator<Item = Step>) -> Option<Self> {
        let agent = Self::logged_in(Script::of(steps), "CLAUDE_CODE_OAUTH_TOKEN").await?;
        agent.begin(|_| {});
        Some(agent)
    }

    async fn logged_in(script: Script, with: &'static str) -> Option<Self> {
        Self::of(script, with, |gateway| Folders::of_adapter(gateway, "claude")).await
    }

    /// Like [`Self::idle`], in a project.
    async fn governed(script: Script) -> Option<Self> {
        Self::of(script, "ANTHROPIC_API_KEY", |gateway| Folders::governed(gateway, "claude")).await
    }

    async fn of(
        script: Script,
        with: &'static str,
        folders: impl FnOnce(&Gateway) -> Folders,
    ) -> Option<Self> {
        let binary = binary()?;
        let model = ModelServer::start(script).await.unwrap();
        let gateway = Gateway::start().await;
        let folders = folders(&gateway);
        let sidecar = folders.start_with(&environment(&model, &binary, &folders, with));
        Some(Self { gateway, folders, model, sidecar, binary, with })
    }

    async fn says(steps: impl IntoIterator<Item = Step>) -> Option<Self> {
        let agent = Self::idle(Script::of(steps)).await?;
        agent.begin(|_| {});
        Some(agent)
    }

    async fn with(steps: impl IntoIterator<Item = Step>, change: impl FnOnce(&mut Begin)) -> Option<Self> {
        let agent = Self::idle(Script::of(steps)).await?;
        agent.begin(change);
        Some(agent)
    }

    /// Begins with a prompt and without permission requests.
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
        let mut config = config(json!({}));
        config.model_id = MODEL.into();
        config.allowed_tools = vec!["Bash".into(), "Write".into(), "Edit".into()];
        config.working_directory = self.work().to_str().unwrap().into();
        config
    }

    fn work(&self) -> PathBuf {
        self.folders.work()
    }

    /// Kills the sidecar, and starts the next run, which resumes the conversation.
    async fn killed_and_resumed(&mut self, prompt: Option<&str>) {
        self.sidecar.signal(nix::sys::signal::Signal::SIGKILL);
        let gateway = Gateway::of_session(&self.gateway).await;
        self.folders.next_run(&gateway);
        self.gateway = gateway;
        let next = self.folders.start_with(&environment(&self.model, &self.binary, &self.folders, self.with));
        std::mem::replace(&mut self.sidecar, next).ended().await;
        let prompt = prompt.map(str::to_owned);
        self.begin(|begin| (begin.resume_conversation, begin.prompt) = (true, prompt));
    }

    /// The agent's texts, calls and results, in order.
    fn story(&self) -> Vec<String> {
        let delivered = self.gateway.delivered();
        delivered
            .iter()
            .filter(|e| !e.kind().ends_with("_ack") && !["usage_update", "sidecar_ready"].contains(&e.kind()))
            .map(line)
            .collect()
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        self.gateway.delivered().into_iter().filter(|e| e.kind() == kind).map(|e| e.body).collect()
    }

    /// The model's requests, none of which was refused.
    fn prompts(&self) -> Vec<Value> {
        let prompts = self.model.prompts();
        for prompt in &prompts {
            assert!(!prompt.is_refused(), "the model refused: {:?}\n{:#}", prompt.refused, prompt.body);
        }
        prompts.into_iter().map(|prompt| prompt.body).collect()
    }

    /// Waits for this many model requests.
    async fn asked(&self, times: usize) {
        tokio::time::timeout(crate::gateway::DEADLINE, self.model.wait_for(times)).await.unwrap_or_else(
            |_| panic!("the model was asked {} times; {:#?}", self.model.prompts().len(), self.story()),
        );
    }
}

/// The home is empty, so that a person's shell profile has no effect.
fn environment(
    model: &ModelServer,
    binary: &Path,
    folders: &Folders,
    with: &'static str,
) -> [(&'static str, String); 5] {
    let home = folders.root().join("person");
    std::fs::create_dir_all(&home).unwrap();
    [
        ("HOME", home.to_str().unwrap().to_owned()),
        ("ANTHROPIC_BASE_URL", model.base_url()),
        (with, KEY.to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("PILOTHOUSE_CLAUDE", binary.to_str().unwrap().to_owned()),
    ]
}

fn line(event: &Delivered) -> String {
    match event.kind() {
        "tool_result" => {
            let error = if event.body["isError"] == true { "error" } else { "ok" };
            format!("result {error}: {}", event.body["content"].as_str().unwrap_or("?").trim())
        }
        "assistant_message" => event.short()["assistant_message ".len()..].to_owned(),
        "turn_started" | "turn_completed" => event.kind().to_owned(),
        _ => event.short(),
    }
}

fn bash(command: &str) -> Step {
    Step::tool("Bash", json!({ "command": command, "description": "Run a command" }))
}

/// A command that signals its start, and ends on [`let_go`].
fn waiting(work: &Path, name: &str) -> String {
    let fifo = work.join(name);
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    format!("echo $$ > {name}.begun; read word < {name}; echo went on")
}

/// Waits until the command runs. Returns the id of its shell.
async fn begun(agent: &Agent, name: &str) -> i32 {
    let mark = agent.work().join(format!("{name}.begun"));
    let id = |_: &Gateway| std::fs::read_to_string(&mark).ok()?.trim().parse().ok();
    agent.gateway.until(name, id).await
}

fn let_go(agent: &Agent, name: &str) {
    std::fs::write(agent.work().join(name), "go\n").unwrap();
}

async fn gone(agent: &Agent, process: i32) {
    let stat = format!("/proc/{process}/stat");
    let is_gone = |_: &Gateway| {
        let there = std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        (!there).then_some(())
    };
    agent.gateway.until("the end of a process", is_gone).await;
}
