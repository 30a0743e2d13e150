//! The sidecar as a process.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use pilothouse_domain::MessageId;
use pilothouse_domain::project_agent::DelegationPolicy;
use pilothouse_domain::session::AgentOptions;
use pilothouse_domain::value::{MessageImage, MessagePriority, MessageSource};
use pilothouse_wire::Command;
use pilothouse_wire::command::{AgentSessionConfig, Begin, BriefPolicies};
use pilothouse_wire::launch::{AgentApiAccess, BrokerAccess, LaunchRequest, OfflineLimits, SidecarLaunch};
use serde_json::{Value, json};
use tokio::process::Child;
use uuid::Uuid;

use crate::gateway::{DEADLINE, Gateway};

pub(crate) struct Folders {
    root: tempfile::TempDir,
    adapter: String,
    /// Whether the session belongs to a project.
    governed: bool,
}

impl Folders {
    pub(crate) fn new(gateway: &Gateway) -> Self {
        Self::with_lease(gateway, None)
    }

    pub(crate) fn with_lease(gateway: &Gateway, lease_ms: Option<u64>) -> Self {
        let folders = Self { root: tempfile::tempdir().unwrap(), adapter: "script".into(), governed: false };
        std::fs::create_dir(folders.run()).unwrap();
        let mut launch = folders.launch(gateway);
        launch.request.lease_ms = lease_ms;
        folders.write_launch(&launch);
        folders
    }

    /// For an adapter other than `script`, with its own working directory.
    pub(crate) fn of_adapter(gateway: &Gateway, adapter: &str) -> Self {
        Self::of(gateway, adapter, false)
    }

    /// For a session that belongs to a project.
    pub(crate) fn governed(gateway: &Gateway, adapter: &str) -> Self {
        Self::of(gateway, adapter, true)
    }

    fn of(gateway: &Gateway, adapter: &str, governed: bool) -> Self {
        let folders = Self { root: tempfile::tempdir().unwrap(), adapter: adapter.into(), governed };
        std::fs::create_dir(folders.run()).unwrap();
        std::fs::create_dir(folders.work()).unwrap();
        folders.write_launch(&folders.launch(gateway));
        folders
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// For a sidecar that uses SQS and S3 directly.
    pub(crate) fn in_the_cloud(gateway: &Gateway) -> Self {
        let folders = Self::new(gateway);
        let mut launch = folders.launch(gateway);
        if let BrokerAccess::Gateway { url, token, .. } = launch.broker {
            launch.broker = BrokerAccess::Sqs { url, token };
        }
        folders.write_launch(&launch);
        folders
    }

    pub(crate) fn write_launch(&self, launch: &SidecarLaunch) {
        std::fs::write(self.run().join("launch.json"), serde_json::to_vec(launch).unwrap()).unwrap();
    }

    pub(crate) fn root(&self) -> &std::path::Path {
        self.root.path()
    }

    pub(crate) fn launch(&self, gateway: &Gateway) -> SidecarLaunch {
        SidecarLaunch {
            request: LaunchRequest {
                session_id: gateway.session,
                run_id: gateway.run,
                ordinal: 1,
                retry_count: 0,
                adapter: self.adapter.clone(),
                working_directory: self.working_directory(),
                worker_labels: std::collections::BTreeMap::new(),
                lease_ms: None,
                authorize_tools: self.governed,
                agent: None,
                secrets: Vec::new(),
                workspace: None,
            },
            envelope_key: gateway.secret.envelope_key(gateway.run),
            key_id: "k1".into(),
            broker: BrokerAccess::Gateway {
                url: gateway.url.clone(),
                token: gateway.secret.gateway_token(gateway.session, gateway.run),
                http2: true,
            },
            session_home: self.root.path().join("home").to_str().unwrap().into(),
            agent_api: self.agent_api(gateway),
            heartbeat_seconds: 0.2,
            offline: OfflineLimits::default(),
            confinement: None,
            hidden_where_supported: Vec::new(),
        }
    }

    fn agent_api(&self, gateway: &Gateway) -> AgentApiAccess {
        let url = if self.governed { gateway.url.clone() } else { "http://127.0.0.1:1".into() };
        AgentApiAccess { url, api_key: "ph_the_key_of_the_session".into() }
    }

    fn working_directory(&self) -> String {
        let folder = if self.adapter == "script" { self.root.path().to_owned() } else { self.work() };
        folder.to_str().unwrap().into()
    }

    /// Prepares the next run of the session: a new run directory and the same session home.
    pub(crate) fn next_run(&self, gateway: &Gateway) {
        std::fs::remove_dir_all(self.run()).unwrap();
        std::fs::create_dir(self.run()).unwrap();
        self.write_launch(&self.launch(gateway));
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.root.path().join("run")
    }

    fn command(&self, verb: &str) -> Child {
        program().arg(verb).arg(self.run()).spawn().unwrap()
    }

    pub(crate) fn start(&self) -> Sidecar {
        Sidecar { child: self.command("run") }
    }

    /// Starts `run`, and keeps its log in a file.
    pub(crate) fn start_logged(&self, log: &std::path::Path) -> Sidecar {
        let log = std::fs::File::create(log).unwrap();
        Sidecar { child: program().arg("run").arg(self.run()).stderr(log).spawn().unwrap() }
    }

    /// Starts `run` with additional variables.
    pub(crate) fn start_with(&self, environment: &[(&str, String)]) -> Sidecar {
        let variables = environment.iter().map(|(name, value)| (name, value));
        Sidecar { child: program().arg("run").arg(self.run()).envs(variables).spawn().unwrap() }
    }

    pub(crate) async fn drain(&self) -> ExitStatus {
        Sidecar { child: self.command("drain") }.ended().await
    }
}

fn program() -> tokio::process::Command {
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_pilothouse-sidecar"));
    program.env("PILOTHOUSE_LOG", "debug").stdin(Stdio::null()).kill_on_drop(true);
    program
}

pub(crate) struct Sidecar {
    child: Child,
}

impl Sidecar {
    pub(crate) fn container(environment: &[(&str, String)]) -> Self {
        let variables = environment.iter().map(|(name, value)| (name, value));
        Self { child: program().arg("container").envs(variables).spawn().unwrap() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    pub(crate) async fn ended(mut self) -> ExitStatus {
        tokio::time::timeout(DEADLINE, self.child.wait()).await.expect("it ends").unwrap()
    }
}

pub(crate) async fn playing(steps: Value) -> (Gateway, Folders, Sidecar) {
    playing_options(json!({ "script": { "steps": steps } })).await
}

pub(crate) async fn playing_options(options: Value) -> (Gateway, Folders, Sidecar) {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let sidecar = folders.start();
    gateway.send(begin(options));
    (gateway, folders, sidecar)
}

pub(crate) fn config(options: Value) -> AgentSessionConfig {
    AgentSessionConfig {
        model_id: "model-1".into(),
        thinking_level: None,
        composed_system_prompt: String::new(),
        allowed_tools: vec![],
        custom_tools: vec![],
        sub_agents: vec![],
        working_directory: "/tmp".into(),
        objective: "write a poem".into(),
        options: AgentOptions { context_warn_at_percent: 80, ..AgentOptions::default() },
        policies: BriefPolicies::default(),
        handoff: None,
        adapter_options: options,
    }
}

/// Policies of an agent that may delegate to this agent, and to no other.
pub(crate) fn delegating_to(name: &str) -> BriefPolicies {
    let delegation_policy = DelegationPolicy {
        can_spawn_subagents: true,
        allowed_handoffs: Some(vec![name.to_owned()]),
        max_depth: 1,
    };
    BriefPolicies { delegation_policy: Some(delegation_policy), ..BriefPolicies::default() }
}

pub(crate) fn begin(options: Value) -> Command {
    begin_with(options, false, Some("write a poem"))
}

pub(crate) fn begin_with(options: Value, resume_conversation: bool, prompt: Option<&str>) -> Command {
    Command::Begin(Box::new(Begin {
        config: config(options),
        resume_conversation,
        prompt: prompt.map(Into::into),
        images: Vec::new(),
        allowance_usd: None,
        allow_unmetered: false,
    }))
}

pub(crate) fn message(text: &str, priority: MessagePriority) -> Command {
    message_with(text, Vec::new(), priority)
}

pub(crate) fn message_with(text: &str, images: Vec<MessageImage>, priority: MessagePriority) -> Command {
    Command::SteeringMessage {
        message_id: MessageId::new(Uuid::now_v7()),
        content: text.into(),
        images,
        priority,
        source: MessageSource::User,
        expected_turn_id: None,
    }
}

#[allow(clippy::needless_pass_by_value)] // called inline
pub(crate) fn turn(steps: Value) -> Value {
    json!({ "turn": { "steps": steps } })
}

/// Output that takes a while, with a millisecond between messages.
pub(crate) fn much(times: u32) -> Value {
    json!({ "repeat": { "times": times, "steps": [{ "say": "line" }, { "wait": 1 }] } })
}
