//! Adjustments of a scripted agent (S1 5) and its spending limit (decision 32).

use pilothouse_domain::Usd;
use pilothouse_domain::value::{Adjustment, AgentSettings, CycleDirection};
use pilothouse_wire::RawEvent;
use serde_json::json;

use super::player::{Player, PlayerExit};
use crate::adapter::{Refusal, Reply};
use crate::kit::allowance::exceeded;
use crate::spool::SpoolError;

impl Player {
    /// Publishes the resulting settings before the acknowledgement.
    pub(super) async fn adjust(&mut self, adjustment: Adjustment, reply: Reply) -> Result<(), PlayerExit> {
        let refused = match &adjustment {
            Adjustment::SetModel { model_id } => self.set_model(model_id),
            Adjustment::CycleModel { direction } => self.cycle_model(*direction),
            Adjustment::SetThinkingLevel { level } => {
                self.config.thinking_level = Some(*level);
                None
            }
            Adjustment::Compact { .. } => None,
            Adjustment::Fork { .. }
            | Adjustment::NewConversation {}
            | Adjustment::SwitchConversation { .. }
            | Adjustment::LabelTurn { .. } => self.change_conversations(&adjustment).await?,
            Adjustment::SetAllowance { allowance_usd } => {
                self.allowance.set(allowance_usd.as_deref()).err().map(|invalid| invalid.refusal())
            }
        };
        if let Some(refusal) = refused {
            return Ok(reply.refuse(refusal).await?);
        }
        match adjustment {
            Adjustment::SetModel { .. }
            | Adjustment::CycleModel { .. }
            | Adjustment::SetThinkingLevel { .. } => {
                self.emit_settings().await?;
            }
            Adjustment::Compact { instructions } => {
                self.notice("compaction_started", "Summarises the conversation", instructions.as_deref())
                    .await?;
                self.notice("compaction_ended", "The conversation is summarised", None).await?;
            }
            // Published already.
            Adjustment::Fork { .. }
            | Adjustment::NewConversation {}
            | Adjustment::SwitchConversation { .. }
            | Adjustment::LabelTurn { .. }
            | Adjustment::SetAllowance { .. } => {}
        }
        Ok(reply.done().await?)
    }

    fn set_model(&mut self, model: &str) -> Option<Refusal> {
        let models = &self.source.script.models;
        if !models.is_empty() && !models.iter().any(|known| known == model) {
            return Some(Refusal::invalid(format!("this agent has no model {model}")));
        }
        model.clone_into(&mut self.config.model_id);
        None
    }

    fn cycle_model(&mut self, direction: CycleDirection) -> Option<Refusal> {
        let Some(next) = self.settings().cycled(direction).map(str::to_owned) else {
            return Some(Refusal::invalid("this agent has no other model"));
        };
        self.config.model_id = next;
        None
    }

    fn settings(&self) -> AgentSettings {
        AgentSettings {
            model_id: self.config.model_id.clone(),
            thinking_level: self.config.thinking_level,
            available_models: self.source.script.models.clone(),
        }
    }

    pub(super) async fn emit_settings(&self) -> Result<(), SpoolError> {
        let AgentSettings { model_id, thinking_level, available_models } = self.settings();
        self.events.emit(RawEvent::AgentSettings { model_id, thinking_level, available_models }).await
    }

    async fn notice(&self, name: &str, summary: &str, detail: Option<&str>) -> Result<(), SpoolError> {
        let detail = detail.map(|text| json!({ "instructions": text }));
        self.events.emit(RawEvent::Notice { name: name.into(), summary: summary.into(), detail }).await
    }

    /// Holds before a call that may cost more than the remaining allowance, until the owner raises it or interrupts the
    /// turn.
    pub(super) async fn price(&mut self, needed: Usd) -> Result<(), PlayerExit> {
        let mut published = None;
        while let Some(left) = self.allowance.left(self.spent) {
            if needed <= left {
                break;
            }
            if published.replace(self.allowance) != Some(self.allowance) {
                self.events.emit(exceeded(Some(needed), left)).await?;
            }
            self.command().await?;
        }
        // The agent continues when it is resumed, even if the allowance suffices earlier.
        while self.paused {
            self.command().await?;
        }
        Ok(())
    }
}
