//! Adjustments of the agent's settings (S1 5).

use pilothouse_agent::session::{CompactionResult, SessionError};
use pilothouse_domain::TurnId;
use pilothouse_domain::value::Adjustment;
use serde_json::json;

use super::driver::Driver;
use crate::adapter::{Refusal, Reply};
use crate::kit::notices::detailed_notice;
use crate::kit::turns::DriverExit;

impl Driver {
    /// Publishes `agent_settings` before the acknowledgement.
    pub(super) async fn adjust(&mut self, adjustment: Adjustment, reply: Reply) -> Result<(), DriverExit> {
        let session = self.session()?.clone();
        let done = match adjustment {
            Adjustment::SetModel { model_id } => {
                session.set_model(&model_id).map(drop).map_err(|e| e.to_string())
            }
            Adjustment::CycleModel { direction } => {
                session.cycle_model(direction).map(drop).map_err(|e| e.to_string())
            }
            Adjustment::SetThinkingLevel { level } => {
                session.set_thinking_level(level).map_err(|e| e.to_string())
            }
            Adjustment::Compact { instructions } => {
                self.compacting.spawn(async move {
                    let result = session.compact(instructions.as_deref()).await;
                    (reply, result)
                });
                return Ok(());
            }
            Adjustment::Fork { before_turn_id } => self.fork(&before_turn_id).await?,
            Adjustment::SetAllowance { allowance_usd } => {
                let set = self.allowance.set(allowance_usd.as_deref());
                if set.is_ok() {
                    self.over_budget = false;
                }
                set.map_err(|e| e.to_string())
            }
        };
        self.drain().await?;
        match done {
            Ok(()) => {
                self.sync_conversation().await?;
                reply.done().await?;
            }
            Err(why) => reply.refuse(Refusal::invalid(why)).await?,
        }
        // Another cap or a cheaper model may let a held agent continue.
        self.reconsider_held_request().await
    }

    pub(super) async fn compacted(
        &mut self,
        reply: Reply,
        result: Result<CompactionResult, SessionError>,
    ) -> Result<(), DriverExit> {
        self.drain().await?;
        match result {
            Ok(_) => {
                self.sync_conversation().await?;
                reply.done().await?;
            }
            Err(error) => reply.refuse(Refusal::invalid(error.to_string())).await?,
        }
        self.confirm_pause().await
    }

    /// Resets the conversation to before a turn. Only possible between turns.
    async fn fork(&self, turn: &TurnId) -> Result<Result<(), String>, DriverExit> {
        if self.turn.is_some() || self.work.is_some() {
            return Ok(Err("the agent is working: a conversation goes back between turns".into()));
        }
        let Some(after) = self.saved_state.before(turn) else {
            return Ok(Err(format!("this conversation has no turn {turn}")));
        };
        if let Err(error) = self.session()?.branch(after) {
            return Ok(Err(error.to_string()));
        }
        let summary = format!("the conversation continues from before the turn {turn}");
        self.events
            .emit(detailed_notice("conversation_forked", summary, json!({ "beforeTurnId": turn })))
            .await?;
        Ok(Ok(()))
    }
}
