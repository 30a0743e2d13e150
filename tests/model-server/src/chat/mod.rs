//! OpenAI Chat Completions, which many other providers also implement.

mod errors;
mod request;
mod response;

pub(crate) use errors::{error, failure};
pub(crate) use request::{checked_name, read};
pub(crate) use response::{complete, error_event, events};

pub(crate) const CALL: &str = "call_";
