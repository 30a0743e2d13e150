//! The sidecar: the program that runs next to each agent. It drives one agent for one run of a session, and delivers
//! the agent's events to the control plane and the control plane's commands to the agent, across crashes and network
//! failures.
//!
//! | module | purpose |
//! |---|---|
//! | [`run`], [`drain`], [`container`] | the program's subcommands |
//! | [`run_dir`] | the run directory: launch file, process lock, spool |
//! | [`spool`] | SQLite file that stores every event and command before it is processed |
//! | [`broker`] | clients of the broker: the gateway of an embedded server, or SQS and S3 |
//! | [`publisher`], [`batching`], [`heartbeat`], [`link`] | publish events in order, in batches where requests are billed; send heartbeats; track connectivity |
//! | [`lease`], [`offline`] | limit time and spend while the control plane is unreachable |
//! | [`listener`], [`host`] | receive commands, execute them through an adapter, acknowledge them |
//! | [`adapter`] | the port that every agent integration implements |
//! | [`native`], [`claude`], [`acp`], [`shim`], [`script`] | the adapters |
//! | [`kit`] | what the adapters share |
//! | [`runner`] | wraps an adapter and keeps a turn running until its deliverables are settled (S4) |
//! | [`validation`] | runs the validation criteria of autonomous sessions |
//! | [`own_tools`] | the tools that Pilothouse provides to agents, natively or over MCP |
//! | [`agent_api`] | client of the agent API, whose key never leaves the sidecar |
//! | `tool_names` | names of tools that the control plane recognises |
//! | [`deliverables`] | tracks the deliverables in the working directory (S4) |
//! | [`process`] | starts agent processes in isolation from the sidecar |
//! | [`secrets`] | secrets of the agent, which the launch names |
//! | [`unreported`] | finds files that the agent did not report as artifacts |
//! | [`redaction`] | removes secrets from events before they are stored or sent |

pub mod acp;
pub mod adapter;
pub mod agent_api;
pub mod batching;
pub mod broker;
pub mod claude;
pub mod clock;
pub mod container;
pub mod deliverables;
pub mod drafts;
pub mod drain;
pub mod exit;
pub mod faults;
pub mod heartbeat;
pub mod host;
pub mod kit;
pub mod lease;
pub mod link;
pub mod listener;
pub mod native;
pub mod offline;
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
pub mod secrets;
pub mod shim;
pub mod spool;
mod tool_names;
pub mod unreported;
pub mod validation;
