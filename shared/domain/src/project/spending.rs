//! The most that the agents of a project may spend together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Usd;
use crate::value::{InvalidBudget, SessionBudget};

/// The cap of a project's spending (decision 78).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpendingCap {
    /// The cap, in US dollars.
    usd: Usd,
    /// The percentage of the cap at which the owner is warned.
    warn_at_percent: u8,
}

impl SpendingCap {
    /// A cap; the owner is warned at 80 percent unless another percentage is given.
    pub fn new(usd: Usd, warn_at_percent: Option<u8>) -> Result<Self, InvalidBudget> {
        let warn_at_percent = warn_at_percent.unwrap_or(SessionBudget::DEFAULT_WARN_AT_PERCENT);
        SessionBudget::new(usd, warn_at_percent)?;
        Ok(Self { usd, warn_at_percent })
    }

    pub const fn usd(self) -> Usd {
        self.usd
    }

    /// Whether the owner is warned of this amount.
    pub fn warns_at(self, amount: Usd) -> bool {
        amount.percent_of(self.usd) >= self.warn_at_percent.into()
    }
}
