//! Emits the script's events, with missing parts filled in.

use pilothouse_domain::TurnId;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, Content};
use serde_json::value::to_raw_value;

use super::turns::changes_turn;
use super::{Player, PlayerExit};
use crate::script::program::Body;
use crate::spool::{Delivery, Outgoing, SpoolError};

impl Player {
    pub(super) async fn emit(&mut self, body: Body, delivery: Delivery) -> Result<(), PlayerExit> {
        match &body {
            Body::Event(event) if changes_turn(event) => self.emit_all(std::slice::from_ref(event)).await,
            _ => {
                let outgoing = self.outgoing(body, self.turn_id().as_ref())?.delivered(delivery);
                self.events.spool().append(outgoing).await?;
                Ok(())
            }
        }
    }

    /// Emits events that carry their own turns.
    pub(super) async fn emit_all(&mut self, events: &[RawEvent]) -> Result<(), PlayerExit> {
        let mut together = Vec::new();
        for event in events {
            match event {
                RawEvent::TurnStarted { turn_id, .. } => {
                    self.events.emit_all(std::mem::take(&mut together)).await?;
                    self.begin_turn(turn_id.clone(), false).await?;
                }
                RawEvent::TurnCompleted { .. } => {
                    self.turn = None;
                    together.push(event.clone());
                }
                _ => together.push(self.completed(event.clone(), self.turn_id().as_ref())),
            }
        }
        self.events.emit_all(together).await?;
        let ended = events.iter().any(|event| matches!(event, RawEvent::SessionEnd(_)));
        if ended { Err(PlayerExit::Over) } else { Ok(()) }
    }

    pub(in super::super) fn outgoing(
        &self,
        body: Body,
        turn: Option<&TurnId>,
    ) -> Result<Outgoing, SpoolError> {
        Ok(match body {
            Body::Event(event) => Outgoing::event(self.completed(*event, turn))?,
            Body::Malformed(json) => Outgoing::raw(to_raw_value(&json)?),
        })
    }

    /// Fills in the turn and placeholders.
    fn completed(&self, mut event: RawEvent, turn: Option<&TurnId>) -> RawEvent {
        match &mut event {
            RawEvent::AssistantMessage { content, turn_id } => {
                self.fill_in(content);
                if turn_id.is_none() {
                    *turn_id = turn.cloned();
                }
            }
            RawEvent::SubagentMessage { content, .. } => self.fill_in(content),
            _ => {}
        }
        event
    }

    fn fill_in(&self, content: &mut AssistantContent) {
        if let AssistantContent::Text { text: Content::Text(text) } = content
            && text.contains("{{")
        {
            *text = text
                .replace("{{message}}", &self.last_message)
                .replace("{{images}}", &self.images_text())
                .replace("{{objective}}", &self.config.objective)
                .replace("{{handoff}}", &self.handoff_text())
                .replace("{{configuration}}", &self.configuration());
        }
    }

    /// Types and sizes of the images of the last message.
    fn images_text(&self) -> String {
        let described =
            self.last_images.iter().map(|image| format!("{} ({} bytes)", image.media_type, image.size_bytes));
        described.collect::<Vec<_>>().join(", ")
    }

    fn handoff_text(&self) -> String {
        self.config.handoff.as_ref().map_or_else(String::new, |handoff| handoff.document.to_text())
    }

    /// Names of tools and subagents, and the system prompt.
    pub(in super::super) fn configuration(&self) -> String {
        let config = &self.config;
        let tools: Vec<_> = config.custom_tools.iter().map(|tool| tool.name.as_str()).collect();
        let subagents: Vec<_> = config.sub_agents.iter().map(|agent| agent.name.as_str()).collect();
        format!(
            "model: {}\nallowed tools: {}\ncustom tools: {}\nsubagents: {}\n\n{}",
            config.model_id,
            config.allowed_tools.join(", "),
            tools.join(", "),
            subagents.join(", "),
            config.composed_system_prompt
        )
    }
}
