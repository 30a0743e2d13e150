use pilothouse_domain::InvalidId;

use crate::kit::turns::turn_id;
use crate::kit::usage::Totals;

#[derive(Debug, Clone)]
pub struct Options {
    pub(super) turn_prefix: String,
    pub(super) known_totals: Option<Totals>,
    pub(super) default_context_limit: u64,
    pub(super) warn_at_percent: Option<u8>,
}

impl Options {
    /// Context limit until the runtime reports its own, which it does in each result (`modelUsage.*.contextWindow`).
    pub const DEFAULT_CONTEXT_LIMIT: u64 = 200_000;
    /// Fill level of the context window, in percent, at which `context_nearing_limit` is published (S0 8.2).
    pub const DEFAULT_WARN_AT_PERCENT: u8 = 85;

    /// Turns are named `{turn_prefix}.1`, `{turn_prefix}.2`, …. The run's id is a good prefix, because turn ids must be
    /// unique across the runs of a session.
    pub fn new(turn_prefix: impl Into<String>) -> Result<Self, InvalidId> {
        let turn_prefix = turn_prefix.into();
        // Checks the longest possible id, so that all later ones are valid.
        turn_id(&turn_prefix, u64::MAX)?;
        Ok(Self {
            turn_prefix,
            known_totals: Some(Totals::new()),
            default_context_limit: Self::DEFAULT_CONTEXT_LIMIT,
            warn_at_percent: Some(Self::DEFAULT_WARN_AT_PERCENT),
        })
    }

    /// Options for a resumed or forked conversation: its totals so far, or `None` if they are not known. Without them
    /// the translator reports no usage before the runtime's first result, because a total must never decrease
    /// (decision 31).
    #[must_use]
    pub fn continued(mut self, totals: Option<Totals>) -> Self {
        self.known_totals = totals;
        self
    }

    /// Context limit in tokens until the runtime reports its own.
    #[must_use]
    pub const fn context_limit(mut self, tokens: u64) -> Self {
        self.default_context_limit = tokens;
        self
    }

    /// Fill level at which `context_nearing_limit` is published, in percent. `None` disables it.
    #[must_use]
    pub const fn warn_at_percent(mut self, percent: Option<u8>) -> Self {
        self.warn_at_percent = percent;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_cannot_carry_a_turn_id_is_refused_at_once() {
        assert!(Options::new("run-1").is_ok());
        assert!(Options::new("x".repeat(190)).is_err());
        assert!(Options::new("a\nb").is_err());
    }
}
