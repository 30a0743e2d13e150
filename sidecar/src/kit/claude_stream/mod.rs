//! Translation of Claude Code's stream messages to raw events (S0 8.2, 8.3), for the `claude` adapter and for
//! recordings that the `script` adapter plays.
//!
//! Claude Code emits the same messages in two forms: the Agent SDK yields them one by one, and the `claude` binary
//! writes them as lines of JSON, mixed with control requests. [`Translator`] accepts both, line by line, without I/O
//! and without a clock. [`Recording`] replays recorded lines through it.
//!
//! The translation table is in `docs/claude-translation.md`: the raw events of each message type, or why it is ignored.

mod control;
mod ignored;
mod messages;
mod options;
mod playback;
mod quota;
mod recording;
mod subagents;
mod system;
mod task_list;
mod totals;
mod translated;
mod translator;
mod turns;
mod usage;

pub use ignored::Ignored;
pub use options::Options;
pub use playback::{PlaybackOptions, PlaybackStep};
pub use recording::{Direction, Recording, RecordingError, RecordingLine, Segment};
pub use translated::{MessageState, Signal, Translated, TurnEnd};
pub use translator::Translator;

pub use crate::kit::usage::{ModelTotals, Totals};
