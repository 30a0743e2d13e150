//! The `shim` adapter: the real program with a fake shim ([`fake`]).

mod fake;
mod faults;
mod sdks;
mod secrets;
mod start;
mod turns;

use pilothouse_domain::CommandId;
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
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

/// Short limits, so that tests of shims that hang take seconds.
pub(crate) fn options(script: &Value) -> Value {
    // The arguments of a shim are no arguments of the test program.
    let program = std::env::current_exe().unwrap();
    let exec = r#"exec "$0" --exact shim::fake::main --ignored --nocapture --test-threads=1 -- "$@""#;
    json!({
        "command": "sh", "args": ["-c", exec, program],
        "env": { "FAKE_SHIM": script.to_string(), "FAKE_API_KEY": "sk-fake-0123456789" },
        "startSeconds": 5, "requestSeconds": 1, "graceSeconds": 1, "healthSeconds": 1,
    })
}

pub(crate) fn begin(script: &Value, prompt: Option<&str>, resume: bool) -> Begin {
    let mut config = config(options(script));
    config.model_id = "default".into();
    Begin {
        config,
        resume_conversation: resume,
        prompt: prompt.map(Into::into),
        images: Vec::new(),
        allowance_usd: None,
        allow_unmetered: true,
    }
}

impl Harness {
    pub(crate) async fn empty() -> Self {
        let gateway = Gateway::start().await;
        let folders = Folders::of_adapter(&gateway, "shim");
        let sidecar = folders.start();
        Self { gateway, folders, sidecar }
    }

    pub(crate) async fn playing(script: Value) -> Self {
        let harness = Self::empty().await;
        harness.begin(begin(&script, Some("do it"), false));
        harness
    }

    pub(crate) async fn governed(verdicts: impl IntoIterator<Item = Verdict>, script: Value) -> Self {
        let gateway = Gateway::start().await;
        gateway.verdicts(verdicts);
        let folders = Folders::governed(&gateway, "shim");
        let sidecar = folders.start();
        let harness = Self { gateway, folders, sidecar };
        harness.begin(begin(&script, Some("do it"), false));
        harness
    }

    pub(crate) fn begin(&self, begin: Begin) -> CommandId {
        self.gateway.send(Command::Begin(Box::new(begin)))
    }

    /// The body of the first event of this kind.
    pub(crate) async fn event(&self, short: &str) -> Value {
        let at = self.gateway.sees(short).await;
        self.gateway.delivered()[at].body.clone()
    }

    pub(crate) fn starts(&self) -> usize {
        std::fs::read_to_string(self.folders.work().join("starts")).map_or(0, |text| text.len())
    }

    /// Starts the session's next run on a new gateway, after the sidecar was killed.
    pub(crate) async fn next_run(self) -> Self {
        self.next_run_by(Folders::start).await
    }

    pub(crate) async fn next_run_by(self, start: impl FnOnce(&Folders) -> Sidecar) -> Self {
        let Self { gateway, folders, sidecar } = self;
        sidecar.signal(nix::sys::signal::Signal::SIGKILL);
        sidecar.ended().await;
        drop(gateway);
        let gateway = Gateway::start().await;
        folders.next_run(&gateway);
        let sidecar = start(&folders);
        Self { gateway, folders, sidecar }
    }
}

pub(crate) fn said(text: &str) -> Value {
    json!({ "emit": { "type": "status", "message": text } })
}

pub(crate) fn completed() -> Value {
    json!({ "emit": { "type": "completion", "summary": "", "artifactsProduced": [], "decisionsNeeded": [],
        "outcome": "success" } })
}

pub(crate) fn approval() -> Value {
    json!({ "emit": { "type": "decision", "subtype": "tool_approval", "decisionId": "c1", "toolName": "shell",
        "toolArgs": { "command": "touch x" } } })
}
