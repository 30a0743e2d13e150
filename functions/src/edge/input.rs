//! Inputs: read as a whole, so that a refusal names everything that is wrong and not only the first thing.
//!
//! An input is a struct that derives `Deserr` with `error = Violations` and `deny_unknown_fields`; its fields are the
//! domain's value objects, so that each rule stands once, with its sentence, in the domain.

use std::ops::ControlFlow;

use axum::extract::{FromRequest, Request};
use axum::response::IntoResponse;
use bytes::Bytes;
use deserr::{DeserializeError, Deserr, ErrorKind, IntoValue, MergeWithError, ValuePointerRef};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Problem;
use crate::api::Violation;

/// The largest body of a request in bytes.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

/// Everything that is wrong with an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    fn with(mut self, location: ValuePointerRef<'_>, field: Option<&str>, message: String) -> Self {
        let place = spelled(location);
        self.0.push(Violation {
            field: field.map_or_else(|| place.clone(), |field| joined(&place, field)),
            message,
        });
        self
    }
}

/// `autoContinueConfig.validationCriteria[0].type`
fn spelled(place: ValuePointerRef<'_>) -> String {
    match place {
        ValuePointerRef::Origin => String::new(),
        ValuePointerRef::Key { key, prev } => joined(&spelled(*prev), key),
        ValuePointerRef::Index { index, prev } => format!("{}[{index}]", spelled(*prev)),
    }
}

fn joined(parent: &str, key: &str) -> String {
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

/// What a value object says against a value.
impl<E: std::error::Error> MergeWithError<E> for Violations {
    fn merge(self_: Option<Self>, other: E, location: ValuePointerRef<'_>) -> ControlFlow<Self, Self> {
        ControlFlow::Continue(self_.unwrap_or_default().with(location, None, other.to_string()))
    }
}

impl From<Violations> for Problem {
    fn from(violations: Violations) -> Self {
        Self::Invalid(violations.0)
    }
}

/// An optional field of a value object: absent and `null` are the same.
pub fn maybe<T: TryFrom<String>>(value: Option<String>) -> Result<Option<T>, T::Error> {
    value.map(T::try_from).transpose()
}

/// A sentence against a value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Said(pub String);

/// A field of a type that the domain reads with serde.
pub fn by_serde<T: DeserializeOwned>(value: Value) -> Result<T, Said> {
    serde_json::from_value(value).map_err(|error| Said(error.to_string()))
}

/// An optional field of a type that the domain reads with serde.
pub fn maybe_by_serde<T: DeserializeOwned>(value: Option<Value>) -> Result<Option<T>, Said> {
    value.filter(|v| !v.is_null()).map(by_serde).transpose()
}

/// A required field of a type that is read from a string.
#[allow(clippy::needless_pass_by_value)] // deserr hands values over
pub fn parsed<T: std::str::FromStr>(value: String) -> Result<T, T::Err> {
    value.parse()
}

/// An optional field of a type that is read from a string.
pub fn maybe_parsed<T: std::str::FromStr>(value: Option<String>) -> Result<Option<T>, T::Err> {
    value.map(|v| v.parse()).transpose()
}

/// A list of ids, each once.
pub fn distinct_ids<T>(texts: Vec<String>) -> Result<Vec<T>, Said>
where
    T: std::str::FromStr<Err: std::fmt::Display> + std::fmt::Display + PartialEq,
{
    let (mut ids, mut wrong) = (Vec::with_capacity(texts.len()), Vec::new());
    for text in texts {
        match text.parse::<T>() {
            Ok(id) if ids.contains(&id) => wrong.push(format!("{id} stands there twice")),
            Ok(id) => ids.push(id),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() { Ok(ids) } else { Err(Said(wrong.join("; "))) }
}

/// A JSON body, with the hash that makes an idempotency key remember it.
pub struct Body<T> {
    /// The input.
    pub input: T,
    /// SHA-256 of the bytes.
    pub hash: String,
}

/// A body that must be empty or an empty object: what a command without an input takes.
pub struct NoBody;

async fn bytes_of(request: Request) -> Result<Bytes, Problem> {
    axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES)
        .await
        .map_err(|_| Problem::TooLarge { limit: MAX_BODY_BYTES })
}

/// Reads an input from the bytes of a body. An empty body is an empty object.
pub fn read<T: Deserr<Violations>>(bytes: &[u8]) -> Result<T, Problem> {
    let value: Value = if bytes.iter().all(u8::is_ascii_whitespace) {
        Value::Object(serde_json::Map::new())
    } else {
        serde_json::from_slice(bytes)
            .map_err(|error| Problem::invalid("", format!("the body is not JSON: {error}")))?
    };
    deserr::deserialize::<T, _, Violations>(value).map_err(Into::into)
}

impl<T: Deserr<Violations>, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = axum::response::Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        let bytes = bytes_of(request).await.map_err(IntoResponse::into_response)?;
        let input = read(&bytes).map_err(IntoResponse::into_response)?;
        Ok(Self { input, hash: pilothouse_wire::keys::hex(&Sha256::digest(&bytes)) })
    }
}

impl<S: Send + Sync> FromRequest<S> for NoBody {
    type Rejection = axum::response::Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        #[derive(Deserr)]
        #[deserr(error = Violations, deny_unknown_fields)]
        struct Nothing {}
        let bytes = bytes_of(request).await.map_err(IntoResponse::into_response)?;
        read::<Nothing>(&bytes).map_err(IntoResponse::into_response)?;
        Ok(Self)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sessions::start::Start;

    fn violations(json: &str) -> Vec<(String, String)> {
        match read::<Start>(json.as_bytes()) {
            Err(Problem::Invalid(all)) => all.into_iter().map(|v| (v.field, v.message)).collect(),
            Err(other) => vec![(String::new(), other.to_string())],
            Ok(_) => Vec::new(),
        }
    }

    fn fields(json: &str) -> Vec<String> {
        let mut fields: Vec<_> = violations(json).into_iter().map(|(field, _)| field).collect();
        fields.sort();
        fields
    }

    #[test]
    fn everything_that_is_wrong_is_named_at_once() {
        let objective = "x".repeat(2001);
        let json = format!(
            r#"{{ "workingDirectory": "here", "objective": "{objective}", "budgetCapUsd": "-1", "warnAtPercent": 100,
                 "labels": 7, "colour": "red", "planApprovalRequired": "yes" }}"#
        );
        let wrong = [
            "budgetCapUsd",
            "colour",
            "labels",
            "objective",
            "planApprovalRequired",
            "warnAtPercent",
            "workingDirectory",
        ];
        assert_eq!(fields(&json), wrong);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(fields(""), ["budgetCapUsd", "objective", "workingDirectory"]);
        assert_eq!(fields("{}"), ["budgetCapUsd", "objective", "workingDirectory"]);
    }

    #[test]
    fn a_template_stands_for_what_is_left_open() {
        let of = |cap: &str| {
            let id = "01900000-0000-7000-8000-000000000001";
            format!(r#"{{ "workingDirectory": "/w", "objective": "Do it", "templateId": "{id}"{cap} }}"#)
        };
        assert_eq!(violations(&of("")), []);
        assert_eq!(fields(&of(r#", "budgetCapUsd": "x""#)), ["budgetCapUsd"]);
        assert_eq!(
            fields(r#"{ "workingDirectory": "/w", "objective": "Do it", "templateId": null }"#),
            ["budgetCapUsd"]
        );
        assert_eq!(
            fields(r#"{ "workingDirectory": "/w", "objective": "Do it", "templateId": "x" }"#),
            ["templateId"]
        );
    }

    #[test]
    fn a_zero_budget_and_an_empty_objective_are_refused() {
        assert_eq!(
            fields(r#"{ "workingDirectory": "/w", "objective": " ", "budgetCapUsd": "0" }"#),
            ["budgetCapUsd", "objective"]
        );
    }

    #[test]
    fn what_is_no_json_or_no_object_is_refused() {
        assert!(violations("{").iter().any(|(_, message)| message.starts_with("the body is not JSON")));
        assert_eq!(violations("[]"), [(String::new(), "must be map, but is sequence".to_owned())]);
    }

    #[test]
    fn a_fitting_input_is_taken() {
        let json =
            r#"{ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1.50", "name": null }"#;
        assert_eq!(violations(json), []);
    }
}
