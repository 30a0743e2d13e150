//! The translation of one line.

use pilothouse_domain::value::DraftKind;
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use super::Ignored;
use crate::kit::notices::{detailed_notice, name_part};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Translated {
    /// Raw events in order. Empty exactly if `ignored` is set.
    pub events: Vec<RawEvent>,
    pub ignored: Option<Ignored>,
    /// A part of a text that the main agent is writing.
    pub draft: Option<(DraftKind, String)>,
    /// Information for the adapter. Never sent to the control plane.
    pub signals: Vec<Signal>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// Progress of a message that the adapter wrote with its own `uuid`. If that is the message's id, `message_ack`
    /// follows: `received` when the adapter gets the command, `injecting` before it writes the line, and `injected` at
    /// [`MessageState::Started`].
    Message {
        /// The `uuid` of the user line.
        uuid: String,
        state: MessageState,
    },
    TurnEnded(TurnEnd),
    /// The quota of the runtime's subscription is exceeded, or its model does not answer. The turn stays open until it
    /// is resumed.
    WaitsForModel,
    /// A compaction that the adapter requested has ended; the reason if it failed.
    Compacted(Option<String>),
}

/// Progress of a message within the runtime (`command_lifecycle`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// In the runtime's queue. An interrupt can still cancel it.
    Queued,
    /// In the model's context: the message counts as delivered.
    Started,
    /// The model has answered it.
    Completed,
    /// Removed from the queue unread.
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// On its own; `turn_completed` was published.
    Completed,
    /// By an interrupt, without `turn_completed`. The adapter acknowledges the command (decision 19).
    Interrupted,
    /// By an error; `session_end` was published.
    Failed,
}

impl Translated {
    pub(super) fn push(&mut self, event: RawEvent) {
        self.events.push(event);
    }

    /// Keeps the first reason.
    pub(super) fn ignore(&mut self, reason: Ignored) {
        self.ignored.get_or_insert(reason);
    }

    pub(super) fn notice(&mut self, name: &str, summary: impl Into<String>, detail: &Value) {
        self.events.push(detailed_notice(name, summary, detail.clone()));
    }

    /// Adds a notice about an unknown message.
    pub(super) fn unknown(&mut self, what: &str, detail: &Value) {
        let name = name_part(what, 80);
        self.notice(&format!("unknown_{name}"), format!("The agent said something unknown: {name}"), detail);
    }
}
