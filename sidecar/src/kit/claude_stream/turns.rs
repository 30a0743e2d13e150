//! Begin and end of turns and of the conversation (decisions 18 and 19).

use pilothouse_domain::MessageId;
use pilothouse_domain::value::SessionOutcome;
use pilothouse_wire::event::{RawEvent, SessionEnd};
use serde_json::Value;

use super::Ignored;
use super::translated::{MessageState, Signal, Translated, TurnEnd};
use super::translator::{NoTurn, Translator, Turn};
use crate::kit::json::{flag, one_line, text};
use crate::kit::turns::turn_id;

impl Translator {
    /// Opens a turn if none is open.
    pub(super) fn main_loop_works(&mut self, out: &mut Translated) {
        if !self.no_turns.is_empty() {
            return;
        }
        if let Some(turn) = &mut self.turn {
            // After a result with running subagents, the same turn continues and will have another result.
            turn.result_seen = false;
            return;
        }
        self.turns += 1;
        // The prefix was checked with the largest number, so the id is always valid.
        let Ok(id) = turn_id(&self.turn_prefix, self.turns) else { return };
        self.ended = false;
        self.turn = Some(Turn {
            id: id.clone(),
            result_seen: false,
            interrupt_marked: false,
            subagent_interrupted: false,
            outcome: SessionOutcome::Completed,
        });
        out.push(RawEvent::TurnStarted { turn_id: id, message_id: self.next_message.take() });
    }

    pub(super) fn result(&mut self, line: &Value, out: &mut Translated) {
        self.meter.result(line, out);
        self.denials(line, out);
        let subtype = text(line, "subtype").unwrap_or("result");
        let is_error = flag(line, "is_error") || subtype.starts_with("error");
        let limit = limit(subtype);
        match self.no_turns.pop_front().filter(|_| self.turn.is_none()) {
            Some(NoTurn::Compaction) => return self.compaction_ended(line, is_error, out),
            Some(NoTurn::RefusedPrompt) => return out.ignore(Ignored::RepeatedResult),
            None => {}
        }
        if self.was_interrupted(line) {
            self.interrupted(line, out);
        } else if is_error && (self.out_of_quota(line, out) || self.lost_model(line, out)) {
        } else if is_error && limit.is_none() {
            self.failed(line, subtype, out);
        } else if let Some(turn) = &mut self.turn {
            turn.result_seen = true;
            turn.outcome = limit.unwrap_or_default();
            if limit.is_some() {
                // No work continues, and an error that the SDK throws afterwards is a repetition.
                self.ended = true;
                self.calls.clear();
                self.subagents.end_all("The turn reached a limit", out);
            }
            // The main loop finished before the interrupt, which still ends the subagents that keep the turn open. Then
            // the turn ends as interrupted, whichever is reported first.
            self.interrupt_requested &= turn.subagent_interrupted || self.subagents.any_open();
            self.complete_if_idle(out);
            if out.events.is_empty() {
                // Only subagents keep the turn open, and no spend was added since the last report.
                out.ignore(Ignored::RepeatedResult);
            }
        } else {
            self.interrupt_requested = false;
            out.ignore(Ignored::RepeatedResult);
        }
    }

    fn compaction_ended(&mut self, line: &Value, is_error: bool, out: &mut Translated) {
        let failed = is_error.then(|| text(line, "result").map_or_else(|| "it failed".to_owned(), one_line));
        let why = self.compaction_failure.take().or(failed);
        out.ignore(Ignored::RepeatedResult);
        out.signals.push(Signal::Compacted(why));
    }

    /// Whether a result belongs to an interrupt. The runtime's own reason takes precedence; a turn that completed
    /// before the interrupt arrived counts as completed (decision 17).
    fn was_interrupted(&self, line: &Value) -> bool {
        match text(line, "terminal_reason") {
            Some("completed") => false,
            Some(reason) if reason.starts_with("aborted") || reason == "interrupted" => true,
            _ => self.interrupt_requested || self.turn.as_ref().is_some_and(|turn| turn.interrupt_marked),
        }
    }

    fn interrupted(&mut self, line: &Value, out: &mut Translated) {
        self.interrupt_requested = false;
        self.subagents.end_foreground("The turn was interrupted", out);
        out.notice("interrupted", "The turn was interrupted", line);
        self.calls.clear();
        if self.turn.take().is_some() {
            out.signals.push(Signal::TurnEnded(TurnEnd::Interrupted));
        }
    }

    fn failed(&mut self, line: &Value, subtype: &str, out: &mut Translated) {
        let terminal = text(line, "terminal_reason");
        // `success` with an error flag: the terminal reason describes what happened.
        let reason = if subtype.starts_with("error") { subtype } else { terminal.unwrap_or(subtype) };
        // A conversation without any answer cannot be full: its first prompt is too long, and would fail in a
        // continuation as well. `blocking_limit` means that the runtime refused a prompt that would not fit.
        let is_full = matches!(terminal, Some("prompt_too_long" | "blocking_limit"));
        if is_full && self.meter.has_window() {
            out.push(RawEvent::ContextExhausted {});
        }
        let errors: Vec<&str> = line
            .get("errors")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let message =
            if errors.is_empty() { text(line, "result").map(str::to_owned) } else { Some(errors.join("; ")) };
        self.fail(reason, message, out);
    }

    /// Ends the conversation with an error, together with its turn and subagents.
    pub(super) fn fail(&mut self, reason: &str, message: Option<String>, out: &mut Translated) {
        self.subagents.end_all("The agent's conversation ended", out);
        self.interrupt_requested = false;
        self.ended = true;
        self.calls.clear();
        let message = message.filter(|message| !message.trim().is_empty());
        out.push(RawEvent::SessionEnd(SessionEnd {
            is_error: true,
            reason: reason.to_owned(),
            message,
            output: None,
        }));
        if self.turn.take().is_some() {
            out.signals.push(Signal::TurnEnded(TurnEnd::Failed));
        }
    }

    /// Ends the turn if it has a result and no subagent is running.
    pub(super) fn complete_if_idle(&mut self, out: &mut Translated) {
        if self.subagents.any_open() || !self.turn.as_ref().is_some_and(|turn| turn.result_seen) {
            return;
        }
        if let Some(turn) = self.turn.take() {
            if std::mem::take(&mut self.interrupt_requested) {
                // The main loop had finished; the interrupt ended the subagents that kept the turn open.
                out.notice("interrupted", "The turn was interrupted", &Value::Null);
                out.signals.push(Signal::TurnEnded(TurnEnd::Interrupted));
                return;
            }
            // Not reported by the runtime. Output comes through the agent API.
            out.push(RawEvent::TurnCompleted { turn_id: turn.id, output: None, outcome: turn.outcome });
            out.signals.push(Signal::TurnEnded(TurnEnd::Completed));
        }
    }

    /// Publishes denials that no tool result reported. The result of the turn lists all of them.
    fn denials(&mut self, line: &Value, out: &mut Translated) {
        let denials = line.get("permission_denials").and_then(Value::as_array);
        for denial in denials.into_iter().flatten() {
            let call = text(denial, "tool_use_id").unwrap_or_default();
            self.deny(call, text(denial, "tool_name"), None, denial, out);
        }
    }

    /// Publishes the denial of a tool call once.
    pub(super) fn deny(
        &mut self,
        call: &str,
        tool: Option<&str>,
        why: Option<&str>,
        detail: &Value,
        out: &mut Translated,
    ) {
        if !call.is_empty() && !self.denied.insert(call.to_owned()) {
            return;
        }
        let tool = tool.unwrap_or("A tool");
        let summary = match why.map(one_line).filter(|why| !why.is_empty()) {
            Some(why) => format!("{tool} was not allowed: {why}"),
            None => format!("{tool} was not allowed"),
        };
        out.notice("permission_denied", summary, detail);
    }

    pub(super) fn command_lifecycle(&mut self, line: &Value, out: &mut Translated) {
        let state = match text(line, "state") {
            Some("queued") => MessageState::Queued,
            Some("started") => MessageState::Started,
            Some("completed") => MessageState::Completed,
            Some("cancelled" | "canceled") => MessageState::Cancelled,
            _ => return out.unknown("command_lifecycle", line),
        };
        let Some(uuid) = text(line, "command_uuid") else { return out.unknown("command_lifecycle", line) };
        let message: Option<MessageId> = uuid.parse().ok();
        match state {
            // Without an open turn, this message begins the next one.
            MessageState::Queued | MessageState::Started if self.turn.is_none() => {
                self.next_message = message;
            }
            MessageState::Started | MessageState::Cancelled | MessageState::Completed
                if self.next_message == message =>
            {
                self.next_message = None;
            }
            _ => {}
        }
        out.signals.push(Signal::Message { uuid: uuid.to_owned(), state });
        out.ignore(Ignored::CommandLifecycle);
    }

    /// Handles an exception of the SDK, which repeats the preceding result with an error.
    pub(super) fn thrown(&mut self, line: &Value, out: &mut Translated) {
        if self.ended {
            out.ignore(Ignored::RepeatedThrow);
        } else {
            self.fail("process_error", text(line, "__throw").map(str::to_owned), out);
        }
    }
}

/// Limits that end a turn without ending the conversation (decision 39).
fn limit(subtype: &str) -> Option<SessionOutcome> {
    match subtype {
        "error_max_turns" => Some(SessionOutcome::MaxIterations),
        "error_max_budget_usd" => Some(SessionOutcome::BudgetExceeded),
        _ => None,
    }
}
