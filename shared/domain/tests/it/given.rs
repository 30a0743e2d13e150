//! Stories: given where a session stands, when something happens, then what follows.

pub(crate) mod chains;
mod composition;
mod delivery;
mod lifecycle;
mod liveness;
mod money;
mod pool;
mod reload;
mod requests;
pub(crate) mod skills;
mod turns;
