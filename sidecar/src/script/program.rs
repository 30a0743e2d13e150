//! Scripts as a flat list of instructions, so that a position in them is a number.

use std::time::Duration;

use pilothouse_domain::value::SessionOutput;
use pilothouse_domain::{InvalidId, SubAgentId, ToolCallId, Usd};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, Content, SessionEnd};
use serde_json::{Value, json};

use super::format::{self, Crash, Step};
use crate::faults::Ignore;
use crate::spool::Delivery;

/// One thing to do.
#[derive(Debug, Clone)]
pub(super) enum Instruction {
    Emit(Body, Delivery),
    /// Two events whose envelopes are sent in the wrong order.
    EmitSwapped(Body, Body),
    /// Everything that one recorded line told.
    EmitAll(Vec<RawEvent>),
    TurnStart {
        /// Whether the rest of the turn stands outside the program.
        inserted: bool,
    },
    Output(SessionOutput),
    TurnEnd,
    Usage(format::Usage, Option<SubAgentId>),
    /// A call that is priced before it is made.
    Price(Usd),
    Wait(Duration),
    /// `earlier`: a message that came earlier in the turn will do, as in a recording, whose reader cannot know when.
    AwaitMessage {
        earlier: bool,
    },
    AwaitCommand(String),
    /// `result`: the answer becomes the result of the call; a recording brings its own.
    AwaitAnswer {
        call: ToolCallId,
        result: bool,
    },
    AwaitDecision {
        call: ToolCallId,
        result: bool,
    },
    /// Shows a plan and waits, again for each revision as long as it is rejected.
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

/// The body of an envelope.
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

/// A script that cannot be played.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramError {
    #[error("a turn stands inside a turn")]
    NestedTurn,
    #[error("`{0}` takes steps that are events, and at least one")]
    NotEvents(&'static str),
    #[error("a subagent cannot do this: {0}")]
    NotForSubagents(String),
    #[error("the script repeats itself into more than {MOST_INSTRUCTIONS} instructions")]
    TooLong,
    #[error(transparent)]
    Id(#[from] InvalidId),
}

/// The most instructions of a program.
const MOST_INSTRUCTIONS: usize = 1_000_000;

/// Flattens `steps`. Ids that the script does not give are counted after `prefix`.
pub(super) fn compile(steps: &[Step], prefix: &str) -> Result<Vec<Instruction>, ProgramError> {
    let mut compiler = Compiler { prefix, counted: 0, program: Vec::new(), in_turn: false, subagent: None };
    compiler.steps(steps)?;
    Ok(compiler.program)
}

struct Compiler<'a> {
    prefix: &'a str,
    counted: u64,
    program: Vec<Instruction>,
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
        if self.program.len() > MOST_INSTRUCTIONS {
            return Err(ProgramError::TooLong);
        }
        let for_subagents =
            matches!(step, Step::Say(_) | Step::Think(_) | Step::Tool(_) | Step::Usage(_) | Step::Wait(_));
        if self.subagent.is_some() && !for_subagents {
            return Err(ProgramError::NotForSubagents(format!("{step:?}").chars().take(60).collect()));
        }
        match step {
            Step::Turn(turn) => self.turn(turn)?,
            Step::Say(text) => self.say(AssistantContent::Text { text: Content::from(text.as_str()) }),
            Step::Think(text) => self.say(AssistantContent::Thinking { text: Content::from(text.as_str()) }),
            Step::Tool(tool) => self.tool(tool)?,
            Step::Subagent(subagent) => self.subagent(subagent)?,
            Step::Usage(usage) => self.program.push(Instruction::Usage(usage.clone(), self.subagent.clone())),
            Step::Price(needed) => self.program.push(Instruction::Price(*needed)),
            Step::Tasks(tasks) => self.emit(RawEvent::TaskList { tasks: tasks.clone() }),
            Step::Question(ask) => {
                let call = self.call(ask.id.as_ref())?;
                self.tool_use(&call, "AskUserQuestion", json!({ "questions": ask.questions }));
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
            Step::Log(log) => {
                self.emit(RawEvent::LogChunk { stream: log.stream.clone(), content: log.text.clone() });
            }
            Step::Notice(note) => self.emit(RawEvent::Notice {
                name: note.name.clone(),
                summary: note.summary.clone(),
                detail: note.detail.clone(),
            }),
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
            // All others are no faults, and were compiled before.
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

    /// As an agent does it: the call of a tool starts the subagent, and its end is the call's result.
    fn subagent(&mut self, subagent: &format::Subagent) -> Result<(), ProgramError> {
        let call = self.call(None)?;
        let given = subagent.id.clone();
        let id = given.map_or_else(|| SubAgentId::parse(self.count("subagent")), Ok)?;
        self.tool_use(&call, "Task", json!({ "prompt": subagent.objective }));
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
        self.emit(RawEvent::SubagentEnded { subagent_id: id, failure: subagent.failure.clone() });
        self.emit(RawEvent::ToolResult {
            tool_call_id: call,
            content: Content::Text(subagent.failure.clone().unwrap_or_else(|| "done".into())),
            is_error: subagent.failure.is_some(),
            subagent_id: None,
        });
        Ok(())
    }

    /// The bodies of steps that are events and nothing else.
    fn events(&mut self, what: &'static str, steps: &[Step]) -> Result<Vec<Body>, ProgramError> {
        let from = self.program.len();
        self.steps(steps)?;
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
        compile(&serde_json::from_value::<Vec<Step>>(script).unwrap(), "1")
    }

    #[test]
    fn ids_are_counted_and_the_same_each_time() {
        let script = json!([{ "tool": { "name": "Bash", "result": "ok" } }, { "tool": { "name": "Read" } }]);
        let text = format!("{:?}", compiled(script.clone()).unwrap());
        assert!(text.contains("call-1-1") && text.contains("call-1-2"));
        assert_eq!(text, format!("{:?}", compiled(script).unwrap()));
    }

    #[test]
    fn nonsense_is_refused() {
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
    fn a_turn_takes_its_output_along() {
        let turn = json!([{ "turn": { "steps": [{ "say": "hi" }], "output": { "filesChanged": 2 } } }]);
        let program = compiled(turn).unwrap();
        assert!(matches!(
            &program[..],
            [Instruction::TurnStart { inserted: false }, Instruction::Emit(..), Instruction::Output(o), Instruction::TurnEnd]
                if o.files_changed == 2
        ));
    }
}
