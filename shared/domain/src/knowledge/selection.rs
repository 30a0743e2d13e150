//! Builds the snapshot of one agent from the knowledge of its project.

use super::snapshot::{
    AgentSummary, ArtifactIndexEntry, CoherenceIssueSummary, DecisionSummary, KnowledgeSnapshot, Omitted,
    TokenBudget, WorkstreamSummary,
};
use super::trim;
use crate::value::KnowledgeScope;
use crate::{ProjectAgentId, Timestamp};

/// The knowledge of a project, from which [`KnowledgeSnapshot::build`] selects. It may contain more than the agent may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectKnowledge {
    pub workstreams: Vec<WorkstreamSummary>,
    pub pending_decisions: Vec<DecisionSummary>,
    pub recent_coherence_issues: Vec<CoherenceIssueSummary>,
    pub artifacts: Vec<ArtifactIndexEntry>,
    pub agents: Vec<AgentSummary>,
}

impl KnowledgeSnapshot {
    /// Builds the snapshot of `agent` from its arguments only. `active_agents` omits the agent itself. Entries keep their order, except
    /// that the agent's own workstream is the first one.
    pub fn build(
        agent: ProjectAgentId,
        scope: &KnowledgeScope,
        knowledge: ProjectKnowledge,
        budget: TokenBudget,
        at: Timestamp,
    ) -> Self {
        let ProjectKnowledge {
            mut workstreams,
            mut pending_decisions,
            mut recent_coherence_issues,
            mut artifacts,
            mut agents,
        } = knowledge;
        workstreams.retain(|it| scope.may_read(&it.id));
        workstreams.sort_by_key(|it| it.id != *scope.own());
        pending_decisions.retain(|it| scope.may_read(&it.workstream));
        recent_coherence_issues.retain_mut(|it| {
            it.affected_workstreams.retain(|affected| scope.may_read(affected));
            !it.affected_workstreams.is_empty()
        });
        artifacts.retain(|it| scope.may_read(&it.workstream));
        agents.retain(|it| it.id != agent && scope.may_read(&it.workstream));
        let mut snapshot = Self {
            snapshot_version: 0,
            generated_at: at,
            workstreams,
            pending_decisions,
            recent_coherence_issues,
            artifact_index: artifacts,
            active_agents: agents,
            omitted: Omitted::default(),
            estimated_tokens: 0,
        };
        trim::to_budget(&mut snapshot, scope.own(), budget);
        snapshot.estimated_tokens = snapshot.tokens();
        snapshot
    }
}
