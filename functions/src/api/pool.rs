//! The pool over the API (S0 8.12).

use pilothouse_domain::pool::{SessionPool, Waiting};
use pilothouse_domain::{AgentSessionId, RunId, Timestamp};
use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How full the pool is (S0 8.12 `SessionPoolUtilization`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolView {
    /// Slots in use.
    pub active_count: usize,
    /// Slots there are.
    pub max_count: u32,
    /// Slots that are free.
    pub available_slots: usize,
    /// In use, in percent.
    pub utilization_percent: String,
    /// Who has a slot.
    pub leases: Vec<LeaseView>,
    /// Who waits, first come first.
    pub waiting: Vec<Waiting>,
    /// Counts changes of the pool; also its `ETag`.
    pub version: u64,
}

/// A slot in use.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    /// The session.
    pub session_id: AgentSessionId,
    /// Its run.
    pub run_id: RunId,
    /// Since when.
    pub since: Timestamp,
}

impl PoolView {
    /// The view of a pool.
    pub fn of(pool: &SessionPool, version: u64) -> Self {
        let max = pool.max_concurrent_sessions();
        let percent = Decimal::from(pool.active_count()) * Decimal::ONE_HUNDRED / Decimal::from(max.max(1));
        Self {
            active_count: pool.active_count(),
            max_count: max,
            available_slots: (max as usize).saturating_sub(pool.active_count()),
            utilization_percent: percent.round_dp(2).normalize().to_string(),
            leases: pool
                .leases()
                .iter()
                .map(|(session_id, lease)| LeaseView {
                    session_id: *session_id,
                    run_id: lease.run_id,
                    since: lease.since,
                })
                .collect(),
            waiting: pool.waiting().to_vec(),
            version,
        }
    }
}
