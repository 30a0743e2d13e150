//! Updates about the agent itself: its plan, its settings, and unknown ones.

use pilothouse_domain::value::SessionTaskStatus;
use pilothouse_wire::event::{RawEvent, RawTask};
use serde_json::Value;

use super::translator::{Translator, UpdateMode};
use crate::kit::json::{list, one_line, text};
use crate::kit::notices::name_part;

impl Translator {
    /// A notice of the agent itself.
    pub(super) fn said_of_itself(name: &str, update: &Value) -> RawEvent {
        let words = ["message", "title", "text", "status"].iter().find_map(|key| text(update, key));
        RawEvent::Notice {
            name: name.to_owned(),
            summary: one_line(words.unwrap_or("the agent sent a notice")),
            detail: Some(update.clone()),
        }
    }

    pub(super) fn plan(&mut self, update: &Value, replayed: bool) -> Vec<RawEvent> {
        let tasks: Vec<RawTask> =
            list(update, "entries").iter().enumerate().map(|(at, entry)| task(at, entry)).collect();
        if tasks == self.tasks {
            return Vec::new();
        }
        self.tasks.clone_from(&tasks);
        if replayed { Vec::new() } else { vec![RawEvent::TaskList { tasks }] }
    }

    /// Handles a change of the agent's settings or of the available values.
    pub(super) fn options(&mut self, update: &Value) -> Vec<RawEvent> {
        let before = self.settings_event();
        let mode = self.settings.mode.as_ref().map(|mode| mode.current.clone());
        self.settings.options(update);
        self.meter.model(self.settings.model_id(&self.model));
        let mut events = Vec::new();
        let now = self.settings.mode.as_ref().map(|mode| mode.current.clone());
        if let Some(now) = now.filter(|now| Some(now) != mode.as_ref()) {
            events.push(mode_changed(&now));
        }
        if self.settings_event() != before && self.update_mode != UpdateMode::Replay {
            events.push(self.settings_event());
        }
        events
    }

    pub(super) fn mode(&mut self, update: &Value) -> Vec<RawEvent> {
        let Some(id) = text(update, "currentModeId") else { return Vec::new() };
        if self.settings.mode_is(id) && self.update_mode != UpdateMode::Replay {
            vec![mode_changed(id)]
        } else {
            Vec::new()
        }
    }

    /// Publishes a notice for the first unknown update of each kind.
    pub(super) fn unknown(&mut self, kind: &str, update: &Value) -> Vec<RawEvent> {
        if self.unknown.len() > 100 || !self.unknown.insert(kind.to_owned()) {
            return Vec::new();
        }
        vec![RawEvent::Notice {
            name: format!("unknown_{}", name_part(kind, 60)),
            summary: format!("the agent sent an unknown update: {}", one_line(kind)),
            detail: Some(update.clone()),
        }]
    }
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
