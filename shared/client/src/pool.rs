//! The session pool of the owner (decision 21).

use pilothouse_api::pool::PoolView;

use super::inputs::ConfigurePool;
use super::{ApiError, Client};

const POOL: &str = "api/agents/pool";

impl Client {
    /// Reads the pool with its leases and waiting sessions.
    pub async fn pool(&self) -> Result<PoolView, ApiError> {
        self.get(POOL.to_owned()).await
    }

    /// Changes how many sessions may run at once. Running sessions keep their slots.
    pub async fn configure_pool(&self, max_concurrent_sessions: u32) -> Result<PoolView, ApiError> {
        self.patch(POOL.to_owned(), &ConfigurePool { max_concurrent_sessions }).await
    }
}
