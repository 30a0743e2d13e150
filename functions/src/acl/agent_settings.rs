//! `agent_settings`: the current settings of the agent (S1 5).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{AgentSettings, ThinkingLevel};

use super::Mapping;

pub fn map(model_id: &str, thinking_level: Option<ThinkingLevel>, available_models: &[String]) -> Mapping {
    let settings = AgentSettings {
        model_id: model_id.to_owned(),
        thinking_level,
        available_models: available_models.to_vec(),
    };
    Mapping::to(AgentFact::SettingsReported(settings.fitted()))
}
