//! The agent's current work: a turn or a compaction, and the interrupt that must end it.

use std::time::Duration;

use pilothouse_domain::TurnId;
use pilothouse_domain::value::SessionOutcome;
use serde_json::Value;
use tokio::time::Instant;

use super::prompt::Prompt;
use crate::adapter::{Refusal, Reply};
use crate::kit::json::{text, text_at};
use crate::spool::SpoolError;

/// How long an agent may take to end the commands of an interrupted turn before the adapter ends them.
const TOOLS_END: Duration = Duration::from_secs(2);

/// An interrupt that is not acknowledged yet.
pub(super) struct Interrupt {
    pub(super) reply: Reply,
    /// When to end the processes of tool calls, because the agent may wait for them.
    pub(super) tools_end_at: Option<Instant>,
    /// When to kill an agent that has not ended its turn.
    pub(super) gives_up_at: Instant,
    /// A call had no result when the interrupt arrived, so its command may only be about to start.
    pub(super) in_call: bool,
    /// The interrupt withdrew a request of the agent, so it ends the turn, whatever reason the agent reports.
    pub(super) withdrew: bool,
}

impl Interrupt {
    pub(super) fn new(reply: Reply, cancel: Duration, in_call: bool) -> Self {
        let now = Instant::now();
        Self {
            reply,
            tools_end_at: Some(now + TOOLS_END),
            gives_up_at: now + cancel,
            in_call,
            withdrew: false,
        }
    }

    /// Replaces an earlier interrupt.
    pub(super) async fn follow(mut self, before: &mut Option<Self>) -> Result<(), SpoolError> {
        if let Some(first) = before.take() {
            self.withdrew |= first.withdrew;
            first.reply.done().await?;
        }
        *before = Some(self);
        Ok(())
    }
}

pub(super) struct Turn {
    pub(super) id: TurnId,
    /// Number of the prompt whose response ends the turn.
    pub(super) number: u64,
    pub(super) interrupt: Option<Interrupt>,
    /// The prompt, to repeat it in a new conversation if the provider rejects this one. `None` for the first prompt of
    /// a conversation.
    pub(super) again: Option<Prompt>,
    /// The outcome, once the prompt has a response. After that, only subagents keep the turn open (decision 18).
    pub(super) answered: Option<SessionOutcome>,
    /// The last prompt, until the agent reacts to it.
    pub(super) unread: Option<Prompt>,
    /// No prompt runs: the agent's model does not answer, and a resume repeats the prompt.
    pub(super) waits_for_model: bool,
}

impl Turn {
    pub(super) const fn is_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// Whether no prompt runs.
    pub(super) const fn is_answered_or_waits(&self) -> bool {
        self.is_answered() || self.waits_for_model
    }

    /// Whether the turn must end or no prompt runs. It makes no more requests to the owner.
    pub(super) const fn is_ending(&self) -> bool {
        self.interrupt.is_some() || self.is_answered_or_waits()
    }
}

pub(super) struct Compaction {
    /// Number of the prompt whose response ends it.
    pub(super) number: u64,
    pub(super) interrupt: Option<Interrupt>,
    pub(super) reply: Reply,
    /// The agent's text about it.
    pub(super) said: String,
}

impl Compaction {
    /// Handles the parameters of a `session/update` during the compaction.
    pub(super) fn handle(&mut self, parameters: &Value) {
        let Some(update) = parameters.get("update") else { return };
        if text(update, "sessionUpdate") == Some("agent_message_chunk") {
            self.said.push_str(text_at(update, &["content", "text"]).unwrap_or_default());
        }
    }

    /// Ends a failed compaction. Returns its interrupt.
    pub(super) async fn broken_off(self, why: &str) -> Result<Option<Interrupt>, SpoolError> {
        self.reply.refuse(Refusal::invalid(why)).await?;
        Ok(self.interrupt)
    }
}
