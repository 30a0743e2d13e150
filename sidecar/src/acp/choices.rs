//! Choosing the model, the thinking level and the mode: by whichever way the agent offers.

use pilothouse_domain::value::{Adjustment, ThinkingLevel};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::json;

use super::connection::Connection;
use super::session::{self, SET, notice};
use super::settings::{How, Settings};
use super::translator::Translator;

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// The model.
    Model,
    /// How deeply it thinks.
    Thinking,
    /// The mode.
    Mode,
}

/// A choice: what, and which of the agent's own values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice(Which, String);

impl Choice {
    /// The choice that an adjustment makes; nothing when it makes none. An error is a sentence for a person.
    pub(super) fn of(adjustment: &Adjustment, settings: &Settings) -> Option<Result<Self, String>> {
        match adjustment {
            Adjustment::SetModel { model_id } => Some(Ok(Self(Which::Model, model_id.clone()))),
            Adjustment::CycleModel { direction } => {
                let next = settings.beside(*direction).map(str::to_owned);
                Some(
                    next.map(|model| Self(Which::Model, model))
                        .ok_or_else(|| "this agent lets nobody choose its model".to_owned()),
                )
            }
            Adjustment::SetThinkingLevel { level } => Some(thinking(*level, settings)),
            Adjustment::Compact { .. } | Adjustment::Fork { .. } | Adjustment::SetAllowance { .. } => None,
        }
    }

    /// Makes it. An error is a sentence for a person.
    pub(super) async fn make(
        &self,
        connection: &Connection,
        translator: &mut Translator,
    ) -> Result<(), String> {
        let Self(which, value) = self;
        let settings = &translator.settings;
        let (what, setting) = match which {
            Which::Model => ("model", &settings.model),
            Which::Thinking => ("thinking level", &settings.thinking),
            Which::Mode => ("mode", &settings.mode),
        };
        let setting = setting.as_ref().ok_or_else(|| format!("this agent lets nobody choose its {what}"))?;
        if !setting.values.is_empty() && !setting.values.contains(value) {
            return Err(format!("this agent has no {what} `{value}`; it has {}", setting.values.join(", ")));
        }
        let session = translator.session();
        let (method, parameters) = match &setting.how {
            How::Option(id) => {
                ("session/set_config_option", json!({ "sessionId": session, "configId": id, "value": value }))
            }
            How::SetModel => ("session/set_model", json!({ "sessionId": session, "modelId": value })),
            How::SetMode => ("session/set_mode", json!({ "sessionId": session, "modeId": value })),
        };
        let answer = session::ask(connection, SET, method, parameters).await?;
        let settings = &mut translator.settings;
        let changed = match which {
            Which::Model => &mut settings.model,
            Which::Thinking => &mut settings.thinking,
            Which::Mode => &mut settings.mode,
        };
        if let Some(changed) = changed {
            changed.current.clone_from(value);
        }
        if session::has_options(&answer) {
            settings.options(&answer);
        }
        Ok(())
    }
}

fn thinking(level: ThinkingLevel, settings: &Settings) -> Result<Choice, String> {
    let value = settings.value_of(level).map(str::to_owned);
    value
        .map(|value| Choice(Which::Thinking, value))
        .ok_or_else(|| format!("this agent has no thinking level `{}`", level.name()))
}

/// Makes the choices that a conversation begins with. Answers what there is to tell: what the agent does not have, it goes
/// on without.
pub(super) async fn configure(
    connection: &Connection,
    translator: &mut Translator,
    config: &AgentSessionConfig,
    mode: Option<&str>,
) -> Vec<RawEvent> {
    let mut notices = Vec::new();
    let settings = &translator.settings;
    let wanted = config.model_id.as_str();
    // `default` is whichever model the agent takes by itself.
    if wanted != "default" && settings.model.as_ref().is_none_or(|model| model.current != wanted) {
        let set = Choice(Which::Model, wanted.to_owned()).make(connection, translator).await;
        if let Err(why) = set {
            notices.push(notice("model_not_set", format!("the agent goes on with its own model: {why}")));
        }
    }
    if let Some(level) = config.thinking_level.filter(|level| translator.settings.level() != Some(*level)) {
        let set = match thinking(level, &translator.settings) {
            Ok(choice) => choice.make(connection, translator).await,
            Err(why) => Err(why),
        };
        if let Err(why) = set {
            notices.push(notice(
                "thinking_level_not_set",
                format!("the agent thinks as it does by itself: {why}"),
            ));
        }
    }
    if let Some(mode) = mode {
        let set = Choice(Which::Mode, mode.to_owned()).make(connection, translator).await;
        if let Err(why) = set {
            notices.push(notice("mode_not_set", why));
        }
    }
    notices
}
