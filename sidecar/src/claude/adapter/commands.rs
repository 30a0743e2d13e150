//! What the adapter is asked to do.

use pilothouse_domain::value::{Adjustment, Answer, CycleDirection, ThinkingLevel};
use pilothouse_domain::{ToolCallId, Usd};
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Value, json};

use super::channel::{self, Asked};
use super::driver::Driver;
use super::gate::Mode;
use super::options::AdapterOptions;
use super::permissions::Settled;
use super::prompt;
use crate::adapter::{AdapterError, AgentCommand, Message, MessageReply, PlanDecision, Refusal, Reply};

impl Driver {
    pub(super) async fn command(&mut self, command: AgentCommand) -> Result<(), AdapterError> {
        match command {
            AgentCommand::Begin(_, reply) => {
                Ok(reply.refuse(Refusal::invalid("the agent was started before")).await?)
            }
            AgentCommand::Message(message, reply) => {
                self.messages.take(message, reply);
                Ok(())
            }
            AgentCommand::Interrupt(reply) => self.interrupt(reply).await,
            AgentCommand::Pause(reply) => {
                self.gate.pause();
                self.pausing.push(reply);
                Ok(())
            }
            AgentCommand::Resume(reply) => self.resume(reply).await,
            AgentCommand::Reload(config, reply) => self.reload(*config, reply).await,
            AgentCommand::Adjust(adjustment, reply) => self.adjust(adjustment, reply).await,
            AgentCommand::Answer(request, answers, reply) => {
                self.owner_answers(request, answers, reply).await
            }
            AgentCommand::PlanDecision(decision, reply) => self.owner_decides(decision, reply).await,
        }
    }

    /// Ends the turn. It is done when the binary has said so, and nothing that it was given is left in it.
    async fn interrupt(&mut self, reply: Reply) -> Result<(), AdapterError> {
        self.tell_withheld().await?;
        self.postponed.clear();
        for (_, waiting) in std::mem::take(&mut self.compactions) {
            waiting.refuse(Refusal::invalid("the turn was interrupted")).await?;
        }
        for pausing in std::mem::take(&mut self.pausing) {
            pausing.refuse(Refusal::invalid("the turn was interrupted")).await?;
        }
        for (message, waiting) in self.messages.take_waiting() {
            refuse_interrupted(message, waiting).await?;
        }
        if self.out_of_quota {
            // The binary works on nothing, and will say nothing of it.
            self.out_of_quota = false;
            let events = self.translator.abandon_turn();
            self.emit(events).await?;
        }
        let working = self.translator.turn_id().is_some()
            || self.translator.open_subagents().next().is_some()
            || self.messages.any_written()
            || self.compacting.is_some();
        for (request, answer) in self.gate.stop() {
            self.answer(&request, &answer).await;
        }
        if self.process.is_none() || !working {
            return Ok(reply.done().await?);
        }
        // What waits in the binary's queue would run after the interrupt; it is taken back first (ruling 29).
        for uuid in self.messages.recall() {
            let fields = json!({ "message_uuid": uuid });
            self.ask("cancel_async_message", fields, Asked::CancelMessage(uuid)).await;
        }
        let subagents: Vec<String> = self.translator.open_subagents().map(str::to_owned).collect();
        for task in subagents {
            self.ask("stop_task", json!({ "task_id": task }), Asked::Other).await;
        }
        if self.translator.turn_id().is_some() {
            self.translator.interrupt_requested();
        }
        self.ask("interrupt", Value::Null, Asked::Interrupt).await;
        self.interrupting(reply);
        Ok(())
    }

    /// The binary did not end what it was told to end: its process is ended, and the next message takes the conversation up.
    pub(super) async fn interrupt_is_late(&mut self) -> Result<(), AdapterError> {
        self.process_ended().await
    }

    /// What the binary had and the model never got, after an interrupt.
    pub(super) async fn refuse_interrupted(&mut self) -> Result<(), AdapterError> {
        for (message, reply) in self.messages.take_all_written() {
            refuse_interrupted(message, reply).await?;
        }
        Ok(())
    }

    /// Immediate messages first, then whoever was held (ruling 29).
    async fn resume(&mut self, reply: Reply) -> Result<(), AdapterError> {
        for pausing in std::mem::take(&mut self.pausing) {
            pausing.refuse(Refusal::invalid("the agent was resumed")).await?;
        }
        if self.gate.mode() != Mode::Paused {
            return Ok(reply.done().await?);
        }
        let held = self.gate.open();
        reply.done().await?;
        self.tell_withheld().await?;
        self.give_messages().await?;
        for (request, answer) in held {
            self.answer(&request, &answer).await;
        }
        for request in std::mem::take(&mut self.postponed) {
            self.permission(&request).await?;
        }
        // What was said to it meanwhile lets it go on as well.
        if self.out_of_quota {
            self.say(prompt::GO_ON, "next").await?;
        }
        Ok(())
    }

    async fn reload(&mut self, config: AgentSessionConfig, reply: Reply) -> Result<(), AdapterError> {
        let options = match AdapterOptions::read(&config.adapter_options) {
            Ok(options) => options,
            Err(e) => return Ok(reply.refuse(Refusal::invalid(e.to_string())).await?),
        };
        let (old_config, old_options, old_model) = (
            std::mem::replace(&mut self.config, config),
            std::mem::replace(&mut self.options, options),
            self.model.clone(),
        );
        self.model.clone_from(&self.config.model_id);
        self.thinking = self.config.thinking_level.or(self.thinking);
        if self.translator.turn_id().is_some() || self.messages.any_written() {
            self.restart_due = true;
        } else {
            // The conversation goes on in a new process, now: what is wrong with the configuration is told at once.
            self.end_process().await;
            if let Err(e) = self.start_process().await {
                (self.config, self.options, self.model) = (old_config, old_options, old_model);
                return Ok(reply.refuse(Refusal::invalid(e.to_string())).await?);
            }
        }
        reply.done().await?;
        self.tell_settings().await
    }

    async fn adjust(&mut self, adjustment: Adjustment, reply: Reply) -> Result<(), AdapterError> {
        match adjustment {
            Adjustment::SetModel { model_id } => self.set_model(model_id, reply).await,
            Adjustment::CycleModel { direction } => {
                let models = self.models();
                let at = models.iter().position(|model| *model == self.model).unwrap_or(0);
                let step = match direction {
                    CycleDirection::Forward => 1,
                    CycleDirection::Backward => models.len() - 1,
                };
                match models.get((at + step) % models.len()).cloned() {
                    Some(model) => self.set_model(model, reply).await,
                    None => Ok(reply.refuse(Refusal::invalid("there is no other model")).await?),
                }
            }
            Adjustment::SetThinkingLevel { level } => {
                if self.process.is_none() {
                    return self.thinking_is_set(level, reply).await;
                }
                let fields = json!({ "max_thinking_tokens": thinking_tokens(level) });
                self.ask("set_max_thinking_tokens", fields, Asked::SetThinking(level, reply)).await;
                Ok(())
            }
            Adjustment::Compact { instructions } => {
                self.compactions.push_back((instructions, reply));
                Ok(())
            }
            Adjustment::SetAllowance { allowance_usd } => {
                let Ok(allowance) = allowance_usd.map(|usd| usd.parse::<Usd>()).transpose() else {
                    let refusal = Refusal::invalid("the allowance is not an amount of dollars");
                    return Ok(reply.refuse(refusal).await?);
                };
                self.allowance = allowance;
                self.restart_due = true;
                Ok(reply.done().await?)
            }
            Adjustment::Fork { .. } => Ok(reply.refuse(Refusal::not_supported("fork")).await?),
        }
    }

    async fn set_model(&mut self, model: String, reply: Reply) -> Result<(), AdapterError> {
        if self.process.is_none() {
            return self.model_is_set(model, reply).await;
        }
        let fields = json!({ "model": model });
        self.ask("set_model", fields, Asked::SetModel(model, reply)).await;
        Ok(())
    }

    pub(super) async fn model_is_set(&mut self, model: String, reply: Reply) -> Result<(), AdapterError> {
        self.model = model;
        reply.done().await?;
        self.tell_settings().await
    }

    pub(super) async fn thinking_is_set(
        &mut self,
        level: ThinkingLevel,
        reply: Reply,
    ) -> Result<(), AdapterError> {
        self.thinking = Some(level);
        reply.done().await?;
        self.tell_settings().await
    }

    /// Between turns: the binary summarises the conversation, by its own command for it.
    pub(super) async fn compact(
        &mut self,
        instructions: Option<String>,
        reply: Reply,
    ) -> Result<(), AdapterError> {
        if !self.file.conversation().begun {
            let refusal = Refusal::invalid("there is nothing to compact: the conversation has not begun");
            return Ok(reply.refuse(refusal).await?);
        }
        if let Err(e) = self.start_process().await {
            return Ok(reply.refuse(Refusal::invalid(e.to_string())).await?);
        }
        self.compacting = Some(reply);
        self.translator.compacts();
        let words = match instructions.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
            Some(words) => format!("/compact {words}"),
            None => "/compact".to_owned(),
        };
        let uuid = uuid::Uuid::new_v4().to_string();
        self.write(&super::messages::line(&words, &uuid, "next")).await;
        Ok(())
    }

    async fn owner_answers(
        &mut self,
        request: ToolCallId,
        answers: Vec<Answer>,
        reply: Reply,
    ) -> Result<(), AdapterError> {
        let open = self.translator.has_call(request.as_str());
        let answered = self.permissions.answer(request, answers, open);
        self.settle(answered, reply).await
    }

    async fn owner_decides(&mut self, decision: PlanDecision, reply: Reply) -> Result<(), AdapterError> {
        let open = self.translator.has_call(decision.request.as_str());
        let answered = self.permissions.decide(decision, open);
        self.settle(answered, reply).await
    }

    async fn settle(&mut self, settled: Settled, reply: Reply) -> Result<(), AdapterError> {
        match settled {
            Settled::Answer(request, answer) => {
                reply.done().await?;
                self.answer(&request, &answer).await;
            }
            Settled::Early => reply.done().await?,
            Settled::NotAwaited => {
                reply.refuse(Refusal::invalid("the agent does not wait for this")).await?;
            }
        }
        Ok(())
    }

    /// Answers a request of the binary.
    pub(super) async fn answer(&mut self, request: &str, answer: &Value) {
        self.write(&channel::answer(request, answer)).await;
    }

    /// Asks the binary something.
    pub(super) async fn ask(&mut self, subtype: &str, fields: Value, asked: Asked) {
        let line = self.channel.ask(subtype, fields, asked);
        self.write(&line).await;
    }
}

/// It was to enter a turn that is over, or waits for its owner again (ruling 29).
pub(super) async fn refuse_interrupted(message: Message, reply: MessageReply) -> Result<(), AdapterError> {
    let refusal = match &message.expected_turn {
        Some(turn) => Refusal::turn_over(turn),
        None => Refusal {
            code: "interrupted",
            message: "the turn was interrupted before the agent had the message".into(),
        },
    };
    Ok(reply.refuse(refusal).await?)
}

/// The tokens that the binary may think with, for each level.
pub(super) const fn thinking_tokens(level: ThinkingLevel) -> u32 {
    match level {
        ThinkingLevel::Off => 0,
        ThinkingLevel::Minimal => 1_024,
        ThinkingLevel::Low => 4_000,
        ThinkingLevel::Medium => 10_000,
        ThinkingLevel::High => 20_000,
        ThinkingLevel::Max => 31_999,
    }
}
