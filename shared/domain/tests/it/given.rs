//! Stories: given where a session stands, when something happens, then what follows.

mod delivery;
mod lifecycle;
mod liveness;
mod money;
mod pool;
mod requests;
mod templates;
mod turns;
