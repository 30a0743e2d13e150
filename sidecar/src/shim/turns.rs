//! Turns: from a text for the agent to its completion. The first one spawns the agent, and later ones resume it with the
//! text as its input.

use std::time::Duration;

use pilothouse_domain::value::{MessageImage, MessagePriority, SessionOutcome};
use pilothouse_shim::error::{CallError, Recovery};
use pilothouse_shim::event::{Completion, CompletionOutcome};
use pilothouse_shim::message::{AgentState, ContextInjection};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::SessionEnd;
use tokio::time::Instant;

use super::brief::brief;
use super::driver::Driver;
use super::turn::{MAX_ATTEMPTS, MAX_DELAY, Turn, Waiting, backoff, waits_for_provider};
use crate::adapter::{Message, MessageReply, Refusal};
use crate::kit::conversation_summary::ConversationSummary;
use crate::kit::images::{left_out, text_without_images};
use crate::kit::messages::{HeldMessage, refuse_late};
use crate::kit::notices::notice;
use crate::kit::start::{Restart, later_start};
use crate::kit::turns::{DriverExit, turn_id};

/// A text after the texts before it.
fn joined(before: &[String], text: &str) -> String {
    before.iter().map(String::as_str).chain([text]).collect::<Vec<_>>().join("\n\n")
}

impl Driver {
    pub(super) async fn message(&mut self, message: Message, reply: MessageReply) -> Result<(), DriverExit> {
        let turn = self.turn.as_ref().map(|turn| &turn.id);
        let Some((message, reply)) = refuse_late((message, reply), turn).await? else { return Ok(()) };
        self.messages.push((message, reply));
        self.deliver_messages().await
    }

    /// Injects immediate messages into the turn. Without a turn, begins the next one.
    pub(super) async fn deliver_messages(&mut self) -> Result<(), DriverExit> {
        if self.stops.any() {
            return Ok(());
        }
        let Some(turn) = &self.turn else { return self.next_turn().await };
        if !turn.has_begun() {
            return Ok(());
        }
        while let Some((message, mut reply)) = self.messages.next_immediate() {
            let Some(shim) = &self.shim else {
                self.messages.put_back((message, reply));
                return Ok(());
            };
            let client = shim.client.clone();
            let text = self.text_of(&message.content, &message.images).await?;
            reply.injecting().await?;
            self.conversation.summary.record_message(&self.events.redacted(&text));
            let injection = ContextInjection::required(text.clone());
            let sent = self.uninterrupted(async move { client.inject(&injection).await }).await;
            match sent.ok_or(DriverExit::Over)? {
                Ok(()) => reply.injected().await?,
                Err(error) if error.is_outcome_unknown() => {
                    let summary = format!(
                        "it is unknown whether the agent has a message ({error}); it is not sent again"
                    );
                    self.events.emit(notice("message_uncertain", summary)).await?;
                    reply.refuse(Refusal::delivery_uncertain()).await?;
                }
                Err(error) => {
                    let summary = format!("the shim did not take a message ({error}); it follows the turn");
                    self.events.emit(notice("message_not_taken", summary)).await?;
                    // After the turn it is a message like any other.
                    let message = Message {
                        content: text,
                        images: Vec::new(),
                        priority: MessagePriority::Queued,
                        ..message
                    };
                    self.messages.put_back((message, reply));
                }
            }
        }
        Ok(())
    }

    /// Begins a turn with the next message.
    pub(super) async fn next_turn(&mut self) -> Result<(), DriverExit> {
        if self.turn.is_some() || self.stops.any() {
            return Ok(());
        }
        if let Some(prompt) = self.prompt.take() {
            return self.begin_turn(prompt, None).await;
        }
        while let Some(held) = self.messages.next() {
            if let Some((message, reply)) = refuse_late(held, None).await? {
                let text = self.text_of(&message.content, &message.images).await?;
                return self.begin_turn(text, Some((message, reply))).await;
            }
        }
        Ok(())
    }

    /// The text of a message, whose images the shim cannot receive.
    pub(super) async fn text_of(
        &mut self,
        text: &str,
        images: &[MessageImage],
    ) -> Result<String, DriverExit> {
        if !images.is_empty() {
            self.events.emit(left_out(images.len(), "a shim receives texts only")).await?;
        }
        Ok(text_without_images(text, images.len()))
    }

    pub(super) async fn begin_turn(
        &mut self,
        text: String,
        message: Option<HeldMessage>,
    ) -> Result<(), DriverExit> {
        self.turns += 1;
        // The sidecar begins the turn, not the event of the shim that it follows.
        self.events.set_occurred_at(None);
        self.events.drafts().discard();
        self.skipped_draft = None;
        let id = turn_id(&self.run.to_string(), self.turns).map_err(|e| DriverExit::agent(e.to_string()))?;
        let message_id = message.as_ref().map(|(message, _)| message.id);
        let mut reply = message.map(|(_, reply)| reply);
        if let Some(reply) = &mut reply {
            reply.injecting().await?;
        }
        self.translator.begin_turn(id.clone());
        self.conversation.summary.record_message(&self.events.redacted(&text));
        let waiting = Waiting {
            text,
            reply,
            at: Some(Instant::now()),
            attempts: 0,
            backoff: backoff(),
            has_restarted: false,
        };
        self.turn = Some(Turn { id: id.clone(), waiting: Some(waiting) });
        Ok(self.events.emit(RawEvent::TurnStarted { turn_id: id, message_id }).await?)
    }

    /// Gives the waiting turn to the agent. Starts the shim if it is not running. If a stop ends the start, the turn keeps waiting.
    pub(super) async fn start_turn(&mut self) -> Result<(), DriverExit> {
        match self.ensure_running().await? {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => return self.fail_turn("shim_failed", why).await,
        }
        let Some(waiting) = self.turn.as_mut().and_then(|turn| turn.waiting.as_mut()) else { return Ok(()) };
        waiting.attempts += 1;
        let text = joined(&self.withdrawn, &waiting.text);
        let state = self.resumable().await?;
        if state.is_none() && self.conversation.spawned && !self.lose_conversation().await? {
            return Ok(());
        }
        let brief = self.brief(&joined(&self.introduction, &text));
        let Some(shim) = &self.shim else { return Ok(()) };
        let client = shim.client.clone();
        let request = async move {
            match state {
                Some(state) => client.resume(&state.to_resume(&brief, Some(&text))).await,
                None => client.spawn(&brief).await,
            }
        };
        match self.uninterrupted(request).await.ok_or(DriverExit::Over)? {
            Ok(_) => {
                self.outage.answered();
                self.conversation.spawned = true;
                self.introduction.clear();
                self.withdrawn.clear();
                self.save().await?;
                let waiting = self.turn.as_mut().and_then(|turn| turn.waiting.take());
                if let Some(reply) = waiting.and_then(|waiting| waiting.reply) {
                    reply.injected().await?;
                }
                self.deliver_messages().await
            }
            Err(error) => self.not_started(error).await,
        }
    }

    /// Acts on a failed start by S2's table of errors.
    async fn not_started(&mut self, error: CallError) -> Result<(), DriverExit> {
        let recovery = error.recovery();
        let Some(waiting) = self.turn.as_mut().and_then(|turn| turn.waiting.as_mut()) else { return Ok(()) };
        match recovery {
            Recovery::Retry(after)
                if waiting.attempts < MAX_ATTEMPTS && after.is_none_or(|after| after <= MAX_DELAY) =>
            {
                let delay = after.unwrap_or_else(|| waiting.backoff.failed());
                waiting.at = Some(Instant::now() + delay);
                Ok(self.events.emit(waits_for_provider(after, &error)).await?)
            }
            Recovery::Retry(after) => {
                waiting.at = None;
                self.wait_for_model(after, &error).await
            }
            Recovery::Restart if !waiting.has_restarted => {
                waiting.has_restarted = true;
                waiting.at = Some(Instant::now());
                let summary = format!("the shim refused to start its agent and is started again: {error}");
                self.events.emit(notice("shim_restarted", summary)).await?;
                self.end_shim().await
            }
            Recovery::ContextFull => {
                self.events.emit(RawEvent::ContextExhausted {}).await?;
                self.fail_turn("context_overflow", error.to_string()).await
            }
            _ => self.fail_turn("spawn_failed", error.to_string()).await,
        }
    }

    /// Pauses the session, because the provider of the agent does not answer. The turn waits for the resume.
    async fn wait_for_model(&mut self, after: Option<Duration>, error: &CallError) -> Result<(), DriverExit> {
        if let Some(after) = after {
            self.outage.wait_at_least(after);
        }
        let retry_at = self.outage.retry_at();
        let unavailable = RawEvent::ModelUnavailable { message: Some(error.to_string()), retry_at };
        Ok(self.events.emit(unavailable).await?)
    }

    /// The latest state, unless the agent must be spawned.
    async fn resumable(&mut self) -> Result<Option<AgentState>, DriverExit> {
        if !self.conversation.spawned {
            return Ok(None);
        }
        let (state, damaged) = self.folder.latest(&self.conversation);
        if damaged {
            let summary = "the latest state of the agent is damaged; it continues with an earlier one";
            self.events.emit(notice("checkpoint_damaged", summary)).await?;
        }
        Ok(state)
    }

    /// The agent has no state to continue with. It is spawned again with a summary. Returns `false` if a stop has ended the start.
    pub(super) async fn lose_conversation(&mut self) -> Result<bool, DriverExit> {
        let summary: &ConversationSummary = &self.conversation.summary;
        self.introduction.push(summary.to_text(&self.config.objective));
        self.conversation.spawned = false;
        let summary =
            "the shim gave no state to continue with; the agent begins again with a summary of its work";
        self.events.emit(notice("conversation_lost", summary)).await?;
        // A shim spawns one agent.
        self.end_shim().await?;
        self.ensure_running().await?.map_err(DriverExit::agent)
    }

    pub(super) fn brief(&self, description: &str) -> serde_json::Value {
        let (session, launch) = (self.starter.session(), &self.launch);
        brief(session, &self.config, description, &launch.provider_config, &self.starter.own_tools)
    }

    /// Starts the shim if it is not running. Returns `false` if a pause or an interrupt has ended the start: the caller keeps its work for
    /// the resume, or for the interrupt to end it. The inner error is a sentence for people.
    pub(super) async fn ensure_running(&mut self) -> Result<Result<bool, String>, DriverExit> {
        if self.shim.is_some() {
            return Ok(Ok(true));
        }
        let Self { starter, launch, conversation, commands, deferred_commands, .. } = self;
        let starting = starter.start(launch, conversation);
        match later_start(commands, deferred_commands, starting).await? {
            Restart::Done(Ok(shim)) => {
                self.health_due = Instant::now() + launch.limits.health;
                (self.shim, self.failed_checks) = (Some(shim), 0);
                self.publish_capabilities().await?;
                Ok(Ok(true))
            }
            Restart::Done(Err(why)) => Ok(Err(why)),
            Restart::GivenUp => Ok(Ok(false)),
            Restart::Over => Err(DriverExit::Over),
        }
    }

    pub(super) async fn completed(&mut self, completion: Completion) -> Result<(), DriverExit> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        let mut events = self.translator.summary(&completion.summary);
        events.extend(self.translator.end_turn("the turn ended without its result"));
        self.decisions.clear();
        self.own_requests.close();
        let outcome = match completion.outcome {
            CompletionOutcome::Success => SessionOutcome::Completed,
            CompletionOutcome::MaxTurns => SessionOutcome::MaxIterations,
            CompletionOutcome::Partial | CompletionOutcome::Abandoned => {
                let why = completion.reason.unwrap_or_else(|| "it gives no reason".to_owned());
                let how = match completion.outcome {
                    CompletionOutcome::Abandoned => "abandoned its task",
                    _ => "finished a part of its task",
                };
                events.push(notice("completion", format!("the agent {how}: {why}")));
                SessionOutcome::Completed
            }
        };
        self.emit(events).await?;
        self.events.emit(RawEvent::TurnCompleted { turn_id: turn.id, output: None, outcome }).await?;
        self.next_turn().await
    }

    /// Ends the conversation, because the agent cannot continue.
    pub(super) async fn fail_turn(&mut self, reason: &str, message: String) -> Result<(), DriverExit> {
        let events = self.translator.end_turn("the turn failed");
        self.decisions.clear();
        self.own_requests.close();
        self.emit(events).await?;
        if let Some(reply) = self.turn.take().and_then(|turn| turn.waiting).and_then(|waiting| waiting.reply)
        {
            reply.refuse(Refusal::invalid(message.clone())).await?;
        }
        let end =
            SessionEnd { is_error: true, reason: reason.to_owned(), message: Some(message), output: None };
        self.events.emit(RawEvent::SessionEnd(end)).await?;
        Err(DriverExit::Over)
    }
}
