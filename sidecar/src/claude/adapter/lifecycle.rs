//! The process of the binary: its beginning, its end, and what its death means.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use pilothouse_domain::Usd;
use pilothouse_domain::text::cut;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::SessionEnd;
use serde_json::json;
use tokio::time::timeout;
use tracing::{info, warn};

use super::arguments::{self, Start};
use super::channel::Asked;
use super::commands::thinking_tokens;
use super::driver::{Driver, cost};
use super::environment;
use super::gate::Gate;
use super::messages;
use super::process::{Ended, Output, Process};
use super::renewal::is_lost;
use crate::adapter::{AdapterError, Refusal};

/// How long the binary may take to begin.
const BEGIN_LIMIT: Duration = Duration::from_mins(1);
/// The most characters of its last words that are told.
const MOST_WORDS: usize = 1000;

/// How a process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// It can be spoken to.
    Ready,
    /// It does not have the conversation that it was to take up, and has ended.
    ConversationLost,
}

impl Driver {
    /// Starts the binary, if it does not run, and waits until it can be spoken to. A conversation that it does not have any
    /// more is begun anew.
    pub(super) async fn start_process(&mut self) -> Result<(), AdapterError> {
        if self.process.is_some() {
            return Ok(());
        }
        if self.try_to_start().await? == Beginning::ConversationLost {
            self.begin_anew().await?;
            if self.try_to_start().await? == Beginning::ConversationLost {
                // It was not asked to take one up.
                let message = "Claude Code looks for a conversation that it was not asked for".to_owned();
                return Err(AdapterError::Agent(message));
            }
        }
        if let Some(level) = self.thinking {
            let fields = json!({ "max_thinking_tokens": thinking_tokens(level) });
            self.ask("set_max_thinking_tokens", fields, Asked::Other).await;
        }
        Ok(())
    }

    async fn try_to_start(&mut self) -> Result<Beginning, AdapterError> {
        let own_tools = self.serve_own_tools()?;
        let arguments = arguments::of(&Start {
            own_tools,
            config: &self.config,
            options: &self.options,
            model: &self.model,
            conversation: self.file.conversation(),
            allowance: self.left(),
        });
        let given = std::env::vars_os().chain(self.processes.environment());
        let environment = environment::chosen(given, &self.launch, &self.config, &self.options);
        self.make_folder(&environment)?;
        let folder = Path::new(&self.config.working_directory);
        let process = Process::start(&self.processes, &self.binary, &arguments, folder, &environment)
            .map_err(|e| AdapterError::Agent(format!("{} cannot be run: {e}", self.binary.display())))?;
        info!(binary = %self.binary.display(), resumes = self.file.conversation().begun, "the agent is started");
        self.process = Some(process);
        self.gate.forget();
        self.ask("initialize", json!({ "hooks": Gate::hooks() }), Asked::Initialize).await;
        // What it counts from: a process that takes a conversation up may begin at zero.
        self.ask("get_usage", json!({}), Asked::Usage).await;
        if let Ok(begun) = timeout(BEGIN_LIMIT, self.until_begun()).await {
            return begun;
        }
        self.end_process().await;
        let message = format!("Claude Code did not begin within {} seconds", BEGIN_LIMIT.as_secs());
        Err(AdapterError::Agent(message))
    }

    /// The server of the sidecar's own tools; it outlives the agent's processes.
    fn serve_own_tools(&mut self) -> Result<serde_json::Value, AdapterError> {
        let failed =
            |e: std::io::Error| AdapterError::Agent(format!("the session's tools cannot be offered: {e}"));
        let server = match self.tool_server.take() {
            Some(server) => server,
            None => self.own_tools.serve(&self.launch).map_err(failed)?,
        };
        let configuration = server.mcp_server_config().map_err(failed);
        self.tool_server = Some(server);
        Ok(configuration?.to_json())
    }

    /// Where the binary keeps its conversations, if that is the session's folder.
    fn make_folder(&self, environment: &BTreeMap<OsString, OsString>) -> Result<(), AdapterError> {
        let Some(folder) = environment.get(OsStr::new(environment::CONFIG_DIRECTORY)) else { return Ok(()) };
        if Path::new(folder).exists() {
            return Ok(());
        }
        self.processes
            .folder(Path::new(folder))
            .map_err(|e| AdapterError::Agent(format!("{} cannot be made: {e}", Path::new(folder).display())))
    }

    async fn until_begun(&mut self) -> Result<Beginning, AdapterError> {
        while self.channel.waits_for(|asked| matches!(asked, Asked::Initialize | Asked::Usage)) {
            let output = match &mut self.process {
                Some(process) => process.next().await,
                None => None,
            };
            let Some(output) = output else {
                let ended = self.end_process().await;
                let words = ended.and_then(|ended| ended.last_words).unwrap_or_default();
                let message = format!("Claude Code ended before it had begun: {}", cut(&words, MOST_WORDS));
                return Err(AdapterError::Agent(message));
            };
            let answered = match &output {
                Output::Line(line) => self.channel.answered(line),
                Output::Noise(_) => None,
            };
            match answered.map(|answered| (answered.asked, answered.answer)) {
                Some((Asked::Initialize, Err(why))) => {
                    self.end_process().await;
                    return Err(AdapterError::Agent(format!("Claude Code could not be initialized: {why}")));
                }
                Some((Asked::Usage, Ok(usage))) => {
                    self.translator.process_begins(usage.get("session").unwrap_or(&serde_json::Value::Null));
                }
                Some(_) => {}
                None if matches!(&output, Output::Line(line) if is_lost(line)) => {
                    self.end_process().await;
                    return Ok(Beginning::ConversationLost);
                }
                None => self.backlog.push_back(output),
            }
        }
        Ok(Beginning::Ready)
    }

    /// What its process may spend: what is left of the run's allowance. Each process counts for itself.
    pub(super) fn left(&self) -> Option<Usd> {
        let spent = self.translator.totals().map(cost).unwrap_or_default().excess_over(self.spent_before);
        self.allowance.map(|allowance| allowance.excess_over(spent))
    }

    /// Ends the process. Nothing of it is left when this returns, and nobody waits for its answers: what it was asked and did
    /// not answer is refused.
    pub(super) async fn end_process(&mut self) -> Option<Ended> {
        self.backlog.clear();
        self.channel.abandon();
        self.gate.forget();
        self.permissions.forget();
        self.postponed.clear();
        let process = self.process.take()?;
        let ended = process.end().await;
        info!(status = ?ended.status, "the agent's process has ended");
        Some(ended)
    }

    /// The process writes no more: it ended by itself, or fell over.
    pub(super) async fn process_ended(&mut self) -> Result<(), AdapterError> {
        self.tell_withheld().await?;
        let ended = self.end_process().await;
        if let Some(reply) = self.compacting.take() {
            reply.refuse(Refusal::invalid("the agent's process ended while it compacted")).await?;
        }
        if !self.interrupts.is_empty() {
            // It was told to end what it did, and did more than that. The conversation can be taken up.
            let events = self.translator.abandon_turn();
            self.emit(events).await?;
            return self.refuse_interrupted().await;
        }
        let working = self.translator.turn_id().is_some() || self.messages.any_written();
        if !working || self.out_of_quota {
            // Between turns nothing is lost: the next message takes the conversation up.
            return Ok(());
        }
        if self.translator.turn_id().is_none()
            && let Some(words) = self.messages.write_again()
        {
            // It died while it waited, and the message had not reached it.
            self.start_process().await?;
            for (words, uuid) in words {
                self.write(&messages::line(&words, &uuid, "next")).await;
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
        cut(&format!("The agent's process ended in the middle of its work{how}{words}"), MOST_WORDS)
    }
}
