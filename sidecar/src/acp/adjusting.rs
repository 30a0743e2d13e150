//! Adjustments: what an owner changes of how the agent works.

use pilothouse_domain::value::Adjustment;

use super::choices::Choice;
use super::driver::{Break, Driver};
use crate::adapter::{Refusal, Reply};

impl Driver {
    /// Changes how the agent works.
    pub(super) async fn adjust(&mut self, adjustment: Adjustment, reply: Reply) -> Result<(), Break> {
        if let Adjustment::Compact { instructions } = adjustment {
            if !self.translator.settings.compacts {
                return Ok(reply.refuse(Refusal::not_supported("compact")).await?);
            }
            self.compactions.push_back((instructions, reply));
            return self.next_turn().await;
        }
        if self.paused {
            return Ok(reply.refuse(Refusal::invalid("the agent is paused")).await?);
        }
        self.ensure_running().await?;
        let Some(choice) = Choice::of(&adjustment, &self.translator.settings) else {
            return Ok(reply.refuse(Refusal::not_supported("adjust")).await?);
        };
        let made = match (choice, &self.agent) {
            (Ok(choice), Some(agent)) => choice.make(&agent.connection, &mut self.translator).await,
            (Ok(_), None) => Err("the agent is not running".to_owned()),
            (Err(why), _) => Err(why),
        };
        if let Err(why) = made {
            return Ok(reply.refuse(Refusal::invalid(why)).await?);
        }
        let model = self.translator.settings.model_id(&self.config.model_id).to_owned();
        self.translator.meter.model(&model);
        // Where the agent is started again, it is started with what was chosen last.
        self.config.model_id = model;
        self.config.thinking_level = self.translator.settings.level().or(self.config.thinking_level);
        self.events.emit(self.translator.settings_told()).await?;
        Ok(reply.done().await?)
    }
}
