//! What the binary writes.

use pilothouse_domain::text::cut;
use pilothouse_wire::RawEvent;
use serde_json::{Value, json};

use super::super::json::{flag, text};
use super::super::{MessageState, Signal, TurnEnd};
use super::arguments;
use super::channel::{self, Asked};
use super::commands::refuse_interrupted;
use super::driver::Driver;
use super::renewal::is_lost;
use super::gate::Mode;
use super::permissions::{Policy, Verdict};
use super::process::Output;
use crate::adapter::{AdapterError, Refusal};

/// The most characters of a line that is not of the protocol.
const MOST_NOISE: usize = 2000;

impl Driver {
    pub(super) async fn output(&mut self, output: Output) -> Result<(), AdapterError> {
        let line = match output {
            Output::Line(line) => line,
            Output::Noise(noise) => {
                let content = cut(&noise, MOST_NOISE);
                return Ok(self.events.emit(RawEvent::LogChunk { stream: "agent".into(), content }).await?);
            }
        };
        match text(&line, "type") {
            Some("control_response") => return self.answered(&line).await,
            Some("control_request") => return self.asked(line).await,
            Some("control_cancel_request") => {
                if let Some(request) = text(&line, "request_id") {
                    self.gate.cancelled(request);
                    self.permissions.cancelled(request);
                    self.postponed.retain(|line| text(line, "request_id") != Some(request));
                }
                return Ok(());
            }
            Some("stream_event") => self.gate.stream(&line),
            Some("system") if text(&line, "subtype") == Some("init") => self.init(&line).await?,
            _ => {}
        }
        if self.file.conversation().begun && self.translator.turn_id().is_none() && is_lost(&line) {
            return self.conversation_lost().await;
        }
        // What a subagent's call that was under way brings belongs to before the pause, and is told after it (ruling 15).
        let late = text(&line, "type") == Some("assistant") && text(&line, "parent_tool_use_id").is_some();
        if late && self.gate.mode() == Mode::Paused && self.pausing.is_empty() {
            self.withheld.push(line);
            return Ok(());
        }
        self.translate(&line).await
    }

    /// Tells what was withheld.
    pub(super) async fn tell_withheld(&mut self) -> Result<(), AdapterError> {
        for line in std::mem::take(&mut self.withheld) {
            self.translate(&line).await?;
        }
        Ok(())
    }

    async fn translate(&mut self, line: &Value) -> Result<(), AdapterError> {
        let translated = self.translator.line(line);
        self.emit(translated.events).await?;
        for signal in translated.signals {
            self.signal(signal).await?;
        }
        Ok(())
    }

    async fn signal(&mut self, signal: Signal) -> Result<(), AdapterError> {
        match signal {
            Signal::Message { uuid, state: MessageState::Started | MessageState::Completed } => {
                if let Some((message, reply)) = self.messages.started(&uuid) {
                    // Before it is acknowledged: from then on nobody says it again.
                    self.told(&message.content)?;
                    reply.injected().await?;
                }
            }
            Signal::Message { uuid, state: MessageState::Cancelled } => {
                if let Some((message, reply)) = self.messages.recalled(&uuid, true) {
                    refuse_interrupted(message, reply).await?;
                }
            }
            Signal::Message { state: MessageState::Queued, .. } => {}
            Signal::TurnEnded(end) => {
                self.gate.turn_ended();
                self.permissions.forget();
                self.handoff_asked = false;
                self.over |= end == TurnEnd::Failed;
            }
            Signal::OutOfQuota => {
                self.gate.turn_ended();
                self.permissions.forget();
                self.out_of_quota = true;
            }
            Signal::Compacted(why) => {
                // Without a reply that waits it was a prompt that was refused, and nothing was compacted.
                if let Some(reply) = self.compacting.take() {
                    match why {
                        None => {
                            self.nearly_full = None;
                            reply.done().await?;
                        }
                        Some(why) => reply.refuse(Refusal::invalid(why)).await?,
                    }
                }
            }
        }
        Ok(())
    }

    /// The binary takes up a prompt: from here on there is a conversation to resume.
    async fn init(&mut self, line: &Value) -> Result<(), AdapterError> {
        let id = text(line, "session_id").map(str::to_owned);
        self.remember(|conversation| {
            conversation.begun = true;
            if let Some(id) = id {
                conversation.id = id;
            }
        })?;
        if self.version_told {
            return Ok(());
        }
        self.version_told = true;
        let version = text(line, "claude_code_version").unwrap_or("of an unknown version");
        let detail = json!({ "version": version, "apiKeySource": line.get("apiKeySource"),
            "mcpServers": line.get("mcp_servers"), "tools": line.get("tools") });
        let notice = RawEvent::Notice {
            name: "agent_version".into(),
            summary: format!("The agent is Claude Code {version}"),
            detail: Some(detail),
        };
        Ok(self.events.emit(notice).await?)
    }

    async fn answered(&mut self, line: &Value) -> Result<(), AdapterError> {
        let Some(answered) = self.channel.answered(line) else { return Ok(()) };
        match (answered.asked, answered.answer) {
            (Asked::SetModel(model, reply), Ok(_)) => self.model_is_set(model, reply).await,
            (Asked::SetThinking(level, reply), Ok(_)) => self.thinking_is_set(level, reply).await,
            (Asked::SetModel(_, reply) | Asked::SetThinking(_, reply), Err(why)) => {
                Ok(reply.refuse(Refusal::invalid(why)).await?)
            }
            (Asked::CancelMessage(uuid), answer) => {
                let cancelled = answer.is_ok_and(|answer| flag(&answer, "cancelled"));
                if let Some((message, reply)) = self.messages.recalled(&uuid, cancelled) {
                    refuse_interrupted(message, reply).await?;
                }
                Ok(())
            }
            (Asked::Usage, Ok(usage)) => {
                let events = self.translator.usage(usage.get("session").unwrap_or(&Value::Null));
                self.emit(events).await
            }
            (Asked::Initialize | Asked::Interrupt | Asked::Usage | Asked::Other, _) => Ok(()),
        }
    }

    async fn asked(&mut self, line: Value) -> Result<(), AdapterError> {
        let request = line.get("request").unwrap_or(&Value::Null);
        let Some(id) = text(&line, "request_id").map(str::to_owned) else { return Ok(()) };
        match text(request, "subtype") {
            Some("hook_callback") => {
                let messages = &self.messages;
                let asked = self.gate.ask(&id, request, |prompt| messages.is_ours(prompt));
                if asked.prompt_refused {
                    // Such as the report of a subagent that was stopped.
                    self.translator.no_turn();
                }
                if let Some(message) = asked.prompt.and_then(|prompt| self.messages.of_prompt(&prompt)) {
                    self.translator.opens_turn(message);
                }
                if let Some(answer) = asked.answer {
                    self.answer(&id, &answer).await;
                }
                if asked.batch_ended {
                    self.ask("get_usage", json!({}), Asked::Usage).await;
                }
                Ok(())
            }
            Some("can_use_tool") if self.gate.mode() == Mode::Paused => {
                self.postponed.push(line);
                Ok(())
            }
            Some("can_use_tool") => self.permission(&line).await,
            other => {
                // Asked of the host, and none of what this host offers.
                let what = other.unwrap_or("nothing").to_owned();
                self.translate(&line).await?;
                self.write(&channel::refuse(&id, &format!("not supported: {what}"))).await;
                Ok(())
            }
        }
    }

    /// The binary asks whether a tool may run.
    pub(super) async fn permission(&mut self, line: &Value) -> Result<(), AdapterError> {
        let request = line.get("request").unwrap_or(&Value::Null);
        let Some(id) = text(line, "request_id") else { return Ok(()) };
        let policy = Policy {
            allowed: &arguments::allowed_tools(&self.config),
            plan_approval: self.config.plan_approval_required,
            mode_after_plan: self.options.permission_mode.name(),
        };
        match self.permissions.ask(id, request, &policy) {
            Verdict::Answer(answer) => self.answer(id, &answer).await,
            Verdict::Ask(event) => self.events.emit(event).await?,
            Verdict::Wait => {}
        }
        Ok(())
    }
}
