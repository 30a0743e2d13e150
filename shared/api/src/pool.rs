//! The session pool in the API (S0 8.12).

use pilothouse_domain::pool::{SessionPool, Waiting};
use pilothouse_domain::{AgentSessionId, BrakeId, RunId, Timestamp};
use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The utilization of the pool (S0 8.12 `SessionPoolUtilization`), with the slots in use and the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolView {
    /// The number of slots in use.
    pub active_count: usize,
    /// The number of slots in the pool.
    pub max_count: u32,
    /// The number of free slots.
    pub available_slots: usize,
    /// The share of slots in use, in percent.
    pub utilization_percent: String,
    /// The slots in use.
    pub leases: Vec<LeaseView>,
    /// The sessions that wait for a slot, in order.
    pub waiting: Vec<Waiting>,
    /// The emergency brakes in force. Sessions that they stop keep their place in line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brake_ids: Vec<BrakeId>,
    /// The version of the pool; also its `ETag`.
    pub version: u64,
}

/// The utilization of the pool when a session joined its line (S0 8.12 `SessionPoolUtilization`). A line can be long, so it is only
/// counted here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolUtilization {
    /// The number of slots in use.
    pub active_count: usize,
    /// The number of slots in the pool.
    pub max_count: u32,
    /// The number of free slots.
    pub available_slots: usize,
    /// The share of slots in use, in percent.
    pub utilization_percent: String,
    /// The number of sessions that wait for a slot, with the new one.
    pub waiting_count: usize,
    /// The emergency brakes in force. Sessions that they stop keep their place in line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brake_ids: Vec<BrakeId>,
}

/// How many slots of the pool are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolCounts {
    /// The number of slots in use.
    pub active_count: usize,
    /// The number of slots in the pool.
    pub max_count: u32,
}

impl PoolCounts {
    /// The counts of a pool.
    pub fn of(pool: &SessionPool) -> Self {
        Self { active_count: pool.active_count(), max_count: pool.max_concurrent_sessions() }
    }
}

/// A slot that a run holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    /// The session of the run.
    pub session_id: AgentSessionId,
    /// The run that holds the slot.
    pub run_id: RunId,
    /// When the run received the slot.
    pub since: Timestamp,
    /// Since when the run is unreachable. An unreachable run keeps its slot until it reconnects or is declared lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Timestamp>,
}

impl PoolUtilization {
    /// The utilization of a pool.
    pub fn of(pool: &SessionPool) -> Self {
        let (active, max) = (pool.active_count(), pool.max_concurrent_sessions());
        let percent = Decimal::from(active) * Decimal::ONE_HUNDRED / Decimal::from(max.max(1));
        Self {
            active_count: active,
            max_count: max,
            available_slots: (max as usize).saturating_sub(active),
            utilization_percent: percent.round_dp(2).normalize().to_string(),
            waiting_count: pool.waiting().len(),
            brake_ids: pool.brakes().iter().map(|brake| brake.id).collect(),
        }
    }
}

impl PoolView {
    /// The view of a pool.
    pub fn of(pool: &SessionPool, version: u64) -> Self {
        let PoolUtilization {
            active_count,
            max_count,
            available_slots,
            utilization_percent,
            brake_ids,
            waiting_count: _,
        } = PoolUtilization::of(pool);
        Self {
            active_count,
            max_count,
            available_slots,
            utilization_percent,
            leases: pool
                .leases()
                .iter()
                .map(|(session_id, lease)| LeaseView {
                    session_id: *session_id,
                    run_id: lease.run_id,
                    since: lease.since,
                    unreachable_since: None,
                })
                .collect(),
            waiting: pool.waiting().to_vec(),
            brake_ids,
            version,
        }
    }
}
