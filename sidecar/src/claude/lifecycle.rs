//! The Claude Code process: start, end, and recovery from its death.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_wire::RawEvent;
use pilothouse_wire::event::SessionEnd;
use serde_json::json;
use tokio::time::timeout;
use tracing::{info, warn};

use super::arguments::{self, Start};
use super::commands::thinking_tokens;
use super::control_channel::ControlRequest;
use super::driver::Driver;
use super::environment;
use super::new_conversation::is_lost;
use super::process::{Ended, Output, Process};
use super::tool_hooks::ToolHooks;
use super::{messages, servers};
use crate::adapter::{AdapterError, Refusal};
use crate::kit::conversation_summary::end_of;
use crate::process::{agent_folder, named_folders};

const BEGIN_LIMIT: Duration = Duration::from_mins(1);
/// In bytes of standard error.
const MAX_LAST_WORDS: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartOutcome {
    Ready,
    /// Claude Code could not find the conversation to resume, and has ended.
    ConversationLost,
}

impl Driver {
    /// Starts Claude Code if it is not running, and waits until it is initialized. If it has lost the conversation, a
    /// new one begins.
    pub(super) async fn start_process(&mut self) -> Result<(), AdapterError> {
        if self.process.is_some() {
            return Ok(());
        }
        if self.try_to_start().await? == StartOutcome::ConversationLost {
            self.begin_anew().await?;
            if self.try_to_start().await? == StartOutcome::ConversationLost {
                // The process was not asked to resume a conversation.
                let message = "Claude Code looks for a conversation that it was not asked for".to_owned();
                return Err(AdapterError::Agent(message));
            }
        }
        if let Some(level) = self.thinking {
            let fields = json!({ "max_thinking_tokens": thinking_tokens(level) });
            self.ask("set_max_thinking_tokens", fields, ControlRequest::Other);
        }
        Ok(())
    }

    async fn try_to_start(&mut self) -> Result<StartOutcome, AdapterError> {
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
        self.tool_hooks.forget();
        self.tool_hooks.restrict(self.config.policies.delegation_policy.clone());
        self.ask("initialize", json!({ "hooks": ToolHooks::hooks() }), ControlRequest::Initialize);
        // Baseline of the process's counters: one that resumes a conversation may start at zero.
        self.ask_usage();
        if let Ok(begun) = timeout(BEGIN_LIMIT, self.wait_until_ready()).await {
            return begun;
        }
        self.end_process().await;
        let message = format!("Claude Code did not begin within {} seconds", BEGIN_LIMIT.as_secs());
        Err(AdapterError::Agent(message))
    }

    /// The server of the sidecar's own tools, which outlives the agent's processes.
    fn serve_own_tools(&mut self) -> Result<serde_json::Value, AdapterError> {
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

    async fn wait_until_ready(&mut self) -> Result<StartOutcome, AdapterError> {
        while self
            .control_channel
            .waits_for(|asked| matches!(asked, ControlRequest::Initialize | ControlRequest::Usage))
        {
            let received = match &mut self.process {
                Some(process) => process.next().await,
                None => None,
            };
            let Some(received) = received else {
                let ended = self.end_process().await;
                let words = ended.and_then(|ended| ended.last_words).unwrap_or_default();
                let message = format!("Claude Code ended before it had begun: {words}");
                return Err(AdapterError::Agent(message));
            };
            let response = match &received.output {
                Output::Line(line) => self.control_channel.take_response(line),
                Output::Noise(_) => None,
            };
            match response.map(|response| (response.request, response.result)) {
                Some((ControlRequest::Initialize, Err(why))) => {
                    self.end_process().await;
                    return Err(AdapterError::Agent(format!("Claude Code could not be initialized: {why}")));
                }
                Some((ControlRequest::Usage, Ok(usage))) => {
                    self.translator.process_begins(usage.get("session").unwrap_or(&serde_json::Value::Null));
                }
                Some(_) => {}
                None if matches!(&received.output, Output::Line(line) if is_lost(line)) => {
                    self.end_process().await;
                    return Ok(StartOutcome::ConversationLost);
                }
                None => self.backlog.push_back(received),
            }
        }
        Ok(StartOutcome::Ready)
    }

    /// Ends the process, and leaves nothing of it running. Requests without an answer are refused.
    pub(super) async fn end_process(&mut self) -> Option<Ended> {
        self.backlog.clear();
        self.control_channel.abandon();
        self.translator.process_ended();
        self.tool_hooks.forget();
        self.permissions.forget();
        self.verdicts.forget();
        self.unmetered.forget();
        self.postponed.clear();
        let process = self.process.take()?;
        let mut ended = process.end().await;
        ended.last_words =
            ended.last_words.map(|words| end_of(&self.events.redacted(&words), MAX_LAST_WORDS).to_owned());
        info!(status = ?ended.status, "the agent's process has ended");
        Some(ended)
    }

    /// Handles the end of the output: the process ended unexpectedly or crashed.
    pub(super) async fn process_ended(&mut self) -> Result<(), AdapterError> {
        self.emit_withheld().await?;
        let ended = self.end_process().await;
        if let Some(reply) = self.compacting.take() {
            reply.refuse(Refusal::invalid("the agent's process ended while it compacted")).await?;
        }
        if !self.interrupts.is_empty() {
            // The interrupt ended the process. The conversation can be resumed.
            let events = self.translator.abandon_turn();
            self.emit(events).await?;
            return self.refuse_interrupted().await;
        }
        let working = self.translator.turn_id().is_some() || self.messages.any_written();
        if !working || self.waits_for_model {
            // Between turns no work is lost: the next message resumes the conversation.
            return Ok(());
        }
        if self.translator.turn_id().is_none()
            && let Some(words) = self.messages.write_again()
        {
            // The idle process died before it received the message.
            self.start_process().await?;
            for (words, uuid) in words {
                self.write(&messages::line(&words, &uuid, "next"));
            }
            return Ok(());
        }
        let why = Self::why(ended.as_ref());
        warn!(why, "the agent's process ended in the middle of its work");
        let mut events = self.translator.finish();
        match events.iter_mut().find_map(|event| match event {
            RawEvent::SessionEnd(end) => Some(end),
            _ => None,
        }) {
            Some(end) => end.message = Some(why),
            None => events.push(RawEvent::SessionEnd(SessionEnd {
                is_error: true,
                reason: "stream_ended".into(),
                message: Some(why),
                output: None,
            })),
        }
        self.emit(events).await?;
        self.over = true;
        Ok(())
    }

    fn why(ended: Option<&Ended>) -> String {
        use std::os::unix::process::ExitStatusExt as _;
        let how = ended.and_then(|ended| ended.status).map_or_else(String::new, |status| {
            match (status.code(), status.signal()) {
                (Some(code @ 129..=192), _) => format!(" by the signal {}", code - 128),
                (Some(code), _) => format!(" with the code {code}"),
                (None, signal) => format!(" by the signal {}", signal.unwrap_or_default()),
            }
        });
        let words = ended.and_then(|ended| ended.last_words.as_deref());
        let words = words.map_or_else(String::new, |words| format!(": {words}"));
        format!("The agent's process ended in the middle of its work{how}{words}")
    }
}
