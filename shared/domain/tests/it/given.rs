//! Stories: given where a session stands, when something happens, then what follows.

mod adjust;
mod auto_continue;
pub(crate) mod chains;
mod composition;
mod delivery;
mod hibernation;
mod lifecycle;
mod liveness;
mod money;
mod pool;
mod quota;
mod reload;
mod requests;
pub(crate) mod skills;
mod templates;
mod turns;
