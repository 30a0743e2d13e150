//! The program beside each agent: thin about the domain, careful about delivery (architecture: The sidecar).
//!
//! | module | what it does |
//! |---|---|
//! | [`run_dir`] | the run's folder: what it was launched with, and the lock that says that it is alive |
//! | [`spool`] | every event and command on disk before anything else happens with it |
//! | [`broker`], [`control_plane`] | where events go and commands come from: an embedded server, or SQS and S3 |
//! | [`publisher`], [`heartbeat`], [`link`] | ordered publication, and knowing when it fails |
//! | [`listener`], [`host`] | takes commands, carries them out through an adapter, acknowledges them |
//! | [`validation`] | checks the criteria of sessions that go on by themselves |
//! | [`own_tools`] | the tools that Pilothouse itself gives agents, as they are or by MCP |
//! | [`deliverables`] | the deliverables of the working directory (S4) |
//! | [`runner`] | around every adapter: goes on until the deliverables are settled, where a session asks for it |
//! | [`adapter`] | the port to an agent runtime |
//! | [`process`] | starts the processes of agents, apart from the sidecar |
//! | [`redaction`] | keeps secrets out of what is told |
//! | [`script`], [`native`], [`claude`], [`acp`] | adapters |
//! | [`run`], [`drain`], [`container`] | the things that the program does |

pub mod acp;
pub mod adapter;
pub mod broker;
pub mod claude;
pub mod clock;
pub mod container;
pub mod control_plane;
pub mod deliverables;
pub mod drain;
pub mod exit;
pub mod faults;
mod handoff;
pub mod heartbeat;
pub mod host;
pub mod link;
pub mod listener;
pub mod native;
pub mod oversize;
pub mod own_tools;
pub mod process;
pub mod publisher;
pub mod redaction;
pub mod retry;
pub mod run;
pub mod run_dir;
pub mod runner;
pub mod script;
pub mod spool;
pub mod validation;
