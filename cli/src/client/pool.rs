//! The pool of the owner (ruling 21).

use pilothouse_functions::api::pool::PoolView;

use super::inputs::NewPoolMaximum;
use super::{ApiError, Client};

const POOL: &str = "api/agents/pool";

impl Client {
    /// How full the pool is.
    pub async fn pool(&self) -> Result<PoolView, ApiError> {
        self.get(POOL.to_owned()).await
    }

    /// Changes how many sessions may run at once. Lowering it stops nobody.
    pub async fn set_pool(&self, max_concurrent_sessions: u32) -> Result<PoolView, ApiError> {
        self.patch(POOL.to_owned(), &NewPoolMaximum { max_concurrent_sessions }).await
    }
}
