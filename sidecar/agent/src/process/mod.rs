//! Programs that an agent starts, each a process group: none outlives the agent, however that ends.

mod group;
mod guard;

pub use self::group::{Group, Program};
