//! Starts the agent, repeatedly if needed: its process, the connection to it, and its conversation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_agent::model::registry::ModelRegistry;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use pilothouse_wire::launch::SidecarLaunch;
use serde_json::{Value, json};

use super::agents::{Advertised, Resumption, Steering};
use super::connection::{BACKLOG, Connection, InboundMessages};
use super::conversation_file::Conversation;
use super::environment;
use super::files::Folder;
use super::mcp;
use super::meter::Meter;
use super::options::Launch;
use super::session::{self, Opened};
use super::setting_change;
use super::translator::{Translator, UpdateMode};
use crate::adapter::EventSink;
use crate::kit::agent_process::{AgentProcess, AgentProgram, secrets};
use crate::own_tools::{OwnTools, ToolServer};
use crate::process::{Processes, agent_folder};

pub(super) struct Agent {
    pub(super) process: AgentProcess,
    pub(super) connection: Connection,
    pub(super) inbound: InboundMessages,
}

impl Agent {
    /// Ends the agent, and kills it if it takes too long.
    pub(super) async fn end(self) {
        let Self { process, connection, .. } = self;
        drop(connection);
        process.end().await;
    }

    /// Includes all descendants.
    pub(super) async fn kill(mut self) {
        self.process.kill().await;
        self.end().await;
    }
}

/// Starts the agent's processes with the same settings.
pub(super) struct Starter {
    events: EventSink,
    processes: Processes,
    launch: Launch,
    folder: Folder,
    /// The part of the session's home that the agent may write to.
    agent_folder: PathBuf,
    own_tools: Value,
    prices: Arc<ModelRegistry>,
    /// Serves Pilothouse's own tools to the agent.
    _tool_server: ToolServer,
}

/// A running agent with an open conversation.
pub(super) struct Started {
    pub(super) agent: Agent,
    pub(super) advertised: Advertised,
    pub(super) conversation: Conversation,
    pub(super) translator: Translator,
    /// Events to publish about the start.
    pub(super) notices: Vec<RawEvent>,
}

impl Starter {
    /// Prepares everything that outlives a process. The error is a sentence for people.
    pub(super) fn prepare(
        run: &SidecarLaunch,
        events: EventSink,
        processes: Processes,
        own_tools: &OwnTools,
        launch: Launch,
        prices: ModelRegistry,
    ) -> Result<Self, String> {
        let folder = Folder::open(Path::new(&run.request.working_directory))
            .map_err(|e| format!("failed to use the working directory: {e}"))?;
        let tools = |e: std::io::Error| format!("failed to serve the agent's own tools: {e}");
        let tool_server = own_tools.serve(run).map_err(tools)?;
        let own_tools = tool_server.mcp_server_config().map_err(tools)?.to_acp();
        let (prices, agent_folder) = (Arc::new(prices), agent_folder(run));
        Ok(Self {
            events,
            processes,
            launch,
            folder,
            agent_folder,
            own_tools,
            prices,
            _tool_server: tool_server,
        })
    }

    /// Changes how the agent is started from now on. Returns the previous setting.
    pub(super) const fn replace_launch(&mut self, launch: Launch) -> Launch {
        std::mem::replace(&mut self.launch, launch)
    }

    pub(super) const fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Starts the agent and opens its conversation: the earlier one if the agent can resume it, or else a new one.
    /// The error is a sentence for people. Dropping the future leaves nothing running.
    pub(super) async fn start(
        &self,
        config: &AgentSessionConfig,
        earlier: Option<Conversation>,
    ) -> Result<Started, String> {
        let launch = &self.launch;
        let mut variables = environment::of_agent(std::env::vars(), launch.profile, &launch.environment);
        let mut processes = self.processes.clone();
        if processes.are_confined() {
            let home = std::env::var_os("HOME").map(PathBuf::from);
            let needed =
                environment::confined(&mut variables, launch.profile, &self.agent_folder, home.as_deref())
                    .map_err(|e| format!("failed to create the agent's own folder: {e}"))?;
            processes = processes.writing_to(needed);
        }
        secrets(&variables).for_each(|secret| self.events.keep_secret(secret));
        let path = self.folder.path();
        let program = AgentProgram {
            program: &launch.program,
            arguments: &launch.arguments,
            variables: &variables,
            folder: path,
            servers: mcp::command_lines(&config.custom_tools, &self.own_tools),
        };
        let (mut process, pipes) = AgentProcess::start(program, &processes, self.events.clone())?;
        let (connection, inbound) = Connection::open(pipes, self.events.clone(), BACKLOG).await?;
        let opened = async {
            let agent = session::initialize(&connection, launch).await?;
            let (path, tools) = (path.to_string_lossy(), self.own_tools.clone());
            let opened =
                session::open(&connection, launch, &agent, config, &path, tools, earlier.as_ref()).await?;
            Ok((agent, opened))
        };
        let (advertised, opened): (Advertised, Opened) = match opened.await {
            Ok(opened) => opened,
            Err(why) if connection.is_closed() => {
                let exit_reason = process.exit_reason().await;
                return Err(format!("{why} ({exit_reason})"));
            }
            Err(why) => return Err(why),
        };
        let conversation = match earlier {
            Some(earlier) if opened.taken_up => earlier,
            lost => Conversation::new(&opened.id, &advertised.agent, lost),
        };
        let totals = conversation.totals.clone();
        let meter =
            Meter::new(&conversation.id, totals, &config.model_id, config.options.context_warn_at_percent)
                .priced(Arc::clone(&self.prices), advertised.profile.metering);
        let mut translator = Translator::new(&conversation.id, &config.model_id, meter);
        if opened.taken_up {
            translator.update_mode = UpdateMode::Replay;
        }
        translator.settings.opened(&opened.response);
        let mut notices = vec![connected(&advertised, opened.taken_up)];
        notices.extend(opened.notices);
        notices.extend(
            setting_change::configure(&connection, &mut translator, config, launch.mode.as_deref()).await,
        );
        notices.push(translator.settings_event());
        let model = translator.settings.model_id(&config.model_id).to_owned();
        translator.meter.model(&model);
        let agent = Agent { process, connection, inbound };
        Ok(Started { agent, advertised, conversation, translator, notices })
    }
}

fn connected(agent: &Advertised, taken_up: bool) -> RawEvent {
    RawEvent::Notice {
        name: "agent_connected".into(),
        summary: format!("connected to {}", agent.agent),
        detail: Some(json!({
            "agent": agent.agent,
            "steersMidTurn": agent.steering == Steering::Extension,
            "takesUpConversations": agent.resumption != Resumption::Never,
            "conversationTakenUp": taken_up,
            "secondPrompt": agent.profile.second_prompt.name(),
        })),
    }
}
