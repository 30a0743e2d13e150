//! The loop (S1 3): as long as there are follow-ups; in it, as long as the model calls tools or is steered; in it, one
//! call of the model and its tools.

mod background;
mod call;
mod context_window;
mod hooks;
mod partial;
mod tools;

use std::sync::Arc;

use pilothouse_domain::Timestamp;
use tokio_util::sync::CancellationToken;

use self::background::Background;
pub(crate) use self::call::{Failed, NoAnswer};
use self::context_window::Window;
use self::tools::AfterTools;
use crate::event::{AgentOutcome, SessionEvent};
use crate::message::StopReason;
use crate::session::{FollowUpMode, From, Prompt, SessionError, Shared};

/// Why a run ends before it has nothing to do any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("it was aborted")]
    Aborted,
    /// Whoever governs it said so.
    #[error("{0}")]
    Held(String),
    #[error("it reached the most turns")]
    MaxTurns,
    /// A call failed for good, or the file cannot be written.
    #[error("{0}")]
    Failed(String),
    /// The plan that pays is used up.
    #[error("the quota is used up: {message}")]
    Quota { message: String, reset_at: Option<Timestamp> },
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
            End::Exhausted => Self::ContextExhausted,
        }
    }
}

/// One run: from a prompt until there is nothing to do any more.
pub(crate) struct RunLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cancel: CancellationToken,
    turns: u32,
    window: Window,
    /// A summary that is being written while the conversation goes on.
    background: Option<Background>,
    /// The system prompt of this run's turns.
    system: String,
    /// That of this turn.
    turn_system: String,
}

impl RunLoop {
    pub(crate) fn new(shared: Arc<Shared>, cancel: CancellationToken) -> Self {
        let system = shared.system.clone();
        let turn_system = system.clone();
        Self { shared, cancel, turns: 0, window: Window::default(), background: None, turn_system, system }
    }

    /// Works until there is nothing to do any more, and tells of it. Without a prompt, the model is asked at once when
    /// `due`.
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
            let outcome = worked.map_or_else(AgentOutcome::from, |()| AgentOutcome::Completed);
            if let Some(outcome) = self.shared.end_run(outcome) {
                return outcome;
            }
            // Something came at the last moment.
            (begun, due) = (Ok(()), false);
        }
    }

    /// Puts the prompt into the conversation, after what waited.
    async fn begin(&mut self, prompt: Prompt) -> Result<(), End> {
        let prompt = self.before_start(prompt).await;
        let mut state = self.shared.state();
        state.inject(From::Steering, &self.shared.events)?;
        state.append_tagged(prompt.message, prompt.tag, &self.shared.events)?;
        Ok(())
    }

    /// The outer loop: as long as there are follow-ups.
    async fn follow_ups(&mut self, mut due: bool) -> Result<(), End> {
        loop {
            if due || self.shared.state().is_steered() {
                self.turns().await?;
            }
            self.requested_compactions().await?;
            self.go_on()?;
            let from = match self.shared.config.follow_up_mode {
                FollowUpMode::OneATurn => From::OneFollowUp,
                FollowUpMode::All => From::FollowUps,
            };
            if self.shared.state().inject(from, &self.shared.events)? == 0 {
                // What comes while it is waited for is found at the end of the run.
                self.finish_background().await?;
                return Ok(());
            }
            due = true;
        }
    }

    /// The middle loop: as long as the model calls tools or is steered.
    async fn turns(&mut self) -> Result<(), End> {
        loop {
            self.go_on()?;
            self.take_background().await?;
            self.shared.state().inject(From::Steering, &self.shared.events)?;
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

    /// One turn; whether the model has said everything.
    async fn turn(&mut self) -> Result<bool, End> {
        self.shared.events.emit(SessionEvent::TurnStart);
        self.turn_start().await;
        let (answer, model) = self.answer().await?;
        let calls: Vec<_> = match answer.stop_reason {
            StopReason::Stop | StopReason::Length | StopReason::ToolUse => {
                answer.tool_calls().cloned().collect()
            }
            StopReason::Refusal | StopReason::Error | StopReason::Aborted => Vec::new(),
        };
        self.shared.state().append_answer(answer.clone(), &model, &self.shared.events)?;
        let after = self.tools(&calls).await?;
        let said = self.turn_end(&answer).await?;
        self.shared.events.emit(SessionEvent::TurnEnd);
        Ok(!said && (calls.is_empty() || after == AfterTools::EndTurn))
    }

    /// An error, when the run is to end.
    pub(crate) fn go_on(&self) -> Result<(), End> {
        if self.cancel.is_cancelled() { Err(End::Aborted) } else { Ok(()) }
    }
}
