//! The domain model of Pilothouse agent sessions (S0 8.4 to 8.6): aggregates, value objects and domain events.
//!
//! This crate does no I/O, reads no clock and draws no random numbers. A method of an aggregate checks its invariants, changes the
//! aggregate and returns its events, such as [`SessionEvent`]s. The caller passes the current time, the configured deadlines
//! and a source of ids as an [`DomainContext`].
//!
//! Start with [`session`] for the life cycle of a session and with [`conversation`] for the unit that one command loads, changes
//! and commits.
//!
//! | module | contents |
//! |---|---|
//! | [`session`] | the `AgentSession` aggregate; [`session::status`] has its transition table |
//! | [`queue`] | the `SessionMessageQueue` aggregate: messages that wait for the agent |
//! | [`conversation`] | a session with its queue, and the rules for delivering messages |
//! | [`chain`] | the `SessionChain` aggregate: one piece of work that spans several sessions |
//! | [`placement`] | the rules for assigning runs to workers |
//! | [`pool`] | the `SessionPool`: the slots of an owner and the sessions that wait for one |
//! | [`brake`] | the emergency brake: stops sessions of an owner and lets none start (S2) |
//! | [`template`] | the `AgentTemplate` aggregate: defaults, schedules and event rules that start sessions |
//! | [`skill`] | the `AgentSkill` aggregate with its memory pills |
//! | [`composition`] | merges template and skills into the configuration of a session's agent |
//! | [`deliverable`] | the `DeliverableStatus` aggregate: goals that an agent sets itself (S4) |
//! | [`aggregate`] | the trait that all aggregates except sessions share |
//! | [`journal`] | journal entries: the cause, domain events and activity lines of one commit |
//! | [`announcement`] | which events are published to other contexts, and which notify the owner |
//! | [`webhook`] | webhook endpoints of an owner, and their delivery attempts |
//! | [`web_push`] | browsers of an owner that receive notifications |
//! | [`console_login`] | browsers that are logged in to the web console |
//! | [`trust`] | the trust engine: scores of agents, their changes and decay (S2) |
//! | [`escalation`] | which tool calls need a person (S2) |
//! | [`decision`] | timeouts of decisions that wait for a person (S2) |
//! | [`project`], [`project_agent`] | the aggregates `Project` and `ProjectAgent` (S2) |
//! | [`artifact`] | the `Artifact` aggregate: results of agents' work, with versions and reviews (S2) |
//! | [`coherence`] | the `CoherenceIssue` aggregate: work of different agents that does not fit together (S2) |
//! | [`knowledge`] | the part of a project's knowledge that one agent reads (S2) |
//! | [`injection`] | knowledge that working agents receive (S2) |
//! | [`project_account`] | what the agents of a project draw from its spending cap |
//! | [`control_mode`] | how much agents may do without a person (S2) |
//! | [`tick`] | the logical time of a project (S2) |
//! | [`routing`] | the types of agents' events, and the workspaces that show them (S2) |
//! | [`agent_api`], [`rate`] | input of the agent API, and its rate limits |
//! | [`deadline`] | how long the control plane waits for each answer |
//! | [`effect`] | what a tool call does, how bad it can be and how far it reaches (S2) |
//! | [`text_search`] | the words of a search, and the excerpts of texts that have them |
//! | [`output`], [`output_schema`] | outputs of sessions, and the JSON Schema that an output has to follow (S0 8.5) |
//! | [`value`] | value objects (S0 8.5) |
//! | [`ids`], [`text`], [`money`], [`time`], [`trace`] | typed ids, bounded strings, exact money, timestamps, trace context |

pub mod agent_api;
pub mod aggregate;
pub mod announcement;
pub mod artifact;
pub mod brake;
pub mod chain;
pub mod coherence;
pub mod composition;
pub mod console_login;
pub mod context;
pub mod control_mode;
pub mod conversation;
pub mod deadline;
pub mod decision;
pub mod deliverable;
pub mod effect;
pub mod escalation;
mod event;
pub mod ids;
pub mod injection;
pub mod journal;
pub mod knowledge;
pub mod money;
mod names;
pub mod output;
pub mod output_schema;
pub mod placement;
pub mod pool;
pub mod project;
pub mod project_account;
pub mod project_agent;
pub mod queue;
pub mod rate;
pub mod routing;
pub mod session;
pub mod skill;
mod string_value;
pub mod template;
pub mod text;
pub mod text_search;
pub mod tick;
pub mod time;
pub mod trace;
pub mod trust;
pub mod value;
pub mod web_push;
pub mod webhook;

pub use aggregate::Aggregate;
pub use artifact::{Artifact, ArtifactEvent};
pub use brake::{Brake, BrakeEvent};
pub use chain::{ChainEvent, SessionChain};
pub use coherence::{CoherenceEvent, CoherenceIssue};
pub use context::{DomainContext, IdSource};
pub use deadline::Deadlines;
pub use ids::*;
pub use money::Usd;
pub use project::{Project, ProjectEvent};
pub use project_account::{ProjectAccount, ProjectAccountEvent};
pub use project_agent::{ProjectAgent, ProjectAgentEvent};
pub use rate::{RateExceeded, RateGauge, RateLimit};
pub use session::{AgentSession, CommandRef, Events, SessionEvent, StopMode};
pub use skill::{AgentSkill, SkillEvent};
pub use template::{AgentTemplate, TemplateEvent};
pub use time::Timestamp;
pub use trace::TraceParent;
