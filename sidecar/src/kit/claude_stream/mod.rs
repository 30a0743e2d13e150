//! Translation of Claude Code's stream messages to raw events (S0 8.2, 8.3). The `claude` adapter translates the
//! output of the binary with it, and the `script` adapter plays recordings of that output.
//!
//! Claude Code emits the same messages in two forms: the Agent SDK yields them one by one, and the `claude` binary
//! writes them as lines of JSON, mixed with control requests. [`Translator`] accepts both, line by line, without I/O
//! and without a clock. [`Recording`] replays recorded lines through it.
//!
//! `docs/claude-translation.md` contains the translation table: the raw events of each message type, or the reason
//! why it is ignored.

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
