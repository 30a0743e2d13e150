//! Claude Code's stream messages as raw events (S0 8.2, 8.3).
//!
//! The runtime speaks one dialect in two forms: the Agent SDK yields one message after the other, and the `claude`
//! binary writes the same messages as lines of JSON, with control requests in between. [`Translator`] takes either,
//! line by line, without I/O and without a clock. [`Recording`] plays recorded lines back through it. [`Claude`] is the
//! adapter that drives the binary.
//!
//! `docs/claude-translation.md` has the table: message type → raw events, or the reason for ignoring it.

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
mod translated;
mod translator;
mod turns;
mod usage;

pub use adapter::Claude;
pub use ignored::Ignored;
pub use options::Options;
pub use playback::{PlaybackOptions, PlaybackStep};
pub use recording::{Recording, RecordingError, RecordingLine, Segment};
pub use translated::{MessageState, Signal, Translated, TurnEnd};
pub use translator::Translator;
pub use usage::{ModelTotals, Totals};
