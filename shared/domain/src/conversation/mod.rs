//! A session with its queue: the unit that one command loads, changes and commits.
//!
//! Session and queue are separate aggregates, but most delivery rules need both (decisions 28 to 30).
//!
//! | module | contents |
//! |---|---|
//! | `facts` | the effect of a fact of the agent ([`Conversation::observe`]) |
//! | `settle` | the consequences of a change ([`Conversation::settle`]) |
//! | `delivery` | messages on their way to the agent |
//! | `orphans` | decisions of sessions that have ended |
//! | `requests` | answers of the owner |
//! | `instructions` | instructions of the owner for a retry and for a summary |
//! | `handoff` | late handoff documents; messages that no session takes over |
//! | `run_end` | the messages of a run that ends |

mod delivery;
mod facts;
mod handoff;
mod injection;
mod instructions;
mod orphans;
mod requests;
mod run_end;
mod settle;

use std::collections::BTreeMap;

use crate::SubAgentId;
use crate::queue::{SessionMessage, SessionMessageQueue};
use crate::session::{AgentSession, SubAgentSession};

/// A session with its queue and the subagents that a change concerns.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    pub session: AgentSession,
    pub queue: SessionMessageQueue,
    /// The subagents that were loaded or started in this change.
    pub subagents: BTreeMap<SubAgentId, SubAgentSession>,
    /// Messages that left the queue in this change. The commit stores them as records.
    pub closed_messages: Vec<SessionMessage>,
}

pub use delivery::{EnqueueError, NewMessage};
pub use facts::{FactOutcome, FactResult};
pub use handoff::Restart;

impl Conversation {
    pub const fn new(session: AgentSession, queue: SessionMessageQueue) -> Self {
        Self { session, queue, subagents: BTreeMap::new(), closed_messages: Vec::new() }
    }
}
