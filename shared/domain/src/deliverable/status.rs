//! The aggregate `DeliverableStatus` (S4): all deliverables of a working directory.

use serde::{Deserialize, Serialize};

use super::input::{check, id_of};
use super::{
    CreateDeliverableInput, Day, Deliverable, DeliverableInput, InvalidDeliverable, InvalidTransition,
};
use crate::text::cut;
use crate::value::{DeliverableCounts, DeliverableState};

/// All deliverables of a working directory. Deserializing a status file checks the same rules as the methods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Stored")]
pub struct DeliverableStatus {
    created_at: Day,
    updated_at: Day,
    deliverables: Vec<Deliverable>,
}

/// Content of a status file before validation. Unknown fields are refused, because writing the file back would lose them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored {
    created_at: Day,
    updated_at: Day,
    deliverables: Vec<StoredDeliverable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredDeliverable {
    id: String,
    description: String,
    acceptance_criteria: Vec<String>,
    status: DeliverableState,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidStatus(pub Vec<InvalidDeliverable>);

impl TryFrom<Stored> for DeliverableStatus {
    type Error = InvalidStatus;

    fn try_from(stored: Stored) -> Result<Self, InvalidStatus> {
        let Stored { created_at, updated_at, deliverables } = stored;
        let states: Vec<_> = deliverables.iter().map(|one| one.status).collect();
        let inputs = deliverables.into_iter().map(Into::into).collect();
        let checked = match check(inputs, &[]) {
            Err(wrong) if wrong == [InvalidDeliverable::None] => Vec::new(),
            checked => checked.map_err(InvalidStatus)?,
        };
        let mut deliverables = checked;
        for (one, status) in deliverables.iter_mut().zip(states) {
            one.status = status;
        }
        Ok(Self { created_at, updated_at, deliverables })
    }
}

impl From<StoredDeliverable> for DeliverableInput {
    fn from(one: StoredDeliverable) -> Self {
        let StoredDeliverable { id, description, acceptance_criteria, status: _ } = one;
        Self { id, description, acceptance_criteria }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetStatusError {
    #[error("there is no deliverable `{id}`")]
    NotFound {
        /// Shortened for the message.
        id: String,
    },
    #[error("`{id}`: {source}; set it to pending first")]
    Transition { id: String, source: InvalidTransition },
}

impl DeliverableStatus {
    pub const fn empty(today: Day) -> Self {
        Self { created_at: today, updated_at: today, deliverables: Vec::new() }
    }

    /// When the first deliverable was created.
    pub const fn created_at(&self) -> Day {
        self.created_at
    }

    /// When the tool was last used.
    pub const fn updated_at(&self) -> Day {
        self.updated_at
    }

    /// In the order of their creation.
    pub fn deliverables(&self) -> &[Deliverable] {
        &self.deliverables
    }

    /// Adds all given deliverables as pending, or none and returns all violations (S4 `create`).
    pub fn create(
        &mut self,
        input: CreateDeliverableInput,
        today: Day,
    ) -> Result<&[Deliverable], Vec<InvalidDeliverable>> {
        let made = check(input.deliverables, &self.deliverables)?;
        if self.deliverables.is_empty() {
            self.created_at = today;
        }
        self.updated_at = today;
        let first = self.deliverables.len();
        self.deliverables.extend(made);
        Ok(&self.deliverables[first..])
    }

    /// Sets the state of a deliverable and returns the previous one (S4 `set_status`). Setting the same state again succeeds
    /// (decision 39).
    pub fn set_status(
        &mut self,
        id: &str,
        to: DeliverableState,
        today: Day,
    ) -> Result<DeliverableState, SetStatusError> {
        let shown = || cut(id.trim(), Deliverable::MAX_ID);
        let wanted = id_of(id);
        let found = self.deliverables.iter_mut().find(|one| Some(&one.id) == wanted.as_ref());
        let one = found.ok_or_else(|| SetStatusError::NotFound { id: shown() })?;
        let before = one.status;
        one.status = before.set(to).map_err(|source| SetStatusError::Transition { id: shown(), source })?;
        self.updated_at = today;
        Ok(before)
    }

    pub fn counts(&self) -> DeliverableCounts {
        DeliverableCounts::of(self.deliverables.iter().map(|one| one.status))
    }

    /// Deliverables that are not settled, in order.
    pub fn open(&self) -> impl Iterator<Item = &Deliverable> {
        self.deliverables.iter().filter(|one| !one.status.is_settled())
    }

    /// Whether all deliverables are passed or blocked (S4). False if there are none, because the goals are not known yet.
    pub fn is_settled(&self) -> bool {
        !self.deliverables.is_empty() && self.open().next().is_none()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
