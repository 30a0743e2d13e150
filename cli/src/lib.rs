//! The pilothouse program: the embedded server and everything a person does with it.
//!
//! - [`server`]: the embedded server, all functions in one process
//! - [`worker`]: a worker for a control plane elsewhere
//! - [`keys`]: the keys of a data folder, shared by the server and the program beside it
//! - [`client`]: a typed client of the API and of the live stream
//! - [`profile`]: which control plane it speaks to
//! - [`args`], [`commands`]: the command line
//! - [`output`]: what people read

pub mod args;
pub mod client;
pub mod commands;
pub mod context;
pub mod error;
pub mod exit;
pub mod keys;
pub mod output;
pub mod profile;
pub mod server;
pub mod worker;
