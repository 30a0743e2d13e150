//! What the adapters share. An adapter imports the kit and never another adapter; the kit imports no adapter.
//!
//! | module | purpose |
//! |---|---|
//! | [`agent_env`] | the option `env` of all adapters |
//! | [`agent_process`] | the process of an agent: log, pause, guaranteed end |
//! | [`turns`], [`turn_tree`] | ids of turns, and why a driver stops; the branches of conversations |
//! | [`messages`], [`images`] | messages that wait for their turn, and their images |
//! | [`deferral`] | commands that are carried out later: pauses, interrupts, compactions |
//! | [`start`] | commands that arrive while an agent starts |
//! | [`allowance`] | the spending limit of a run |
//! | [`outage`] | models that do not answer |
//! | [`usage`] | usage meters and the fill level of the context window |
//! | [`authorizer`], [`permission`] | verdicts of the control plane on tool calls, and calls that the owner decides on |
//! | [`delegation`] | work that an agent may not delegate |
//! | [`owner_requests`], [`form`] | permissions, questions, plans and forms that wait for the owner |
//! | [`notices`] | events that inform the owner |
//! | [`models`] | models and their prices |
//! | [`conversation_summary`], [`handoff`] | summary of a conversation, and the document that hands it over |
//! | [`lines`], [`byte_budget`] | lines of an agent's output, and a bound on those that wait |
//! | [`claude_stream`] | translation of Claude Code's stream messages |
//! | [`json`] | helpers to read JSON values |

pub(crate) mod agent_env;
pub(crate) mod agent_process;
pub(crate) mod allowance;
pub(crate) mod authorizer;
pub mod claude_stream;
pub(crate) mod conversation_summary;
pub(crate) mod deferral;
pub(crate) mod delegation;
pub(crate) mod form;
pub(crate) mod handoff;
pub(crate) mod images;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod messages;
pub(crate) mod models;
pub(crate) mod notices;
pub(crate) mod outage;
pub(crate) mod owner_requests;
pub(crate) mod permission;
pub(crate) mod start;
pub(crate) mod turn_tree;
pub(crate) mod turns;
pub(crate) mod usage;

pub(crate) use pilothouse_shim::byte_budget;
