//! The transition table of a deliverable (S4, decision 39).
//!
//! | from | to |
//! |---|---|
//! | pending | passed, blocked |
//! | passed | pending |
//! | blocked | passed, pending |
//!
//! Setting the current state again succeeds.

use crate::value::DeliverableState;

/// A transition that the table does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a deliverable that is {} cannot become {}", .from.name(), .to.name())]
pub struct InvalidTransition {
    pub from: DeliverableState,
    pub to: DeliverableState,
}

impl DeliverableState {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Passed, Self::Blocked];

    /// Name in the status file and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Passed => "passed",
            Self::Blocked => "blocked",
        }
    }

    /// Whether no work is left: passed or blocked.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Passed | Self::Blocked)
    }

    /// The state after `set_status(to)`.
    pub const fn set(self, to: Self) -> Result<Self, InvalidTransition> {
        use DeliverableState::{Blocked, Passed, Pending};
        match (self, to) {
            (Pending | Blocked, Pending | Passed | Blocked) | (Passed, Passed | Pending) => Ok(to),
            // A deliverable that is passed is not blocked. It has to be reset to pending first.
            (Passed, Blocked) => Err(InvalidTransition { from: self, to }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeliverableState::{Blocked, Passed, Pending};

    #[test]
    fn transitions_match_the_table() {
        let allowed = [
            (Pending, Passed),
            (Pending, Blocked),
            (Passed, Pending),
            (Blocked, Passed),
            (Blocked, Pending),
            // no change
            (Pending, Pending),
            (Passed, Passed),
            (Blocked, Blocked),
        ];
        for from in DeliverableState::ALL {
            for to in DeliverableState::ALL {
                let expected =
                    if allowed.contains(&(from, to)) { Ok(to) } else { Err(InvalidTransition { from, to }) };
                assert_eq!(from.set(to), expected, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn refused_transition_names_both_states() {
        let refused = Passed.set(Blocked).unwrap_err();
        assert_eq!(refused.to_string(), "a deliverable that is passed cannot become blocked");
    }

    #[test]
    fn state_names_match_the_file() {
        assert_eq!(DeliverableState::ALL.map(DeliverableState::name), ["pending", "passed", "blocked"]);
        for state in DeliverableState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }
}
