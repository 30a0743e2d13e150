//! Starts the Claude Code process. The main loop handles its initialization, so that commands take effect before it has answered.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{info, warn};

use super::arguments::{self, Start};
use super::commands::thinking_tokens;
use super::control_channel::ControlRequest;
use super::driver::Driver;
use super::initialization::{Beginning, Initialization, Reloading};
use super::messages::Content;
use super::new_conversation::is_lost;
use super::process::{BufferedOutput, Output, Process};
use super::tool_hooks::ToolHooks;
use super::{environment, prompt, servers};
use crate::adapter::{AdapterError, Refusal};
use crate::process::{agent_folder, named_folders};

/// How long Claude Code may take to initialize.
const BEGIN_LIMIT: Duration = Duration::from_mins(1);

impl Driver {
    /// Whether there is a process that takes messages.
    pub(super) const fn is_ready(&self) -> bool {
        self.process.is_some() && self.initializing.is_none()
    }

    /// Handles `begin`. It is confirmed when the process is initialized.
    pub(super) async fn begin(&mut self, beginning: Beginning) -> Result<(), AdapterError> {
        self.beginning = Some(beginning);
        match self.start_process() {
            Ok(()) => Ok(()),
            Err(e) => self.start_failed(e).await,
        }
    }

    /// Starts Claude Code if it is not running. If it has lost the conversation, a new one begins.
    pub(super) fn start_process(&mut self) -> Result<(), AdapterError> {
        if self.process.is_some() { Ok(()) } else { self.spawn(false) }
    }

    fn spawn(&mut self, is_renewed: bool) -> Result<(), AdapterError> {
        let own_tools = self.serve_own_tools()?;
        let servers = servers::command_lines(&self.config, own_tools.clone());
        let arguments = arguments::of(&Start {
            own_tools,
            config: &self.config,
            options: &self.options,
            model: &self.model,
            conversation: self.file.conversation(),
        });
        let given = std::env::vars_os().chain(self.processes.environment());
        let mut environment = environment::chosen(given, &self.launch, &self.config, &self.options);
        let secrets = self.processes.secrets().iter();
        environment.extend(secrets.map(|(name, value)| (name.into(), value.into())));
        if self.processes.are_confined() {
            environment::confined(&mut environment);
        }
        self.make_folder(&environment)?;
        let own = environment.get(OsStr::new(environment::CONFIG_DIRECTORY)).map(PathBuf::from);
        let processes =
            self.processes.writing_to(named_folders(&self.options.environment).into_iter().chain(own));
        let folder = Path::new(&self.config.working_directory);
        let process = Process::start(&processes, &self.binary, &arguments, folder, &environment, servers)
            .map_err(|e| AdapterError::Agent(format!("{} cannot be run: {e}", self.binary.display())))?;
        info!(binary = %self.binary.display(), resumes = self.file.conversation().begun, "started the agent");
        self.process = Some(process);
        self.initializing = Some(Initialization { until: Instant::now() + BEGIN_LIMIT, is_renewed });
        self.tool_hooks.forget();
        self.tool_hooks.restrict(self.config.policies.delegation_policy.clone());
        self.ask("initialize", json!({ "hooks": ToolHooks::hooks() }), ControlRequest::Initialize);
        // Baseline of the process's counters: one that resumes a conversation may start at zero.
        if self.untested {
            self.translator.process_begins(&Value::Null);
        } else {
            self.ask_usage();
        }
        Ok(())
    }

    /// The server of the sidecar's own tools, which outlives the agent's processes.
    fn serve_own_tools(&mut self) -> Result<Value, AdapterError> {
        let failed =
            |e: std::io::Error| AdapterError::Agent(format!("failed to serve the session's tools: {e}"));
        let server = match self.tool_server.take() {
            Some(server) => server,
            None => self.own_tools.serve(&self.launch).map_err(failed)?,
        };
        let configuration = server.mcp_server_config().map_err(failed);
        self.tool_server = Some(server);
        Ok(configuration?.to_json())
    }

    /// Creates the folder for Claude Code's conversations, if it is the session's.
    fn make_folder(&self, environment: &BTreeMap<OsString, OsString>) -> Result<(), AdapterError> {
        let Some(folder) = environment.get(OsStr::new(environment::CONFIG_DIRECTORY)) else { return Ok(()) };
        let folder = Path::new(folder);
        if folder.exists() {
            return Ok(());
        }
        // The location in earlier versions.
        let earlier = Path::new(&self.launch.session_home).join("claude");
        let own = agent_folder(&self.launch);
        let made = if folder.starts_with(&own) && earlier.is_dir() {
            self.processes.folder(&own).and_then(|()| std::fs::rename(earlier, folder))
        } else {
            self.processes.folder(folder)
        };
        made.map_err(|e| AdapterError::Agent(format!("failed to create {}: {e}", folder.display())))
    }

    /// Handles output of a process that is being initialized. Other output is kept until it is.
    pub(super) async fn initializing_output(&mut self, received: BufferedOutput) -> Result<(), AdapterError> {
        let response = match &received.output {
            Output::Line(line) => self.control_channel.take_response(line),
            Output::Noise(_) => None,
        };
        match response.map(|response| (response.request, response.result)) {
            Some((ControlRequest::Initialize, Err(why))) => {
                self.end_process().await;
                let message = format!("Claude Code could not be initialized: {why}");
                return self.start_failed(AdapterError::Agent(message)).await;
            }
            Some((ControlRequest::Usage, Ok(usage))) => {
                self.translator.process_begins(usage.get("session").unwrap_or(&Value::Null));
            }
            Some(_) => {}
            None if matches!(&received.output, Output::Line(line) if is_lost(line)) => {
                return self.lost_at_start().await;
            }
            None => self.backlog.push_back(received),
        }
        let first =
            |asked: &ControlRequest| matches!(asked, ControlRequest::Initialize | ControlRequest::Usage);
        if self.control_channel.waits_for(first) { Ok(()) } else { self.initialized().await }
    }

    /// The process takes messages. Confirms the commands that have waited for that.
    async fn initialized(&mut self) -> Result<(), AdapterError> {
        self.initializing = None;
        if let Some(level) = self.thinking {
            let fields = json!({ "max_thinking_tokens": thinking_tokens(level) });
            self.ask("set_max_thinking_tokens", fields, ControlRequest::Other);
        }
        if let Some(Beginning { reply, prompt }) = self.beginning.take() {
            if let Some(prompt) = &prompt {
                self.record_message(&prompt.text).await?;
            }
            reply.done().await?;
            self.emit_settings().await?;
            self.report_limits().await?;
            self.hold_when_spent().await?;
            if let Some(Content { text, images }) = prompt {
                let text = prompt::first(&self.config, &text);
                self.messages.keep_task(Content { text, images });
            }
        }
        if let Some(Reloading { reply, .. }) = self.reloading.take() {
            reply.done().await?;
            self.report_limits().await?;
            self.emit_settings().await?;
        }
        Ok(())
    }

    /// The process could not find the conversation to resume. Starts another one with a new conversation.
    async fn lost_at_start(&mut self) -> Result<(), AdapterError> {
        let was_renewed = self.initializing.as_ref().is_some_and(|initializing| initializing.is_renewed);
        self.end_process().await;
        if was_renewed {
            // The process was not asked to resume a conversation.
            let message = "Claude Code looks for a conversation that it was not asked for".to_owned();
            return self.start_failed(AdapterError::Agent(message)).await;
        }
        self.begin_anew().await?;
        match self.spawn(true) {
            Ok(()) => Ok(()),
            Err(e) => self.start_failed(e).await,
        }
    }

    /// Handles the end of a process that was being initialized.
    pub(super) async fn ended_at_start(&mut self) -> Result<(), AdapterError> {
        let ended = self.end_process().await;
        let words = ended.and_then(|ended| ended.last_words).unwrap_or_default();
        let message = format!("Claude Code ended before it had begun: {words}");
        self.start_failed(AdapterError::Agent(message)).await
    }

    pub(super) async fn start_is_late(&mut self) -> Result<(), AdapterError> {
        self.end_process().await;
        let message = format!("Claude Code did not begin within {} seconds", BEGIN_LIMIT.as_secs());
        self.start_failed(AdapterError::Agent(message)).await
    }

    /// Refuses the command for which Claude Code was started. A message is refused with the end of the conversation.
    pub(super) async fn start_failed(&mut self, error: AdapterError) -> Result<(), AdapterError> {
        let refusal = Refusal::invalid(error.to_string());
        if let Some(Beginning { reply, .. }) = self.beginning.take() {
            reply.refuse(refusal).await?;
            return Err(error);
        }
        if let Some(Reloading { reply, config, options, model, thinking }) = self.reloading.take() {
            (self.config, self.options) = (config, options);
            (self.model, self.thinking) = (model, thinking);
            return Ok(reply.refuse(refusal).await?);
        }
        if !self.messages.is_empty() {
            return Err(error);
        }
        if let Some((_, reply)) = self.compactions.next() {
            reply.refuse(refusal).await?;
        } else {
            // An interrupt has withdrawn the message.
            warn!(%error, "the agent did not start; the next message starts it again");
        }
        Ok(())
    }
}
