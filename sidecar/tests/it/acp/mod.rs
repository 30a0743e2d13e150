//! The `acp` adapter: the real program with a fake agent ([`agent`]), and with real agents if they are installed
//! ([`real`], [`opencode`], [`codex`]).

mod agent;
mod codex;
mod edges;
mod governed;
mod images;
mod opencode;
mod owner;
mod real;
mod restart;
mod start;

use pilothouse_domain::CommandId;
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
use pilothouse_wire::launch::SidecarLaunch;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{Folders, Sidecar, config};
use crate::verdicts::Verdict;

/// A running sidecar with its folders, and the gateway that it talks to.
pub(crate) struct Harness {
    pub(crate) gateway: Gateway,
    pub(crate) folders: Folders,
    pub(crate) sidecar: Sidecar,
}

fn launch(gateway: &Gateway, folders: &Folders, change: impl FnOnce(&mut SidecarLaunch)) {
    let mut launch = folders.launch(gateway);
    change(&mut launch);
    launch.request.adapter = "acp".into();
    launch.request.working_directory = workspace(folders).to_str().unwrap().into();
    std::fs::create_dir_all(&launch.request.working_directory).unwrap();
    std::fs::write(folders.run().join("launch.json"), serde_json::to_vec(&launch).unwrap()).unwrap();
}

pub(crate) fn workspace(folders: &Folders) -> std::path::PathBuf {
    folders.root().join("workspace")
}

fn fake(can: &str) -> Value {
    let program = std::env::current_exe().unwrap();
    json!({
        "command": program,
        "args": ["--exact", "acp::agent::main", "--ignored", "--nocapture", "--test-threads=1"],
        "env": { "FAKE_CAN": can, "FAKE_API_KEY": "sk-fake-0123456789" }
    })
}

impl Harness {
    /// A sidecar that has received no command.
    pub(crate) async fn empty() -> Self {
        Self::launched(|_| {}).await
    }

    /// Like [`Self::empty`], with a changed launch.
    pub(crate) async fn launched(change: impl FnOnce(&mut SidecarLaunch)) -> Self {
        let gateway = Gateway::start().await;
        let folders = Folders::new(&gateway);
        launch(&gateway, &folders, change);
        let sidecar = folders.start();
        Self { gateway, folders, sidecar }
    }

    /// Like [`Self::empty`], in a project.
    pub(crate) async fn in_project(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let gateway = Gateway::start().await;
        gateway.verdicts(verdicts);
        let folders = Folders::governed(&gateway, "acp");
        launch(&gateway, &folders, |_| {});
        let sidecar = folders.start();
        Self { gateway, folders, sidecar }
    }

    pub(crate) async fn governed(
        verdicts: impl IntoIterator<Item = Verdict>,
        prompt: &str,
        change: impl FnOnce(&mut Begin),
    ) -> Self {
        let harness = Self::in_project(verdicts).await;
        harness.begin(fake(""), false, Some(prompt), change);
        harness
    }

    pub(crate) async fn playing(can: &str, prompt: &str) -> Self {
        let harness = Self::empty().await;
        harness.begin(fake(can), false, Some(prompt), |_| {});
        harness
    }

    pub(crate) fn begin(
        &self,
        options: Value,
        resume_conversation: bool,
        prompt: Option<&str>,
        change: impl FnOnce(&mut Begin),
    ) -> CommandId {
        let mut config = config(options);
        config.model_id = "default".into();
        let mut begin = Begin {
            config,
            resume_conversation,
            prompt: prompt.map(Into::into),
            images: Vec::new(),
            allowance_usd: None,
            allow_unmetered: false,
        };
        change(&mut begin);
        self.gateway.send(Command::Begin(Box::new(begin)))
    }

    /// Without the log and the agent's capabilities.
    pub(crate) fn reported_lines(&self) -> Vec<String> {
        let mut story = self.gateway.story();
        story.retain(|s| {
            ![
                "log_chunk",
                "sidecar_ready",
                "begin_ack",
                "notice agent_connected",
                "agent_settings",
                "heartbeat",
            ]
            .iter()
            .any(|left_out| s.starts_with(left_out))
        });
        story
    }

    pub(crate) fn abilities(&self) -> Value {
        let delivered = self.gateway.delivered();
        delivered.iter().rfind(|e| e.kind() == "sidecar_ready").unwrap().body["capabilities"].clone()
    }

    /// Starts the session's next run on a new gateway.
    pub(crate) async fn next_run(self) -> Self {
        let Self { gateway, folders, sidecar } = self;
        sidecar.signal(nix::sys::signal::Signal::SIGKILL);
        sidecar.ended().await;
        drop(gateway);
        let gateway = Gateway::start().await;
        folders.next_run(&gateway);
        launch(&gateway, &folders, |_| {});
        let sidecar = folders.start();
        Self { gateway, folders, sidecar }
    }

    /// The body of the first event of this kind.
    pub(crate) async fn event(&self, short: &str) -> Value {
        let at = self.gateway.sees(short).await;
        self.gateway.delivered()[at].body.clone()
    }
}
