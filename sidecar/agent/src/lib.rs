//! The agent loop (S1): models, tools, steering, compaction, retry and a session tree on disk.
//!
//! Nothing here knows the control plane: a program gives it a folder, a model and a prompt, and hears [`event`]s.
//!
//! | module | what it is |
//! |---|---|
//! | [`message`] | what a conversation consists of |
//! | [`model`] | the port to language models, and the registry of those that there are |
//! | [`tool`] | the port to tools, and those that every agent has |
//! | [`tree`] | the session tree on disk |
//! | [`workspace`] | where file tools may go, and what programs may know |
//! | [`process`] | programs that do not outlive the agent |
//! | [`bash`] | commands, of the agent and of the user |
//! | [`resources`] | skills and prompt templates |
//! | [`extension`] | what others add: hooks, tools, commands |
//! | [`mcp`] | tools of MCP servers |
//! | [`event`] | what a session tells while it works |
//! | [`session`] | the agent itself: prompts, steering, models, compaction (S1 5) |
//! | [`governor`] | who is asked before anything is called |
//! | [`meter`] | what it took so far |

pub mod bash;
mod compaction;
mod conversation;
pub mod event;
pub mod extension;
pub mod governor;
pub mod mcp;
pub mod message;
pub mod meter;
pub mod model;
pub mod process;
pub mod resources;
mod retry;
mod run_loop;
pub mod session;
pub mod tool;
pub mod tree;
pub mod workspace;
