//! Selects the model, the thinking level and the mode, with the methods that the agent supports.

use pilothouse_domain::value::{Adjustment, ThinkingLevel};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::json;

use super::connection::Connection;
use super::session::{self, SET};
use super::settings::{SetMethod, Settings};
use super::translator::Translator;
use crate::kit::notices::notice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingKind {
    Model,
    Thinking,
    Mode,
}

/// A setting and the agent's value for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingChange(SettingKind, String);

impl SettingChange {
    /// The setting that an adjustment changes; `None` for other adjustments. The error is a sentence for people.
    pub(super) fn of(adjustment: &Adjustment, settings: &Settings) -> Option<Result<Self, String>> {
        match adjustment {
            Adjustment::SetModel { model_id } => Some(Ok(Self(SettingKind::Model, model_id.clone()))),
            Adjustment::CycleModel { direction } => {
                let next = settings.adjacent_model(*direction).map(str::to_owned);
                Some(
                    next.map(|model| Self(SettingKind::Model, model))
                        .ok_or_else(|| "this agent does not support choosing a model".to_owned()),
                )
            }
            Adjustment::SetThinkingLevel { level } => Some(thinking(*level, settings)),
            Adjustment::Compact { .. }
            | Adjustment::Fork { .. }
            | Adjustment::NewConversation {}
            | Adjustment::SwitchConversation { .. }
            | Adjustment::LabelTurn { .. }
            | Adjustment::SetAllowance { .. } => None,
        }
    }

    /// The error is a sentence for people.
    pub(super) async fn apply(
        &self,
        connection: &Connection,
        translator: &mut Translator,
    ) -> Result<(), String> {
        let Self(which, value) = self;
        let settings = &translator.settings;
        let (what, setting) = match which {
            SettingKind::Model => ("model", &settings.model),
            SettingKind::Thinking => ("thinking level", &settings.thinking),
            SettingKind::Mode => ("mode", &settings.mode),
        };
        let setting =
            setting.as_ref().ok_or_else(|| format!("this agent does not support choosing a {what}"))?;
        if !setting.values.is_empty() && !setting.values.contains(value) {
            return Err(format!("this agent has no {what} `{value}`; it has {}", setting.values.join(", ")));
        }
        let session = translator.session();
        let (method, parameters) = match &setting.set_method {
            SetMethod::Option(id) => {
                ("session/set_config_option", json!({ "sessionId": session, "configId": id, "value": value }))
            }
            SetMethod::SetModel => ("session/set_model", json!({ "sessionId": session, "modelId": value })),
            SetMethod::SetMode => ("session/set_mode", json!({ "sessionId": session, "modeId": value })),
        };
        let response = session::ask(connection, SET, method, parameters).await?;
        let settings = &mut translator.settings;
        let changed = match which {
            SettingKind::Model => &mut settings.model,
            SettingKind::Thinking => &mut settings.thinking,
            SettingKind::Mode => &mut settings.mode,
        };
        if let Some(changed) = changed {
            changed.current.clone_from(value);
        }
        if session::has_options(&response) {
            settings.options(&response);
        }
        Ok(())
    }
}

fn thinking(level: ThinkingLevel, settings: &Settings) -> Result<SettingChange, String> {
    let value = settings.value_of(level).map(str::to_owned);
    value
        .map(|value| SettingChange(SettingKind::Thinking, value))
        .ok_or_else(|| format!("this agent has no thinking level `{}`", level.name()))
}

/// Applies the initial settings of a conversation. Returns notices about settings that the agent does not support.
pub(super) async fn configure(
    connection: &Connection,
    translator: &mut Translator,
    config: &AgentSessionConfig,
    mode: Option<&str>,
) -> Vec<RawEvent> {
    let mut notices = Vec::new();
    let settings = &translator.settings;
    let wanted = config.model_id.as_str();
    // `default` leaves the choice to the agent.
    if wanted != "default" && settings.model.as_ref().is_none_or(|model| model.current != wanted) {
        let set = SettingChange(SettingKind::Model, wanted.to_owned()).apply(connection, translator).await;
        if let Err(why) = set {
            notices.push(notice("model_not_set", format!("the agent uses its own model: {why}")));
        }
    }
    if let Some(level) = config.thinking_level.filter(|level| translator.settings.level() != Some(*level)) {
        let set = match thinking(level, &translator.settings) {
            Ok(change) => change.apply(connection, translator).await,
            Err(why) => Err(why),
        };
        if let Err(why) = set {
            notices.push(notice(
                "thinking_level_not_set",
                format!("the agent uses its own thinking level: {why}"),
            ));
        }
    }
    if let Some(mode) = mode {
        let set = SettingChange(SettingKind::Mode, mode.to_owned()).apply(connection, translator).await;
        if let Err(why) = set {
            notices.push(notice("mode_not_set", why));
        }
    }
    notices
}
