//! Routing of agents' events (S2, "Event Routing"; decision 82): the twelve types of events, the workspaces of a client that show
//! them, and the class of each event of a session.

mod class;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use class::{
    CompletionOutcome, DelegationAction, ErrorCategory, ErrorTraits, EventClass, LifecycleAction,
    ToolCallPhase,
};

use crate::names::named;

/// The type of an agent's event (S2 `AgentEvent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentEventType {
    Decision,
    Artifact,
    Coherence,
    Status,
    ToolCall,
    Completion,
    Error,
    Delegation,
    Guardrail,
    Lifecycle,
    Progress,
    /// For debugging: shown by no workspace first.
    RawProvider,
}

named!(AgentEventType {
    Decision => "decision",
    Artifact => "artifact",
    Coherence => "coherence",
    Status => "status",
    ToolCall => "tool_call",
    Completion => "completion",
    Error => "error",
    Delegation => "delegation",
    Guardrail => "guardrail",
    Lifecycle => "lifecycle",
    Progress => "progress",
    RawProvider => "raw_provider",
});

/// A part of a client that shows events (S2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Workspace {
    Queue,
    Briefing,
    Map,
    Controls,
    BriefEditor,
}

named!(Workspace {
    Queue => "queue",
    Briefing => "briefing",
    Map => "map",
    Controls => "controls",
    BriefEditor => "brief_editor",
});

/// The workspaces that show an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// `None` if the event is only logged.
    pub primary: Option<Workspace>,
    pub secondary: &'static [Workspace],
}

impl AgentEventType {
    pub const ALL: [Self; 12] = [
        Self::Decision,
        Self::Artifact,
        Self::Coherence,
        Self::Status,
        Self::ToolCall,
        Self::Completion,
        Self::Error,
        Self::Delegation,
        Self::Guardrail,
        Self::Lifecycle,
        Self::Progress,
        Self::RawProvider,
    ];

    /// S2's classification rules.
    pub const fn route(self) -> Route {
        use Workspace::{BriefEditor, Briefing, Controls, Map, Queue};
        let (primary, secondary): (_, &'static [Workspace]) = match self {
            Self::Decision => (Some(Queue), &[Briefing]),
            Self::Artifact => (Some(Map), &[BriefEditor]),
            Self::Coherence => (Some(Map), &[Briefing]),
            Self::Status | Self::Progress => (Some(Briefing), &[]),
            Self::ToolCall => (Some(Controls), &[]),
            Self::Completion | Self::Error | Self::Lifecycle => (Some(Briefing), &[Controls]),
            Self::Delegation => (Some(Briefing), &[Map]),
            // Only guardrails that tripped are events.
            Self::Guardrail => (Some(Controls), &[Briefing]),
            Self::RawProvider => (None, &[Controls]),
        };
        Route { primary, secondary }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Workspace::{BriefEditor, Briefing, Controls, Map, Queue};

    #[test]
    fn routes_are_those_of_the_specification() {
        let table: [(_, _, &[_]); 12] = [
            ("decision", Some(Queue), &[Briefing]),
            ("artifact", Some(Map), &[BriefEditor]),
            ("coherence", Some(Map), &[Briefing]),
            ("status", Some(Briefing), &[]),
            ("tool_call", Some(Controls), &[]),
            ("completion", Some(Briefing), &[Controls]),
            ("error", Some(Briefing), &[Controls]),
            ("delegation", Some(Briefing), &[Map]),
            ("guardrail", Some(Controls), &[Briefing]),
            ("lifecycle", Some(Briefing), &[Controls]),
            ("progress", Some(Briefing), &[]),
            ("raw_provider", None, &[Controls]),
        ];
        for (kind, (name, primary, secondary)) in AgentEventType::ALL.into_iter().zip(table) {
            assert_eq!(kind.to_string(), name);
            assert_eq!(kind.route(), Route { primary, secondary }, "{kind}");
        }
    }
}
