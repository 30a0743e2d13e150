//! Parses a model's arguments. The model's schema is derived from the same type, so the two cannot differ.

use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::ToolOutput;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Tool description for models, with the schema of `T`.
pub(crate) fn spec<T: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    let generator = SchemaSettings::draft2020_12().with(|it| it.inline_subschemas = true).into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    // Keywords that a model does not need.
    for name in ["$schema", "title", "description"] {
        schema.remove(name);
    }
    ToolSpec { name: name.to_owned(), description: description.to_owned(), input_schema: schema.into() }
}

/// The error tells the model what is wrong.
pub(crate) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolOutput> {
    serde_json::from_value(arguments)
        .map_err(|e| ToolOutput::error(format!("The arguments do not fit: {e}. Nothing was done.")))
}
