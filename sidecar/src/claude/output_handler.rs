//! Handles Claude Code's output.

use pilothouse_domain::text::cut;
use pilothouse_domain::value::Capabilities;
use pilothouse_wire::RawEvent;
use serde_json::{Value, json};

use super::control_channel::{self, ControlRequest};
use super::driver::Driver;
use super::new_conversation::is_lost;
use super::permissions::{Policy, Verdict};
use super::process::{BufferedOutput, Output};
use super::tool_hooks::Mode;
use super::verdicts::{Asker, CallVerdict};
use super::{Claude, arguments};
use crate::adapter::{Adapter as _, AdapterError, Refusal};
use crate::kit::claude_stream::{MessageState, Signal, TurnEnd};
use crate::kit::json::{flag, text};
use crate::kit::notices::{detailed_notice, notice};

/// In characters. Applies to lines that are not part of the protocol.
const MAX_STRAY_LINE: usize = 2000;

/// The major version whose messages are translated. Some of them are not documented, and are not sent to others.
const TESTED_MAJOR: u32 = 2;

fn is_tested(version: &str) -> bool {
    version.split('.').next().and_then(|major| major.parse().ok()) == Some(TESTED_MAJOR)
}

impl Driver {
    pub(super) async fn output(&mut self, received: BufferedOutput) -> Result<(), AdapterError> {
        if self.initializing.is_some() {
            return self.initializing_output(received).await;
        }
        let line = match received.output {
            Output::Line(line) => line,
            Output::Noise(noise) => {
                let content = cut(&self.events.redacted(&noise), MAX_STRAY_LINE);
                return Ok(self.events.emit(RawEvent::LogChunk { stream: "agent".into(), content }).await?);
            }
        };
        match text(&line, "type") {
            Some("control_response") => return self.handle_control_response(&line).await,
            Some("control_request") => return self.handle_control_request(line).await,
            Some("control_cancel_request") => {
                if let Some(request) = text(&line, "request_id") {
                    self.tool_hooks.cancelled(request);
                    self.unmetered.cancelled(request);
                    self.permissions.cancelled(request);
                    self.verdicts.cancelled(request);
                    self.requests_during_pause.retain(|line| text(line, "request_id") != Some(request));
                }
                return Ok(());
            }
            Some("stream_event") => {
                self.tool_hooks.stream(&line);
                if ends_model_call(&line) {
                    // The cost is recorded before the tools run.
                    self.ask_usage();
                }
            }
            Some("system") if text(&line, "subtype") == Some("init") => self.init(&line).await?,
            _ => {}
        }
        if self.file.conversation().begun && self.translator.turn_id().is_none() && is_lost(&line) {
            return self.conversation_lost().await;
        }
        // A subagent's results of calls that were in progress are published after the pause (decision 15).
        let late = text(&line, "type") == Some("assistant") && text(&line, "parent_tool_use_id").is_some();
        if late && self.tool_hooks.mode() == Mode::Paused && self.pausing.is_empty() {
            self.messages_during_pause.push(line);
            return Ok(());
        }
        self.translate(&line).await
    }

    pub(super) async fn emit_withheld(&mut self) -> Result<(), AdapterError> {
        for line in std::mem::take(&mut self.messages_during_pause) {
            self.translate(&line).await?;
        }
        Ok(())
    }

    async fn translate(&mut self, line: &Value) -> Result<(), AdapterError> {
        let translated = self.translator.line(line);
        if let Some((kind, written)) = &translated.draft {
            self.events.drafts().write(*kind, written);
        }
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
                    // Saved before the acknowledgement, because an acknowledged message is never sent again.
                    self.record_message(&message.content).await?;
                    reply.injected().await?;
                }
            }
            Signal::Message { uuid, state: MessageState::Cancelled } => {
                if let Some(withdrawn) = self.messages.recalled(&uuid, true) {
                    self.withdraw(withdrawn).await?;
                }
            }
            Signal::Message { state: MessageState::Queued, .. } => {}
            Signal::TurnEnded(end) => {
                self.tool_hooks.turn_ended();
                self.permissions.forget();
                self.verdicts.turn_ended();
                self.handoff_requested = false;
                self.has_ended |= end == TurnEnd::Failed;
            }
            Signal::WaitsForModel => {
                self.tool_hooks.turn_ended();
                self.permissions.forget();
                self.verdicts.turn_ended();
                self.waits_for_model = true;
            }
            Signal::Compacted(why) => {
                if why.is_none() {
                    (self.nearly_full, self.accepts_document) = (None, false);
                }
                if let Some(reply) = self.compacting.take() {
                    match why {
                        None => reply.done().await?,
                        Some(why) => reply.refuse(Refusal::invalid(why)).await?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles `init`: Claude Code starts to process a prompt, so from now on there is a conversation to resume.
    async fn init(&mut self, line: &Value) -> Result<(), AdapterError> {
        let id = text(line, "session_id").map(str::to_owned);
        self.remember(|conversation| {
            conversation.begun = true;
            if let Some(id) = id {
                conversation.id = id;
            }
        })
        .await?;
        let version = match text(line, "claude_code_version") {
            None if self.version_emitted => return Ok(()),
            version => version.unwrap_or("of an unknown version"),
        };
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.version_emitted, true) {
            let detail = json!({ "version": version, "apiKeySource": line.get("apiKeySource"),
                "mcpServers": line.get("mcp_servers"), "tools": line.get("tools") });
            let summary = format!("The agent is Claude Code {version}");
            events.push(detailed_notice("agent_version", summary, detail));
        }
        let untested = !is_tested(version);
        if untested != self.untested {
            self.untested = untested;
            if untested {
                let summary = format!(
                    "Claude Code {version} is not tested with Pilothouse, which uses undocumented requests of version {TESTED_MAJOR}: it \
                     does not get them, so its spend is known only after each turn. If it does not pause or reports no cost, install \
                     that version"
                );
                events.push(notice("untested_version", summary));
            }
            events.push(self.ready());
        }
        Ok(self.events.emit_all(events).await?)
    }

    /// Reports the capabilities of the version.
    fn ready(&self) -> RawEvent {
        let all = Claude.capabilities();
        RawEvent::SidecarReady {
            sidecar_version: env!("CARGO_PKG_VERSION").into(),
            adapter: Claude::NAME.into(),
            capabilities: Capabilities { allowance: all.allowance && !self.untested, ..all },
        }
    }

    async fn handle_control_response(&mut self, line: &Value) -> Result<(), AdapterError> {
        let Some(response) = self.control_channel.take_response(line) else { return Ok(()) };
        match (response.request, response.result) {
            (ControlRequest::SetModel(model, reply), Ok(_)) => self.model_is_set(model, reply).await,
            (ControlRequest::SetThinking(level, reply), Ok(_)) => self.thinking_is_set(level, reply).await,
            (ControlRequest::SetModel(_, reply) | ControlRequest::SetThinking(_, reply), Err(why)) => {
                Ok(reply.refuse(Refusal::invalid(why)).await?)
            }
            (ControlRequest::CancelMessage(uuid), result) => {
                let cancelled = result.is_ok_and(|response| flag(&response, "cancelled"));
                if let Some(withdrawn) = self.messages.recalled(&uuid, cancelled) {
                    self.withdraw(withdrawn).await?;
                }
                Ok(())
            }
            (ControlRequest::Usage, usage) => {
                if let Ok(usage) = usage {
                    let events = self.translator.usage(usage.get("session").unwrap_or(&Value::Null));
                    self.emit(events).await?;
                }
                if self.control_channel.waits_for(|asked| matches!(asked, ControlRequest::Usage)) {
                    return Ok(());
                }
                self.usage_is_known();
                Ok(())
            }
            (ControlRequest::Initialize | ControlRequest::Interrupt | ControlRequest::Other, _) => Ok(()),
        }
    }

    async fn handle_control_request(&mut self, line: Value) -> Result<(), AdapterError> {
        let request = line.get("request").unwrap_or(&Value::Null);
        let Some(id) = text(&line, "request_id").map(str::to_owned) else { return Ok(()) };
        match text(request, "subtype") {
            Some("hook_callback") => {
                if self.lease.is_expired() {
                    // The sidecar and the guard are about to end Claude Code.
                    self.tool_hooks.pause();
                }
                if let Some(process) = &mut self.process
                    && text(request, "callback_id") == Some("PreToolUse")
                {
                    process.tools.call_begins();
                }
                if !self.waits_for_usage(&line) {
                    self.hook(&line);
                }
                Ok(())
            }
            Some("can_use_tool") if self.tool_hooks.mode() == Mode::Paused => {
                self.requests_during_pause.push(line);
                Ok(())
            }
            Some("can_use_tool") => self.permission(&line).await,
            other => {
                // A control request that this adapter does not support.
                let what = other.unwrap_or("nothing").to_owned();
                self.translate(&line).await?;
                self.write(&control_channel::refuse(&id, &format!("not supported: {what}")));
                Ok(())
            }
        }
    }

    /// Handles a hook: Claude Code asks whether to proceed, or reports what it did.
    pub(super) fn hook(&mut self, line: &Value) {
        let request = line.get("request").unwrap_or(&Value::Null);
        let Some(id) = text(line, "request_id") else { return };
        let messages = &self.messages;
        let asked = self.tool_hooks.ask(id, request, |prompt| messages.is_ours(prompt));
        if asked.prompt_refused {
            // For example the report of a stopped subagent.
            self.translator.refuses_prompt();
        }
        if let Some(message) = asked.prompt.and_then(|prompt| self.messages.of_prompt(&prompt)) {
            self.translator.opens_turn(message);
        }
        if let Some(response) = asked.answer {
            self.respond(id, &response);
        }
        if let Some(call) = asked.authorize {
            self.ask_for_verdict(Asker::Hook(id.to_owned()), call);
        }
        if asked.subagent_model_call_ended {
            // Subagents do not stream, so a tool call marks the end of their model call.
            self.ask_usage();
        }
    }

    pub(super) async fn permission(&mut self, line: &Value) -> Result<(), AdapterError> {
        let request = line.get("request").unwrap_or(&Value::Null);
        let Some(id) = text(line, "request_id") else { return Ok(()) };
        let authorization = match self.verdict_on(request) {
            CallVerdict::NotNeeded => None,
            CallVerdict::Known(authorization) => Some(authorization),
            CallVerdict::Missing(call) => {
                self.ask_for_verdict(Asker::Permission(line.clone()), call);
                return Ok(());
            }
        };
        let policy = Policy {
            authorization,
            allowed: &arguments::allowed_tools(&self.config),
            plan_approval: self.config.options.plan_approval_required,
            mode_after_plan: self.options.permission_mode.name(),
        };
        match self.permissions.ask(id, request, &policy) {
            Verdict::Respond(response) => self.respond(id, &response),
            Verdict::Ask(event) => self.events.emit(event).await?,
            Verdict::Wait => {}
        }
        Ok(())
    }
}

/// Whether a stream event ends a model call of the main loop.
fn ends_model_call(line: &Value) -> bool {
    text(line, "parent_tool_use_id").is_none()
        && line.get("event").and_then(|event| text(event, "type")) == Some("message_stop")
}

#[cfg(test)]
mod tests {
    use super::is_tested;

    #[test]
    fn other_major_versions_are_not_tested() {
        assert!(is_tested("2.1.197") && is_tested("2.0.0-beta.1"));
        assert!(!is_tested("3.0.0") && !is_tested("1.0.128") && !is_tested("of an unknown version"));
    }
}
