//! What an agent can be set to: models, thinking levels and modes, from whichever of the protocol's three ways it offers; and
//! whether it can be told to summarise.

use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use super::json::{list, text};

/// How a setting is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// `session/set_config_option` with this id.
    Option(String),
    /// `session/set_model`.
    SetModel,
    /// `session/set_mode`.
    SetMode,
}

/// A setting and what it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// How it is changed.
    pub(super) how: How,
    /// What it is.
    pub(super) current: String,
    /// What it can be.
    pub(super) values: Vec<String>,
}

/// The settings of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// The model.
    pub(super) model: Option<Setting>,
    /// How deeply it thinks.
    pub(super) thinking: Option<Setting>,
    /// The mode: ask, plan, accept edits.
    pub(super) mode: Option<Setting>,
    /// Whether it has a command that summarises the conversation.
    pub(super) compacts: bool,
}

impl Settings {
    /// Takes the answer to `session/new`, `load` or `resume`.
    pub(super) fn opened(&mut self, answer: &Value) {
        if let Some(models) = answer.get("models") {
            self.model = setting(How::SetModel, models, "currentModelId", "availableModels", "modelId");
        }
        if let Some(modes) = answer.get("modes") {
            self.mode = setting(How::SetMode, modes, "currentModeId", "availableModes", "id");
        }
        self.options(answer);
    }

    /// Takes `configOptions`, which hold all of them.
    pub(super) fn options(&mut self, answer: &Value) {
        for option in list(answer, "configOptions") {
            let Some(id) = text(option, "id") else { continue };
            let Some(current) = text(option, "currentValue") else { continue };
            let read = || {
                let values =
                    flat(list(option, "options")).filter_map(|value| text(value, "value")).map(str::to_owned);
                Some(Setting {
                    how: How::Option(id.to_owned()),
                    current: current.to_owned(),
                    values: values.collect(),
                })
            };
            match text(option, "category").unwrap_or(id) {
                "model" => self.model = read(),
                "thought_level" => self.thinking = read(),
                // Where there is a mode of its own it is changed by that; the option only repeats it.
                "mode" => match &mut self.mode {
                    Some(mode) => current.clone_into(&mut mode.current),
                    None => self.mode = read(),
                },
                _ => {}
            }
        }
    }

    /// Takes a `current_mode_update`. Answers whether it changed.
    pub(super) fn mode_is(&mut self, id: &str) -> bool {
        match &mut self.mode {
            Some(mode) if mode.current == id => false,
            Some(mode) => {
                id.clone_into(&mut mode.current);
                true
            }
            None => {
                self.mode = Some(Setting { how: How::SetMode, current: id.to_owned(), values: Vec::new() });
                true
            }
        }
    }

    /// Takes an `available_commands_update`, which holds all of them.
    pub(super) fn commands(&mut self, update: &Value) {
        self.compacts =
            list(update, "availableCommands").iter().any(|command| text(command, "name") == Some("compact"));
    }

    /// How deeply it thinks, where it says so.
    pub(super) fn level(&self) -> Option<ThinkingLevel> {
        self.thinking.as_ref().and_then(|setting| level(&setting.current))
    }

    /// The model that works, as the agent calls it; `otherwise` when it does not say.
    pub(super) fn model_id<'a>(&'a self, otherwise: &'a str) -> &'a str {
        self.model.as_ref().map_or(otherwise, |model| &model.current)
    }

    /// What the agent works with now (S1 5).
    pub(super) fn told(&self, otherwise: &str) -> RawEvent {
        RawEvent::AgentSettings {
            model_id: self.model_id(otherwise).to_owned(),
            thinking_level: self.level(),
            available_models: self.model.as_ref().map(|model| model.values.clone()).unwrap_or_default(),
        }
    }

    /// The value of the thinking setting that stands for a level.
    pub(super) fn value_of(&self, wanted: ThinkingLevel) -> Option<&str> {
        let values = &self.thinking.as_ref()?.values;
        values.iter().find(|value| level(value) == Some(wanted)).map(String::as_str)
    }

    /// The model beside the current one.
    pub(super) fn beside(&self, direction: CycleDirection) -> Option<&str> {
        let Setting { current, values, .. } = self.model.as_ref()?;
        let at = values.iter().position(|value| value == current)?;
        let step = match direction {
            CycleDirection::Forward => 1,
            CycleDirection::Backward => values.len() - 1,
        };
        values.get((at + step) % values.len()).map(String::as_str)
    }
}

fn setting(how: How, of: &Value, current: &str, values: &str, id: &str) -> Option<Setting> {
    let current = text(of, current)?.to_owned();
    let values = list(of, values).iter().filter_map(|value| text(value, id)).map(str::to_owned).collect();
    Some(Setting { how, current, values })
}

/// Values may stand in groups.
fn flat(values: &[Value]) -> impl Iterator<Item = &Value> {
    values.iter().flat_map(|value| match value.get("options") {
        Some(Value::Array(group)) => group.as_slice(),
        _ => std::slice::from_ref(value),
    })
}

/// A level by the name that an agent has for it.
fn level(name: &str) -> Option<ThinkingLevel> {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "none" | "disabled" => Some(ThinkingLevel::Off),
        "xhigh" | "ultra" => Some(ThinkingLevel::Max),
        name => ThinkingLevel::ALL.into_iter().find(|level| level.name() == name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn models_come_as_options_in_groups_or_by_the_way_of_older_agents() {
        let mut settings = Settings::default();
        settings.opened(&json!({"configOptions": [
            {"id": "m", "category": "model", "currentValue": "b",
             "options": [{"group": "g", "options": [{"value": "a"}, {"value": "b"}]}, {"value": "c"}]},
            {"id": "t", "category": "thought_level", "currentValue": "low", "options": [{"value": "low"}, {"value": "xhigh"}]}]}));
        assert_eq!(settings.model_id("x"), "b");
        assert_eq!(settings.beside(CycleDirection::Forward), Some("c"));
        assert_eq!(settings.beside(CycleDirection::Backward), Some("a"));
        assert_eq!(settings.value_of(ThinkingLevel::Max), Some("xhigh"));
        assert_eq!(settings.value_of(ThinkingLevel::Minimal), None);
        let mut older = Settings::default();
        older.opened(&json!({"models": {"currentModelId": "a", "availableModels": [{"modelId": "a"}]}}));
        assert_eq!(older.model.as_ref().unwrap().how, How::SetModel);
        assert_eq!(older.beside(CycleDirection::Backward), Some("a"));
    }

    #[test]
    fn a_mode_is_news_only_when_it_changes() {
        let mut settings = Settings::default();
        settings.opened(&json!({"modes": {"currentModeId": "default", "availableModes": [{"id": "default"}, {"id": "plan"}]}}));
        assert!(!settings.mode_is("default"));
        assert!(settings.mode_is("plan"));
        assert_eq!(settings.mode.unwrap().values, ["default", "plan"]);
    }
}
