//! Translates `session/update` to raw events (S0 8.2, 8.3), without I/O and without a clock. Unknown updates become
//! notices, because agents send undocumented ones.

use std::collections::{BTreeMap, HashSet};

use pilothouse_domain::value::DraftKind;
use pilothouse_domain::{SubAgentId, TurnId};
use pilothouse_wire::event::{AssistantContent, RawEvent, RawTask};
use serde_json::Value;

use super::blocks::Blocks;
use super::calls::{Calls, Printed};
use super::meter::Meter;
use super::settings::Settings;
use super::subagents::Subagents;
use crate::kit::handoff;
use crate::kit::json::{text, text_at};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateMode {
    Live,
    /// The agent repeats a resumed conversation. Publishes nothing.
    Replay,
    /// Ignore texts and calls, which belong to an interrupted turn (decision 15) or to a compaction. Usage counts.
    Ignored,
}

/// Translates the updates of one conversation.
#[derive(Debug)]
pub(super) struct Translator {
    session: String,
    pub(super) model: String,
    pub(super) update_mode: UpdateMode,
    turn: Option<TurnId>,
    blocks: Blocks,
    /// The piece of the latest update, if the agent itself wrote it.
    draft: Option<(DraftKind, String)>,
    of_subagents: BTreeMap<SubAgentId, Blocks>,
    pub(super) calls: Calls,
    subagents: Subagents,
    pub(super) tasks: Vec<RawTask>,
    pub(super) meter: Meter,
    pub(super) settings: Settings,
    pub(super) unknown: HashSet<String>,
    /// The agent has asked its owner a question of its own.
    pub(super) asks: bool,
    pub(super) handoff: Handoff,
}

/// Whether the agent hands its work over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Handoff {
    /// A document in the agent's text does not count.
    #[default]
    NotDue,
    /// The agent was asked for its document.
    Requested,
    /// The document was published.
    Documented,
}

impl Translator {
    /// Creates a translator for the conversation `session`. `model` is used if the agent does not name its model.
    pub(super) fn new(session: &str, model: &str, meter: Meter) -> Self {
        Self {
            session: session.to_owned(),
            model: model.to_owned(),
            update_mode: UpdateMode::Live,
            turn: None,
            blocks: Blocks::default(),
            draft: None,
            of_subagents: BTreeMap::new(),
            calls: Calls::default(),
            subagents: Subagents::default(),
            tasks: Vec::new(),
            meter,
            settings: Settings::default(),
            unknown: HashSet::new(),
            asks: false,
            handoff: Handoff::NotDue,
        }
    }

    pub(super) const fn take_draft(&mut self) -> Option<(DraftKind, String)> {
        self.draft.take()
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Begins a turn. Later updates belong to it.
    pub(super) fn begin_turn(&mut self, turn: TurnId) {
        self.turn = Some(turn);
        self.update_mode = UpdateMode::Live;
        self.meter.turn_begins();
    }

    /// Ends the turn: publishes incomplete blocks and calls, and ends calls without a result with the error `why`.
    pub(super) fn end_turn(&mut self, why: &str) -> Vec<RawEvent> {
        let mut events = self.flush();
        events.extend(self.calls.close_all(why));
        self.stamp(&mut events);
        self.turn = None;
        events
    }

    /// Whether subagents of the turn are still running (decision 18).
    pub(super) fn subagents_work(&self) -> bool {
        self.subagents.any_open()
    }

    pub(super) const fn has_subagents(&self) -> bool {
        self.subagents.any()
    }

    pub(super) fn end_subagents(&mut self, why: &str) -> Vec<RawEvent> {
        self.subagents.end_all(why)
    }

    pub(super) fn settings_event(&self) -> RawEvent {
        self.settings.to_event(&self.model)
    }

    /// Whether a call is unpublished because its input may still be streaming.
    pub(super) fn waits(&self) -> bool {
        self.update_mode == UpdateMode::Live && self.calls.any_unpublished()
    }

    pub(super) fn publish_streamed_calls(&mut self) -> Vec<RawEvent> {
        let mut events = self.calls.publish_all();
        self.stamp(&mut events);
        events
    }

    /// Handles a request about a call, which is published first.
    pub(super) fn publish_for_request(&mut self, call: &Value) -> Vec<RawEvent> {
        let mut events = self.flush();
        events.extend(self.calls.publish_for_request(call));
        self.stamp(&mut events);
        events
    }

    /// Translates the parameters of a `session/update`.
    pub(super) fn update(&mut self, parameters: &Value, printed: Printed) -> Vec<RawEvent> {
        let Some(update) = parameters.get("update") else { return Vec::new() };
        let kind = text(update, "sessionUpdate").unwrap_or("without_name");
        let session = text(parameters, "sessionId").unwrap_or(&self.session);
        let mut events = if session == self.session {
            self.own(kind, update, printed)
        } else {
            let subagent = self.subagents.of_session(session).cloned();
            subagent.map(|id| self.of_subagent(kind, update, &id, printed)).unwrap_or_default()
        };
        if self.turn.is_none() && self.update_mode == UpdateMode::Live {
            // Without a turn, no later event completes streamed text.
            events.extend(self.flush());
        }
        self.stamp(&mut events);
        for event in &events {
            if let RawEvent::ToolResult { content, .. } = event {
                self.meter.hears_result(content.text().len());
                self.meter.model_call_follows();
            }
        }
        events
    }

    fn own(&mut self, kind: &str, update: &Value, printed: Printed) -> Vec<RawEvent> {
        let replayed = self.update_mode == UpdateMode::Replay;
        if let "agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "tool_call_update" = kind {
            let mut events = match self.update_mode {
                UpdateMode::Live => self.work(kind, update, printed),
                UpdateMode::Replay | UpdateMode::Ignored => Vec::new(),
            };
            let usage = update.get("_meta").and_then(|meta| meta.get("usage"));
            if let Some(usage) = usage.filter(|usage| usage.is_object() && !replayed) {
                events.extend(self.meter.call(usage));
            }
            return events;
        }
        match kind {
            "usage_update" => {
                let mut events = if replayed { Vec::new() } else { self.calls.finish_inputs() };
                events.extend(self.meter.update(update));
                events
            }
            "plan" => self.plan(update, replayed),
            "available_commands_update" => {
                self.settings.commands(update);
                Vec::new()
            }
            "config_option_update" => self.options(update),
            "current_mode_update" => self.mode(update),
            // Repeated updates of subagents are not published.
            "subagent_update" if !replayed => {
                let mut events = self.flush();
                events.extend(self.subagents.update(update));
                events
            }
            "notice" if !replayed => vec![Self::said_of_itself("agent_notice", update)],
            "compaction_update" if !replayed => vec![Self::said_of_itself("compaction", update)],
            // Repeated updates, echoes of the owner's messages, titles, and messages between subagents.
            "subagent_update"
            | "notice"
            | "compaction_update"
            | "user_message_chunk"
            | "session_info_update"
            | "session_message"
            | "session_message_chunk"
            | "compaction_summary_chunk" => Vec::new(),
            unknown => self.unknown(unknown, update),
        }
    }

    fn work(&mut self, kind: &str, update: &Value, printed: Printed) -> Vec<RawEvent> {
        let parent = crate::kit::json::text_at(update, &["_meta", "claudeCode", "parentToolUseId"]);
        let input = parent.and_then(|call| self.calls.input(call)).cloned();
        let (subagent, began) = self.subagents.of_update(update, input.as_ref());
        let mut events: Vec<RawEvent> = Vec::new();
        if let Some(began) = began {
            events.extend(self.flush());
            events.extend(self.calls.publish_all());
            events.push(began);
        }
        if let Some(id) = subagent {
            events.extend(self.of_subagent(kind, update, &id, printed));
            return events;
        }
        if kind != "tool_call_update" {
            self.meter.model_answers();
        }
        match kind {
            "tool_call" | "tool_call_update" => {
                events.extend(self.flush());
                if kind == "tool_call" {
                    events.extend(self.calls.finish_inputs());
                }
                events.extend(self.calls.update(update, None, printed));
                let ended = events.iter().find_map(|event| match event {
                    RawEvent::ToolResult { tool_call_id, is_error, .. } => {
                        Some((tool_call_id.clone(), *is_error))
                    }
                    _ => None,
                });
                events.extend(
                    ended.and_then(|(call, failed)| self.subagents.call_ended(call.as_str(), failed)),
                );
            }
            _ => {
                events.extend(self.calls.finish_inputs());
                let said = self.blocks.push(kind_of(kind), update);
                events.extend(said.into_iter().map(message));
                let written = text_at(update, &["content", "text"]);
                self.draft = written.map(|written| (kind_of(kind), written.to_owned()));
            }
        }
        events
    }

    fn of_subagent(
        &mut self,
        kind: &str,
        update: &Value,
        id: &SubAgentId,
        printed: Printed,
    ) -> Vec<RawEvent> {
        if self.update_mode != UpdateMode::Live {
            return Vec::new();
        }
        let blocks = self.of_subagents.entry(id.clone()).or_default();
        let said: Vec<AssistantContent> = match kind {
            "agent_message_chunk" | "agent_thought_chunk" => blocks.push(kind_of(kind), update),
            "tool_call" | "tool_call_update" => blocks.flush().into_iter().collect(),
            _ => return Vec::new(),
        };
        let mut events: Vec<RawEvent> = said.into_iter().map(|content| by(id, content)).collect();
        if kind.starts_with("tool_call") {
            events.extend(self.calls.update(update, Some(id), printed));
        }
        events
    }

    /// Publishes the incomplete blocks.
    fn flush(&mut self) -> Vec<RawEvent> {
        let mut events: Vec<RawEvent> = self.blocks.flush().map(message).into_iter().collect();
        for (id, blocks) in &mut self.of_subagents {
            events.extend(blocks.flush().map(|content| by(id, content)));
        }
        events
    }

    /// Adds the turn to messages. A handoff document that the agent was asked for is published after the message that
    /// contains it.
    fn stamp(&mut self, events: &mut Vec<RawEvent>) {
        for mut event in std::mem::take(events) {
            let mut document = None;
            if let RawEvent::AssistantMessage { turn_id, content } = &mut event {
                turn_id.clone_from(&self.turn);
                if let AssistantContent::Text { text } = content
                    && self.handoff != Handoff::NotDue
                {
                    document = handoff::document(&text.text());
                }
            }
            if document.is_some() {
                self.handoff = Handoff::Documented;
            }
            events.push(event);
            events.extend(document.map(RawEvent::HandoffDocument));
        }
    }
}

fn kind_of(update: &str) -> DraftKind {
    if update == "agent_thought_chunk" { DraftKind::Thinking } else { DraftKind::Text }
}

fn message(content: AssistantContent) -> RawEvent {
    RawEvent::AssistantMessage { content, turn_id: None }
}

fn by(id: &SubAgentId, content: AssistantContent) -> RawEvent {
    RawEvent::SubagentMessage { subagent_id: id.clone(), content }
}
