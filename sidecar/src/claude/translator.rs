//! The state machine.

use std::collections::{HashMap, HashSet};

use pilothouse_domain::value::SessionOutcome;
use pilothouse_domain::{MessageId, TurnId};
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use super::Ignored;
use super::json::{first_text, flag, text};
use super::options::Options;
use super::quota::UsedUp;
use super::subagents::{Beginning, Subagents};
use super::task_list::TaskFold;
use super::translated::Translated;
use super::usage::{Meter, Totals};

/// Turns the lines of one conversation into raw events, in order. One translator a run of the runtime.
#[derive(Debug)]
pub struct Translator {
    pub(super) turn_prefix: String,
    pub(super) turns: u64,
    pub(super) turn: Option<Turn>,
    /// A user's message that will open the next turn.
    pub(super) next_message: Option<MessageId>,
    pub(super) interrupt_requested: bool,
    /// `session_end` was told, and no turn began since.
    pub(super) ended: bool,
    pub(super) meter: Meter,
    pub(super) subagents: Subagents,
    pub(super) tasks: TaskFold,
    /// Calls without a result yet, by id.
    pub(super) calls: HashMap<String, Call>,
    /// Calls whose denial was told.
    pub(super) denied: HashSet<String>,
    /// What begins is the adapter's own doing and no turn: a compaction between turns.
    pub(super) compacting: bool,
    /// Why that failed.
    pub(super) compaction_failure: Option<String>,
    /// The plan that pays for the runtime refuses it, as far as is known: the runtime tells changes of it alone.
    pub(super) quota: Option<UsedUp>,
}

/// A turn under way.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: TurnId,
    /// The main result is there; only subagents keep the turn open (ruling 18).
    pub(super) result_seen: bool,
    /// The runtime wrote into the conversation that it was interrupted.
    pub(super) interrupt_marked: bool,
    /// How the main result said that it ended.
    pub(super) outcome: SessionOutcome,
}

/// A tool call of the main loop.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) input: Value,
}

impl Translator {
    /// A translator for one run of the runtime.
    pub fn new(options: Options) -> Self {
        Self {
            meter: Meter::new(&options),
            turn_prefix: options.turn_prefix,
            turns: 0,
            turn: None,
            next_message: None,
            interrupt_requested: false,
            ended: false,
            subagents: Subagents::default(),
            tasks: TaskFold::default(),
            calls: HashMap::new(),
            denied: HashSet::new(),
            compacting: false,
            compaction_failure: None,
            quota: None,
        }
    }

    /// Translates one line: an SDK message, or a line of the binary's standard output.
    pub fn line(&mut self, line: &Value) -> Translated {
        let mut out = Translated::default();
        if let Some(id) = text(line, "session_id") {
            self.meter.session(id);
        }
        match text(line, "type") {
            Some("assistant") => self.assistant(line, &mut out),
            Some("user") => self.user(line, &mut out),
            Some("result") => self.result(line, &mut out),
            Some("system") => self.system(line, &mut out),
            Some("stream_event") => self.stream_event(line, &mut out),
            Some("command_lifecycle") => self.command_lifecycle(line, &mut out),
            Some("rate_limit_event") => self.rate_limit(line, &mut out),
            Some("tool_progress") => out.ignore(Ignored::ToolProgress),
            Some("keep_alive") => out.ignore(Ignored::KeepAlive),
            Some("control_request") => super::control::request(line, &mut out),
            Some("control_response") => out.ignore(Ignored::ControlResponse),
            Some("control_cancel_request") => out.ignore(Ignored::ControlCancel),
            Some(other) => out.unknown(other, line),
            None if line.get("__marker").is_some() => out.ignore(Ignored::RecorderMarker),
            None if line.get("__throw").is_some() => self.thrown(line, &mut out),
            None => out.unknown("line", line),
        }
        if out.events.is_empty() {
            if out.ignored.is_none() {
                out.unknown(text(line, "type").unwrap_or("line"), line);
            }
        } else {
            out.ignored = None;
        }
        out
    }

    /// The runtime is gone. Between turns that is no event: the conversation can be taken up again. Within one, the
    /// conversation ended in an error.
    pub fn finish(&mut self) -> Vec<RawEvent> {
        let mut out = Translated::default();
        if self.turn.is_some() || self.subagents.any_open() {
            let message = "The agent's process ended in the middle of a turn";
            self.fail("stream_ended", Some(message.to_owned()), &mut out);
        }
        out.events
    }

    /// The adapter asked the runtime to interrupt: the next result that does not say that it was completed is the
    /// interrupt's, whatever word the runtime has for it.
    pub const fn interrupt_requested(&mut self) {
        self.interrupt_requested = true;
    }

    /// The next turn, if none is open, is begun by this message.
    pub const fn opens_turn(&mut self, message: MessageId) {
        if self.turn.is_none() {
            self.next_message = Some(message);
        }
    }

    /// What the runtime does from here on, until its next result, is no turn: a compaction that the adapter asked for
    /// between turns, or a prompt that was refused.
    pub fn no_turn(&mut self) {
        self.compacting = true;
        self.compaction_failure = None;
    }

    /// The turn ends as an interrupted one although the runtime gave no result: it had stopped already, or it is gone.
    pub fn abandon_turn(&mut self) -> Vec<RawEvent> {
        let mut out = Translated::default();
        self.interrupt_requested = false;
        self.compacting = false;
        self.calls.clear();
        self.subagents.end_all("The turn was interrupted", &mut out);
        if self.turn.take().is_some() {
            out.notice("interrupted", "The turn was interrupted", &Value::Null);
        }
        out.events
    }

    /// What the runtime says that its process has spent so far (the answer to `get_usage`).
    pub fn usage(&mut self, session: &Value) -> Vec<RawEvent> {
        let mut out = Translated::default();
        self.meter.session_totals(session, &mut out);
        out.events
    }

    /// A process takes the conversation up. `session` is what it says at its beginning that was spent: a process that
    /// counts from zero goes on where the one before it ended (ruling 31).
    pub fn process_begins(&mut self, session: &Value) {
        self.meter.process_begins(session);
    }

    /// The conversation is lost, and another one begins: its meter and its tasks count from zero, its turns go on. Between
    /// turns alone.
    pub fn begin_anew(&mut self) {
        self.meter.begin_anew();
        self.tasks = TaskFold::default();
        self.calls.clear();
        self.denied.clear();
    }

    /// An interrupt is over, whatever came of it: what ends in an error from here on is an error.
    pub const fn interrupt_over(&mut self) {
        self.interrupt_requested = false;
    }

    /// Whether the main loop is at work: a turn is open, and its main result has not come.
    pub fn main_loop_is_open(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| !turn.result_seen)
    }

    /// The subagents that work.
    pub fn open_subagents(&self) -> impl Iterator<Item = &str> {
        self.subagents.open()
    }

    /// Whether the main loop made that call and has no result of it yet.
    pub fn has_call(&self, call: &str) -> bool {
        self.calls.contains_key(call)
    }

    /// The turn under way.
    pub fn turn_id(&self) -> Option<&TurnId> {
        self.turn.as_ref().map(|turn| &turn.id)
    }

    /// The runtime's id of the conversation: what `--resume` takes, and the meter's id.
    pub fn session_id(&self) -> Option<&str> {
        self.meter.session_id()
    }

    /// The totals so far, to be handed to [`Options::continued`] when the conversation is taken up again. None: it
    /// was taken up, and no result told them yet.
    pub const fn totals(&self) -> Option<&Totals> {
        self.meter.totals()
    }

    fn stream_event(&mut self, line: &Value, out: &mut Translated) {
        out.ignore(Ignored::PartialMessage);
        if text(line, "parent_tool_use_id").is_some() {
            return;
        }
        let Some(event) = line.get("event") else { return };
        match text(event, "type") {
            Some("message_start") => {
                self.main_loop_works(out);
                if let Some(message) = event.get("message") {
                    self.meter.message_start(message);
                }
            }
            Some("message_delta") => {
                if let Some(usage) = event.get("usage") {
                    self.meter.message_delta(usage, out);
                }
            }
            _ => {}
        }
    }

    /// The subagent that a line with `parent_tool_use_id` belongs to; begun here if nothing told of it before.
    pub(super) fn subagent_of(
        &mut self,
        parent: &str,
        line: &Value,
        out: &mut Translated,
    ) -> Option<pilothouse_domain::SubAgentId> {
        if let Some(id) = self.subagents.of_call(parent) {
            return Some(id);
        }
        let call = self.calls.get(parent);
        let input = call.map_or(&Value::Null, |call| &call.input);
        let beginning = Beginning {
            task_id: text(line, "agent_id"),
            call: Some(parent),
            model: text(input, "model"),
            objective: first_text(input, &["prompt", "description"])
                .or_else(|| text(line, "task_description")),
            in_background: flag(input, "run_in_background"),
        };
        self.subagents.begin(&beginning, out)
    }
}
