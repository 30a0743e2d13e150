//! What the `deliverable` tool is given (S4), and everything that can be wrong with it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Deliverable;
use crate::DeliverableId;
use crate::text::cut;
use crate::value::DeliverableState;

/// One deliverable to create (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliverableInput {
    /// Unique identifier, for example DL-001.
    pub id: String,
    /// Clear description of the deliverable.
    pub description: String,
    /// Verifiable conditions for completion; at least one.
    pub acceptance_criteria: Vec<String>,
}

/// Deliverables to create (S4): all of them or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateDeliverableInput {
    /// What is created.
    pub deliverables: Vec<DeliverableInput>,
}

/// A deliverable's new status (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetDeliverableStatusInput {
    /// Which.
    pub deliverable_id: String,
    /// Its new status.
    pub status: DeliverableState,
}

/// Something that is wrong with deliverables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDeliverable {
    /// There is none.
    #[error("deliverables: at least one is needed")]
    None,
    /// More than a working directory may have.
    #[error(
        "deliverables: at most {} may exist together, and these would be {actual}",
        Deliverable::MAX_COUNT
    )]
    TooMany {
        /// How many there would be.
        actual: usize,
    },
    /// Together longer than an event can carry.
    #[error(
        "deliverables: their texts may have {} bytes together, and these would have {actual}",
        Deliverable::MAX_BYTES
    )]
    TooLong {
        /// How many bytes there would be.
        actual: usize,
    },
    /// The id is no id.
    #[error(
        "deliverables[{at}].id: must have 1 to {} characters without control characters",
        Deliverable::MAX_ID
    )]
    Id {
        /// The place in the list, from 0.
        at: usize,
    },
    /// Another one of the same call has the id.
    #[error("deliverables[{at}].id: `{id}` is there twice")]
    Twice {
        /// The place in the list, from 0.
        at: usize,
        /// The id.
        id: String,
    },
    /// The id is taken.
    #[error("deliverables[{at}].id: `{id}` exists already")]
    Exists {
        /// The place in the list, from 0.
        at: usize,
        /// The id.
        id: String,
    },
    /// No description, or too long a one.
    #[error("deliverables[{at}].description: must have 1 to {} characters", Deliverable::MAX_DESCRIPTION)]
    Description {
        /// The place in the list, from 0.
        at: usize,
    },
    /// No criteria, or too many.
    #[error("deliverables[{at}].acceptanceCriteria: must have 1 to {} entries", Deliverable::MAX_CRITERIA)]
    Criteria {
        /// The place in the list, from 0.
        at: usize,
    },
    /// An empty criterion, or too long a one.
    #[error(
        "deliverables[{at}].acceptanceCriteria[{criterion}]: must have 1 to {} characters",
        Deliverable::MAX_CRITERION
    )]
    Criterion {
        /// The place in the list, from 0.
        at: usize,
        /// The place among its criteria, from 0.
        criterion: usize,
    },
}

impl Deliverable {
    /// The most that a working directory may have.
    pub const MAX_COUNT: usize = 200;
    /// The most bytes of all texts together: a snapshot of them fits into one envelope.
    pub const MAX_BYTES: usize = 64 * 1024;
    /// The most characters of an id.
    pub const MAX_ID: usize = 80;
    /// The most characters of a description.
    pub const MAX_DESCRIPTION: usize = 2000;
    /// The most criteria.
    pub const MAX_CRITERIA: usize = 50;
    /// The most characters of a criterion.
    pub const MAX_CRITERION: usize = 1000;

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let criteria: usize = self.acceptance_criteria.iter().map(String::len).sum();
        self.id.as_str().len() + self.description.len() + criteria
    }
}

fn within(text: &str, max: usize) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().count() <= max
}

/// An id that a deliverable may have, without the blanks around it.
pub(super) fn id_of(text: &str) -> Option<DeliverableId> {
    within(text, Deliverable::MAX_ID).then(|| DeliverableId::parse(text.trim()).ok()).flatten()
}

/// Checks `inputs` beside what `exists` already, and names everything that is wrong.
pub(super) fn check(
    inputs: Vec<DeliverableInput>,
    exists: &[Deliverable],
) -> Result<Vec<Deliverable>, Vec<InvalidDeliverable>> {
    let mut wrong = Vec::new();
    if inputs.is_empty() {
        wrong.push(InvalidDeliverable::None);
    }
    let count = exists.len() + inputs.len();
    if count > Deliverable::MAX_COUNT {
        wrong.push(InvalidDeliverable::TooMany { actual: count });
    }
    let mut seen = BTreeSet::new();
    let mut made = Vec::with_capacity(inputs.len());
    for (at, input) in inputs.into_iter().enumerate() {
        let id = id_of(&input.id);
        match &id {
            None => wrong.push(InvalidDeliverable::Id { at }),
            Some(id) => {
                let shown = || cut(id.as_str(), Deliverable::MAX_ID);
                if !seen.insert(id.clone()) {
                    wrong.push(InvalidDeliverable::Twice { at, id: shown() });
                } else if exists.iter().any(|other| other.id == *id) {
                    wrong.push(InvalidDeliverable::Exists { at, id: shown() });
                }
            }
        }
        if !within(&input.description, Deliverable::MAX_DESCRIPTION) {
            wrong.push(InvalidDeliverable::Description { at });
        }
        if !(1..=Deliverable::MAX_CRITERIA).contains(&input.acceptance_criteria.len()) {
            wrong.push(InvalidDeliverable::Criteria { at });
        }
        for (criterion, text) in input.acceptance_criteria.iter().enumerate() {
            if !within(text, Deliverable::MAX_CRITERION) {
                wrong.push(InvalidDeliverable::Criterion { at, criterion });
            }
        }
        if let Some(id) = id {
            made.push(Deliverable {
                id,
                description: input.description.trim().to_owned(),
                acceptance_criteria: input.acceptance_criteria.iter().map(|c| c.trim().to_owned()).collect(),
                status: DeliverableState::Pending,
            });
        }
    }
    let bytes = exists.iter().chain(&made).map(Deliverable::bytes).sum();
    if bytes > Deliverable::MAX_BYTES {
        wrong.push(InvalidDeliverable::TooLong { actual: bytes });
    }
    if wrong.is_empty() { Ok(made) } else { Err(wrong) }
}
