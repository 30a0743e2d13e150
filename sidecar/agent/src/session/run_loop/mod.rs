//! The loop (S1 3) has three levels. The outer loop repeats while there are follow-ups, the middle loop while the model
//! calls tools or is steered. A turn is one model call with its tools.

mod background;
mod call;
mod compact;
mod context_window;
mod hooks;
mod partial;
mod tools;

use std::sync::Arc;

use pilothouse_domain::Timestamp;
use tokio_util::sync::CancellationToken;

use self::background::Background;
pub(crate) use self::call::{Failed, ReplyError};
use self::context_window::Window;
use self::tools::AfterTools;
use crate::event::{AgentOutcome, SessionEvent};
use crate::message::StopReason;
use crate::session::config::FollowUpMode;
use crate::session::queues::QueueSelection;
use crate::session::shared::Shared;
use crate::session::state::Prompt;
use crate::session::status::SessionError;

/// Why a run ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("it was aborted")]
    Aborted,
    #[error("{0}")]
    Held(String),
    #[error("it reached the most turns")]
    MaxTurns,
    /// A call failed permanently, or the session file is not writable.
    #[error("{0}")]
    Failed(String),
    #[error("the quota is used up: {message}")]
    Quota { message: String, reset_at: Option<Timestamp> },
    /// The model did not answer for the whole patience of the retry policy.
    #[error("{message}")]
    Unavailable { message: String, retry_at: Option<Timestamp> },
    #[error("the context window is full")]
    Exhausted,
}

impl std::convert::From<SessionError> for End {
    fn from(error: SessionError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl std::convert::From<End> for AgentOutcome {
    fn from(end: End) -> Self {
        match end {
            End::Aborted => Self::Aborted,
            End::Held(reason) => Self::Held(reason),
            End::MaxTurns => Self::MaxTurns,
            End::Failed(error) => Self::Failed(error),
            End::Quota { message, reset_at } => Self::QuotaExceeded { message, reset_at },
            End::Unavailable { message, retry_at } => Self::Unavailable { message, retry_at },
            End::Exhausted => Self::ContextExhausted,
        }
    }
}

/// One run: from a prompt until no work is left.
pub(crate) struct RunLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cancel: CancellationToken,
    turns: u32,
    window: Window,
    background: Option<Background>,
    /// Whether the model does not think, because its provider rejected its thoughts.
    thinking_disabled: bool,
    /// The system prompt of this run.
    system: String,
    /// The system prompt of this turn.
    turn_system: String,
}

impl RunLoop {
    pub(crate) fn new(shared: Arc<Shared>, cancel: CancellationToken) -> Self {
        let system = shared.system.clone();
        let turn_system = system.clone();
        Self {
            shared,
            cancel,
            turns: 0,
            window: Window::default(),
            background: None,
            thinking_disabled: false,
            turn_system,
            system,
        }
    }

    /// Works until no work is left, and emits the outcome. Without a prompt, `due` decides whether to call the model
    /// first.
    pub(crate) async fn run(mut self, prompt: Option<Prompt>, mut due: bool) -> AgentOutcome {
        self.shared.events.emit(SessionEvent::AgentStart);
        let mut begun = match prompt {
            Some(prompt) => {
                due = true;
                self.begin(prompt).await
            }
            None => Ok(()),
        };
        loop {
            let worked = match begun {
                Ok(()) => self.follow_ups(due).await,
                Err(end) => Err(end),
            };
            if worked.is_err() {
                self.stop_background().await;
            }
            // A confirmed stop holds for what runs in the background, too. The driver continues held work, or ends it.
            if !matches!(worked, Err(End::Held(_)))
                && let Some(bash) = &self.shared.config.bash
            {
                bash.background().stop_all().await;
            }
            let outcome = worked.map_or_else(AgentOutcome::from, |()| AgentOutcome::Completed);
            if let Some(outcome) = self.shared.end_run(outcome) {
                return outcome;
            }
            // New work arrived just before the end.
            (begun, due) = (Ok(()), false);
        }
    }

    /// Queued messages precede the prompt.
    async fn begin(&mut self, prompt: Prompt) -> Result<(), End> {
        let prompt = self.before_start(prompt).await;
        let mut state = self.shared.state();
        state.inject(QueueSelection::Steering, &self.shared.events)?;
        state.append_tagged(prompt.message, prompt.tag, &self.shared.events)?;
        Ok(())
    }

    /// The outer loop: repeats while there are follow-ups.
    async fn follow_ups(&mut self, mut due: bool) -> Result<(), End> {
        loop {
            if due || self.shared.state().is_steered() {
                self.turns().await?;
            }
            self.requested_compactions().await?;
            self.check_cancelled()?;
            let from = match self.shared.config.follow_up_mode {
                FollowUpMode::OneATurn => QueueSelection::OneFollowUp,
                FollowUpMode::All => QueueSelection::FollowUps,
            };
            if self.shared.state().inject(from, &self.shared.events)? == 0 {
                // The end of the run handles messages that arrive during this wait.
                self.finish_background().await?;
                return Ok(());
            }
            due = true;
        }
    }

    /// The middle loop: repeats while the model calls tools or is steered.
    async fn turns(&mut self) -> Result<(), End> {
        loop {
            self.check_cancelled()?;
            self.take_background().await?;
            self.shared.state().inject(QueueSelection::Steering, &self.shared.events)?;
            self.requested_compactions().await?;
            if self.shared.config.max_turns.is_some_and(|most| self.turns >= most) {
                return Err(End::MaxTurns);
            }
            self.turns += 1;
            let ended = self.turn().await?;
            let ended = self.after_turn(ended).await?;
            if ended && !self.shared.state().is_steered() {
                return Ok(());
            }
        }
    }

    /// Returns whether the model is finished.
    async fn turn(&mut self) -> Result<bool, End> {
        self.shared.events.emit(SessionEvent::TurnStart);
        self.turn_start().await;
        let (reply, model) = self.reply().await?;
        let calls: Vec<_> = match reply.stop_reason {
            StopReason::Stop | StopReason::Length | StopReason::ToolUse => {
                reply.tool_calls().cloned().collect()
            }
            StopReason::Refusal | StopReason::Error | StopReason::Aborted => Vec::new(),
        };
        self.shared.state().append_reply(reply.clone(), &model, &self.shared.events)?;
        let after = self.tools(&calls).await?;
        let said = self.turn_end(&reply).await?;
        self.shared.events.emit(SessionEvent::TurnEnd);
        Ok(!said && (calls.is_empty() || after == AfterTools::EndTurn))
    }

    /// Fails if the run must end.
    pub(crate) fn check_cancelled(&self) -> Result<(), End> {
        if self.cancel.is_cancelled() { Err(End::Aborted) } else { Ok(()) }
    }
}
