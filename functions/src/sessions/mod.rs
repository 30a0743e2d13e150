//! Sessions: commands and queries of their owners (S0 8.9).

pub mod adjust;
pub mod approve;
mod attach;
pub mod budget;
pub mod cancel;
pub mod close;
pub mod compact;
pub mod disable_skill;
pub mod enable_skill;
pub mod fork;
pub mod get;
pub mod history;
pub mod interrupt;
pub mod list;
pub mod open;
pub mod pause;
pub mod reject;
pub mod reload;
pub mod resume;
pub mod retry;
mod skills_of;
pub mod start;
