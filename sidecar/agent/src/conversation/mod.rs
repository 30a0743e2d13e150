//! The conversation as a model sees it.

mod pairing;
mod tokens;
mod transcript;
mod view;

pub(crate) use self::pairing::{LOST, for_model, latest_turns, unanswered, without};
pub(crate) use self::tokens::{estimate, estimate_bytes, estimate_text, estimate_tools};
pub(crate) use self::transcript::transcript;
pub(crate) use self::view::{ContextTokens, ConversationView, append_omission};
