//! One reply of the model: priced before the call (decision 32), streamed, and retried on failure (S1 6.2).

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pilothouse_domain::value::ThinkingLevel;

use super::partial::Partial;
use super::{End, RunLoop};
use crate::conversation::{ContextTokens, append_omission, estimate, estimate_text, latest_turns, without};
use crate::event::{CompactionReason, SessionEvent};
use crate::governor::{CallPurpose, MIN_OUTPUT, ModelCall, Verdict};
use crate::message::{AgentMessage, AssistantMessage, StopReason, Usage, now};
use crate::model::info::ModelInfo;
use crate::model::{Delta, ModelError, ModelRequest, OmittedContent};
use crate::session::config::RetryPolicy;
use crate::session::status::SessionError;

/// Why there is no reply.
pub(crate) enum ReplyError {
    End(End),
    /// The conversation exceeds the context window.
    Overflow(String),
    /// The provider does not accept a part of the conversation.
    RejectedContent(OmittedContent, String),
}

impl std::convert::From<End> for ReplyError {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

impl RunLoop {
    /// Adds the next reply to the conversation. If the conversation does not fit, it is compacted and the model is
    /// asked once more (S1 6.1).
    pub(super) async fn reply(&mut self) -> Result<(AssistantMessage, ModelInfo), End> {
        let mut compacted = false;
        loop {
            let (request, model) = self.request();
            let failed = match self.ask(request, &model, CallPurpose::Turn, self.shared.config.retry).await {
                Ok(reply) => return Ok((reply, model)),
                Err(ReplyError::End(end)) => return Err(self.ended(&model, end)),
                Err(ReplyError::RejectedContent(content, message)) => {
                    if !self.omit(content, &message)? {
                        return Err(self.ended(&model, End::Failed(message)));
                    }
                    continue;
                }
                Err(ReplyError::Overflow(message)) => message,
            };
            if !self.compacts() {
                return Err(End::Exhausted);
            }
            if self.finish_background().await? {
                continue;
            }
            if compacted {
                return Err(self.ended(&model, End::Failed(failed)));
            }
            compacted = true;
            self.compact(CompactionReason::Overflow, None).await.map_err(|error| match error {
                ReplyError::End(end) => end,
                ReplyError::Overflow(message) | ReplyError::RejectedContent(_, message) => {
                    End::Failed(format!("{failed}; its summary failed: {message}"))
                }
            })?;
        }
    }

    /// Leaves content out of the conversation that the provider rejects. Returns whether there was any.
    fn omit(&mut self, content: OmittedContent, error: &str) -> Result<bool, End> {
        let mut state = self.shared.state();
        if !state.view().has(content) {
            return Ok(false);
        }
        append_omission(&mut state.tree, content).map_err(SessionError::from)?;
        // Some providers demand the thoughts of a turn in which a model thinks.
        self.thinking_disabled |= content == OmittedContent::Thoughts;
        let error = error.to_owned();
        self.shared.events.emit(SessionEvent::ContentOmitted { content, error });
        Ok(true)
    }

    /// Records a permanent failure in the tree, where no model sees it.
    fn ended(&self, model: &ModelInfo, end: End) -> End {
        let error = match &end {
            End::Failed(error) => error,
            End::Quota { message, .. } | End::Unavailable { message, .. } => message,
            _ => return end,
        };
        let failed = AssistantMessage {
            content: Vec::new(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage: Usage::default(),
            stop_reason: StopReason::Error,
            error: Some(error.clone()),
            timestamp: now(),
        };
        match self.shared.state().append(AgentMessage::Assistant(failed), &self.shared.events) {
            Ok(_) => end,
            Err(error) => error.into(),
        }
    }

    fn request(&self) -> (ModelRequest, ModelInfo) {
        let mut state = self.shared.state();
        let model = state.model.clone();
        let mut messages = state.view().for_model();
        if let Some(turns) = self.shared.config.context.recent_turns {
            messages = latest_turns(&messages, turns);
        }
        if !model.vision {
            messages = without(messages, OmittedContent::Images);
        }
        let request = ModelRequest {
            conversation: state.tree.id().to_owned(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            system: self.turn_system.clone(),
            messages,
            tools: Arc::clone(&self.shared.specs),
            thinking: if self.thinking_disabled { ThinkingLevel::Off } else { state.thinking },
            max_output_tokens: model.max_output_tokens,
        };
        (request, model)
    }

    /// Retries until there is a reply or a retry cannot succeed. Failed replies leave nothing in the conversation.
    pub(crate) async fn ask(
        &self,
        mut request: ModelRequest,
        model: &ModelInfo,
        purpose: CallPurpose,
        policy: RetryPolicy,
    ) -> Result<AssistantMessage, ReplyError> {
        let input = self.fit(&mut request, model, purpose);
        let began = tokio::time::Instant::now();
        let mut attempts = 0;
        loop {
            let most = self.may_call(&request, model, purpose, input).await?;
            let limited = ModelRequest { max_output_tokens: most, ..request.clone() };
            let failed = match self.stream(limited, model, purpose, input).await {
                Ok(reply) => {
                    self.retried(attempts, true);
                    return Ok(reply);
                }
                Err(failed) => failed,
            };
            let (error, retry_after) = match failed {
                Failed::Aborted => {
                    self.retried(attempts, false);
                    return Err(End::Aborted.into());
                }
                Failed::End(end) => return Err(end.into()),
                Failed::Model(ModelError::Transient { message, retry_after, .. }) => (message, retry_after),
                Failed::Model(error) => {
                    self.retried(attempts, false);
                    return Err(for_good(error));
                }
            };
            let delay = policy.delay(attempts, retry_after, began.elapsed(), rand::random());
            let Some(delay) = delay else {
                self.retried(attempts, false);
                let retry_at = retry_after.map(|after| now() + after);
                return Err(End::Unavailable { message: error, retry_at }.into());
            };
            attempts += 1;
            self.shared.events.emit(SessionEvent::AutoRetryStart {
                attempt: attempts,
                max_attempts: policy.max_retries,
                delay,
                error,
            });
            self.pause(delay).await.inspect_err(|_| self.retried(attempts, false))?;
        }
    }

    async fn pause(&self, delay: Duration) -> Result<(), End> {
        self.cancel.run_until_cancelled(tokio::time::sleep(delay)).await.ok_or(End::Aborted)
    }

    fn retried(&self, attempts: u32, success: bool) {
        if attempts > 0 {
            self.shared.events.emit(SessionEvent::AutoRetryEnd { success, attempts });
        }
    }

    /// Reduces the output limit to the space in the window. Returns the estimated input tokens.
    pub(crate) fn fit(&self, request: &mut ModelRequest, model: &ModelInfo, purpose: CallPurpose) -> u64 {
        let input = match purpose {
            CallPurpose::Turn => match self.shared.state().context_tokens() {
                // A provider's count is more accurate than an estimate.
                ContextTokens::Counted(tokens) => tokens,
                ContextTokens::Estimated(tokens) => {
                    tokens + estimate_text(&request.system) + self.shared.tools_tokens
                }
            },
            CallPurpose::Compaction | CallPurpose::BackgroundCompaction => {
                let messages: u64 = request.messages.iter().map(|message| estimate(message)).sum();
                estimate_text(&request.system) + messages
            }
        };
        let left = model.context_window.saturating_sub(input);
        request.max_output_tokens =
            request.max_output_tokens.min(left).max(MIN_OUTPUT.min(model.max_output_tokens));
        input
    }

    /// Asks the governor, and returns the limit for the output. An abort ends the wait.
    async fn may_call(
        &self,
        request: &ModelRequest,
        model: &ModelInfo,
        purpose: CallPurpose,
        input_tokens: u64,
    ) -> Result<u64, End> {
        self.check_cancelled()?;
        let most = request.max_output_tokens;
        let most = match self.permitted(&self.priced(request, model, purpose, input_tokens)).await? {
            Verdict::Stop(reason) => return Err(End::Held(reason)),
            Verdict::Go => most,
            Verdict::GoWithin(limit) => limit.min(most),
        };
        self.check_cancelled().map(|()| most)
    }

    /// Describes a call with its price bound (decision 32).
    pub(crate) fn priced(
        &self,
        request: &ModelRequest,
        model: &ModelInfo,
        purpose: CallPurpose,
        input_tokens: u64,
    ) -> ModelCall {
        let max_output_tokens = request.max_output_tokens;
        let state = self.shared.state();
        ModelCall {
            provider: model.provider.clone(),
            model: model.id.clone(),
            purpose,
            input_tokens,
            max_output_tokens,
            price: model.price,
            worst_case_usd: model.price.map(|price| price.worst_case(input_tokens, max_output_tokens)),
            spent_usd: state.meters.total().cost_usd + state.reserved,
        }
    }

    /// An abort ends the wait.
    pub(crate) async fn permitted(&self, call: &ModelCall) -> Result<Verdict, End> {
        let asked = self.shared.config.governor.before_model(call);
        self.cancel.run_until_cancelled(asked).await.ok_or(End::Aborted)
    }

    /// One attempt. Its usage is recorded in any case (decision 32).
    pub(crate) async fn stream(
        &self,
        request: ModelRequest,
        info: &ModelInfo,
        purpose: CallPurpose,
        input: u64,
    ) -> Result<AssistantMessage, Failed> {
        let mut partial = Partial::new(purpose == CallPurpose::Turn);
        let done = self.cancel.run_until_cancelled(self.deltas(request, &mut partial)).await;
        let events = &self.shared.events;
        let failed = match done {
            Some(Ok(reply)) => return Ok(reply),
            Some(Err(failed)) => failed,
            None => Failed::Aborted,
        };
        let taken = partial.taken(input, matches!(failed, Failed::Aborted));
        let mut state = self.shared.state();
        // The part of a reply that was shown before an abort is kept. A failed attempt is repeated from the
        // beginning.
        let kept = match failed {
            Failed::Aborted => partial.cut_off(info, taken),
            Failed::End(_) | Failed::Model(_) => None,
        };
        let counted = kept.as_ref().is_some_and(|reply| reply.usage != Usage::default());
        let written = match kept {
            Some(reply) if counted => state.append_reply(reply, info, events),
            Some(reply) => state.append(AgentMessage::Assistant(reply), events).map(drop),
            None => Ok(()),
        };
        let written = written.and_then(|()| match taken {
            Some(taken) if !counted => state.append_usage(info, &taken.usage, taken.estimated, events),
            _ => Ok(()),
        });
        match (failed, written) {
            // The run ends in any case, and the next append reports a file that is not writable.
            (Failed::Aborted, _) => Err(Failed::Aborted),
            (_, Err(error)) => Err(Failed::End(error.into())),
            (failed, Ok(())) => Err(failed),
        }
    }

    async fn deltas(&self, request: ModelRequest, partial: &mut Partial) -> Result<AssistantMessage, Failed> {
        let mut stream = self.shared.config.language_model.stream(request).await?;
        while let Some(delta) = stream.next().await {
            let delta = match delta? {
                Delta::Done(reply) => return Ok(reply),
                delta => delta,
            };
            partial.take(&delta);
            let session_event = match delta {
                Delta::Text(text) => SessionEvent::TextDelta(text),
                Delta::Thinking(text) => SessionEvent::ThinkingDelta(text),
                _ => continue,
            };
            if partial.streamed {
                self.shared.events.emit(session_event);
            }
        }
        let message = "the model's answer ended before it was complete".into();
        Err(Failed::Model(ModelError::Transient { message, status: None, retry_after: None }))
    }
}

pub(crate) enum Failed {
    Aborted,
    End(End),
    Model(ModelError),
}

impl Failed {
    /// The outcome if there is no further retry.
    pub(crate) fn for_good(self) -> ReplyError {
        match self {
            Self::Aborted => End::Aborted.into(),
            Self::End(end) => end.into(),
            Self::Model(error) => for_good(error),
        }
    }
}

impl std::convert::From<ModelError> for Failed {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

fn for_good(error: ModelError) -> ReplyError {
    match error {
        ModelError::ContextOverflow { message } => ReplyError::Overflow(message),
        ModelError::RejectedContent { message, content } => ReplyError::RejectedContent(content, message),
        ModelError::QuotaExceeded { message, reset_at } => End::Quota { message, reset_at }.into(),
        error @ (ModelError::Rejected { .. } | ModelError::Transient { .. }) => {
            End::Failed(error.to_string()).into()
        }
    }
}
