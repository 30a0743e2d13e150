//! Conversions and limits of fields that several inputs share.

use pilothouse_api::input::{FieldError, distinct_ids, parse};
use pilothouse_app::http::json_schema;
use pilothouse_domain::session::SessionSettings;
use pilothouse_domain::value::{InputSchema, SessionBudget};
use pilothouse_domain::{AgentSkillId, Usd};
use serde_json::Value;

/// Checks that a text is a JSON Schema that conforms to the meta-schema.
pub(crate) fn schema_text(text: String) -> Result<InputSchema, FieldError> {
    let schema = InputSchema::parse(text).map_err(|error| FieldError(error.to_string()))?;
    let json = serde_json::from_str(schema.as_str()).map_err(|error| FieldError(error.to_string()))?;
    match json_schema::violations(&json) {
        wrong if wrong.is_empty() => Ok(schema),
        wrong => Err(FieldError(format!("is not a JSON Schema: {}", wrong.join("; ")))),
    }
}

pub(crate) fn maybe_cap(text: Option<String>) -> Result<Option<Usd>, FieldError> {
    text.map(cap).transpose()
}

pub(crate) fn listed_skills(texts: Option<Vec<String>>) -> Result<Option<Vec<AgentSkillId>>, FieldError> {
    texts.map(distinct_ids).transpose()
}

pub(crate) fn cap(text: String) -> Result<Usd, FieldError> {
    let cap: Usd =
        parse(text).map_err(|error: pilothouse_domain::money::InvalidUsd| FieldError(error.to_string()))?;
    SessionBudget::new(cap, SessionBudget::DEFAULT_WARN_AT_PERCENT)
        .map_err(|error| FieldError(error.to_string()))?;
    Ok(cap)
}

pub(crate) fn percent(value: Option<u64>) -> Result<Option<u8>, FieldError> {
    let fits = |n: u64| {
        u8::try_from(n)
            .ok()
            .filter(|n| (1..=99).contains(n))
            .ok_or_else(|| FieldError("must be 1 to 99".to_owned()))
    };
    value.map(fits).transpose()
}

const MONTH: u64 = 30 * 24 * 60 * 60;

pub(crate) fn idle_time(value: Option<u64>) -> Result<Option<u64>, FieldError> {
    match value {
        Some(seconds) if seconds > MONTH => Err(FieldError(format!("must be 0 to {MONTH} seconds"))),
        other => Ok(other),
    }
}

pub(crate) fn retries(value: Option<u64>) -> Result<Option<u32>, FieldError> {
    const MAX: u32 = SessionSettings::MAX_RETRIES;
    let fits = |n: u64| {
        u32::try_from(n).ok().filter(|n| *n <= MAX).ok_or_else(|| FieldError(format!("must be 0 to {MAX}")))
    };
    value.map(fits).transpose()
}

pub(crate) fn timeout(value: Option<u64>) -> Result<Option<u64>, FieldError> {
    match value {
        Some(seconds) if !(1..=MONTH).contains(&seconds) => {
            Err(FieldError(format!("must be 1 to {MONTH} seconds")))
        }
        other => Ok(other),
    }
}

/// Adapts a rule for an optional field to a field with a value.
pub(crate) fn present<T, U>(
    read: impl FnOnce(Option<T>) -> Result<Option<U>, FieldError>,
) -> impl FnOnce(T) -> Result<U, FieldError> {
    |value| read(Some(value))?.ok_or_else(|| FieldError("must not be null".to_owned()))
}

/// Options of an adapter. Their checks look for names, and a sidecar would read a list by position.
pub(crate) fn fitting_options(value: Option<Value>) -> Result<Option<Value>, FieldError> {
    const LIMIT: usize = 64 * 1024;
    match value {
        Some(value) if !value.is_object() && !value.is_null() => {
            Err(FieldError("must be an object".to_owned()))
        }
        Some(value) if value.to_string().len() > LIMIT => {
            Err(FieldError(format!("must be at most {LIMIT} bytes of JSON")))
        }
        other => Ok(other),
    }
}
