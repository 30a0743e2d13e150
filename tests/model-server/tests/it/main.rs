//! The model server over plain HTTP: what clients of each provider get.

mod anthropic;
mod chat;
mod checks;
mod failures;
mod program;
mod responses;
mod script;
mod support;
