//! The HTTP layer of functions: callers, request bodies, parameters, preconditions, problem documents.

pub mod auth;
pub mod body;
pub mod json_schema;
pub mod keyring;
pub mod peer;
pub mod problem;
pub mod request;

pub use auth::{AgentCaller, Owner};
pub use body::{Body, NoBody};
pub use keyring::{Admission, Keyring};
pub use problem::Problem;
pub use request::{Id, IfMatch, PageRequest, RequestId, Session};
