//! The program `pilothouse`: commands and their output.
//!
//! - [`args`], [`commands`], [`globals`]: the command line
//! - [`output`]: text for people
//! - [`context`]: the client, credentials and style of a command
//! - [`profile`]: which control plane a command connects to
//! - [`error`], [`exit`]: errors and exit codes
//!
//! The server is in `pilothouse-embedded`, the worker in `pilothouse-worker`, the API client in `pilothouse-client`.

pub mod commands;
pub mod context;
pub mod error;
pub mod exit;
pub mod globals;
pub mod output;
pub mod profile;

pub use commands::args;
