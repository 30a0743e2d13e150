//! What the adapters share. An adapter imports the kit and never another adapter; the kit imports no adapter.
//!
//! | module | purpose |
//! |---|---|
//! | [`form`] | forms of an agent or of an MCP server, as questions to the owner |
//! | [`models`] | models and their prices |
//! | [`account`], [`handoff`] | summary of a conversation, and the document that hands it over |
//! | [`claude_stream`] | translation of Claude Code's stream messages |
//! | [`json`] | helpers to read JSON values |

pub(crate) mod account;
pub mod claude_stream;
pub(crate) mod form;
pub(crate) mod handoff;
pub(crate) mod json;
pub(crate) mod models;
