//! The knowledge that the agents of a project share (S2, "Knowledge Store"; decision 84).
//!
//! | module | contents |
//! |---|---|
//! | `scope` | which workstreams an agent may read and write |
//! | `snapshot` | what an agent is told of its project, within a number of tokens |
//! | `trim` | what a snapshot leaves out first |
//! | `tokens` | estimates the number of tokens of a text |
//! | `terms` | the words under which something is found |
//! | `tally` | how many artifacts each workstream has |

mod scope;
mod snapshot;
mod tally;
mod terms;
mod tokens;
mod trim;

pub use scope::{KnowledgeAccess, KnowledgeScope};
pub use snapshot::{
    AgentBeside, ArtifactInIndex, ArtifactStatus, CoherenceIssueSummary, IssueCategory, KnowledgeSnapshot,
    Omitted, OpenDecisionSummary, ProjectKnowledge, TokenBudget, WorkstreamActivity, WorkstreamStatus,
};
pub use tally::ArtifactTally;
pub use terms::{SearchTerms, Weight};
pub use tokens::estimated_tokens;
