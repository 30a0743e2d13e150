//! Starting the agent, as often as it takes: its process, the connection to it, and its conversation.

use std::collections::VecDeque;
use std::path::Path;

use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use pilothouse_wire::launch::SidecarLaunch;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::agents::{Advertised, Steering, TakingUp};
use super::choices;
use super::connection::{Connection, Inbound};
use super::environment;
use super::files::Folder;
use super::memory::Conversation;
use super::meter::{Meter, Totals};
use super::options::Launch;
use super::process::Process;
use super::session::{self, Opened};
use super::translator::{Listening, Translator};
use crate::adapter::{AgentCommand, EventSink};
use crate::own_tools::{OwnTools, ToolServer};
use crate::process::Processes;

/// A running agent: its process, and what is said to it and by it.
pub(super) struct Agent {
    pub(super) process: Process,
    pub(super) connection: Connection,
    pub(super) inbound: mpsc::UnboundedReceiver<Inbound>,
}

impl Agent {
    /// Ends it: it may end by itself, and is killed when it does not.
    pub(super) async fn end(self) {
        let Self { process, connection, .. } = self;
        drop(connection);
        process.end().await;
    }

    /// Kills it, with everything that it started.
    pub(super) async fn kill(mut self) {
        self.process.kill().await;
        self.end().await;
    }
}

/// What every process of the agent is started with.
pub(super) struct Starter {
    events: EventSink,
    processes: Processes,
    launch: Launch,
    folder: Folder,
    own_tools: Value,
    /// Serves the tools that Pilothouse itself gives the agent.
    _tool_server: ToolServer,
}

/// An agent that stands in its conversation.
pub(super) struct Started {
    pub(super) agent: Agent,
    pub(super) advertised: Advertised,
    pub(super) conversation: Conversation,
    pub(super) translator: Translator,
    /// What there is to tell of it.
    pub(super) notices: Vec<RawEvent>,
}

impl Starter {
    /// Gets everything ready that outlives a process. An error is a sentence for a person.
    pub(super) fn prepare(
        run: &SidecarLaunch,
        events: EventSink,
        processes: Processes,
        own_tools: &OwnTools,
        launch: Launch,
    ) -> Result<Self, String> {
        let folder = Folder::open(Path::new(&run.request.working_directory)).map_err(|e| {
            format!("the working directory {} cannot be used: {e}", run.request.working_directory)
        })?;
        let tools = |e: std::io::Error| format!("the agent's own tools cannot be served: {e}");
        let tool_server = own_tools.serve(run).map_err(tools)?;
        let own_tools = tool_server.mcp_server_config().map_err(tools)?.to_acp();
        Ok(Self { events, processes, launch, folder, own_tools, _tool_server: tool_server })
    }

    /// Starts the agent differently from here on. Answers how it was started before.
    pub(super) const fn replace_launch(&mut self, launch: Launch) -> Launch {
        std::mem::replace(&mut self.launch, launch)
    }

    /// The folder that the agent works in.
    pub(super) const fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Starts the agent and opens its conversation: the earlier one where it can take that up, else a new one. An error is a
    /// sentence for a person. Dropped on the way, it leaves nothing behind.
    pub(super) async fn start(
        &self,
        config: &AgentSessionConfig,
        earlier: Option<Conversation>,
    ) -> Result<Started, String> {
        let launch = &self.launch;
        let variables = environment::of_agent(std::env::vars(), launch.profile, &launch.environment);
        environment::secrets(&variables).for_each(|secret| self.events.keep_secret(secret));
        let path = self.folder.path();
        let (mut process, pipes) =
            Process::start(launch, &self.processes, &variables, path, self.events.clone())?;
        let (connection, inbound) = Connection::open(pipes, self.events.clone()).await?;
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
                let obituary = process.obituary().await;
                return Err(format!("{why} ({obituary})"));
            }
            Err(why) => return Err(why),
        };
        let conversation = earlier.filter(|_| opened.taken_up).unwrap_or_else(|| Conversation {
            id: opened.id.clone(),
            agent: advertised.agent.clone(),
            introduced: false,
            totals: Totals::default(),
        });
        let totals = conversation.totals.clone();
        let meter = Meter::new(&conversation.id, totals, &config.model_id, config.context_warn_at_percent);
        let mut translator = Translator::new(&conversation.id, &config.model_id, meter);
        if opened.taken_up {
            translator.listening = Listening::Replay;
        }
        translator.settings.opened(&opened.answer);
        let mut notices = vec![connected(&advertised, opened.taken_up)];
        notices.extend(opened.notices);
        notices
            .extend(choices::configure(&connection, &mut translator, config, launch.mode.as_deref()).await);
        notices.push(translator.settings_told());
        let model = translator.settings.model_id(&config.model_id).to_owned();
        translator.meter.model(&model);
        let agent = Agent { process, connection, inbound };
        Ok(Started { agent, advertised, conversation, translator, notices })
    }
}

/// What the agent turned out to be.
fn connected(agent: &Advertised, taken_up: bool) -> RawEvent {
    RawEvent::Notice {
        name: "agent_connected".into(),
        summary: format!("connected to {}", agent.agent),
        detail: Some(json!({
            "agent": agent.agent,
            "steersMidTurn": agent.steering == Steering::Extension,
            "takesUpConversations": agent.taking_up != TakingUp::Never,
            "conversationTakenUp": taken_up,
            "secondPrompt": agent.profile.second_prompt.name(),
        })),
    }
}

/// Waits for `work`, while commands that come are put aside. None: it is to stop, and the work is dropped.
pub(super) async fn while_commands_wait<T>(
    commands: &mut mpsc::UnboundedReceiver<AgentCommand>,
    aside: &mut VecDeque<AgentCommand>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            command = commands.recv() => aside.push_back(command?),
        }
    }
}
