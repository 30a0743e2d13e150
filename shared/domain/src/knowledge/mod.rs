//! The knowledge that the agents of a project share (S2, "Knowledge Store"; decision 84).
//!
//! | module | contents |
//! |---|---|
//! | `snapshot` | the part of the knowledge that one agent may read, within a number of tokens |
//! | `selection` | selects the content of a snapshot |
//! | `trim` | shortens a snapshot to its number of tokens |
//! | `tokens` | an estimate of the number of tokens of a text |
//! | `terms` | the words under which a search finds an artifact or an objective |
//! | `tally` | the number of artifacts of each workstream |

mod selection;
mod snapshot;
mod tally;
mod terms;
mod tokens;
mod trim;

pub use selection::ProjectKnowledge;
pub use snapshot::{
    AgentSummary, ArtifactIndexEntry, ArtifactStatus, CoherenceIssueSummary, DecisionSummary,
    KnowledgeSnapshot, Omitted, TokenBudget, WorkstreamStatus, WorkstreamSummary,
};
pub use tally::ArtifactTally;
pub use terms::{SearchTerms, Weight};
pub use tokens::estimated_tokens;
