//! Starts the shim: its process, its bootstrap, and the connection to its events.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pilothouse_domain::AgentSessionId;
use pilothouse_shim::backend::Backend;
use pilothouse_shim::client::ShimClient;
use pilothouse_shim::event::Source;
use pilothouse_shim::message::{Bootstrap, Plugin};
use pilothouse_shim::sequence::Sequencer;
use pilothouse_shim::stream::EventStream;
use pilothouse_shim::validation::Received;
use pilothouse_shim::{START_POLL, free_port};
use pilothouse_wire::launch::SidecarLaunch;
use tokio::time::{sleep, timeout};

use super::options::Launch;
use super::saved_state::Conversation;
use crate::adapter::EventSink;
use crate::kit::agent_process::{AgentProcess, AgentProgram, secrets};
use crate::own_tools::{McpServerConfig, OwnTools, ToolServer};
use crate::process::{AgentUser, Processes, agent_folder, named_folders};

/// How often to try another port.
const PORTS: u32 = 3;

/// A running shim.
pub(super) struct Running {
    pub(super) process: AgentProcess,
    pub(super) client: ShimClient,
    pub(super) stream: EventStream,
    pub(super) plugin: Plugin,
    pub(super) order: Sequencer<Received>,
    /// The source of the last event that was handled.
    pub(super) last: Option<Source>,
}

/// Starts shims of one run.
pub(super) struct Starter {
    session: AgentSessionId,
    events: EventSink,
    processes: Processes,
    backend: Backend,
    /// The part of the session's home that the agent may write to.
    folder: PathBuf,
    working_directory: PathBuf,
    pub(super) own_tools: McpServerConfig,
    _tool_server: ToolServer,
}

impl Starter {
    /// The error is a sentence for people.
    pub(super) async fn prepare(
        run: &SidecarLaunch,
        events: EventSink,
        processes: Processes,
        own_tools: &OwnTools,
    ) -> Result<Self, String> {
        let tools = |e: std::io::Error| format!("failed to serve the agent's own tools: {e}");
        let tool_server = own_tools.serve(run).map_err(tools)?;
        let own_tools = tool_server.mcp_server_config().map_err(tools)?;
        let session = run.request.session_id;
        let uploads = Path::new(&run.session_home).join("artifacts");
        let redacted = events.clone();
        let backend =
            Backend::start(&session.to_string(), uploads, move |token| redacted.keep_secret(token)).await;
        let backend = backend.map_err(|e| format!("failed to serve the shim: {e}"))?;
        Ok(Self {
            session,
            events,
            processes,
            backend,
            folder: agent_folder(run),
            working_directory: PathBuf::from(&run.request.working_directory),
            own_tools,
            _tool_server: tool_server,
        })
    }

    pub(super) const fn session(&self) -> AgentSessionId {
        self.session
    }

    /// The error is a sentence for people. Dropping the future leaves nothing running.
    pub(super) async fn start(&self, launch: &Launch, earlier: &Conversation) -> Result<Running, String> {
        let mut tried = 1;
        loop {
            // Boxed, because it is large and part of many futures.
            match Box::pin(self.attempt(launch, earlier)).await {
                Err(why) if tried < PORTS && why.contains("in use") => tried += 1,
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&self, launch: &Launch, earlier: &Conversation) -> Result<Running, String> {
        let failed = |e: std::io::Error| format!("failed to prepare the shim: {e}");
        let port = free_port().map_err(failed)?;
        let bootstrap = self.backend.bootstrap().map_err(failed)?;
        secrets(&launch.environment).for_each(|secret| self.events.keep_secret(secret));
        let file = BootstrapFile::write(&self.folder, &bootstrap, self.processes.user()).map_err(failed)?;
        let mut arguments = launch.arguments.clone();
        let path = file.0.to_string_lossy().into_owned();
        arguments.extend(["--port".to_owned(), port.to_string(), "--bootstrap".to_owned(), path]);
        let mut processes = self.processes.clone();
        if processes.are_confined() {
            processes = processes.writing_to(named_folders(&launch.environment));
        }
        let program = AgentProgram {
            program: &launch.program,
            arguments: &arguments,
            variables: &launch.environment,
            folder: &self.working_directory,
            servers: Vec::new(),
        };
        let (mut process, pipes) = AgentProcess::start(program, &processes, self.events.clone())?;
        process.log_output(pipes.stdout, self.events.clone());
        let agent_id = self.session.to_string();
        let client = ShimClient::new(port, &bootstrap.request_token, &agent_id, launch.limits.request)
            .map_err(|e| e.to_string())?;
        let ready = async {
            loop {
                if let Ok(health) = client.health().await {
                    return health.plugin;
                }
                sleep(START_POLL).await;
            }
        };
        let plugin = tokio::select! {
            ready = timeout(launch.limits.start, ready) => ready.map_err(|_| {
                let seconds = launch.limits.start.as_secs();
                format!("the shim `{}` was not healthy within {seconds} s", launch.program)
            })?,
            _ = process.wait() => {
                let how = process.exit_reason().await;
                return Err(format!("the shim `{}` ended before it was ready: {how}", launch.program));
            }
        };
        let stream = EventStream::connect(&client, launch.limits.start).await;
        let stream = stream.map_err(|e| format!("the shim serves no events: {e}"))?;
        let order = Sequencer::after(&earlier.run, earlier.last_sequence);
        Ok(Running { process, client, stream, plugin, order, last: None })
    }
}

/// Deletes the file when it is dropped, if the shim did not.
struct BootstrapFile(PathBuf);

impl BootstrapFile {
    fn write(folder: &Path, bootstrap: &Bootstrap, user: Option<&AgentUser>) -> std::io::Result<Self> {
        let name = format!("bootstrap-{}.json", &pilothouse_shim::random_token()?[..16]);
        let file = Self(folder.join(name));
        let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file.0)?;
        opened.write_all(&serde_json::to_vec(bootstrap)?)?;
        user.map_or(Ok(()), |user| user.own(&file.0))?;
        Ok(file)
    }
}

impl Drop for BootstrapFile {
    fn drop(&mut self) {
        // The shim has deleted it, as the protocol demands.
        let _ = std::fs::remove_file(&self.0);
    }
}
