//! Claude Code: the adapter, and the translation of its stream messages to raw events (S0 8.2, 8.3).
//!
//! Claude Code emits the same messages in two forms: the Agent SDK yields them one by one, and the `claude` binary
//! writes them as lines of JSON, mixed with control requests. [`Translator`] accepts both, line by line, without I/O
//! and without a clock. [`Recording`] replays recorded lines through it. [`Claude`] is the adapter that drives the
//! binary.
//!
//! `docs/claude-translation.md` contains the translation table: the raw events of each message type, or the reason
//! why it is ignored.

mod adapter;
mod control;
mod ignored;
mod json;
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

pub use adapter::Claude;
pub use ignored::Ignored;
pub use options::Options;
pub use playback::{PlaybackOptions, PlaybackStep};
pub use recording::{Direction, Recording, RecordingError, RecordingLine, Segment};
pub use totals::{ModelTotals, Totals};
pub use translated::{MessageState, Signal, Translated, TurnEnd};
pub use translator::Translator;
