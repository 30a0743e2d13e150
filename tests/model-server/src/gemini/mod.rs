//! Gemini's `generateContent`, as Gemini's own command line uses it.

mod request;
mod response;

pub(crate) use request::read;
pub(crate) use response::{complete, error, error_event, events, failure};
