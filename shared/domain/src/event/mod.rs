//! Domain events (S0 8.6). The journal entry that contains the events names their session and owner.
//!
//! Some events are not in S0. They record the path of commands, runs and messages, and serve as an outbox: reactions send commands,
//! launch runs and allocate pool slots because of them.

#[macro_use]
mod lifecycle;
#[macro_use]
mod spending;
#[macro_use]
mod chain;
#[macro_use]
mod request;
#[macro_use]
mod agent;
#[macro_use]
mod message;
#[macro_use]
mod run;
#[macro_use]
mod library;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent_api::{AgentTaskSource, NewAgentLearning, NewAgentTask};
use crate::session::{AgentSessionStatus, Disk, LifecycleCommand, RunCause};
use crate::skill::MemoryPillCategory;
use crate::template::{ScheduleSkip, TemplateSection};
use crate::text::{Feedback, MessageContent, SkillName};
use crate::value::{
    Adjustment, Answer, AutoContinueEnd, CommitSha, FailureReason, MessagePriority, MessageSource, Question,
    SessionOutcome, ThinkingLevel, ToolCallStatus,
};
use crate::{
    AgentLearningId, AgentSessionId, AgentSkillId, AgentTaskId, ClassificationRuleId, CommandId,
    HandoffDocumentId, MemoryPillId, MessageId, OutputId, RunId, SessionChainId, SubAgentId, Timestamp,
    ToolCallId, TurnId, Usd,
};

/// A command that an event orders reactions to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandRef {
    pub command_id: CommandId,
    /// The run that receives it.
    pub run_id: RunId,
    /// Number of this attempt to send it, from 1.
    pub attempt: u8,
}

/// How a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopMode {
    /// With a `stop` command. The runtime kills the process if that takes too long.
    Graceful,
    /// The runtime kills the process at once.
    Kill,
}

macro_rules! domain_events {
    ({ $($(#[$doc:meta])* $name:ident = $wire:literal { $($(#[$fdoc:meta])* $field:ident: $ty:ty),* $(,)? };)* }) => {
        /// Something that happened to a session, its queue or its slot, or to another aggregate of the owner.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", rename_all_fields = "camelCase")]
        pub enum DomainEvent {
            $(
                $(#[$doc])*
                #[serde(rename = $wire)]
                $name { $($(#[$fdoc])* $field: $ty),* },
            )*
        }

        impl DomainEvent {
            /// Name of the event in S0 8.6.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$name { .. } => $wire,)* }
            }
        }
    };
}

// Each file declares its events; the macro at the end of the list makes the enum of them all.
lifecycle_events! { {} spending_events chain_events request_events agent_events message_events run_events library_events domain_events }

/// The events of one change, in the order in which they happened.
pub type Events = Vec<DomainEvent>;
