//! The agent's models, thinking levels and modes, read from any of the protocol's three mechanisms, and whether the
//! agent has a command for compaction.

use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use crate::kit::json::{list, text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SetMethod {
    /// `session/set_config_option` with this id.
    Option(String),
    /// `session/set_model`.
    SetModel,
    /// `session/set_mode`.
    SetMode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) set_method: SetMethod,
    pub(super) current: String,
    pub(super) values: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) model: Option<Setting>,
    pub(super) thinking: Option<Setting>,
    /// The mode, for example ask, plan or accept edits.
    pub(super) mode: Option<Setting>,
    pub(super) compacts: bool,
}

impl Settings {
    /// Reads the response to `session/new`, `load` or `resume`.
    pub(super) fn opened(&mut self, response: &Value) {
        if let Some(models) = response.get("models") {
            self.model = setting(SetMethod::SetModel, models, "currentModelId", "availableModels", "modelId");
        }
        if let Some(modes) = response.get("modes") {
            self.mode = setting(SetMethod::SetMode, modes, "currentModeId", "availableModes", "id");
        }
        self.options(response);
    }

    /// Reads `configOptions`, which lists all options.
    pub(super) fn options(&mut self, response: &Value) {
        for option in list(response, "configOptions") {
            let Some(id) = text(option, "id") else { continue };
            let Some(current) = text(option, "currentValue") else { continue };
            let read = || {
                let values =
                    flat(list(option, "options")).filter_map(|value| text(value, "value")).map(str::to_owned);
                Some(Setting {
                    set_method: SetMethod::Option(id.to_owned()),
                    current: current.to_owned(),
                    values: values.collect(),
                })
            };
            match text(option, "category").unwrap_or(id) {
                "model" => self.model = read(),
                "thought_level" => self.thinking = read(),
                // If the agent has a separate mode setting, this option only repeats it.
                "mode" => match &mut self.mode {
                    Some(mode) => current.clone_into(&mut mode.current),
                    None => self.mode = read(),
                },
                _ => {}
            }
        }
    }

    /// Handles a `current_mode_update`. Returns whether the mode changed.
    pub(super) fn mode_is(&mut self, id: &str) -> bool {
        match &mut self.mode {
            Some(mode) if mode.current == id => false,
            Some(mode) => {
                id.clone_into(&mut mode.current);
                true
            }
            None => {
                self.mode = Some(Setting {
                    set_method: SetMethod::SetMode,
                    current: id.to_owned(),
                    values: Vec::new(),
                });
                true
            }
        }
    }

    /// Handles an `available_commands_update`, which lists all commands.
    pub(super) fn commands(&mut self, update: &Value) {
        self.compacts =
            list(update, "availableCommands").iter().any(|command| text(command, "name") == Some("compact"));
    }

    pub(super) fn level(&self) -> Option<ThinkingLevel> {
        self.thinking.as_ref().and_then(|setting| level(&setting.current))
    }

    /// The agent's name of the current model, or `otherwise` if it does not report one.
    pub(super) fn model_id<'a>(&'a self, otherwise: &'a str) -> &'a str {
        self.model.as_ref().map_or(otherwise, |model| &model.current)
    }

    /// The event with the current settings (S1 5).
    pub(super) fn to_event(&self, otherwise: &str) -> RawEvent {
        RawEvent::AgentSettings {
            model_id: self.model_id(otherwise).to_owned(),
            thinking_level: self.level(),
            available_models: self.model.as_ref().map(|model| model.values.clone()).unwrap_or_default(),
        }
    }

    /// Whether another model can be selected. An agent that lists no models may accept any.
    pub(super) fn has_other_models(&self) -> bool {
        self.model.as_ref().is_some_and(|model| model.values.len() != 1)
    }

    /// Whether another thinking level can be selected. An agent may offer one, or only levels without a name here.
    pub(super) fn has_other_levels(&self) -> bool {
        let values = self.thinking.iter().flat_map(|thinking| &thinking.values);
        let mut levels = values.filter_map(|value| level(value));
        levels.next().is_some_and(|first| levels.any(|other| other != first))
    }

    pub(super) fn value_of(&self, wanted: ThinkingLevel) -> Option<&str> {
        let values = &self.thinking.as_ref()?.values;
        values.iter().find(|value| level(value) == Some(wanted)).map(String::as_str)
    }

    pub(super) fn adjacent_model(&self, direction: CycleDirection) -> Option<&str> {
        let Setting { current, values, .. } = self.model.as_ref()?;
        let at = values.iter().position(|value| value == current)?;
        let step = match direction {
            CycleDirection::Forward => 1,
            CycleDirection::Backward => values.len() - 1,
        };
        values.get((at + step) % values.len()).map(String::as_str)
    }
}

fn setting(set_method: SetMethod, of: &Value, current: &str, values: &str, id: &str) -> Option<Setting> {
    let current = text(of, current)?.to_owned();
    let values = list(of, values).iter().filter_map(|value| text(value, id)).map(str::to_owned).collect();
    Some(Setting { set_method, current, values })
}

/// Removes the groups.
fn flat(values: &[Value]) -> impl Iterator<Item = &Value> {
    values.iter().flat_map(|value| match value.get("options") {
        Some(Value::Array(group)) => group.as_slice(),
        _ => std::slice::from_ref(value),
    })
}

/// The level for an agent's name of it.
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
    fn models_are_read_from_grouped_options_or_the_older_field() {
        let mut settings = Settings::default();
        settings.opened(&json!({"configOptions": [
            {"id": "m", "category": "model", "currentValue": "b",
             "options": [{"group": "g", "options": [{"value": "a"}, {"value": "b"}]}, {"value": "c"}]},
            {"id": "t", "category": "thought_level", "currentValue": "low", "options": [{"value": "low"}, {"value": "xhigh"}]}]}));
        assert_eq!(settings.model_id("x"), "b");
        assert_eq!(settings.adjacent_model(CycleDirection::Forward), Some("c"));
        assert_eq!(settings.adjacent_model(CycleDirection::Backward), Some("a"));
        assert_eq!(settings.value_of(ThinkingLevel::Max), Some("xhigh"));
        assert_eq!(settings.value_of(ThinkingLevel::Minimal), None);
        let mut older = Settings::default();
        older.opened(&json!({"models": {"currentModelId": "a", "availableModels": [{"modelId": "a"}]}}));
        assert_eq!(older.model.as_ref().unwrap().set_method, SetMethod::SetModel);
        assert_eq!(older.adjacent_model(CycleDirection::Backward), Some("a"));
    }

    #[test]
    fn single_value_is_no_choice() {
        let offers = |models: &[&str], levels: &[&str]| {
            let option = |category: &str, values: &[&str]| {
                let options: Vec<_> = values.iter().map(|value| json!({ "value": value })).collect();
                json!({"id": category, "category": category, "currentValue": values[0], "options": options})
            };
            let mut settings = Settings::default();
            settings.opened(
                &json!({"configOptions": [option("model", models), option("thought_level", levels)]}),
            );
            (settings.has_other_models(), settings.has_other_levels())
        };
        assert_eq!(offers(&["a"], &["off"]), (false, false));
        assert_eq!(offers(&["a", "b"], &["none", "off", "own-name"]), (true, false));
        assert_eq!(offers(&["a"], &["off", "low"]), (false, true));
        assert_eq!(
            (Settings::default().has_other_models(), Settings::default().has_other_levels()),
            (false, false)
        );
    }

    #[test]
    fn mode_is_reported_only_when_it_changes() {
        let mut settings = Settings::default();
        settings.opened(&json!({"modes": {"currentModeId": "default", "availableModes": [{"id": "default"}, {"id": "plan"}]}}));
        assert!(!settings.mode_is("default"));
        assert!(settings.mode_is("plan"));
        assert_eq!(settings.mode.unwrap().values, ["default", "plan"]);
    }
}
