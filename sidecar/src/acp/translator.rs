//! `session/update` as raw events (S0 8.2, 8.3), without I/O and without a clock. It is read leniently: agents are ahead of
//! any list of what they may say, and what is not known becomes a notice.

use std::collections::{BTreeMap, HashSet};

use pilothouse_domain::value::SessionTaskStatus;
use pilothouse_domain::{SubAgentId, TurnId};
use pilothouse_wire::event::{AssistantContent, RawEvent, RawTask};
use serde_json::Value;

use super::blocks::{Blocks, Kind};
use super::calls::{Calls, Printed};
use super::json::{list, notice_name, one_line, text};
use super::meter::Meter;
use super::settings::Settings;
use super::subagents::Subagents;
use crate::handoff;

/// What becomes of what the agent says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listening {
    /// It is told.
    Live,
    /// The agent repeats a conversation that was taken up: none of it is news.
    Replay,
    /// Words and calls that are no part of any turn: of one that was broken off (ruling 15), or of a compaction. Usage counts.
    Aside,
}

/// Translates the updates of one conversation.
#[derive(Debug)]
pub(super) struct Translator {
    session: String,
    model: String,
    pub(super) listening: Listening,
    turn: Option<TurnId>,
    blocks: Blocks,
    of_subagents: BTreeMap<SubAgentId, Blocks>,
    pub(super) calls: Calls,
    subagents: Subagents,
    tasks: Vec<RawTask>,
    pub(super) meter: Meter,
    pub(super) settings: Settings,
    unknown: HashSet<String>,
}

impl Translator {
    /// A translator of the conversation `session`; `model` stands for a model that the agent does not name.
    pub(super) fn new(session: &str, model: &str, meter: Meter) -> Self {
        Self {
            session: session.to_owned(),
            model: model.to_owned(),
            listening: Listening::Live,
            turn: None,
            blocks: Blocks::default(),
            of_subagents: BTreeMap::new(),
            calls: Calls::default(),
            subagents: Subagents::default(),
            tasks: Vec::new(),
            meter,
            settings: Settings::default(),
            unknown: HashSet::new(),
        }
    }

    /// The agent's id of the conversation.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// A turn begins: what comes from here on belongs to it.
    pub(super) fn begin_turn(&mut self, turn: TurnId) {
        self.turn = Some(turn);
        self.listening = Listening::Live;
    }

    /// The turn ends: what is open is told as far as it came, and calls without a result end in an error that says `why`.
    pub(super) fn end_turn(&mut self, why: &str) -> Vec<RawEvent> {
        let mut events = self.flush();
        events.extend(self.calls.close_all(why));
        self.stamp(&mut events);
        self.turn = None;
        events
    }

    /// Whether the turn still has subagents at work (ruling 18).
    pub(super) fn subagents_work(&self) -> bool {
        self.subagents.any_open()
    }

    /// Whether the agent ever told of a subagent.
    pub(super) const fn has_subagents(&self) -> bool {
        self.subagents.any()
    }

    /// Ends the subagents of a turn that was broken off.
    pub(super) fn end_subagents(&mut self, why: &str) -> Vec<RawEvent> {
        self.subagents.end_all(why)
    }

    /// What the agent works with now.
    pub(super) fn settings_told(&self) -> RawEvent {
        self.settings.told(&self.model)
    }

    /// A call waits to be told that only time completes: its input may still be streamed.
    pub(super) fn waits(&self) -> bool {
        self.listening == Listening::Live && self.calls.any_untold()
    }

    /// Time has passed: calls are told with what is known of them.
    pub(super) fn time_passed(&mut self) -> Vec<RawEvent> {
        let mut events = self.calls.tell_all();
        self.stamp(&mut events);
        events
    }

    /// The agent asks something about a call: it is told before.
    pub(super) fn asked_about(&mut self, call: &Value) -> Vec<RawEvent> {
        let mut events = self.flush();
        events.extend(self.calls.asked_about(call));
        self.stamp(&mut events);
        events
    }

    /// Takes the parameters of a `session/update`.
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
        if self.turn.is_none() && self.listening == Listening::Live {
            // Outside a turn no end of it completes what is streamed.
            events.extend(self.flush());
        }
        self.stamp(&mut events);
        events
    }

    fn own(&mut self, kind: &str, update: &Value, printed: Printed) -> Vec<RawEvent> {
        if let "agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "tool_call_update" = kind {
            return match self.listening {
                Listening::Live => self.work(kind, update, printed),
                Listening::Replay | Listening::Aside => Vec::new(),
            };
        }
        let replayed = self.listening == Listening::Replay;
        match kind {
            "usage_update" => {
                let mut events = if replayed { Vec::new() } else { self.calls.inputs_are_whole() };
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
            // A subagent that is at work shows the world; one of the past only is repeated.
            "subagent_update" if !replayed => {
                let mut events = self.flush();
                events.extend(self.subagents.update(update));
                events
            }
            "notice" if !replayed => vec![said_of_itself("agent_notice", update)],
            "compaction_update" if !replayed => vec![said_of_itself("compaction", update)],
            // The past; what the owner said, repeated; a title; words between its subagents.
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
        let parent = super::json::text_at(update, &["_meta", "claudeCode", "parentToolUseId"]);
        let input = parent.and_then(|call| self.calls.input(call)).cloned();
        let (subagent, began) = self.subagents.of_update(update, input.as_ref());
        let mut events: Vec<RawEvent> = Vec::new();
        if let Some(began) = began {
            events.extend(self.flush());
            events.extend(self.calls.tell_all());
            events.push(began);
        }
        if let Some(id) = subagent {
            events.extend(self.of_subagent(kind, update, &id, printed));
            return events;
        }
        match kind {
            "tool_call" | "tool_call_update" => {
                events.extend(self.flush());
                if kind == "tool_call" {
                    events.extend(self.calls.inputs_are_whole());
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
                events.extend(self.calls.inputs_are_whole());
                let said = self.blocks.push(kind_of(kind), update);
                events.extend(said.into_iter().map(message));
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
        if self.listening != Listening::Live {
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

    /// Blocks that are open, as far as they came.
    fn flush(&mut self) -> Vec<RawEvent> {
        let mut events: Vec<RawEvent> = self.blocks.flush().map(message).into_iter().collect();
        for (id, blocks) in &mut self.of_subagents {
            events.extend(blocks.flush().map(|content| by(id, content)));
        }
        events
    }

    fn plan(&mut self, update: &Value, replayed: bool) -> Vec<RawEvent> {
        let tasks: Vec<RawTask> =
            list(update, "entries").iter().enumerate().map(|(at, entry)| task(at, entry)).collect();
        if tasks == self.tasks {
            return Vec::new();
        }
        self.tasks.clone_from(&tasks);
        if replayed { Vec::new() } else { vec![RawEvent::TaskList { tasks }] }
    }

    fn options(&mut self, update: &Value) -> Vec<RawEvent> {
        let before = self.settings_told();
        let mode = self.settings.mode.as_ref().map(|mode| mode.current.clone());
        self.settings.options(update);
        self.meter.model(self.settings.model_id(&self.model));
        let mut events = Vec::new();
        let now = self.settings.mode.as_ref().map(|mode| mode.current.clone());
        if let Some(now) = now.filter(|now| Some(now) != mode.as_ref()) {
            events.push(mode_changed(&now));
        }
        if self.settings_told() != before && self.listening != Listening::Replay {
            events.push(self.settings_told());
        }
        events
    }

    fn mode(&mut self, update: &Value) -> Vec<RawEvent> {
        let Some(id) = text(update, "currentModeId") else { return Vec::new() };
        if self.settings.mode_is(id) && self.listening != Listening::Replay {
            vec![mode_changed(id)]
        } else {
            Vec::new()
        }
    }

    /// Told once a kind.
    fn unknown(&mut self, kind: &str, update: &Value) -> Vec<RawEvent> {
        if self.unknown.len() > 100 || !self.unknown.insert(kind.to_owned()) {
            return Vec::new();
        }
        vec![RawEvent::Notice {
            name: notice_name("unknown", kind),
            summary: format!("the agent said something unknown: {}", one_line(kind)),
            detail: Some(update.clone()),
        }]
    }

    /// Messages carry the turn that they belong to; a handoff document in one is told after it.
    fn stamp(&self, events: &mut Vec<RawEvent>) {
        for mut event in std::mem::take(events) {
            let mut document = None;
            if let RawEvent::AssistantMessage { turn_id, content } = &mut event {
                turn_id.clone_from(&self.turn);
                if let AssistantContent::Text { text } = content {
                    document = handoff::document(&text.text());
                }
            }
            events.push(event);
            events.extend(document.map(RawEvent::HandoffDocument));
        }
    }
}

fn kind_of(update: &str) -> Kind {
    if update == "agent_thought_chunk" { Kind::Thought } else { Kind::Message }
}

fn message(content: AssistantContent) -> RawEvent {
    RawEvent::AssistantMessage { content, turn_id: None }
}

fn by(id: &SubAgentId, content: AssistantContent) -> RawEvent {
    RawEvent::SubagentMessage { subagent_id: id.clone(), content }
}

fn task(at: usize, entry: &Value) -> RawTask {
    let status = match text(entry, "status") {
        Some("in_progress") => SessionTaskStatus::InProgress,
        Some("completed") => SessionTaskStatus::Completed,
        _ => SessionTaskStatus::Pending,
    };
    let subject = text(entry, "content").unwrap_or_default().to_owned();
    RawTask { id: (at + 1).to_string(), subject, status, active_form: None }
}

fn mode_changed(mode: &str) -> RawEvent {
    RawEvent::Notice {
        name: "mode_changed".into(),
        summary: format!("the agent works in the mode {}", one_line(mode)),
        detail: None,
    }
}

fn said_of_itself(name: &str, update: &Value) -> RawEvent {
    let words = ["message", "title", "text", "status"].iter().find_map(|key| text(update, key));
    RawEvent::Notice {
        name: name.to_owned(),
        summary: one_line(words.unwrap_or("the agent told of itself")),
        detail: Some(update.clone()),
    }
}
