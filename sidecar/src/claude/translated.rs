//! What comes of one line.

use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use super::Ignored;

/// What one line means: raw events, or the reason why there are none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Translated {
    /// The raw events, in order. Empty exactly when `ignored` is set.
    pub events: Vec<RawEvent>,
    /// Why there are no events.
    pub ignored: Option<Ignored>,
    /// What the adapter itself needs to know; never sent as it is.
    pub signals: Vec<Signal>,
}

/// A fact for the adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// How far a message got that the adapter wrote with a `uuid` of its own. An adapter that uses the message's id
    /// as that `uuid` derives `message_ack` from it: it sends `received` when it has the command, `injecting` before
    /// it writes the line, and `injected` at [`MessageState::Started`].
    Message {
        /// The `uuid` of the user line.
        uuid: String,
        /// How far it got.
        state: MessageState,
    },
    /// A turn is over.
    TurnEnded(TurnEnd),
    /// The plan that pays for the runtime is used up; the turn stays open, and goes on when somebody says so.
    OutOfQuota,
    /// A compaction that the adapter asked for is over; why it failed, if it did.
    Compacted(Option<String>),
}

/// How far a message got inside the runtime (`command_lifecycle`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// In the runtime's queue; an interrupt can still cancel it.
    Queued,
    /// In the model's context: from here it counts as delivered.
    Started,
    /// The model has answered it.
    Completed,
    /// Taken out of the queue unread.
    Cancelled,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// By itself; `turn_completed` was told.
    Completed,
    /// By an interrupt: no `turn_completed`, the adapter acknowledges the command (ruling 19).
    Interrupted,
    /// By an error; `session_end` was told.
    Failed,
}

impl Translated {
    /// Takes note of an event.
    pub(super) fn push(&mut self, event: RawEvent) {
        self.events.push(event);
    }

    /// Gives the reason for which there is no event; the first one stays.
    pub(super) fn ignore(&mut self, reason: Ignored) {
        self.ignored.get_or_insert(reason);
    }

    /// Takes note of a notice.
    pub(super) fn notice(&mut self, name: &str, summary: impl Into<String>, detail: &Value) {
        self.events.push(RawEvent::Notice {
            name: name.to_owned(),
            summary: summary.into(),
            detail: Some(detail.clone()),
        });
    }

    /// Takes note of something that this version does not know.
    pub(super) fn unknown(&mut self, what: &str, detail: &Value) {
        let name: String =
            what.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(80).collect();
        self.notice(&format!("unknown_{name}"), format!("The agent said something unknown: {name}"), detail);
    }
}
