//! Scenarios in given-when-then form: a session in some status, a step, and the expected result.

mod adjust;
mod auto_continue;
mod brakes;
pub(crate) mod chains;
mod composition;
pub(crate) mod decision_timeouts;
mod decisions;
mod delivery;
mod disk;
mod escalation;
pub(crate) mod grants;
mod hibernation;
mod inbox;
mod lifecycle;
mod liveness;
mod lost_resume;
mod money;
mod outcomes;
mod pool;
mod quota;
mod reload;
mod requests;
pub(crate) mod skills;
mod templates;
mod ticks;
pub(crate) mod trust;
mod turns;
