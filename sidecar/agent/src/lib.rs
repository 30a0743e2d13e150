//! Pilothouse's own agent (S1): a loop over models and tools, with steering, compaction, retries and a session tree
//! on disk.
//!
//! This crate does not know the control plane. A program gives it a folder, a model and a prompt, and receives
//! [`event`]s.
//!
//! | module | purpose |
//! |---|---|
//! | [`session`] | the agent: prompts, steering, model selection, compaction (S1 5) |
//! | [`event`] | events of a working session |
//! | [`message`] | the messages of a conversation |
//! | [`tree`] | the session tree on disk |
//! | [`model`] | the port to language models, and the registry of models |
//! | [`tool`] | the port to tools, and the built-in tools |
//! | [`governor`] | permission for each model call and tool |
//! | [`meter`] | usage and cost |
//! | [`workspace`] | limits of file tools, and the environment of programs |
//! | [`process`] | programs that end with the agent |
//! | [`bash`] | commands of the agent and of the user |
//! | [`resources`] | skills and prompt templates |
//! | [`extension`] | extensions: hooks, tools, commands |
//! | [`mcp`] | tools of MCP servers |

pub mod bash;
pub mod context_files;
mod conversation;
pub mod event;
pub mod extension;
pub mod governor;
pub mod mcp;
pub mod message;
pub mod meter;
pub mod model;
mod output_text;
pub mod process;
pub mod resources;
mod retry;
pub mod session;
pub mod tool;
pub mod tree;
pub mod workspace;
