//! Compiles a script to a flat list of instructions, so that a position in it is a number.

use std::time::Duration;

use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::{InvalidId, SubAgentId, ToolCallId, Usd};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, Content, SessionEnd};
use serde_json::{Value, json};

use super::format::{self, Crash, Step};
use crate::faults::Ignore;
use crate::kit::authorizer::ProposedCall;
use crate::kit::notices;
use crate::spool::Delivery;
use crate::tool_names::{ASK_USER_QUESTION, OWN_TOOLS, is_exempt};

#[derive(Debug, Clone)]
pub(super) enum Instruction {
    Emit(Body, Delivery),
    /// Two events whose envelopes are sent in the wrong order.
    EmitSwapped(Body, Body),
    /// The raw events of one recorded line.
    EmitAll(Vec<RawEvent>),
    TurnStart {
        /// Whether the rest of the turn is outside the program.
        inserted: bool,
    },
    Output(SessionOutput),
    TurnEnd,
    Usage(format::Usage, Option<SubAgentId>),
    /// A call that is priced before it is made.
    Price(Usd),
    Draft(String),
    Wait(Duration),
    /// A call that needs a verdict of the control plane before it runs.
    GovernedCall(Box<GovernedTool>),
    /// A published call that starts a subagent. If the policy of the brief does not allow it, `steps` instructions are skipped.
    Delegate {
        call: ToolCallId,
        subagent: SubAgentId,
        steps: usize,
    },
    /// A published call of an own tool, which runs now.
    OwnTool(ProposedCall),
    /// `earlier`: a message from earlier in the turn suffices. Set for recordings, where a person cannot know when to
    /// send it.
    AwaitMessage {
        earlier: bool,
    },
    AwaitCommand(String),
    /// `result`: the answer becomes the result of the call. A recording contains the result.
    AwaitAnswer {
        call: ToolCallId,
        result: bool,
    },
    AwaitDecision {
        call: ToolCallId,
        result: bool,
    },
    /// Submits a plan and waits for the decision; submits each revision while the owner rejects it.
    Plan {
        call: ToolCallId,
        texts: Vec<String>,
    },
    Silence(Duration),
    Crash(Crash),
    Ignore(String, Ignore),
    AfterStop(String, Vec<Body>),
    End(SessionEnd),
}

/// A published tool call, its duration and its result.
#[derive(Debug, Clone)]
pub(super) struct GovernedTool {
    pub call: ProposedCall,
    pub time: Duration,
    /// `None`: the call stays open.
    pub result: Option<Content>,
    pub is_error: bool,
    pub subagent: Option<SubAgentId>,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    Event(Box<RawEvent>),
    Malformed(Value),
}

impl From<RawEvent> for Body {
    fn from(event: RawEvent) -> Self {
        Self::Event(Box::new(event))
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramError {
    #[error("a turn contains another turn")]
    NestedTurn,
    #[error("`{0}` takes steps that are events, and at least one")]
    NotEvents(&'static str),
    #[error("a subagent cannot do this: {0}")]
    NotForSubagents(String),
    #[error("the script takes more than {} MiB once every `repeat` is expanded; repeat less often", MAX_BYTES >> 20)]
    TooLong,
    #[error(transparent)]
    Id(#[from] InvalidId),
}

/// Memory limit of a program's instructions, as estimated by [`expanded_bytes`].
const MAX_BYTES: u64 = 16 << 20;
/// Memory of one step in addition to its texts: its instructions and their heap allocations.
const STEP_BYTES: u64 = 512;

/// Numbers missing ids after `prefix`. `governed`: tool calls need verdicts of the control plane.
pub(super) fn compile(
    steps: &[Step],
    prefix: &str,
    governed: bool,
) -> Result<Vec<Instruction>, ProgramError> {
    // Checked before the expansion, because a few nested repeats can exceed a machine's memory.
    if expanded_bytes(steps) > MAX_BYTES {
        return Err(ProgramError::TooLong);
    }
    let mut compiler =
        Compiler { prefix, counted: 0, program: Vec::new(), governed, in_turn: false, subagent: None };
    compiler.steps(steps)?;
    Ok(compiler.program)
}

/// Estimates the memory of the instructions of `steps` from the size of their JSON.
fn expanded_bytes(steps: &[Step]) -> u64 {
    steps.iter().map(expanded_bytes_of).fold(0, u64::saturating_add)
}

fn expanded_bytes_of(step: &Step) -> u64 {
    let parts = match step {
        Step::Repeat(repeat) => {
            // A round without steps takes time, although no memory.
            let round = expanded_bytes(&repeat.steps).max(STEP_BYTES);
            return round.saturating_mul(u64::from(repeat.times));
        }
        Step::Turn(turn) => expanded_bytes(&turn.steps).saturating_add(json_bytes(&turn.output)),
        Step::Subagent(subagent) => {
            let own = json_bytes(&(&subagent.objective, &subagent.model, &subagent.failure));
            expanded_bytes(&subagent.steps).saturating_add(own).saturating_add(STEP_BYTES)
        }
        Step::Duplicate(step) => expanded_bytes_of(step),
        Step::Gap(gap) => expanded_bytes_of(&gap.step),
        Step::Reorder(steps) => expanded_bytes_of(&steps.0).saturating_add(expanded_bytes_of(&steps.1)),
        Step::AfterStop(after) => expanded_bytes(&after.steps),
        leaf => json_bytes(leaf),
    };
    parts.saturating_add(STEP_BYTES)
}

fn json_bytes(value: &impl serde::Serialize) -> u64 {
    serde_json::to_vec(value).map_or(u64::MAX, |json| json.len() as u64)
}

struct Compiler<'a> {
    prefix: &'a str,
    counted: u64,
    program: Vec<Instruction>,
    governed: bool,
    in_turn: bool,
    subagent: Option<SubAgentId>,
}

impl Compiler<'_> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), ProgramError> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn emit(&mut self, body: impl Into<Body>) {
        self.program.push(Instruction::Emit(body.into(), Delivery::Normal));
    }

    fn say(&mut self, content: AssistantContent) {
        self.emit(match self.subagent.clone() {
            Some(subagent_id) => RawEvent::SubagentMessage { subagent_id, content },
            None => RawEvent::AssistantMessage { content, turn_id: None },
        });
    }

    fn count(&mut self, kind: &str) -> String {
        self.counted += 1;
        format!("{kind}-{}-{}", self.prefix, self.counted)
    }

    fn call(&mut self, given: Option<&ToolCallId>) -> Result<ToolCallId, InvalidId> {
        given.map_or_else(|| ToolCallId::parse(self.count("call")), |id| Ok(id.clone()))
    }

    fn tool_use(&mut self, call: &ToolCallId, name: &str, input: Value) {
        self.say(AssistantContent::ToolUse { tool_call_id: call.clone(), tool_name: name.into(), input });
    }

    fn step(&mut self, step: &Step) -> Result<(), ProgramError> {
        let for_subagents =
            matches!(step, Step::Say(_) | Step::Think(_) | Step::Tool(_) | Step::Usage(_) | Step::Wait(_));
        if self.subagent.is_some() && !for_subagents {
            let written = serde_json::to_string(step).unwrap_or_default();
            return Err(ProgramError::NotForSubagents(written.chars().take(60).collect()));
        }
        match step {
            Step::Turn(turn) => self.turn(turn)?,
            Step::Say(text) => self.say(AssistantContent::Text { text: Content::from(text.as_str()) }),
            Step::Think(text) => self.say(AssistantContent::Thinking { text: Content::from(text.as_str()) }),
            Step::Tool(tool) => self.tool(tool)?,
            Step::OwnTool(own) => {
                let id = self.call(own.id.as_ref())?;
                let (tool, arguments) = (own.name.clone(), own.input.clone());
                self.tool_use(&id, &format!("{OWN_TOOLS}{tool}"), arguments.clone());
                self.program.push(Instruction::OwnTool(ProposedCall { id, tool, kind: None, arguments }));
            }
            Step::Subagent(subagent) => self.subagent(subagent)?,
            Step::Usage(usage) => self.program.push(Instruction::Usage(usage.clone(), self.subagent.clone())),
            Step::Draft(text) => self.program.push(Instruction::Draft(text.clone())),
            Step::Price(needed) => self.program.push(Instruction::Price(*needed)),
            Step::Tasks(tasks) => self.emit(RawEvent::TaskList { tasks: tasks.clone() }),
            Step::Question(ask) => {
                let call = self.call(ask.id.as_ref())?;
                self.tool_use(&call, ASK_USER_QUESTION, json!({ "questions": ask.questions }));
                if ask.wait {
                    self.program.push(Instruction::AwaitAnswer { call, result: true });
                }
            }
            Step::Plan(plan) => {
                let call = self.call(plan.id.as_ref())?;
                let texts = std::iter::once(&plan.text).chain(&plan.revisions).cloned().collect();
                self.program.push(Instruction::Plan { call, texts });
            }
            Step::Output(output) => self.program.push(Instruction::Output(output.clone())),
            Step::Log(log) if log.text.is_empty() => {}
            Step::Log(log) => {
                self.emit(RawEvent::LogChunk { stream: log.stream.clone(), content: log.text.clone() });
            }
            Step::Notice(note) => self.emit(RawEvent::Notice {
                name: note.name.clone(),
                summary: note.summary.clone(),
                detail: note.detail.clone(),
            }),
            Step::Error(error) => self.emit(notices::agent_error(
                &error.message,
                json!({ "severity": error.severity, "category": error.category, "recoverable": true }),
            )),
            Step::Guardrail(trip) => self.emit(notices::guardrail(&trip.name, true, &trip.message, None)),
            Step::ContextExhausted {} => self.emit(RawEvent::ContextExhausted {}),
            Step::Handoff(document) => self.emit(RawEvent::HandoffDocument(document.clone())),
            Step::HandOver(over) => self.emit(RawEvent::VoluntaryHandoff {
                reason: over.reason.clone(),
                document: over.document.clone(),
            }),
            Step::Raw(event) => self.emit((**event).clone()),
            Step::End(end) => self.program.push(Instruction::End(session_end(end))),
            Step::Wait(ms) => self.program.push(Instruction::Wait(Duration::from_millis(*ms))),
            Step::WaitForMessage {} => self.program.push(Instruction::AwaitMessage { earlier: false }),
            Step::WaitForCommand(name) => self.program.push(Instruction::AwaitCommand(name.clone())),
            Step::WaitForAnswer(call) => {
                self.program.push(Instruction::AwaitAnswer { call: call.clone(), result: true });
            }
            Step::Repeat(repeat) => {
                for _ in 0..repeat.times {
                    self.steps(&repeat.steps)?;
                }
            }
            fault => self.fault(fault)?,
        }
        Ok(())
    }

    fn fault(&mut self, step: &Step) -> Result<(), ProgramError> {
        match step {
            Step::Malformed(body) => self.emit(Body::Malformed(body.clone())),
            Step::Duplicate(step) => self.delivered("duplicate", step, Delivery::Twice)?,
            Step::Gap(gap) => {
                let delivery = if gap.forever { Delivery::Never } else { Delivery::OnReplay };
                self.delivered("gap", &gap.step, delivery)?;
            }
            Step::Reorder(steps) => {
                let first = self.events("reorder", std::slice::from_ref(&steps.0))?;
                let second = self.events("reorder", std::slice::from_ref(&steps.1))?;
                let (Ok([first]), Ok([second])) =
                    (<[Body; 1]>::try_from(first), <[Body; 1]>::try_from(second))
                else {
                    return Err(ProgramError::NotEvents("reorder"));
                };
                self.program.push(Instruction::EmitSwapped(first, second));
            }
            Step::Silence(ms) => self.program.push(Instruction::Silence(Duration::from_millis(*ms))),
            Step::Crash(crash) => self.program.push(Instruction::Crash(*crash)),
            Step::Ignore(ignore) => {
                let how = if ignore.until_repeated { Ignore::Once } else { Ignore::Always };
                self.program.push(Instruction::Ignore(ignore.command.clone(), how));
            }
            Step::AfterStop(after) => {
                let events = self.events("afterStop", &after.steps)?;
                self.program.push(Instruction::AfterStop(after.command.clone(), events));
            }
            // All other steps are not faults, and were compiled above.
            _ => {}
        }
        Ok(())
    }

    fn turn(&mut self, turn: &format::Turn) -> Result<(), ProgramError> {
        if std::mem::replace(&mut self.in_turn, true) {
            return Err(ProgramError::NestedTurn);
        }
        self.program.push(Instruction::TurnStart { inserted: false });
        self.steps(&turn.steps)?;
        self.program.extend(turn.output.clone().map(Instruction::Output));
        self.program.push(Instruction::TurnEnd);
        self.in_turn = false;
        Ok(())
    }

    fn tool(&mut self, tool: &format::Tool) -> Result<(), ProgramError> {
        let call = self.call(tool.id.as_ref())?;
        self.tool_use(&call, &tool.name, tool.input.clone());
        if self.governed && !is_exempt(&tool.name) {
            let (name, arguments) = (tool.name.clone(), tool.input.clone());
            self.program.push(Instruction::GovernedCall(Box::new(GovernedTool {
                call: ProposedCall { id: call, tool: name, kind: None, arguments },
                time: Duration::from_millis(tool.ms),
                result: tool.result.clone(),
                is_error: tool.error,
                subagent: self.subagent.clone(),
            })));
            return Ok(());
        }
        if tool.ms > 0 {
            self.program.push(Instruction::Wait(Duration::from_millis(tool.ms)));
        }
        if let Some(content) = tool.result.clone() {
            let subagent_id = self.subagent.clone();
            self.emit(RawEvent::ToolResult {
                tool_call_id: call,
                content,
                is_error: tool.error,
                subagent_id,
            });
        }
        Ok(())
    }

    /// As with a real agent, a tool call starts the subagent, and the subagent's end is the call's result.
    fn subagent(&mut self, subagent: &format::Subagent) -> Result<(), ProgramError> {
        let call = self.call(None)?;
        let given = subagent.id.clone();
        let id = given.map_or_else(|| SubAgentId::parse(self.count("subagent")), Ok)?;
        self.tool_use(&call, "Task", json!({ "prompt": subagent.objective }));
        let at = self.program.len();
        self.emit(RawEvent::SubagentStarted {
            subagent_id: id.clone(),
            tool_call_id: Some(call.clone()),
            model_id: subagent.model.clone(),
            objective: subagent.objective.clone(),
        });
        self.subagent = Some(id.clone());
        let done = self.steps(&subagent.steps);
        self.subagent = None;
        done?;
        self.emit(RawEvent::SubagentEnded { subagent_id: id.clone(), failure: subagent.failure.clone() });
        self.emit(RawEvent::ToolResult {
            tool_call_id: call.clone(),
            content: Content::Text(subagent.failure.clone().unwrap_or_else(|| "done".into())),
            is_error: subagent.failure.is_some(),
            subagent_id: None,
        });
        if self.governed {
            let steps = self.program.len() - at;
            self.program.insert(at, Instruction::Delegate { call, subagent: id, steps });
        }
        Ok(())
    }

    /// The bodies of steps that consist of events only. A fault is sent without a verdict.
    fn events(&mut self, what: &'static str, steps: &[Step]) -> Result<Vec<Body>, ProgramError> {
        let from = self.program.len();
        let governed = std::mem::replace(&mut self.governed, false);
        let compiled = self.steps(steps);
        self.governed = governed;
        compiled?;
        let bodies: Option<Vec<_>> = self
            .program
            .drain(from..)
            .map(|i| if let Instruction::Emit(body, Delivery::Normal) = i { Some(body) } else { None })
            .collect();
        bodies.filter(|b| !b.is_empty()).ok_or(ProgramError::NotEvents(what))
    }

    fn delivered(&mut self, what: &'static str, step: &Step, delivery: Delivery) -> Result<(), ProgramError> {
        let bodies = self.events(what, std::slice::from_ref(step))?;
        self.program.extend(bodies.into_iter().map(|body| Instruction::Emit(body, delivery)));
        Ok(())
    }
}

fn session_end(end: &format::End) -> SessionEnd {
    let reason = end.reason.clone().unwrap_or_else(|| if end.error { "error" } else { "success" }.into());
    SessionEnd { is_error: end.error, reason, message: end.message.clone(), output: end.output.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(script: Value) -> Result<Vec<Instruction>, ProgramError> {
        compile(&serde_json::from_value::<Vec<Step>>(script).unwrap(), "1", false)
    }

    #[test]
    fn ids_are_sequential_and_reproducible() {
        let script = json!([{ "tool": { "name": "Bash", "result": "ok" } }, { "tool": { "name": "Read" } }]);
        let text = format!("{:?}", compiled(script.clone()).unwrap());
        assert!(text.contains("call-1-1") && text.contains("call-1-2"));
        assert_eq!(text, format!("{:?}", compiled(script).unwrap()));
    }

    #[test]
    fn invalid_script_is_refused() {
        let nested = json!([{ "turn": { "steps": [{ "turn": { "steps": [] } }] } }]);
        assert!(matches!(compiled(nested), Err(ProgramError::NestedTurn)));
        assert!(matches!(
            compiled(json!([{ "duplicate": { "wait": 1 } }])),
            Err(ProgramError::NotEvents("duplicate"))
        ));
        let subagent = json!([{ "subagent": { "objective": "x", "steps": [{ "end": {} }] } }]);
        assert!(matches!(compiled(subagent), Err(ProgramError::NotForSubagents(_))));
    }

    #[test]
    fn repeats_are_bounded_before_they_are_expanded() {
        let nested = |depth: u32, inner: Value| {
            (0..depth).fold(inner, |steps, _| json!([{ "repeat": { "times": u32::MAX, "steps": steps } }]))
        };
        let long = json!([{ "say": "x".repeat(100_000) }]);
        for script in [
            nested(1, json!([{ "say": "x" }])),
            nested(8, json!([{ "say": "x" }])),
            // Four thousand million rounds without any step.
            nested(2, json!([])),
            json!([{ "repeat": { "times": 1_000, "steps": long } }]),
            json!([{ "turn": { "steps": nested(2, json!([{ "wait": 1 }])) } }]),
            json!([{ "duplicate": { "repeat": { "times": 1_000_000, "steps": [{ "say": "x" }] } } }]),
            json!([{ "subagent": { "objective": "x", "steps": nested(1, json!([{ "say": "x" }])) } }]),
        ] {
            let begun = std::time::Instant::now();
            assert!(matches!(compiled(script), Err(ProgramError::TooLong)));
            assert!(begun.elapsed() < Duration::from_secs(1), "it was expanded first");
        }
        let many = json!([{ "repeat": { "times": 10_000, "steps": [{ "say": "x" }, { "wait": 1 }] } }]);
        assert_eq!(compiled(many).unwrap().len(), 20_000);
    }

    #[test]
    fn turn_includes_its_output() {
        let turn = json!([{ "turn": { "steps": [{ "say": "hi" }], "output": { "filesChanged": 2 } } }]);
        let program = compiled(turn).unwrap();
        assert!(matches!(
            &program[..],
            [Instruction::TurnStart { inserted: false }, Instruction::Emit(..), Instruction::Output(o), Instruction::TurnEnd]
                if o.files_changed == 2
        ));
    }
}
