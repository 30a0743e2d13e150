//! JSON Schemas of the whole language, as exported to `docs/wire/`.

use schemars::{Schema, generate::SchemaSettings};

use crate::command::IssuedCommand;
use crate::launch::LaunchRequest;
use crate::{Envelope, RawEvent};

/// Every exported schema with its file name.
pub fn all() -> Vec<(&'static str, Schema)> {
    let generator = || SchemaSettings::draft2020_12().into_generator();
    vec![
        ("event-envelope.schema.json", generator().into_root_schema_for::<Envelope<RawEvent>>()),
        ("command-envelope.schema.json", generator().into_root_schema_for::<Envelope<IssuedCommand>>()),
        ("launch-request.schema.json", generator().into_root_schema_for::<LaunchRequest>()),
    ]
}
