//! Fields of an update: an absent field keeps its value, `null` clears it, anything else replaces it.

use std::borrow::Cow;

#[cfg(feature = "server")]
use deserr::{DeserializeError, Deserr, IntoValue, Value, ValuePointerRef};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

/// The change that an update makes to an optional field. A sender leaves out a field that it keeps
/// (`skip_serializing_if = "Patch::is_keep"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(untagged)]
pub enum Patch<T> {
    /// The update does not mention the field.
    #[default]
    Keep,
    /// The update sets the field to `null`.
    Clear,
    /// The update sets a new value.
    Set(T),
}

impl<T> Patch<T> {
    /// Whether the update does not mention the field.
    pub const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// The value of the field after the update.
    pub fn apply_to(&self, before: &Option<T>) -> Option<T>
    where
        T: Clone,
    {
        match self {
            Self::Keep => before.clone(),
            Self::Clear => None,
            Self::Set(value) => Some(value.clone()),
        }
    }

    /// Converts the new value, if there is one.
    pub fn try_map<U, E>(self, convert: impl FnOnce(T) -> Result<U, E>) -> Result<Patch<U>, E> {
        Ok(match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(convert(value)?),
        })
    }
}

#[cfg(feature = "server")]
impl<T: Deserr<E>, E: DeserializeError> Deserr<E> for Patch<T> {
    fn deserialize_from_value<V: IntoValue>(
        value: Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, E> {
        match value {
            Value::Null => Ok(Self::Clear),
            value => T::deserialize_from_value(value, location).map(Self::Set),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Patch<T> {
    fn schema_name() -> Cow<'static, str> {
        Option::<T>::schema_name()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
    fn _schemars_private_is_option() -> bool {
        true
    }
}
