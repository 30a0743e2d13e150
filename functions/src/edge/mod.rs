//! The edge: what stands between HTTP and a function. Callers, inputs, refusals, preconditions.

pub mod auth;
pub mod input;
pub mod json_schema;
pub mod patch;
pub mod problem;
pub mod request;

pub use auth::{AgentCaller, Keyring, Owner};
pub use input::{Body, NoBody, Violations};
pub use problem::Problem;
pub use request::{Id, IfMatch, PageRequest, RequestId, Session};
