//! The trust configuration and the ticks of a project as input.

use deserr::{Deserr, IntoValue, ValuePointerRef};
use pilothouse_domain::tick::TickConfig;
use pilothouse_domain::trust::{Factor, TrustCalibrationConfig, TrustCalibrationProfile, TrustProfileName};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{FieldError, Violations, from_json};

/// The trust configuration of a project: a preset with changes. A refusal names every violation.
#[derive(Debug, Clone)]
pub struct TrustInput(pub TrustCalibrationProfile);

/// The fields of a trust configuration. All of them may be left out.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)] // only its schema is used
struct TrustFields {
    /// The preset. Default: `balanced`.
    name: Option<TrustProfileName>,
    /// Parameters that differ from those of the preset.
    config: Option<TrustCalibrationConfig>,
    /// Multiplies losses: 0 to 10. Default: that of the preset.
    negative_delta_multiplier: Option<Factor>,
    /// Multiplies gains: 0 to 10. Default: that of the preset.
    positive_delta_multiplier: Option<Factor>,
}

impl JsonSchema for TrustInput {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TrustInput".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        TrustFields::json_schema(generator)
    }
}

impl Deserr<Violations> for TrustInput {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let value: Value = Deserr::<Violations>::deserialize_from_value(value, location)?;
        let Value::Object(fields) = value else {
            return Err(Violations::default().with(location, None, "must be an object".to_owned()));
        };
        let mut read = Reader { location, violations: Violations::default() };
        let profile = read.profile(fields);
        if read.violations.0.is_empty() { Ok(Self(profile)) } else { Err(read.violations) }
    }
}

/// Reads fields and collects the violations.
struct Reader<'a> {
    location: ValuePointerRef<'a>,
    violations: Violations,
}

impl Reader<'_> {
    fn refuse(&mut self, field: &str, message: String) {
        self.violations = std::mem::take(&mut self.violations).with(self.location, Some(field), message);
    }

    fn take<T: DeserializeOwned>(&mut self, fields: &mut Map<String, Value>, field: &str, default: T) -> T {
        match fields.remove(field).map(from_json) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(FieldError(message))) => {
                self.refuse(field, message);
                default
            }
        }
    }

    fn profile(&mut self, mut fields: Map<String, Value>) -> TrustCalibrationProfile {
        let name = self.take(&mut fields, "name", TrustProfileName::default());
        let preset = TrustCalibrationProfile::preset(name);
        let changes = self.take(&mut fields, "config", Map::new());
        let profile = TrustCalibrationProfile {
            name,
            config: self.config(&preset.config, changes),
            negative_delta_multiplier: self.take(
                &mut fields,
                "negativeDeltaMultiplier",
                preset.negative_delta_multiplier,
            ),
            positive_delta_multiplier: self.take(
                &mut fields,
                "positiveDeltaMultiplier",
                preset.positive_delta_multiplier,
            ),
        };
        for unknown in fields.keys() {
            let known = "name, config, negativeDeltaMultiplier, positiveDeltaMultiplier";
            self.refuse(unknown, format!("is not known here; known are {known}"));
        }
        for violation in profile.check().err().unwrap_or_default() {
            let text = violation.to_string();
            // The texts start with the field.
            let (field, message) = text.split_once(' ').unwrap_or(("", &text));
            let in_config = if field.ends_with("DeltaMultiplier") { "" } else { "config." };
            self.refuse(&format!("{in_config}{field}"), message.to_owned());
        }
        profile
    }

    /// The configuration of a preset with these changes. Each is read alone, so that a wrong one does not hide another.
    fn config(
        &mut self,
        preset: &TrustCalibrationConfig,
        changes: Map<String, Value>,
    ) -> TrustCalibrationConfig {
        let mut merged = match serde_json::to_value(preset).map(from_json::<Map<_, _>>) {
            Ok(Ok(fields)) => fields,
            Ok(Err(FieldError(message))) => return self.refuse_config(preset, message),
            Err(error) => return self.refuse_config(preset, error.to_string()),
        };
        for (field, value) in changes {
            let alone = Map::from_iter([(field.clone(), value.clone())]);
            match from_json::<TrustCalibrationConfig>(Value::Object(alone)) {
                Ok(_) => {
                    merged.insert(field, value);
                }
                Err(FieldError(message)) => self.refuse(&format!("config.{field}"), message),
            }
        }
        match from_json(Value::Object(merged)) {
            Ok(config) => config,
            Err(FieldError(message)) => self.refuse_config(preset, message),
        }
    }

    fn refuse_config(&mut self, preset: &TrustCalibrationConfig, message: String) -> TrustCalibrationConfig {
        self.refuse("config", message);
        preset.clone()
    }
}

/// Reads the ticks of a project.
pub(super) fn tick_config(value: Value) -> Result<TickConfig, FieldError> {
    let config: TickConfig = from_json(value)?;
    config.check().map_err(|error| FieldError(error.to_string()))?;
    Ok(config)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_domain::trust::TrustOutcome;
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<TrustCalibrationProfile, Vec<(String, String)>> {
        let read = TrustInput::deserialize_from_value(value.into_value(), ValuePointerRef::Origin);
        read.map(|input| input.0).map_err(|all| all.0.into_iter().map(|v| (v.field, v.message)).collect())
    }

    #[test]
    fn preset_supplies_what_is_left_out() {
        let conservative = TrustCalibrationProfile::preset(TrustProfileName::Conservative);
        assert_eq!(read(json!({})), Ok(TrustCalibrationProfile::default()));
        assert_eq!(read(json!({ "name": "conservative" })), Ok(conservative.clone()));
        let changed = read(json!({
            "name": "conservative",
            "config": { "deltaTable": { "human_rejects_tool_call": -5 }, "calibrationMode": true },
        }))
        .unwrap();
        assert_eq!(changed.config.initial_score, conservative.config.initial_score);
        assert_eq!(changed.config.delta_table[&TrustOutcome::HumanRejectsToolCall].to_string(), "-5");
        assert!(changed.config.calibration_mode);
    }

    #[test]
    fn what_is_shown_can_be_sent_back() {
        for name in TrustProfileName::ALL {
            let preset = TrustCalibrationProfile::preset(name);
            assert_eq!(read(serde_json::to_value(&preset).unwrap()), Ok(preset));
        }
    }

    #[test]
    fn every_violation_is_named() {
        let wrong = json!({
            "name": "reckless",
            "config": {
                "initialScore": "high", "decayRate": 1, "floorScore": 60, "ceilingScore": 40,
                "deltaTable": { "human_rejects_tool_call": -500 }, "riskWeights": { "low": 11 },
            },
            "negativeDeltaMultiplier": 50, "colour": 1,
        });
        let mut fields: Vec<_> = read(wrong).unwrap_err().into_iter().map(|(field, _)| field).collect();
        fields.sort();
        let expected = [
            "colour",
            "config.decayRate",
            "config.deltaTable.human_rejects_tool_call",
            "config.floorScore",
            "config.initialScore",
            "config.riskWeights.low",
            "name",
            "negativeDeltaMultiplier",
        ];
        assert_eq!(fields, expected);
    }
}
