//! Where turns and the conversation begin and end (rulings 18 and 19).

use pilothouse_domain::value::SessionOutcome;
use pilothouse_domain::{MessageId, TurnId};
use pilothouse_wire::event::{RawEvent, SessionEnd};
use serde_json::Value;

use super::Ignored;
use super::json::{flag, one_line, text};
use super::options::turn_id_text;
use super::translated::{MessageState, Signal, Translated, TurnEnd};
use super::translator::{Translator, Turn};

impl Translator {
    /// The main loop does something: a turn is open from here on.
    pub(super) fn main_loop_works(&mut self, out: &mut Translated) {
        if self.compacting {
            return;
        }
        if let Some(turn) = &mut self.turn {
            // After a result with subagents still at work: the same turn goes on and will have another result.
            turn.result_seen = false;
            return;
        }
        self.turns += 1;
        // The prefix was checked with the largest number, so this is always an id.
        let Ok(id) = TurnId::parse(turn_id_text(&self.turn_prefix, self.turns)) else { return };
        self.ended = false;
        self.turn = Some(Turn {
            id: id.clone(),
            result_seen: false,
            interrupt_marked: false,
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
        if std::mem::take(&mut self.compacting) && self.turn.is_none() {
            return self.compaction_ended(line, is_error, out);
        }
        if self.was_interrupted(line) {
            self.interrupted(line, out);
        } else if is_error && self.out_of_quota(line, out) {
        } else if is_error && limit.is_none() {
            self.failed(line, subtype, out);
        } else if let Some(turn) = &mut self.turn {
            turn.result_seen = true;
            turn.outcome = limit.unwrap_or_default();
            if limit.is_some() {
                // Nothing of it goes on by itself; what the SDK throws after it says nothing new.
                self.ended = true;
                self.calls.clear();
                self.subagents.end_all("The turn reached a limit", out);
            }
            // An interrupt came too late for the main loop, which had its result. It still ends whom the turn is open for, and
            // then that is how the turn ends, whichever of the two is told first.
            self.interrupt_requested &= self.subagents.any_open();
            self.complete_if_idle(out);
            if out.events.is_empty() {
                // Only subagents keep the turn open, and nothing was spent since the last report.
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

    /// Whether a result is that of an interrupt. The runtime's own word counts most; a turn that was completed
    /// before the interrupt reached it is a completed turn (ruling 17).
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
        // `success` with an error flag: the terminal reason is the runtime's word for what happened.
        let reason = if subtype.starts_with("error") { subtype } else { terminal.unwrap_or(subtype) };
        // A conversation that never had an answer cannot be full: then the first prompt alone is too long, and a
        // continuation with the same prompt would fail in the same way.
        // The runtime also refuses by itself what would not fit (`blocking_limit`).
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

    /// The conversation ends in an error, and with it the turn and everybody who works in it.
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

    /// Ends the turn when its result is there and nobody works for it any more.
    pub(super) fn complete_if_idle(&mut self, out: &mut Translated) {
        if self.subagents.any_open() || !self.turn.as_ref().is_some_and(|turn| turn.result_seen) {
            return;
        }
        if let Some(turn) = self.turn.take() {
            if std::mem::take(&mut self.interrupt_requested) {
                // The main result was there; the interrupt ended whom the turn was still open for.
                out.notice("interrupted", "The turn was interrupted", &Value::Null);
                out.signals.push(Signal::TurnEnded(TurnEnd::Interrupted));
                return;
            }
            // The runtime never says what a turn produced; output comes through the agent API.
            out.push(RawEvent::TurnCompleted { turn_id: turn.id, output: None, outcome: turn.outcome });
            out.signals.push(Signal::TurnEnded(TurnEnd::Completed));
        }
    }

    /// Denials that no tool result told: the result of the turn lists them all.
    fn denials(&mut self, line: &Value, out: &mut Translated) {
        let denials = line.get("permission_denials").and_then(Value::as_array);
        for denial in denials.into_iter().flatten() {
            let call = text(denial, "tool_use_id").unwrap_or_default();
            self.deny(call, text(denial, "tool_name"), None, denial, out);
        }
    }

    /// Tells once that the call of a tool was denied.
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
            // With no turn open, this message is what the next one answers.
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

    /// The SDK threw. It does so after every result with an error, which has told it already.
    pub(super) fn thrown(&mut self, line: &Value, out: &mut Translated) {
        if self.ended {
            out.ignore(Ignored::RepeatedThrow);
        } else {
            self.fail("process_error", text(line, "__throw").map(str::to_owned), out);
        }
    }
}

/// The limits that end a turn without ending the conversation (ruling 39).
fn limit(subtype: &str) -> Option<SessionOutcome> {
    match subtype {
        "error_max_turns" => Some(SessionOutcome::MaxIterations),
        "error_max_budget_usd" => Some(SessionOutcome::BudgetExceeded),
        _ => None,
    }
}
