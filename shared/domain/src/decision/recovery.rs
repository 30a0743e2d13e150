//! How an agent of a project continues after a crash (S2 `CrashRecoveryPolicy`; decision 81), and what becomes of a full chain.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DecisionOption;
use crate::Timestamp;
use crate::names::named;
use crate::trust::Points;
use crate::value::QuestionOption;

/// How an agent continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// The session is retried with the conversation that it had.
    Resume,
    /// A new session of the agent starts with the same objective.
    Restart,
    /// The agent stays as it is.
    Abandon,
}

named!(Recovery {
    Resume => "resume",
    Restart => "restart",
    Abandon => "abandon",
});

/// A recovery that happens without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutomaticRecovery {
    /// When it happens, unless a person decides before.
    pub at: Timestamp,
    /// What happens. If it is refused, a person decides.
    pub recovery: Recovery,
}

/// When an agent continues without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutoRestartConditions {
    /// The lowest trust: 0 to 100.
    #[serde(default = "AutoRestartConditions::default_trust")]
    #[schemars(range(max = 100))]
    pub min_trust_score: u8,
    /// How many crashes in a row are recovered from without a person: 1 to 100. A completed turn ends the row.
    #[serde(default = "AutoRestartConditions::default_crashes")]
    pub max_consecutive_crashes: u32,
    /// How long to wait after the first crash, in milliseconds: at most 1 hour. It doubles with each further crash, up to 1 hour.
    #[serde(default = "AutoRestartConditions::default_cooldown")]
    pub cooldown_ms: u64,
}

/// What happens when an agent of a project crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrashRecoveryPolicy {
    /// Whether the agent continues without a person, under the conditions.
    #[serde(default)]
    pub auto_restart: bool,
    #[serde(default)]
    pub auto_restart_conditions: AutoRestartConditions,
    /// Whether the agent continues its conversation rather than to start again.
    #[serde(default = "CrashRecoveryPolicy::default_preference")]
    pub prefer_resume_over_restart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecoveryPolicy {
    #[error("autoRestartConditions.minTrustScore must be from 0 to 100")]
    Trust,
    #[error(
        "autoRestartConditions.maxConsecutiveCrashes must be from 1 to {}",
        AutoRestartConditions::MAX_CRASHES
    )]
    Crashes,
    #[error(
        "autoRestartConditions.cooldownMs must be at most {}",
        AutoRestartConditions::MAX_COOLDOWN.as_millis()
    )]
    Cooldown,
}

impl Recovery {
    pub const ALL: [Self; 3] = [Self::Resume, Self::Restart, Self::Abandon];

    /// The recovery with the id of an option.
    pub fn of_option(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recovery| recovery.to_string() == id)
    }

    /// The options of a decision.
    pub fn options() -> Vec<DecisionOption> {
        let option = |recovery: Self| {
            let (label, description) = match recovery {
                Self::Resume => ("Resume", "Retry the session with the conversation that it had."),
                Self::Restart => ("Restart", "Start a new session of the agent with the same objective."),
                Self::Abandon => ("Abandon", "Leave the agent as it is."),
            };
            described(recovery.to_string(), label, description)
        };
        Self::ALL.into_iter().map(option).collect()
    }
}

/// What becomes of a chain whose work cannot be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainOutcome {
    /// The chain is cancelled.
    Cancel,
    /// The chain stays as it is.
    Keep,
}

impl ChainOutcome {
    /// The outcome with the id of an option.
    pub fn of_option(id: &str) -> Option<Self> {
        match id {
            "cancel" => Some(Self::Cancel),
            "keep" => Some(Self::Keep),
            _ => None,
        }
    }

    /// The options of a decision.
    pub fn options() -> Vec<DecisionOption> {
        vec![
            described("cancel".to_owned(), "Cancel the chain", "Its sessions keep their records."),
            described(
                "keep".to_owned(),
                "Keep the chain",
                "It stays as it is, and you start a new session for the rest of the work.",
            ),
        ]
    }
}

pub(super) fn described(id: String, label: &str, description: &str) -> DecisionOption {
    let option = QuestionOption { label: label.to_owned(), description: Some(description.to_owned()) };
    DecisionOption { id, option, tradeoffs: None }
}

impl Default for AutoRestartConditions {
    fn default() -> Self {
        Self {
            min_trust_score: Self::default_trust(),
            max_consecutive_crashes: Self::default_crashes(),
            cooldown_ms: Self::default_cooldown(),
        }
    }
}

impl Default for CrashRecoveryPolicy {
    fn default() -> Self {
        Self {
            auto_restart: false,
            auto_restart_conditions: AutoRestartConditions::default(),
            prefer_resume_over_restart: Self::default_preference(),
        }
    }
}

impl AutoRestartConditions {
    pub const MAX_CRASHES: u32 = 100;
    pub const MAX_COOLDOWN: Duration = Duration::from_hours(1);

    const fn default_trust() -> u8 {
        70
    }

    const fn default_crashes() -> u32 {
        3
    }

    const fn default_cooldown() -> u64 {
        30_000
    }

    /// The time before the recovery from the crash with this number in a row, from 1.
    fn cooldown(&self, crash: u32) -> Duration {
        let doubled = 1_u64.checked_shl(crash.saturating_sub(1)).unwrap_or(u64::MAX);
        Duration::from_millis(self.cooldown_ms.saturating_mul(doubled)).min(Self::MAX_COOLDOWN)
    }
}

impl CrashRecoveryPolicy {
    const fn default_preference() -> bool {
        true
    }

    /// Names every violation.
    pub fn check(&self) -> Result<(), Vec<InvalidRecoveryPolicy>> {
        let AutoRestartConditions { min_trust_score, max_consecutive_crashes, cooldown_ms } =
            self.auto_restart_conditions;
        let mut found = Vec::new();
        if min_trust_score > 100 {
            found.push(InvalidRecoveryPolicy::Trust);
        }
        if !(1..=AutoRestartConditions::MAX_CRASHES).contains(&max_consecutive_crashes) {
            found.push(InvalidRecoveryPolicy::Crashes);
        }
        if Duration::from_millis(cooldown_ms) > AutoRestartConditions::MAX_COOLDOWN {
            found.push(InvalidRecoveryPolicy::Cooldown);
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// The recovery that happens without a person, after the crash with this number in a row, at `trust`.
    pub fn automatic(&self, crash: u32, trust: Points, now: Timestamp) -> Option<AutomaticRecovery> {
        let conditions = &self.auto_restart_conditions;
        let is_trusted = trust >= Points::whole(i16::from(conditions.min_trust_score));
        let applies = self.auto_restart && is_trusted && crash <= conditions.max_consecutive_crashes;
        let recovery = if self.prefer_resume_over_restart { Recovery::Resume } else { Recovery::Restart };
        applies.then(|| AutomaticRecovery { at: now + conditions.cooldown(crash), recovery })
    }
}
