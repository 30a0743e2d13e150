//! Adjustments: changes of the agent's settings by the owner.

use pilothouse_domain::value::Adjustment;

use super::driver::Driver;
use super::setting_change::SettingChange;
use crate::adapter::{Refusal, Reply};
use crate::kit::start::GIVEN_UP;
use crate::kit::turns::DriverExit;

impl Driver {
    pub(super) async fn adjust(&mut self, adjustment: Adjustment, reply: Reply) -> Result<(), DriverExit> {
        if let Adjustment::Compact { instructions } = adjustment {
            if !self.translator.settings.compacts {
                return Ok(reply.refuse(Refusal::not_supported("compact")).await?);
            }
            self.compactions.push(instructions, reply);
            return self.next_turn().await;
        }
        if let Adjustment::SetAllowance { allowance_usd } = adjustment {
            return self.set_allowance(allowance_usd, reply).await;
        }
        if self.paused {
            return Ok(reply.refuse(Refusal::invalid("the agent is paused")).await?);
        }
        if !self.ensure_running().await? {
            return Ok(reply.refuse(Refusal::invalid(GIVEN_UP)).await?);
        }
        let Some(change) = SettingChange::of(&adjustment, &self.translator.settings) else {
            return Ok(reply.refuse(Refusal::not_supported("adjust")).await?);
        };
        let made = match (change, &self.agent) {
            (Ok(change), Some(agent)) => change.apply(&agent.connection, &mut self.translator).await,
            (Ok(_), None) => Err("the agent is not running".to_owned()),
            (Err(why), _) => Err(why),
        };
        if let Err(why) = made {
            return Ok(reply.refuse(Refusal::invalid(why)).await?);
        }
        let model = self.translator.settings.model_id(&self.config.model_id).to_owned();
        self.translator.meter.model(&model);
        // A restarted agent starts with the latest choice.
        self.config.model_id = model;
        self.config.thinking_level = self.translator.settings.level().or(self.config.thinking_level);
        self.events.emit(self.translator.settings_event()).await?;
        Ok(reply.done().await?)
    }
}
