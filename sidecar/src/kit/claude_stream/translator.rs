use std::collections::{HashMap, HashSet, VecDeque};

use pilothouse_domain::value::{DraftKind, SessionOutcome};
use pilothouse_domain::{MessageId, Timestamp, TurnId};
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use super::Ignored;
use super::options::Options;
use super::subagents::{SubagentStart, Subagents};
use super::task_list::TaskFold;
use super::translated::Translated;
use super::usage::Meter;
use crate::kit::json::{first_text, flag, text};
use crate::kit::usage::Totals;

#[derive(Debug, Clone, Copy)]
pub(super) struct UsedUp {
    /// When it resets, if the runtime reported it.
    pub(super) until: Option<Timestamp>,
}

/// Translates the lines of one conversation to raw events, in order. Each run of the runtime needs a new translator.
#[derive(Debug)]
pub struct Translator {
    pub(super) turn_prefix: String,
    pub(super) turns: u64,
    pub(super) turn: Option<Turn>,
    /// The user's message that will begin the next turn.
    pub(super) next_message: Option<MessageId>,
    pub(super) interrupt_requested: bool,
    /// `session_end` was published, and no turn has begun since.
    pub(super) ended: bool,
    pub(super) meter: Meter,
    pub(super) subagents: Subagents,
    pub(super) tasks: TaskFold,
    /// Calls without a result, by id.
    pub(super) calls: HashMap<String, Call>,
    /// Calls whose denial was published.
    pub(super) denied: HashSet<String>,
    /// Prompts that the runtime will process next and that do not begin turns. Each has a result.
    pub(super) no_turns: VecDeque<NoTurn>,
    /// Why a compaction failed.
    pub(super) compaction_failure: Option<String>,
    /// The exceeded quota. Kept, because the runtime reports only changes.
    pub(super) quota: Option<UsedUp>,
}

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: TurnId,
    /// The main loop has finished; only subagents keep the turn open (decision 18).
    pub(super) result_seen: bool,
    /// The runtime marked the conversation as interrupted.
    pub(super) interrupt_marked: bool,
    /// The interrupt has ended a subagent that kept the turn open.
    pub(super) subagent_interrupted: bool,
    /// The outcome in the main result.
    pub(super) outcome: SessionOutcome,
}

/// Work that begins like a turn and is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTurn {
    /// A compaction that the adapter requested.
    Compaction,
    /// A prompt of the runtime that the adapter refused.
    RefusedPrompt,
}

/// A tool call of the main loop.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) input: Value,
}

impl Translator {
    /// Creates a translator for one run of the runtime.
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
            no_turns: VecDeque::new(),
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

    /// Handles the end of the runtime. Between turns it produces no event, because the conversation can be resumed.
    /// Within a turn, the conversation ends with an error.
    pub fn finish(&mut self) -> Vec<RawEvent> {
        let mut out = Translated::default();
        if self.turn.is_some() || self.subagents.any_open() {
            let message = "The agent's process ended in the middle of a turn";
            self.fail("stream_ended", Some(message.to_owned()), &mut out);
        }
        out.events
    }

    /// Records that the adapter requested an interrupt. The next result without a completion belongs to the interrupt,
    /// whatever its reason.
    pub const fn interrupt_requested(&mut self) {
        self.interrupt_requested = true;
    }

    /// Records the message that begins the next turn, if no turn is open.
    pub const fn opens_turn(&mut self, message: MessageId) {
        if self.turn.is_none() {
            self.next_message = Some(message);
        }
    }

    pub fn compacts(&mut self) {
        self.no_turns.push_back(NoTurn::Compaction);
        self.compaction_failure = None;
    }

    /// Records that the current prompt is refused. Its remaining messages are not a turn.
    pub fn refuses_prompt(&mut self) {
        self.no_turns.push_front(NoTurn::RefusedPrompt);
    }

    /// Discards the work of an ended process. [`Self::finish`] or [`Self::abandon_turn`] end an open turn.
    pub fn process_ended(&mut self) {
        self.no_turns.clear();
    }

    /// Ends the turn as interrupted without a result of the runtime, which had already stopped or has ended.
    pub fn abandon_turn(&mut self) -> Vec<RawEvent> {
        let mut out = Translated::default();
        self.interrupt_requested = false;
        self.no_turns.clear();
        self.calls.clear();
        self.subagents.end_all("The turn was interrupted", &mut out);
        if self.turn.take().is_some() {
            out.notice("interrupted", "The turn was interrupted", &Value::Null);
        }
        out.events
    }

    /// Handles the spend that the runtime reports for its process (the response to `get_usage`).
    pub fn usage(&mut self, session: &Value) -> Vec<RawEvent> {
        let mut out = Translated::default();
        self.meter.session_totals(session, &mut out);
        out.events
    }

    /// Handles the start of a process that resumes the conversation. `session` is the spend that it reports: if it
    /// counts from zero, its spend is added to that of its predecessor (decision 31).
    pub fn process_begins(&mut self, session: &Value) {
        self.meter.process_begins(session);
    }

    /// Begins a new conversation in place of a lost one. Its meter and tasks start from zero; the numbering of turns
    /// continues. Only between turns.
    pub fn begin_anew(&mut self) {
        self.meter.begin_anew();
        self.tasks = TaskFold::default();
        self.calls.clear();
        self.denied.clear();
    }

    /// Records the end of an interrupt, whatever its result. Later errors count as errors again.
    pub const fn interrupt_over(&mut self) {
        self.interrupt_requested = false;
    }

    /// Whether a turn is open without its main result.
    pub fn main_loop_is_open(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| !turn.result_seen)
    }

    pub fn open_subagents(&self) -> impl Iterator<Item = &str> {
        self.subagents.open()
    }

    /// Whether a call of the main loop has no result yet.
    pub fn has_call(&self, call: &str) -> bool {
        self.calls.contains_key(call)
    }

    pub fn turn_id(&self) -> Option<&TurnId> {
        self.turn.as_ref().map(|turn| &turn.id)
    }

    /// The runtime's id of the conversation, which `--resume` accepts. It is also the meter's id.
    pub fn session_id(&self) -> Option<&str> {
        self.meter.session_id()
    }

    /// The totals so far, for [`Options::continued`] when the conversation is resumed. `None` in a resumed conversation
    /// before the first result.
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
            Some("content_block_delta") => {
                let delta = event.get("delta").unwrap_or(&Value::Null);
                let kind = [("text", DraftKind::Text), ("thinking", DraftKind::Thinking)];
                let written = kind.iter().find_map(|(field, kind)| Some((*kind, text(delta, field)?)));
                out.draft = written.map(|(kind, written)| (kind, written.to_owned()));
            }
            _ => {}
        }
    }

    /// The subagent of a line with `parent_tool_use_id`. Starts it if no earlier message did.
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
        let beginning = SubagentStart {
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
