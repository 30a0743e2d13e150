//! The briefing of a project: sentences that link to their events (decision 87).

use pilothouse_domain::{
    AgentSessionId, BrakeId, DecisionId, ProjectAgentId, ProjectId, Timestamp, Usd, project::SpendingCap,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cursor::cursor;

/// The attention, results, risks, automatic decisions and cost of a project in a period. No model writes it: the same facts have the same
/// sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Briefing {
    /// The id of the project.
    pub project_id: ProjectId,
    /// The name of the project.
    pub name: String,
    /// When the project was archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
    /// The begin of the period. Events at this time belong to it.
    pub since: Timestamp,
    /// The end of the period: the time of the request. Pass it as `since` of the next briefing.
    pub until: Timestamp,
    /// Open decisions in the order of the inbox, and agents that you paused or interrupted; also from before the period.
    pub attention: BriefingSection,
    /// Work that the agents finished in the period, latest first.
    pub finished: BriefingSection,
    /// Failures in the period, and present obstacles of the work, most serious first.
    pub risks: BriefingSection,
    /// Decisions without a person in the period, with their reasons, latest first.
    pub automatic_decisions: BriefingSection,
    /// The spend of the agents.
    pub cost: BriefingCost,
    /// The sources that were not read in full, because they have too much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<BriefingLimit>,
}

/// A part of a briefing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BriefingSection {
    /// The number of sentences, also of those that are omitted.
    pub count: usize,
    /// At most 20 sentences.
    pub sentences: Vec<BriefingSentence>,
}

/// The spend of the agents of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BriefingCost {
    /// The spend in the period, in US dollars, as far as it is known.
    pub spent_usd: Usd,
    /// Whether agents may have spent more, because their spend in the period is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    /// The spend of the agents so far, in US dollars.
    pub total_usd: Usd,
    /// The cost of the reviews of coherence issues by a model so far, in US dollars.
    #[serde(default)]
    pub reviews_usd: Usd,
    /// The most that the agents may spend together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending_cap: Option<SpendingCap>,
    /// A sentence for each agent that spent something in the period, the highest spend first, one for the reviews and one for the
    /// embeddings.
    #[serde(flatten)]
    pub section: BriefingSection,
}

/// A sentence of a briefing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BriefingSentence {
    /// The sentence. Times in it are in UTC.
    pub text: String,
    /// When the latest of its events happened.
    pub at: Timestamp,
    /// The agent that it is about. Absent if it is about the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<ProjectAgentId>,
    /// The number of its events, also of those without a link.
    pub event_count: usize,
    /// Links to its latest events: from 1 to 5.
    pub links: Vec<BriefingLink>,
}

/// A link to an event, or to the state that a sentence describes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BriefingLink {
    /// The target of the link.
    #[serde(flatten)]
    pub source: BriefingSource,
    /// Its path in this API. `GET` answers with the event or the state.
    pub href: String,
}

/// An event, or the state that a sentence describes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum BriefingSource {
    /// A decision of the inbox.
    Decision {
        /// The id of the decision.
        decision_id: DecisionId,
    },
    /// An entry of the decision log.
    DecisionLog {
        /// When the decision was made.
        at: Timestamp,
        /// Identifies the entry: its type, and the id of the verdict, decision or event.
        entry: String,
    },
    /// An entry of the journal of a session.
    SessionEvent {
        /// The session.
        session_id: AgentSessionId,
        /// The sequence of the entry.
        sequence: u64,
    },
    /// A session.
    Session {
        /// The session.
        session_id: AgentSessionId,
    },
    /// The usage of a session.
    Usage {
        /// The session.
        session_id: AgentSessionId,
    },
    /// A brake.
    Brake {
        /// The brake.
        brake_id: BrakeId,
    },
    /// The project.
    Project {},
}

/// A source of a briefing that is read up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BriefingLimit {
    /// The first 1,000 decisions of the inbox were read.
    Decisions,
    /// The latest 1,000 entries of the decision log were read.
    DecisionLog,
    /// Some entries of sessions were not read: of each agent the latest 6 sessions are, and of each session the latest 100 entries. Older
    /// entries may have expired.
    Sessions,
}

impl BriefingSection {
    /// The number of sentences that are omitted.
    pub fn omitted(&self) -> usize {
        self.count.saturating_sub(self.sentences.len())
    }
}

impl BriefingLink {
    /// The link to an event of a project.
    pub fn new(project: ProjectId, source: BriefingSource) -> Self {
        let href = match &source {
            BriefingSource::Decision { decision_id } => format!("/api/decisions/{decision_id}"),
            BriefingSource::DecisionLog { at, .. } => {
                let after = *at + std::time::Duration::from_millis(1);
                format!("/api/projects/{project}/decision-log?since={at}&until={after}")
            }
            BriefingSource::SessionEvent { session_id, sequence } => {
                let before = cursor(sequence.saturating_sub(1));
                format!("/api/agents/sessions/{session_id}/activity?limit=1&cursor={before}")
            }
            BriefingSource::Session { session_id } => format!("/api/agents/sessions/{session_id}"),
            BriefingSource::Usage { session_id } => format!("/api/agents/sessions/{session_id}/metrics"),
            BriefingSource::Brake { brake_id } => format!("/api/brakes/{brake_id}"),
            BriefingSource::Project {} => format!("/api/projects/{project}"),
        };
        Self { source, href }
    }
}
