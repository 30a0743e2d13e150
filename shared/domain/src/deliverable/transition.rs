//! The state machine of a deliverable (S4, ruling 39).
//!
//! | from | to |
//! |---|---|
//! | pending | passed, blocked |
//! | passed | pending |
//! | blocked | passed, pending |
//!
//! Setting the status that it has succeeds.

use crate::value::DeliverableState;

/// A status that cannot follow another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a deliverable that is {} cannot become {}", .from.name(), .to.name())]
pub struct InvalidTransition {
    /// Where it stands.
    pub from: DeliverableState,
    /// Where it was to go.
    pub to: DeliverableState,
}

impl DeliverableState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Passed, Self::Blocked];

    /// Its name in the status file and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Passed => "passed",
            Self::Blocked => "blocked",
        }
    }

    /// Whether nothing is left to do about it: passed, or out of the agent's hands.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Passed | Self::Blocked)
    }

    /// The state after `set_status(to)`.
    pub const fn set(self, to: Self) -> Result<Self, InvalidTransition> {
        use DeliverableState::{Blocked, Passed, Pending};
        match (self, to) {
            (Pending | Blocked, Pending | Passed | Blocked) | (Passed, Passed | Pending) => Ok(to),
            // What works is not prevented from outside: it goes back to pending first.
            (Passed, Blocked) => Err(InvalidTransition { from: self, to }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeliverableState::{Blocked, Passed, Pending};

    #[test]
    fn every_state_goes_where_the_table_says_and_nowhere_else() {
        let allowed = [
            (Pending, Passed),
            (Pending, Blocked),
            (Passed, Pending),
            (Blocked, Passed),
            (Blocked, Pending),
            // the same once more
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
    fn a_refusal_says_both_ends() {
        let refused = Passed.set(Blocked).unwrap_err();
        assert_eq!(refused.to_string(), "a deliverable that is passed cannot become blocked");
    }

    #[test]
    fn the_names_are_those_of_the_file() {
        for state in DeliverableState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }
}
