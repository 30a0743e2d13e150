//! Stories: given where a session stands, when something happens, then what follows.

mod auto_continue;
mod delivery;
mod hibernation;
mod lifecycle;
mod liveness;
mod money;
mod pool;
mod requests;
mod turns;
