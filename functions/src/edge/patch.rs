//! A field of an update: left out, it stays; `null` takes it away; anything else replaces it.

use std::borrow::Cow;

use deserr::{DeserializeError, Deserr, IntoValue, Value, ValuePointerRef};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// What an update says of a field that may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Patch<T> {
    /// Nothing.
    #[default]
    Keep,
    /// It is to be missing.
    Clear,
    /// It is to be this.
    Set(T),
}

impl<T> Patch<T> {
    /// The field after the update.
    pub fn over(&self, before: &Option<T>) -> Option<T>
    where
        T: Clone,
    {
        match self {
            Self::Keep => before.clone(),
            Self::Clear => None,
            Self::Set(value) => Some(value.clone()),
        }
    }

    /// The same for what a value is read as.
    pub fn read<U, E>(self, read: impl FnOnce(T) -> Result<U, E>) -> Result<Patch<U>, E> {
        Ok(match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(read(value)?),
        })
    }
}

/// A field of a value object.
pub fn patched<T: TryFrom<String>>(patch: Patch<String>) -> Result<Patch<T>, T::Error> {
    patch.read(T::try_from)
}

impl<T: Deserr<E>, E: DeserializeError> Deserr<E> for Patch<T> {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, place: ValuePointerRef<'_>) -> Result<Self, E> {
        match value {
            Value::Null => Ok(Self::Clear),
            value => T::deserialize_from_value(value, place).map(Self::Set),
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
