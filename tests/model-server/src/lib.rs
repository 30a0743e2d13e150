//! A scripted model server for tests. It implements the protocols of model providers and can fail like them.
//!
//! Only the model is fake. The server implements Anthropic Messages, OpenAI Chat Completions, OpenAI Responses and
//! Gemini over plain HTTP on a loopback port, with and without streaming, and OpenAI embeddings. It takes its replies
//! from a [`Script`]. It validates requests like a provider: a client that breaks the pairing of calls and results gets the same 400 as
//! from the real one.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pilothouse_model_server::{ModelServer, Script};
//!
//! let script = Script::parse(r#"{ "conversations": [{ "name": "greeting", "steps": [
//!     { "text": "I look.", "tools": [{ "name": "bash", "input": { "command": "pwd" } }] },
//!     { "text": "You are in {{result}}.", "wait": "go" }
//! ] }] }"#)?;
//! let server = ModelServer::start(script).await?;
//! // … an agent works with `server.base_url()` …
//! server.wait_for(2).await;
//! server.open("go");
//! # Ok(()) }
//! ```

mod anthropic;
mod chat;
mod director;
mod embeddings;
mod failure;
pub mod fixture;
mod gemini;
mod http_response;
mod prompt;
mod reply;
mod responses;
mod script;
mod server;
mod side_requests;
mod template;
mod tokens;

pub use failure::Failure;
pub use script::{
    Conversation, Embeddings, Progress, Script, ScriptError, Step, Stop, TextVector, Tokens, Tool,
};
pub use server::{Dialect, Kind, ModelServer, Outcome, Request};
