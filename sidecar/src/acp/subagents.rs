//! Subagents. Agents report them as separate sessions, or mark the updates of a subagent with the call that started
//! it.

use std::collections::BTreeMap;

use pilothouse_domain::{SubAgentId, ToolCallId};
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use crate::kit::json::{text, text_at};

#[derive(Debug, Default)]
pub(super) struct Subagents {
    /// Key: their session, or the call that started them.
    open: BTreeMap<String, SubAgentId>,
    any: bool,
}

impl Subagents {
    pub(super) fn of_session(&self, session: &str) -> Option<&SubAgentId> {
        self.open.get(session)
    }

    /// The subagent of a marked update of the main session. The first update starts the subagent.
    pub(super) fn of_update(
        &mut self,
        update: &Value,
        input: Option<&Value>,
    ) -> (Option<SubAgentId>, Option<RawEvent>) {
        let Some(call) = text_at(update, &["_meta", "claudeCode", "parentToolUseId"]) else {
            return (None, None);
        };
        if let Some(known) = self.open.get(call) {
            return (Some(known.clone()), None);
        }
        let objective = input.and_then(|input| text(input, "description").or_else(|| text(input, "prompt")));
        let began = self.begin(call, Some(call), objective.unwrap_or("a subagent"));
        (self.open.get(call).cloned(), began)
    }

    /// Handles a `subagent_update` of the main session.
    pub(super) fn update(&mut self, update: &Value) -> Option<RawEvent> {
        let session = text(update, "sessionId")?;
        match text_at(update, &["state", "state"]) {
            Some("idle") => self.end(session, failure(update)),
            Some(_) if !self.open.contains_key(session) => {
                let objective = text(update, "title").or_else(|| text(update, "description"));
                self.begin(session, None, objective.unwrap_or("a subagent"))
            }
            _ => None,
        }
    }

    /// Handles the result of a call that started a subagent.
    pub(super) fn call_ended(&mut self, call: &str, failed: bool) -> Option<RawEvent> {
        self.end(call, failed.then(|| "its call failed".to_owned()))
    }

    pub(super) const fn any(&self) -> bool {
        self.any
    }

    pub(super) fn any_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn end_all(&mut self, why: &str) -> Vec<RawEvent> {
        let ended = std::mem::take(&mut self.open).into_values();
        ended
            .map(|subagent_id| RawEvent::SubagentEnded { subagent_id, failure: Some(why.to_owned()) })
            .collect()
    }

    fn begin(&mut self, key: &str, call: Option<&str>, objective: &str) -> Option<RawEvent> {
        let subagent_id = SubAgentId::parse(key).ok()?;
        self.open.insert(key.to_owned(), subagent_id.clone());
        self.any = true;
        Some(RawEvent::SubagentStarted {
            subagent_id,
            tool_call_id: call.and_then(|call| ToolCallId::parse(call).ok()),
            model_id: None,
            objective: objective.to_owned(),
        })
    }

    fn end(&mut self, key: &str, failure: Option<String>) -> Option<RawEvent> {
        let subagent_id = self.open.remove(key)?;
        Some(RawEvent::SubagentEnded { subagent_id, failure })
    }
}

/// Why a subagent failed. `None` if it ended normally.
fn failure(update: &Value) -> Option<String> {
    let state = update.get("state")?;
    let reason = match state.get("stopReason")? {
        Value::String(reason) => reason.clone(),
        other => text(other, "message").or_else(|| text(other, "reason")).unwrap_or("an error").to_owned(),
    };
    (!matches!(reason.as_str(), "end_turn")).then_some(reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_subagent_begins_and_ends_once() {
        let mut subagents = Subagents::default();
        let running = json!({"sessionId": "x", "title": "look", "state": {"state": "running"}});
        assert!(
            matches!(subagents.update(&running), Some(RawEvent::SubagentStarted { objective, .. }) if objective == "look")
        );
        assert_eq!(subagents.update(&running), None);
        let idle = json!({"sessionId": "x", "state": {"state": "idle", "stopReason": "cancelled"}});
        assert!(
            matches!(subagents.update(&idle), Some(RawEvent::SubagentEnded { failure: Some(why), .. }) if why == "cancelled")
        );
        assert_eq!(subagents.update(&idle), None);
        assert!(!subagents.any_open());
    }

    #[test]
    fn updates_marked_with_a_call_belong_to_its_subagent() {
        let mut subagents = Subagents::default();
        let update = json!({"_meta": {"claudeCode": {"parentToolUseId": "c"}}});
        let (id, began) = subagents.of_update(&update, Some(&json!({"description": "d"})));
        assert!(id.is_some() && began.is_some());
        assert!(subagents.of_update(&update, None).1.is_none());
        assert!(subagents.call_ended("c", false).is_some());
        assert_eq!(subagents.of_update(&json!({}), None), (None, None));
    }
}
