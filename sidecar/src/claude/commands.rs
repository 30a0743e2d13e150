//! Handles the commands of the control plane.

use pilothouse_domain::value::{Adjustment, CycleDirection, ThinkingLevel};
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Value, json};

use super::control_channel::{self, ControlRequest};
use super::driver::Driver;
use super::initialization::Reloading;
use super::messages::{Content, Withdrawn};
use super::options::AdapterOptions;
use super::permissions::Settled;
use super::prompt;
use super::tool_hooks::Mode;
use crate::adapter::{AdapterError, AgentCommand, OwnerAnswers, PlanDecision, Refusal, Reply};
use crate::kit::deferral::compact_command;
use crate::kit::messages::refuse_interrupted;

impl Driver {
    pub(super) async fn command(&mut self, command: AgentCommand) -> Result<(), AdapterError> {
        if self.initializing.is_some() && waits_for_process(&command) {
            self.deferred_commands.push_back(command);
            return Ok(());
        }
        match command {
            AgentCommand::Begin(_, reply) => Ok(reply.refuse(Refusal::already_started()).await?),
            AgentCommand::Message(message, reply) => {
                self.messages.take(message, reply);
                Ok(())
            }
            AgentCommand::Interrupt(reply) => self.interrupt(reply).await,
            AgentCommand::Pause(reply) => {
                self.paused = true;
                self.tool_hooks.pause();
                self.pausing.push(reply);
                Ok(())
            }
            AgentCommand::Resume(reply) => self.resume(reply).await,
            AgentCommand::Reload(config, reply) => self.reload(*config, reply).await,
            AgentCommand::Adjust(adjustment, reply) => self.adjust(adjustment, reply).await,
            AgentCommand::Answer(owner, reply) => self.owner_answers(owner, reply).await,
            AgentCommand::PlanDecision(decision, reply) => self.owner_decides(decision, reply).await,
        }
    }

    /// Acknowledged when Claude Code has ended the turn and its queue has none of the turn's messages. Without an initialized process,
    /// the agent has nothing to end.
    async fn interrupt(&mut self, reply: Reply) -> Result<(), AdapterError> {
        self.emit_withheld().await?;
        self.requests_during_pause.clear();
        self.compactions.refuse("the turn was interrupted").await?;
        self.pausing.refuse("the turn was interrupted").await?;
        self.withdraw_kept().await?;
        for (message, waiting) in self.messages.take_waiting() {
            refuse_interrupted(message, waiting).await?;
        }
        if self.waits_for_model {
            // Claude Code is idle and will not report the end of the turn.
            self.waits_for_model = false;
            let events = self.translator.abandon_turn();
            self.emit(events).await?;
        }
        (self.paused, self.over_budget) = (false, false);
        if !self.is_ready() {
            self.tool_hooks.open();
            return Ok(reply.done().await?);
        }
        let working = self.translator.turn_id().is_some()
            || self.translator.open_subagents().next().is_some()
            || self.messages.any_written()
            || self.compacting.is_some();
        self.interrupted_in_call = self.tool_hooks.runs_tools();
        self.verdicts.forget();
        for (request, response) in self.tool_hooks.stop() {
            self.respond(&request, &response);
        }
        self.usage_is_known();
        if !working {
            self.end_tools().await;
            return Ok(reply.done().await?);
        }
        if self.untested && (self.messages.any_written() || self.translator.open_subagents().next().is_some())
        {
            // Only undocumented requests recall messages and stop subagents.
            self.interrupting(reply);
            return self.interrupt_is_late().await;
        }
        // Queued messages would run after the interrupt, so they are recalled first (decision 29).
        for uuid in self.messages.recall() {
            let fields = json!({ "message_uuid": uuid });
            self.ask("cancel_async_message", fields, ControlRequest::CancelMessage(uuid));
        }
        let subagents: Vec<String> = self.translator.open_subagents().map(str::to_owned).collect();
        for task in subagents {
            self.ask("stop_task", json!({ "task_id": task }), ControlRequest::Other);
        }
        if self.translator.turn_id().is_some() {
            self.translator.interrupt_requested();
        }
        self.ask("interrupt", Value::Null, ControlRequest::Interrupt);
        self.interrupting(reply);
        Ok(())
    }

    /// Refuses the messages that were not written to the process. A task that the agent does not have precedes the next message.
    async fn withdraw_kept(&mut self) -> Result<(), AdapterError> {
        for withdrawn in self.messages.withdraw_kept() {
            self.withdraw(withdrawn).await?;
        }
        let prompt = self.beginning.as_mut().and_then(|beginning| beginning.prompt.take());
        if let Some(Content { text, images }) = prompt {
            self.withdrawn_task = Some(Content { text: prompt::first(&self.config, &text), images });
        }
        Ok(())
    }

    /// Refuses a message that the agent does not get. The task of the session then precedes the next message.
    pub(super) async fn withdraw(&mut self, withdrawn: Withdrawn) -> Result<(), AdapterError> {
        if let Some(task) = withdrawn.task {
            self.withdrawn_task = Some(task);
        }
        if let Some((message, reply)) = withdrawn.message {
            refuse_interrupted(message, reply).await?;
        }
        Ok(())
    }

    /// Ends the process, because Claude Code did not end the turn in time or cannot. The next message resumes the conversation.
    pub(super) async fn interrupt_is_late(&mut self) -> Result<(), AdapterError> {
        self.process_ended().await
    }

    /// After an interrupt, withdraws the messages that Claude Code had and the model never received.
    pub(super) async fn withdraw_written(&mut self) -> Result<(), AdapterError> {
        for withdrawn in self.messages.take_all_written() {
            self.withdraw(withdrawn).await?;
        }
        Ok(())
    }

    /// Immediate messages take precedence over held work (decision 29).
    async fn resume(&mut self, reply: Reply) -> Result<(), AdapterError> {
        self.pausing.refuse("the agent was resumed").await?;
        (self.paused, self.over_budget) = (false, false);
        reply.done().await?;
        if self.tool_hooks.mode() == Mode::Paused {
            self.release().await?;
        }
        Ok(())
    }

    /// Lets a held agent continue, beginning with its owner's messages.
    pub(super) async fn release(&mut self) -> Result<(), AdapterError> {
        let released = self.tool_hooks.open();
        self.emit_withheld().await?;
        self.deliver_messages().await?;
        self.answer_hooks(released);
        self.release_decided();
        for request in std::mem::take(&mut self.requests_during_pause) {
            self.permission(&request).await?;
        }
        // A message above may have continued the turn and cleared it, or continues it once the process is initialized.
        if self.waits_for_model && !self.messages.continues_turn() {
            self.say(prompt::CONTINUE)?;
        }
        Ok(())
    }

    async fn reload(&mut self, config: AgentSessionConfig, reply: Reply) -> Result<(), AdapterError> {
        let options = match AdapterOptions::read(&config.adapter_options) {
            Ok(options) => options,
            Err(e) => return Ok(reply.refuse(Refusal::invalid(e.to_string())).await?),
        };
        let reloading = Reloading {
            reply,
            config: std::mem::replace(&mut self.config, config),
            options: std::mem::replace(&mut self.options, options),
            model: self.model.clone(),
            thinking: self.thinking,
        };
        self.model.clone_from(&self.config.model_id);
        self.thinking = self.config.thinking_level.or(self.thinking);
        if self.translator.turn_id().is_some() || self.messages.any_written() {
            self.restart_due = true;
            reloading.reply.done().await?;
            self.report_limits().await?;
            return self.emit_settings().await;
        }
        // Restarted immediately, so that a problem with the configuration is reported now.
        self.end_process().await;
        self.reloading = Some(reloading);
        match self.start_process() {
            Ok(()) => Ok(()),
            Err(e) => self.start_failed(e).await,
        }
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
                self.ask("set_max_thinking_tokens", fields, ControlRequest::SetThinking(level, reply));
                Ok(())
            }
            Adjustment::Compact { instructions } => {
                self.compactions.push(instructions, reply);
                Ok(())
            }
            Adjustment::SetAllowance { allowance_usd } => self.set_allowance(allowance_usd, reply).await,
            Adjustment::Fork { .. } => Ok(reply.refuse(Refusal::not_supported("fork")).await?),
            Adjustment::NewConversation {}
            | Adjustment::SwitchConversation { .. }
            | Adjustment::LabelTurn { .. } => {
                Ok(reply.refuse(Refusal::not_supported("conversations")).await?)
            }
        }
    }

    async fn set_model(&mut self, model: String, reply: Reply) -> Result<(), AdapterError> {
        if self.process.is_none() {
            return self.model_is_set(model, reply).await;
        }
        let fields = json!({ "model": model });
        self.ask("set_model", fields, ControlRequest::SetModel(model, reply));
        Ok(())
    }

    pub(super) async fn model_is_set(&mut self, model: String, reply: Reply) -> Result<(), AdapterError> {
        self.model = model;
        reply.done().await?;
        self.emit_settings().await
    }

    pub(super) async fn thinking_is_set(
        &mut self,
        level: ThinkingLevel,
        reply: Reply,
    ) -> Result<(), AdapterError> {
        self.thinking = Some(level);
        reply.done().await?;
        self.emit_settings().await
    }

    /// Between turns, with Claude Code's own command.
    pub(super) async fn compact(
        &mut self,
        instructions: Option<String>,
        reply: Reply,
    ) -> Result<(), AdapterError> {
        if !self.file.conversation().begun {
            return Ok(reply.refuse(Refusal::nothing_to_compact()).await?);
        }
        if !self.is_ready() {
            return match self.start_process() {
                Ok(()) => {
                    self.compactions.put_back(instructions, reply);
                    Ok(())
                }
                Err(e) => Ok(reply.refuse(Refusal::invalid(e.to_string())).await?),
            };
        }
        self.compacting = Some(reply);
        self.translator.compacts();
        let words = compact_command(instructions.as_deref());
        let uuid = uuid::Uuid::new_v4().to_string();
        self.write(&super::messages::line(&words, &[], &uuid, "next"));
        Ok(())
    }

    async fn owner_answers(&mut self, owner: OwnerAnswers, reply: Reply) -> Result<(), AdapterError> {
        let own = self.own_tools.requests();
        if own.waits_for(&owner.request) {
            return Ok(own.settle_answer(owner, reply).await?);
        }
        let open = self.translator.has_call(owner.request.as_str());
        let answered = self.permissions.answer(owner, open);
        self.settle(answered, reply).await
    }

    async fn owner_decides(&mut self, decision: PlanDecision, reply: Reply) -> Result<(), AdapterError> {
        let open = self.translator.has_call(decision.request.as_str());
        let answered = self.permissions.decide(decision, open);
        self.settle(answered, reply).await
    }

    async fn settle(&mut self, settled: Settled, reply: Reply) -> Result<(), AdapterError> {
        match settled {
            Settled::Respond(request, response) => {
                reply.done().await?;
                self.respond(&request, &response);
            }
            Settled::Decided(decided) => {
                reply.done().await?;
                self.decided(decided);
            }
            Settled::Early => reply.done().await?,
            Settled::NotAwaited => reply.refuse(Refusal::not_awaited()).await?,
            Settled::NotModifiable => reply.refuse(Refusal::not_modifiable()).await?,
        }
        Ok(())
    }

    pub(super) fn respond(&mut self, request: &str, response: &Value) {
        self.write(&control_channel::respond(request, response));
    }

    pub(super) fn ask(&mut self, subtype: &str, fields: Value, asked: ControlRequest) {
        let line = self.control_channel.ask(subtype, fields, asked);
        self.write(&line);
    }
}

/// Whether a command waits until a process that was started is initialized.
const fn waits_for_process(command: &AgentCommand) -> bool {
    match command {
        AgentCommand::Begin(..)
        | AgentCommand::Message(..)
        | AgentCommand::Interrupt(_)
        | AgentCommand::Pause(_)
        | AgentCommand::Resume(_)
        | AgentCommand::Adjust(Adjustment::Compact { .. }, _) => false,
        AgentCommand::Reload(..)
        | AgentCommand::Adjust(..)
        | AgentCommand::Answer(..)
        | AgentCommand::PlanDecision(..) => true,
    }
}

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
