//! Parsing of inputs. A refusal lists every violation of a request, not only the first one.
//!
//! An input is a struct that derives `Deserr` with `error = Violations` and `deny_unknown_fields`. Its fields are
//! value objects of the domain, so that each rule and its message exist once, in the domain.

use std::ops::ControlFlow;

use deserr::{DeserializeError, ErrorKind, IntoValue, MergeWithError, ValuePointerRef};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Violation;

/// All violations of an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    fn with(mut self, location: ValuePointerRef<'_>, field: Option<&str>, message: String) -> Self {
        let path = path_of(location);
        self.0.push(Violation {
            field: field.map_or_else(|| path.clone(), |field| join(&path, field)),
            message,
        });
        self
    }
}

/// `autoContinueConfig.validationCriteria[0].type`
fn path_of(location: ValuePointerRef<'_>) -> String {
    match location {
        ValuePointerRef::Origin => String::new(),
        ValuePointerRef::Key { key, prev } => join(&path_of(*prev), key),
        ValuePointerRef::Index { index, prev } => format!("{}[{index}]", path_of(*prev)),
    }
}

fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

impl DeserializeError for Violations {
    fn error<V: IntoValue>(
        self_: Option<Self>,
        error: ErrorKind<'_, V>,
        location: ValuePointerRef<'_>,
    ) -> ControlFlow<Self, Self> {
        let (field, message) = match error {
            ErrorKind::IncorrectValueKind { actual, accepted } => {
                let accepted: Vec<_> = accepted.iter().map(|kind| kind.to_string().to_lowercase()).collect();
                (
                    None,
                    format!(
                        "must be {}, but is {}",
                        accepted.join(" or "),
                        actual.kind().to_string().to_lowercase()
                    ),
                )
            }
            ErrorKind::MissingField { field } => (Some(field), "is missing".to_owned()),
            ErrorKind::UnknownKey { key, accepted } => {
                (Some(key), format!("is not known here; known are {}", accepted.join(", ")))
            }
            ErrorKind::UnknownValue { value, accepted } => {
                (None, format!("`{value}` is none of {}", accepted.join(", ")))
            }
            ErrorKind::BadSequenceLen { expected, .. } => (None, format!("must have {expected} entries")),
            ErrorKind::Unexpected { msg } => (None, msg),
        };
        ControlFlow::Continue(self_.unwrap_or_default().with(location, field, message))
    }
}

impl MergeWithError<Self> for Violations {
    fn merge(self_: Option<Self>, other: Self, _: ValuePointerRef<'_>) -> ControlFlow<Self, Self> {
        let mut all = self_.unwrap_or_default();
        all.0.extend(other.0);
        ControlFlow::Continue(all)
    }
}

/// The error of a value object becomes a violation of its field.
impl<E: std::error::Error> MergeWithError<E> for Violations {
    fn merge(self_: Option<Self>, other: E, location: ValuePointerRef<'_>) -> ControlFlow<Self, Self> {
        ControlFlow::Continue(self_.unwrap_or_default().with(location, None, other.to_string()))
    }
}

/// Why the value of a field is refused, as a sentence without its subject: `must be 1 to 99`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FieldError(pub String);

/// Converts an optional string into a value object. Absent and `null` are the same.
pub fn optional<T: TryFrom<String>>(value: Option<String>) -> Result<Option<T>, T::Error> {
    value.map(T::try_from).transpose()
}

/// Reads a value of the domain with serde.
pub fn from_json<T: DeserializeOwned>(value: Value) -> Result<T, FieldError> {
    serde_json::from_value(value).map_err(|error| FieldError(error.to_string()))
}

/// Reads an optional value of the domain with serde. Absent and `null` are the same.
pub fn optional_from_json<T: DeserializeOwned>(value: Option<Value>) -> Result<Option<T>, FieldError> {
    value.filter(|v| !v.is_null()).map(from_json).transpose()
}

/// Parses a string.
#[allow(clippy::needless_pass_by_value)] // deserr passes values
pub fn parse<T: std::str::FromStr>(value: String) -> Result<T, T::Err> {
    value.parse()
}

/// Parses an optional string. Absent and `null` are the same.
pub fn optional_parse<T: std::str::FromStr>(value: Option<String>) -> Result<Option<T>, T::Err> {
    value.map(|v| v.parse()).transpose()
}

/// Parses a list of ids and refuses duplicates.
pub fn distinct_ids<T>(texts: Vec<String>) -> Result<Vec<T>, FieldError>
where
    T: std::str::FromStr<Err: std::fmt::Display> + std::fmt::Display + PartialEq,
{
    let (mut ids, mut wrong) = (Vec::with_capacity(texts.len()), Vec::new());
    for text in texts {
        match text.parse::<T>() {
            Ok(id) if ids.contains(&id) => wrong.push(format!("{id} is listed twice")),
            Ok(id) => ids.push(id),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() { Ok(ids) } else { Err(FieldError(wrong.join("; "))) }
}
