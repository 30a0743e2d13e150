//! Some fields of a brief (S2 `Partial<AgentBrief>`): changes to the brief of an agent, defaults of a template, and the fields of a new
//! agent, which precede these defaults. Omitted fields keep their values, `null` clears an optional field.

use std::borrow::Cow;

use deserr::{Deserr, IntoValue, ValuePointerRef};
use pilothouse_api::Violation;
use pilothouse_api::input::{Violations, join, path_of};
use pilothouse_app::http::Problem;
use pilothouse_domain::project_agent::AgentBrief;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::briefs::input::BriefInput;

/// Some fields of a [`BriefInput`].
#[derive(Debug, Clone)]
pub struct BriefChanges(Map<String, Value>);

impl BriefChanges {
    /// The brief with these changes, in the form of a request.
    ///
    /// # Errors
    /// [`Problem::Invalid`] names every field that has no valid value, as for a new brief.
    pub fn over(&self, brief: &AgentBrief) -> Result<BriefInput, Problem> {
        let Value::Object(fields) = serde_json::to_value(brief).map_err(Problem::internal)? else {
            return Err(Problem::internal("a brief is no object"));
        };
        Ok(self.merged_into(fields)?)
    }

    /// The brief of a new agent, with the defaults of its template.
    ///
    /// # Errors
    /// [`Problem::Invalid`] names every invalid field, with its path below `root`.
    pub fn over_defaults(&self, defaults: &Map<String, Value>, root: &str) -> Result<BriefInput, Problem> {
        Ok(self.merged_into(defaults.clone()).map_err(|violations| below(root, violations))?)
    }

    fn merged_into(&self, mut fields: Map<String, Value>) -> Result<BriefInput, Violations> {
        for (name, value) in &self.0 {
            match value {
                Value::Null => fields.remove(name),
                value => fields.insert(name.clone(), value.clone()),
            };
        }
        deserr::deserialize(Value::Object(fields))
    }
}

fn below(root: &str, Violations(mut all): Violations) -> Violations {
    for violation in &mut all {
        violation.field = join(root, &violation.field);
    }
    Violations(all)
}

impl Deserr<Violations> for BriefChanges {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        match <Value as Deserr<Violations>>::deserialize_from_value(value, location)? {
            Value::Object(fields) => {
                let changes = Self(fields);
                // Names every violation before the agent is read. Placeholders replace the required fields of its brief.
                let required = [("role", "Agent"), ("workstream", "any")];
                let required = required.map(|(name, value)| (name.to_owned(), Value::from(value)));
                let merged = changes.merged_into(required.into_iter().collect());
                merged.map_err(|violations| below(&path_of(location), violations))?;
                Ok(changes)
            }
            _ => Err(Violations(vec![Violation {
                field: path_of(location),
                message: "must be an object with fields of a brief".to_owned(),
            }])),
        }
    }
}

impl JsonSchema for BriefChanges {
    fn schema_name() -> Cow<'static, str> {
        "BriefChanges".into()
    }

    /// The schema of a brief in which every field may be omitted, and optional ones may be `null`.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BriefInput::json_schema(generator);
        let required = schema.remove("required").unwrap_or_default();
        let is_required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|it| it == name));
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
                let is_list = property.get("type").is_some_and(|kind| kind == "array");
                if let Some(fields) = property.as_object_mut().filter(|_| is_list) {
                    fields.insert("type".to_owned(), json!(["array", "null"]));
                    fields.remove("default");
                }
            }
        }
        schema.insert(
            "description".to_owned(),
            json!("Fields of a brief. Omitted fields keep their values, or those of the template; `null` clears an optional field; a \
                   list or object replaces the former one as a whole."),
        );
        schema
    }
}

/// Fields of the brief of agents that start from a template.
#[derive(Debug, Clone, Default)]
pub struct BriefDefaults(Map<String, Value>);

/// Fields of a brief, and those of a template that have the same meaning.
const OF_TEMPLATE: [(&str, &str); 4] = [
    ("adapter", "adapter"),
    ("allowedTools", "allowedTools"),
    ("modelPreference", "modelId"),
    ("providerConfig", "adapterOptions"),
];

impl BriefDefaults {
    pub fn into_fields(self) -> Map<String, Value> {
        self.0
    }
}

impl Deserr<Violations> for BriefDefaults {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let BriefChanges(mut fields) = BriefChanges::deserialize_from_value(value, location)?;
        fields.retain(|_, value| !value.is_null());
        let of_template = OF_TEMPLATE.iter().filter(|(field, _)| fields.contains_key(*field));
        let violation = |(field, template): &(&str, &str)| Violation {
            field: join(&path_of(location), field),
            message: format!("is set for all sessions of the template; set its `{template}` instead"),
        };
        let violations: Vec<_> = of_template.map(violation).collect();
        if violations.is_empty() { Ok(Self(fields)) } else { Err(Violations(violations)) }
    }
}

impl JsonSchema for BriefDefaults {
    fn schema_name() -> Cow<'static, str> {
        "BriefDefaults".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BriefChanges::json_schema(generator);
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| OF_TEMPLATE.iter().all(|(field, _)| field != name));
        }
        let description = "Fields of the brief of agents that start from the template.";
        schema.insert("description".to_owned(), description.into());
        schema
    }
}
