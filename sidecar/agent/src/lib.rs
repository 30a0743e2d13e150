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
//! | [`event`] | what a session tells while it works |

pub mod event;
pub mod message;
pub mod model;
pub mod tool;
pub mod tree;
