//! Compaction: by the agent's own command for it, as a prompt that is no turn.

use agent_client_protocol::Error;
use serde_json::Value;
use tokio::time::Instant;

use super::driver::{Break, Driver};
use super::json::{one_line, text, text_at};
use super::session::{self, notice};
use super::translator::Listening;
use crate::adapter::{Refusal, Reply};

/// A compaction that runs.
pub(super) struct Compaction {
    /// The prompt whose answer ends it.
    pub(super) number: u64,
    /// Who wants it to end, and until when the agent may take.
    pub(super) interrupt: Option<(Reply, Instant)>,
    reply: Reply,
    /// What the agent says of it.
    said: String,
}

impl Compaction {
    /// Takes the parameters of a `session/update` that comes while it runs.
    pub(super) fn hear(&mut self, parameters: &Value) {
        let Some(update) = parameters.get("update") else { return };
        if text(update, "sessionUpdate") == Some("agent_message_chunk") {
            self.said.push_str(text_at(update, &["content", "text"]).unwrap_or_default());
        }
    }

    /// It came to nothing.
    pub(super) async fn broken_off(self, why: &str) -> Result<(), Break> {
        self.reply.refuse(Refusal::invalid(why)).await?;
        if let Some((interrupt, _)) = self.interrupt {
            interrupt.done().await?;
        }
        Ok(())
    }
}

impl Driver {
    /// Begins a compaction. `instructions`: what the summary is to look out for.
    pub(super) async fn compact(&mut self, instructions: Option<String>, reply: Reply) -> Result<(), Break> {
        if !self.conversation.introduced {
            let refusal = Refusal::invalid("there is nothing to compact: the conversation has not begun");
            return Ok(reply.refuse(refusal).await?);
        }
        self.ensure_running().await?;
        self.prompts += 1;
        let number = self.prompts;
        self.translator.listening = Listening::Aside;
        self.compaction = Some(Compaction { number, interrupt: None, reply, said: String::new() });
        let words = match instructions.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
            Some(words) => format!("/compact {words}"),
            None => "/compact".to_owned(),
        };
        self.connection()?.prompt(number, session::prompt(&self.conversation.id, &[words]));
        Ok(())
    }

    /// The agent has compacted, or not.
    pub(super) async fn compacted(&mut self, answer: Result<Value, Error>) -> Result<(), Break> {
        if answer.as_ref().is_err_and(session::is_gone) {
            // The end of its output follows.
            return Ok(());
        }
        let Some(compaction) = self.compaction.take() else { return Ok(()) };
        if let Some(usage) = answer.as_ref().ok().and_then(|answer| answer.get("usage")) {
            let events = self.translator.meter.turn(usage);
            self.tell(events).await?;
        }
        let why = match &answer {
            Err(error) => Some(session::failed("session/prompt", error)),
            Ok(answer) if text(answer, "stopReason") == Some("cancelled") => {
                Some("it was interrupted".to_owned())
            }
            Ok(_) => None,
        };
        if let Some(why) = why {
            compaction.broken_off(&why).await?;
        } else {
            let said = one_line(&compaction.said);
            let summary =
                if said.is_empty() { "the agent compacted its conversation".to_owned() } else { said };
            self.events.emit(notice("compacted", summary)).await?;
            compaction.reply.done().await?;
            if let Some((interrupt, _)) = compaction.interrupt {
                interrupt.done().await?;
            }
        }
        self.next_turn().await
    }
}
