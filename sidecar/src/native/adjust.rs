//! Adjustments of the agent's settings (S1 5).

use pilothouse_agent::session::{CompactionResult, SessionError};
use pilothouse_domain::value::Adjustment;

use super::driver::Driver;
use crate::adapter::{Refusal, Reply};
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
            conversations @ (Adjustment::Fork { .. }
            | Adjustment::NewConversation {}
            | Adjustment::SwitchConversation { .. }
            | Adjustment::LabelTurn { .. }) => self.change_conversations(&conversations).await?,
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
}
