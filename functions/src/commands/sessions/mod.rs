//! Commands on sessions (S0 8.9).

pub mod adjust;
pub mod approve;
pub mod budget;
pub mod cancel;
pub mod close;
pub mod compact;
pub mod disable_skill;
pub mod enable_skill;
pub mod fork;
pub mod interrupt;
pub mod label_turn;
pub mod new_conversation;
pub mod pause;
pub mod reject;
pub mod reload;
pub mod resume;
pub mod retry;
pub mod start;
pub mod switch_conversation;
