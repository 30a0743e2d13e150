//! The Agent Sessions domain of Pilothouse (S0 8.4 to 8.6): aggregates, value objects and domain events.
//!
//! Nothing here does I/O, reads a clock or draws a random number. A method of an aggregate checks its
//! invariant, changes the aggregate and returns the events that happened. What it needs from outside,
//! the time and fresh ids, comes in as an [`Occasion`].
//!
//! | folder or file | what it holds |
//! |---|---|
//! | [`session`] | the `AgentSession` aggregate; its transition table is [`session::status`] |
//! | [`queue`] | the `SessionMessageQueue` aggregate |
//! | [`chain`] | the `SessionChain` aggregate: one piece of work over several sessions |
//! | [`skill`] | the `AgentSkill` aggregate with its memory pills |
//! | [`composition`] | what template and skills make of a session's configuration |
//! | [`pool`] | the `SessionPool`: leases and the line of what waits for one |
//! | [`template`] | the `AgentTemplate` aggregate: what sessions start from, by hand, by the clock, by events |
//! | [`conversation`] | the rules of when a message goes to the agent, over session and queue |
//! | [`deliverable`] | the `DeliverableStatus` aggregate: what an agent sets itself to deliver (S4) |
//! | [`owned`] | what aggregates of an owner beside sessions have in common |
//! | [`journal`] | what a commit leaves behind: entries with their events and activity |
//! | [`value`] | value objects of S0 8.5 |
//! | [`ids`], [`text`], [`money`], [`time`], [`trace`] | typed ids, bounded strings, exact money, time, places in traces |

pub mod agent_api;
pub mod announcement;
pub mod chain;
pub mod composition;
pub mod conversation;
pub mod deadline;
pub mod deliverable;
pub mod event;
pub mod ids;
pub mod journal;
pub mod money;
pub mod occasion;
pub mod owned;
pub mod pool;
pub mod queue;
pub mod rate;
pub mod session;
pub mod skill;
pub mod template;
pub mod text;
pub mod time;
pub mod trace;
pub mod value;
pub mod webhook;

pub use chain::SessionChain;
pub use deadline::Deadlines;
pub use event::{CommandRef, DomainEvent, Events, StopMode};
pub use ids::*;
pub use money::Usd;
pub use occasion::{IdSource, Occasion};
pub use owned::{OwnedAggregate, OwnedEntry};
pub use rate::{RateExceeded, RateGauge, RateLimit};
pub use session::AgentSession;
pub use skill::AgentSkill;
pub use template::AgentTemplate;
pub use time::Timestamp;
pub use trace::TraceParent;
