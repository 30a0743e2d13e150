//! Waits of the program: for time, messages, answers and decisions. Commands are handled meanwhile.

use std::time::Duration;

use pilothouse_domain::ToolCallId;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, Content};
use serde_json::json;
use tokio::time::Instant;

use super::{Awaited, Player, PlayerExit, Settled, Start};
use crate::script::program::Instruction;
use crate::spool::SpoolError;
use crate::tool_names::EXIT_PLAN_MODE;

impl Player {
    /// Whether the next instruction is a wait within a turn, which handles commands itself, because it may wait for a
    /// command that has arrived since the previous step.
    pub(super) fn waits_next(&self) -> bool {
        let next = self.inserted.front().or_else(|| self.program.get(self.state.position));
        self.turn.is_some()
            && matches!(next, Some(Instruction::AwaitMessage { .. } | Instruction::AwaitCommand(_)))
    }

    pub(super) async fn await_message(&mut self, earlier: bool) -> Result<(), PlayerExit> {
        if self.turn.is_none() {
            // In a recording, the prompt of a run counts as the message, for example after a retry.
            let is_there =
                matches!(self.start, Start::Message(..)) || (earlier && matches!(self.start, Start::Prompt));
            if !is_there {
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

    pub(super) async fn await_answer(&mut self, call: &ToolCallId, result: bool) -> Result<(), PlayerExit> {
        if std::mem::take(&mut self.resumed_at_wait) {
            return Ok(());
        }
        let answers = match self.early.iter().position(|(request, _)| request == call) {
            Some(at) => self.early.remove(at).1,
            None => match self.until_settled(Awaited::Answer(call.clone())).await? {
                Settled::Answer(owner) => owner.answers,
                _ => return Ok(()),
            },
        };
        if result {
            self.tool_result(call, Content::Json(json!({ "answers": answers })), false).await?;
        }
        Ok(())
    }

    pub(in super::super) fn will_await(&self, request: &ToolCallId) -> bool {
        let rest = self.program.iter().skip(self.state.position);
        rest.chain(&self.inserted)
            .any(|next| matches!(next, Instruction::AwaitAnswer { call, .. } if call == request))
    }

    /// Returns whether the plan was approved.
    pub(super) async fn await_decision(
        &mut self,
        call: &ToolCallId,
        result: bool,
    ) -> Result<bool, PlayerExit> {
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

    pub(super) async fn show_plan(&mut self, call: &ToolCallId, texts: &[String]) -> Result<(), PlayerExit> {
        if std::mem::take(&mut self.resumed_at_wait) {
            return Ok(());
        }
        let mut shown = 0;
        loop {
            let id = if shown == 0 { call.clone() } else { ToolCallId::parse(format!("{call}-r{shown}"))? };
            // If the owner rejects all revisions, the last one is submitted again.
            let text = texts.get(shown).or(texts.last()).map_or("", String::as_str);
            let content = AssistantContent::ToolUse {
                tool_call_id: id.clone(),
                tool_name: EXIT_PLAN_MODE.into(),
                input: json!({ "plan": text }),
            };
            self.events.emit(RawEvent::AssistantMessage { content, turn_id: self.turn_id() }).await?;
            if !self.config.options.plan_approval_required {
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

    /// Handles commands during the wait. No time passes during a pause.
    pub(super) async fn sleep(&mut self, mut left: Duration) -> Result<(), PlayerExit> {
        loop {
            while self.paused {
                self.command().await?;
            }
            let began = Instant::now();
            tokio::select! {
                biased;
                command = self.commands.recv() => {
                    left = left.saturating_sub(began.elapsed());
                    self.handle(command.ok_or(PlayerExit::Over)?).await?;
                }
                () = tokio::time::sleep(left) => return Ok(()),
            }
        }
    }

    pub(super) async fn until_settled(&mut self, awaited: Awaited) -> Result<Settled, PlayerExit> {
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
