//! What a translator is told about the run that it serves.

use pilothouse_domain::{InvalidId, TurnId};

use super::totals::Totals;

/// How to translate. Everything has a default but the prefix of the turn ids.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) turn_prefix: String,
    pub(super) known_totals: Option<Totals>,
    pub(super) default_context_limit: u64,
    pub(super) warn_at_percent: Option<u8>,
}

impl Options {
    /// Tokens that a model takes as long as the runtime did not say: it does so in each result
    /// (`modelUsage.*.contextWindow`), so this is for the time before the first one.
    pub const DEFAULT_CONTEXT_LIMIT: u64 = 200_000;
    /// Where `context_nearing_limit` is told (S0 8.2), in percent of the context window.
    pub const DEFAULT_WARN_AT_PERCENT: u8 = 85;

    /// Options for a new conversation. The turns are called `{turn_prefix}.1`, `{turn_prefix}.2`, …; a run's id is a
    /// good prefix, since turn ids must not repeat over the runs of a session.
    pub fn new(turn_prefix: impl Into<String>) -> Result<Self, InvalidId> {
        let turn_prefix = turn_prefix.into();
        // The longest id that a run can come to; later ones are then valid too.
        TurnId::parse(turn_id_text(&turn_prefix, u64::MAX))?;
        Ok(Self {
            turn_prefix,
            known_totals: Some(Totals::new()),
            default_context_limit: Self::DEFAULT_CONTEXT_LIMIT,
            warn_at_percent: Some(Self::DEFAULT_WARN_AT_PERCENT),
        })
    }

    /// For a conversation that is resumed or forked: the totals that it starts with, or `None` when they are not
    /// known. Without them the translator reports no usage before the runtime's first result, because a total must
    /// never go down (ruling 31).
    #[must_use]
    pub fn continued(mut self, totals: Option<Totals>) -> Self {
        self.known_totals = totals;
        self
    }

    /// The context limit to assume until the runtime says its own, in tokens.
    #[must_use]
    pub const fn context_limit(mut self, tokens: u64) -> Self {
        self.default_context_limit = tokens;
        self
    }

    /// Where `context_nearing_limit` is told, in percent; `None`: never.
    #[must_use]
    pub const fn warn_at_percent(mut self, percent: Option<u8>) -> Self {
        self.warn_at_percent = percent;
        self
    }
}

pub(super) fn turn_id_text(prefix: &str, number: u64) -> String {
    format!("{prefix}.{number}")
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
