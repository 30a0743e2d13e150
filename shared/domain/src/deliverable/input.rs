//! Input of the `deliverable` tool (S4) and its validation.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Deliverable;
use crate::DeliverableId;
use crate::text::cut;
use crate::value::DeliverableState;

/// A deliverable to create (S4).
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
    pub deliverables: Vec<DeliverableInput>,
}

/// New status of a deliverable (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetDeliverableStatusInput {
    /// Id of the deliverable.
    pub deliverable_id: String,
    pub status: DeliverableState,
}

/// A violation in the input. Indexes start at 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDeliverable {
    #[error("deliverables: at least one is needed")]
    None,
    /// The working directory would have too many deliverables.
    #[error(
        "deliverables: at most {} may exist together, but there would be {actual}",
        Deliverable::MAX_COUNT
    )]
    TooMany { actual: usize },
    /// The texts would be too long for one event.
    #[error(
        "deliverables: their texts may have {} bytes together, but would have {actual}",
        Deliverable::MAX_BYTES
    )]
    TooLong { actual: usize },
    #[error(
        "deliverables[{at}].id: must have 1 to {} characters without control characters",
        Deliverable::MAX_ID
    )]
    Id { at: usize },
    /// Another entry of the same call has the id.
    #[error("deliverables[{at}].id: `{id}` occurs twice")]
    Duplicate { at: usize, id: String },
    /// An existing deliverable has the id.
    #[error("deliverables[{at}].id: `{id}` exists already")]
    Exists { at: usize, id: String },
    #[error("deliverables[{at}].description: must have 1 to {} characters", Deliverable::MAX_DESCRIPTION)]
    Description { at: usize },
    #[error("deliverables[{at}].acceptanceCriteria: must have 1 to {} entries", Deliverable::MAX_CRITERIA)]
    Criteria { at: usize },
    #[error(
        "deliverables[{at}].acceptanceCriteria[{criterion}]: must have 1 to {} characters",
        Deliverable::MAX_CRITERION
    )]
    Criterion { at: usize, criterion: usize },
}

impl Deliverable {
    pub const MAX_COUNT: usize = 200;
    /// Most bytes of all texts together, so that a snapshot fits into one envelope.
    pub const MAX_BYTES: usize = 64 * 1024;
    pub const MAX_ID: usize = 80;
    pub const MAX_DESCRIPTION: usize = 2000;
    pub const MAX_CRITERIA: usize = 50;
    pub const MAX_CRITERION: usize = 1000;

    pub(super) fn bytes(&self) -> usize {
        let criteria: usize = self.acceptance_criteria.iter().map(String::len).sum();
        self.id.as_str().len() + self.description.len() + criteria
    }
}

fn within(text: &str, max: usize) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().count() <= max
}

pub(super) fn id_of(text: &str) -> Option<DeliverableId> {
    within(text, Deliverable::MAX_ID).then(|| DeliverableId::parse(text.trim()).ok()).flatten()
}

/// Checks `inputs` against each other and the existing deliverables. Returns all violations.
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
                    wrong.push(InvalidDeliverable::Duplicate { at, id: shown() });
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
