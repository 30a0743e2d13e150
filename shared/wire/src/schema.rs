//! JSON Schemas of the protocol, as exported to `docs/wire/`.

use schemars::{Schema, generate::SchemaSettings};

use crate::command::IssuedCommand;
use crate::launch::LaunchRequest;
use crate::{Envelope, RawEvent};

/// All exported schemas with their file names.
pub fn all() -> Vec<(&'static str, Schema)> {
    let generator = || SchemaSettings::draft2020_12().into_generator();
    vec![
        ("event-envelope.schema.json", generator().into_root_schema_for::<Envelope<RawEvent>>()),
        ("command-envelope.schema.json", generator().into_root_schema_for::<Envelope<IssuedCommand>>()),
        ("launch-request.schema.json", generator().into_root_schema_for::<LaunchRequest>()),
    ]
}
