//! Journal entries of aggregates other than sessions. Each commit of such an aggregate writes one.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Cause;
use crate::{
    AgentSkill, AgentTemplate, Aggregate, Artifact, ArtifactEvent, Brake, BrakeEvent, ChainEvent,
    CoherenceEvent, CoherenceIssue, EventId, Project, ProjectAccount, ProjectAccountEvent, ProjectAgent,
    ProjectAgentEvent, ProjectEvent, SessionChain, SkillEvent, TemplateEvent, Timestamp, TraceParent, UserId,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregateJournalEntry<E> {
    /// Id of the entry. Reactions use it to be idempotent.
    pub id: EventId,
    /// [`Aggregate::KIND`].
    pub kind: String,
    pub aggregate_id: String,
    pub owner_id: UserId,
    /// The version of the aggregate that this commit wrote.
    pub sequence: u64,
    pub at: Timestamp,
    pub cause: Cause,
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<E>,
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

/// A journal entry whose aggregate is known only by its kind, as it is read from the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyAggregateEntry {
    Artifact(AggregateJournalEntry<ArtifactEvent>),
    Brake(AggregateJournalEntry<BrakeEvent>),
    Chain(AggregateJournalEntry<ChainEvent>),
    Coherence(AggregateJournalEntry<CoherenceEvent>),
    Skill(AggregateJournalEntry<SkillEvent>),
    Template(AggregateJournalEntry<TemplateEvent>),
    Project(AggregateJournalEntry<ProjectEvent>),
    ProjectAgent(AggregateJournalEntry<ProjectAgentEvent>),
    ProjectAccount(AggregateJournalEntry<ProjectAccountEvent>),
}

const KINDS: &[&str] = &[
    Artifact::KIND,
    SessionChain::KIND,
    CoherenceIssue::KIND,
    AgentSkill::KIND,
    AgentTemplate::KIND,
    Project::KIND,
    ProjectAgent::KIND,
    ProjectAccount::KIND,
    Brake::KIND,
];

impl<'de> Deserialize<'de> for AnyAggregateEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entry = Value::deserialize(deserializer)?;
        let kind =
            entry.get("kind").and_then(Value::as_str).ok_or_else(|| D::Error::missing_field("kind"))?;
        match kind {
            Artifact::KIND => serde_json::from_value(entry).map(Self::Artifact),
            Brake::KIND => serde_json::from_value(entry).map(Self::Brake),
            SessionChain::KIND => serde_json::from_value(entry).map(Self::Chain),
            CoherenceIssue::KIND => serde_json::from_value(entry).map(Self::Coherence),
            AgentSkill::KIND => serde_json::from_value(entry).map(Self::Skill),
            AgentTemplate::KIND => serde_json::from_value(entry).map(Self::Template),
            Project::KIND => serde_json::from_value(entry).map(Self::Project),
            ProjectAgent::KIND => serde_json::from_value(entry).map(Self::ProjectAgent),
            ProjectAccount::KIND => serde_json::from_value(entry).map(Self::ProjectAccount),
            other => return Err(D::Error::unknown_variant(other, KINDS)),
        }
        .map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(kind: &str, event: &Value) -> Value {
        json!({
            "id": "01890a5d-ac96-774b-bcce-b302099a8058",
            "kind": kind,
            "aggregateId": "01890a5d-ac96-774b-bcce-b302099a8059",
            "ownerId": "ada",
            "sequence": 2,
            "at": "2026-01-01T00:00:00Z",
            "cause": { "by": "clock" },
            "events": [event],
        })
    }

    #[test]
    fn kind_of_an_entry_decides_on_its_events() {
        let read = |kind, event| serde_json::from_value::<AnyAggregateEntry>(entry(kind, &event));
        let updated = json!({ "type": "AgentSkillUpdatedEvent" });
        let AnyAggregateEntry::Skill(skill) = read("skill", updated.clone()).unwrap() else {
            panic!("not the entry of a skill");
        };
        assert_eq!(skill.events, [SkillEvent::Updated {}]);
        assert_eq!(serde_json::to_value(&skill).unwrap()["events"][0], updated);
        assert!(read("chain", updated.clone()).is_err(), "an event of another aggregate");
        assert!(read("webhook", updated).unwrap_err().to_string().contains("webhook"));
    }
}
