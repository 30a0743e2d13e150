//! Tracks subagents.
//!
//! A subagent is identified by the runtime's task id (`agent_id` on its messages), and its messages refer to the tool
//! call that started it (`parent_tool_use_id`). `task_started` reports its start, and `task_updated` and
//! `task_notification` its end. For runtimes without those messages, start and end follow from the subagent's messages
//! and the call's result.

use pilothouse_domain::{SubAgentId, ToolCallId};
use pilothouse_wire::event::RawEvent;

use super::translated::Translated;

/// What is known when a subagent starts.
#[derive(Debug, Clone, Default)]
pub(super) struct SubagentStart<'a> {
    pub(super) task_id: Option<&'a str>,
    pub(super) call: Option<&'a str>,
    pub(super) model: Option<&'a str>,
    pub(super) objective: Option<&'a str>,
    pub(super) in_background: bool,
}

#[derive(Debug)]
struct Subagent {
    id: SubAgentId,
    call: Option<String>,
    in_background: bool,
    open: bool,
}

#[derive(Debug, Default)]
pub(super) struct Subagents {
    known: Vec<Subagent>,
}

impl Subagents {
    pub(super) fn any_open(&self) -> bool {
        self.known.iter().any(|subagent| subagent.open)
    }

    pub(super) fn open(&self) -> impl Iterator<Item = &str> {
        self.known.iter().filter(|subagent| subagent.open).map(|subagent| subagent.id.as_str())
    }

    /// Also restarts an ended subagent, which the runtime can wake up. `None` if it has no usable id.
    pub(super) fn begin(
        &mut self,
        beginning: &SubagentStart<'_>,
        out: &mut Translated,
    ) -> Option<SubAgentId> {
        let id = SubAgentId::parse(beginning.task_id.or(beginning.call)?).ok()?;
        let position = self.known.iter().position(|subagent| subagent.id == id);
        if let Some(subagent) = position.map(|at| &mut self.known[at]) {
            if beginning.call.is_some() {
                subagent.call = beginning.call.map(str::to_owned);
            }
            subagent.in_background |= beginning.in_background;
            if subagent.open {
                return Some(id);
            }
            subagent.open = true;
        } else {
            self.known.push(Subagent {
                id: id.clone(),
                call: beginning.call.map(str::to_owned),
                in_background: beginning.in_background,
                open: true,
            });
        }
        out.push(RawEvent::SubagentStarted {
            subagent_id: id.clone(),
            tool_call_id: beginning.call.and_then(|call| ToolCallId::parse(call).ok()),
            model_id: beginning.model.map(str::to_owned),
            objective: beginning.objective.unwrap_or("Not told by the agent").to_owned(),
        });
        Some(id)
    }

    /// The subagent that a tool call started.
    pub(super) fn of_call(&self, call: &str) -> Option<SubAgentId> {
        self.known.iter().rev().find(|s| s.call.as_deref() == Some(call)).map(|s| s.id.clone())
    }

    pub(super) fn knows(&self, task: &str) -> bool {
        self.known.iter().any(|subagent| subagent.id.as_str() == task)
    }

    /// The result of the call is not the end of a subagent in the background.
    pub(super) fn backgrounded(&mut self, task: &str) {
        for subagent in self.known.iter_mut().filter(|s| s.id.as_str() == task) {
            subagent.in_background = true;
        }
    }

    /// Like [`Self::backgrounded`], by the call that started the subagent.
    pub(super) fn call_backgrounded(&mut self, call: &str) {
        for subagent in self.known.iter_mut().filter(|s| s.call.as_deref() == Some(call)) {
            subagent.in_background = true;
        }
    }

    /// Returns whether the subagent was running.
    pub(super) fn end(&mut self, task: &str, failure: Option<&str>, out: &mut Translated) -> bool {
        self.end_where(|s| s.id.as_str() == task, failure, out)
    }

    /// Ends the subagent unless it runs in the background.
    pub(super) fn call_ended(&mut self, call: &str, failure: Option<&str>, out: &mut Translated) {
        self.end_where(|s| s.call.as_deref() == Some(call) && !s.in_background, failure, out);
    }

    /// Ends all subagents that the main loop waits for.
    pub(super) fn end_foreground(&mut self, failure: &str, out: &mut Translated) {
        self.end_where(|s| !s.in_background, Some(failure), out);
    }

    pub(super) fn end_all(&mut self, failure: &str, out: &mut Translated) {
        self.end_where(|_| true, Some(failure), out);
    }

    fn end_where(
        &mut self,
        which: impl Fn(&Subagent) -> bool,
        failure: Option<&str>,
        out: &mut Translated,
    ) -> bool {
        let mut any = false;
        for subagent in self.known.iter_mut().filter(|s| s.open && which(s)) {
            subagent.open = false;
            any = true;
            out.push(RawEvent::SubagentEnded {
                subagent_id: subagent.id.clone(),
                failure: failure.map(str::to_owned),
            });
        }
        any
    }
}
