//! Where the program waits: for time, messages, answers and decisions. Commands are taken meanwhile.

use std::time::Duration;

use pilothouse_domain::ToolCallId;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, Content};
use serde_json::json;
use tokio::time::Instant;

use super::{Awaited, Break, Player, Settled, Start};
use crate::script::program::Instruction;
use crate::spool::SpoolError;

impl Player {
    /// Whether a wait within a turn comes next. It takes commands itself: one that came since the step before it is what
    /// it waits for, and must not be taken as something that came in between.
    pub(super) fn waits_next(&self) -> bool {
        let next = self.inserted.front().or_else(|| self.program.get(self.state.position));
        self.turn.is_some()
            && matches!(next, Some(Instruction::AwaitMessage { .. } | Instruction::AwaitCommand(_)))
    }

    pub(super) async fn await_message(&mut self, earlier: bool) -> Result<(), Break> {
        if self.turn.is_none() {
            if !matches!(self.start, Start::Message(..)) {
                self.start = Start::Needed;
            }
            return Ok(());
        }
        if earlier && self.steered > 0 {
            self.steered -= 1;
            return Ok(());
        }
        match self.next_held().await? {
            Some((message, reply)) => self.inject(message, reply, false).await,
            None => self.until_settled(Awaited::Message).await.map(drop),
        }
    }

    pub(super) async fn await_answer(&mut self, call: &ToolCallId, result: bool) -> Result<(), Break> {
        if std::mem::take(&mut self.resumed_at_wait) {
            return Ok(());
        }
        let answers = match self.early.iter().position(|(request, _)| request == call) {
            Some(at) => self.early.remove(at).1,
            None => match self.until_settled(Awaited::Answer(call.clone())).await? {
                Settled::Answer(answers) => answers,
                _ => return Ok(()),
            },
        };
        if result {
            self.tool_result(call, Content::Json(json!({ "answers": answers })), false).await?;
        }
        Ok(())
    }

    /// Whether the program comes to wait for the answer to `request`.
    pub(in super::super) fn will_await(&self, request: &ToolCallId) -> bool {
        let rest = self.program.iter().skip(self.state.position);
        rest.chain(&self.inserted)
            .any(|next| matches!(next, Instruction::AwaitAnswer { call, .. } if call == request))
    }

    /// Answers whether the plan was approved.
    pub(super) async fn await_decision(&mut self, call: &ToolCallId, result: bool) -> Result<bool, Break> {
        let Settled::Decision(decision) = self.until_settled(Awaited::Decision(call.clone())).await? else {
            return Ok(true);
        };
        if result {
            let text = match (decision.approved, decision.feedback) {
                (true, _) => "The plan was approved.".to_owned(),
                (false, Some(feedback)) => format!("The plan was rejected: {feedback}"),
                (false, None) => "The plan was rejected.".to_owned(),
            };
            self.tool_result(call, Content::Text(text), !decision.approved).await?;
        }
        Ok(decision.approved)
    }

    pub(super) async fn show_plan(&mut self, call: &ToolCallId, texts: &[String]) -> Result<(), Break> {
        if std::mem::take(&mut self.resumed_at_wait) {
            return Ok(());
        }
        let mut shown = 0;
        loop {
            let id = if shown == 0 { call.clone() } else { ToolCallId::parse(format!("{call}-r{shown}"))? };
            // An owner who goes on rejecting sees the last revision again.
            let text = texts.get(shown).or(texts.last()).map_or("", String::as_str);
            let content = AssistantContent::ToolUse {
                tool_call_id: id.clone(),
                tool_name: "ExitPlanMode".into(),
                input: json!({ "plan": text }),
            };
            self.events.emit(RawEvent::AssistantMessage { content, turn_id: self.turn_id() }).await?;
            if !self.config.plan_approval_required {
                return Ok(self
                    .tool_result(&id, Content::from("The plan needs no approval."), false)
                    .await?);
            }
            if self.await_decision(&id, true).await? {
                return Ok(());
            }
            shown += 1;
        }
    }

    async fn tool_result(
        &self,
        call: &ToolCallId,
        content: Content,
        is_error: bool,
    ) -> Result<(), SpoolError> {
        let result =
            RawEvent::ToolResult { tool_call_id: call.clone(), content, is_error, subagent_id: None };
        self.events.emit(result).await
    }

    /// Waits, and takes commands meanwhile. While it is paused, no time passes.
    pub(super) async fn sleep(&mut self, mut left: Duration) -> Result<(), Break> {
        loop {
            while self.paused {
                self.command().await?;
            }
            let began = Instant::now();
            tokio::select! {
                biased;
                command = self.commands.recv() => {
                    left = left.saturating_sub(began.elapsed());
                    self.handle(command.ok_or(Break::Over)?).await?;
                }
                () = tokio::time::sleep(left) => return Ok(()),
            }
        }
    }

    pub(super) async fn until_settled(&mut self, awaited: Awaited) -> Result<Settled, Break> {
        self.awaited = Some(awaited);
        loop {
            if !self.paused
                && let Some(settled) = self.settled.take()
            {
                self.awaited = None;
                return Ok(settled);
            }
            self.command().await?;
        }
    }
}
