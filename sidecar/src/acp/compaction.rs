//! Compaction with the agent's own command, sent as a prompt that is not a turn.

use agent_client_protocol::Error;
use serde_json::Value;

use super::driver::Driver;
use super::prompt::Prompt;
use super::session;
use super::translator::UpdateMode;
use super::work::Compaction;
use crate::adapter::{Refusal, Reply};
use crate::kit::deferral::compact_command;
use crate::kit::json::{one_line, text};
use crate::kit::notices::notice;
use crate::kit::turns::DriverExit;

impl Driver {
    /// Starts a compaction. `instructions` are the focus of the summary.
    pub(super) async fn compact(
        &mut self,
        instructions: Option<String>,
        reply: Reply,
    ) -> Result<(), DriverExit> {
        if !self.conversation.introduced {
            return Ok(reply.refuse(Refusal::nothing_to_compact()).await?);
        }
        if !self.ensure_running().await? {
            self.compactions.put_back(instructions, reply);
            return Ok(());
        }
        self.prompts += 1;
        let number = self.prompts;
        self.translator.update_mode = UpdateMode::Ignored;
        self.compaction = Some(Compaction { number, interrupt: None, reply, said: String::new() });
        let command = Prompt::of_text(compact_command(instructions.as_deref()));
        if let Some(agent) = &mut self.agent {
            agent.process.tools.turn_begins();
        }
        self.connection()?.prompt(number, session::prompt(&self.conversation.id, &command));
        Ok(())
    }

    pub(super) async fn compacted(&mut self, response: Result<Value, Error>) -> Result<(), DriverExit> {
        if response.as_ref().is_err_and(session::is_gone) {
            // `Closed` follows.
            return Ok(());
        }
        let Some(compaction) = self.compaction.take() else { return Ok(()) };
        if let Ok(response) = &response {
            let events = self.translator.meter.turn(response);
            self.emit(events).await?;
        }
        let why = match &response {
            Err(error) => Some(session::failed("session/prompt", error)),
            Ok(response) if text(response, "stopReason") == Some("cancelled") => {
                Some("it was interrupted".to_owned())
            }
            Ok(_) => None,
        };
        let interrupt = if let Some(why) = why {
            compaction.broken_off(&why).await?
        } else {
            let said = one_line(&compaction.said);
            let summary =
                if said.is_empty() { "the agent compacted its conversation".to_owned() } else { said };
            self.events.emit(notice("compacted", summary)).await?;
            compaction.reply.done().await?;
            compaction.interrupt
        };
        if let Some(interrupt) = interrupt {
            self.confirm(interrupt).await?;
        }
        self.next_turn().await
    }
}
