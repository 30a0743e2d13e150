//! A minimal control plane: a gateway that queues `begin` before the sidecar starts and accepts every event without reading it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use pilothouse_domain::session::AgentOptions;
use pilothouse_domain::{AgentSessionId, CommandId, EnvelopeId, RunId, Timestamp};
use pilothouse_test_support::launch_request;
use pilothouse_tests::programs;
use pilothouse_wire::command::{AgentSessionConfig, Begin, BriefPolicies, IssuedCommand};
use pilothouse_wire::envelope::PROTOCOL_VERSION;
use pilothouse_wire::gateway::{
    DeleteCommands, ReceiveCommands, ReceivedCommand, ReceivedCommands, SendEvents, SendResult,
};
use pilothouse_wire::launch::{AgentApiAccess, BrokerAccess, LaunchRequest, OfflineLimits, SidecarLaunch};
use pilothouse_wire::{Envelope, RootSecret};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

#[derive(Default)]
struct Inner {
    command: Mutex<Option<String>>,
    events: AtomicUsize,
}

/// A gateway for one run, with the run's folder.
pub(crate) struct RunGateway {
    inner: Arc<Inner>,
    folder: TempDir,
    models: String,
}

impl RunGateway {
    /// Queues `begin`. The run sends model requests to `models`.
    pub(crate) async fn new(models: String, prompt: Option<&str>) -> Self {
        let secret = RootSecret::new("k1", vec![9; 32]).unwrap();
        let (session, run) = (AgentSessionId::new(Uuid::now_v7()), RunId::new(Uuid::now_v7()));
        let folder = tempfile::tempdir().unwrap();
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: session,
            run_id: run,
            message_id: EnvelopeId::new(Uuid::now_v7()),
            sequence: None,
            time: Timestamp::from_millis(0),
            occurred_at: None,
            traceparent: None,
            body: IssuedCommand {
                command_id: CommandId::new(Uuid::now_v7()),
                attempt: 1,
                command: pilothouse_wire::Command::Begin(Box::new(begin(folder.path(), prompt))),
            },
        };
        let inner = Arc::new(Inner::default());
        *inner.command.lock().unwrap() = Some(serde_json::to_string(&envelope).unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/internal/gateway/events", post(events))
            .route("/internal/gateway/commands/receive", post(receive))
            .route("/internal/gateway/commands/delete", post(delete))
            .with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let launch = SidecarLaunch {
            request: LaunchRequest {
                session_id: session,
                run_id: run,
                adapter: "native".into(),
                working_directory: text(folder.path()),
                ..launch_request()
            },
            envelope_key: secret.envelope_key(run),
            key_id: "k1".into(),
            broker: BrokerAccess::Gateway { url, token: secret.gateway_token(session, run), http2: false },
            session_home: text(&folder.path().join("home")),
            agent_api: AgentApiAccess { url: "http://127.0.0.1:1".into(), api_key: "ph_x".into() },
            heartbeat_seconds: 15.0,
            offline: OfflineLimits::default(),
            confinement: None,
            hidden_where_supported: Vec::new(),
        };
        std::fs::create_dir(folder.path().join("run")).unwrap();
        std::fs::write(folder.path().join("run/launch.json"), serde_json::to_vec(&launch).unwrap()).unwrap();
        Self { inner, folder, models }
    }

    pub(crate) fn sidecar(&self) -> Sidecar {
        let log = std::fs::File::create(self.log()).unwrap();
        let mut program = Command::new(programs::sidecar());
        program.arg("run").arg(self.folder.path().join("run"));
        program.env("ANTHROPIC_BASE_URL", &self.models).env("ANTHROPIC_API_KEY", "test");
        Sidecar(program.stdin(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub(crate) fn events(&self) -> usize {
        self.inner.events.load(Ordering::Relaxed)
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("sidecar.log")
    }
}

/// A sidecar process. Dropping it kills the process.
pub(crate) struct Sidecar(Child);

impl Sidecar {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn begin(folder: &Path, prompt: Option<&str>) -> Begin {
    Begin {
        config: AgentSessionConfig {
            model_id: "claude-sonnet-4-5".into(),
            composed_system_prompt: "You work on code.".into(),
            allowed_tools: Vec::new(),
            custom_tools: Vec::new(),
            sub_agents: Vec::new(),
            working_directory: text(folder),
            objective: "bench".into(),
            options: AgentOptions {
                plan_approval_required: false,
                context_warn_at_percent: 80,
                ..AgentOptions::default()
            },
            policies: BriefPolicies::default(),
            handoff: None,
            thinking_level: None,
            adapter_options: Value::Null,
        },
        resume_conversation: false,
        prompt: prompt.map(Into::into),
        images: Vec::new(),
        allowance_usd: None,
        allow_unmetered: false,
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

async fn events(State(inner): State<Arc<Inner>>, Json(request): Json<SendEvents>) -> Json<SendResult> {
    inner.events.fetch_add(request.entries.len(), Ordering::Relaxed);
    Json(SendResult { accepted: (0..request.entries.len()).collect() })
}

async fn receive(
    State(inner): State<Arc<Inner>>,
    Json(request): Json<ReceiveCommands>,
) -> Json<ReceivedCommands> {
    let command = inner.command.lock().unwrap().clone();
    let messages = if let Some(body) = command {
        vec![ReceivedCommand { receipt: "begin".into(), body }]
    } else {
        tokio::time::sleep(Duration::from_secs_f64(request.wait_seconds)).await;
        Vec::new()
    };
    Json(ReceivedCommands { messages })
}

async fn delete(State(inner): State<Arc<Inner>>, Json(_): Json<DeleteCommands>) -> StatusCode {
    *inner.command.lock().unwrap() = None;
    StatusCode::NO_CONTENT
}

/// A script that repeats one answer.
pub(crate) fn always(step: &Value) -> Value {
    let mut step = step.clone();
    step["repeat"] = json!(true);
    json!({ "conversations": [{ "steps": [step] }] })
}
