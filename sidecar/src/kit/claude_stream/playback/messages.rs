//! Decides where a playback waits for messages: once for each recorded message, where the agent used it.

use std::collections::{BTreeSet, HashMap, VecDeque};

use pilothouse_wire::event::RawEvent;

use crate::kit::claude_stream::recording::{Direction, RecordingLine};
use crate::kit::claude_stream::translated::{MessageState, Signal, Translated};
use crate::kit::json::text;

/// The lines before which a playback waits for a message, as indexes into the segment.
///
/// - A message that entered a running turn is awaited where it was sent, or where the turn received it if it was sent
///   before the turn.
/// - A message that began a turn is awaited before that turn. The first turn answers the prompt, so it needs no
///   message.
/// - A message that was withdrawn before the agent received it is not awaited.
/// - A turn that the agent began on its own, after a background task, needs no message.
pub(super) fn waits(lines: &[(&RecordingLine, Translated)]) -> BTreeSet<usize> {
    let turns = Turns::of(lines);
    let mut waits = BTreeSet::new();
    let mut begun_by_message = BTreeSet::new();
    for message in sent_messages(lines) {
        match message.place(&turns) {
            Place::InTurn(at) => {
                waits.insert(at);
            }
            Place::Begins(turn) => {
                begun_by_message.insert(turn);
            }
            Place::Nowhere => {}
        }
    }
    // A recording with both directions contains every message. Without the input, a turn is assumed to answer a message
    // unless the recording shows otherwise.
    let shows_input = lines.iter().any(|(line, _)| line.direction == Direction::ToAgent);
    for (index, start) in turns.starts.iter().enumerate().skip(1) {
        let asked_for = begun_by_message.contains(start);
        if asked_for || (!shows_input && !background_task_ended(lines, turns.end_before(index), *start)) {
            waits.insert(*start);
        }
    }
    waits
}

struct Turns {
    starts: Vec<usize>,
    ends: Vec<usize>,
    /// For each line, the turn that was open before it, as an index into `starts`.
    open_before: Vec<Option<usize>>,
}

impl Turns {
    fn of(lines: &[(&RecordingLine, Translated)]) -> Self {
        let mut turns = Self { starts: Vec::new(), ends: Vec::new(), open_before: Vec::new() };
        let mut open = None;
        for (at, (_, line)) in lines.iter().enumerate() {
            turns.open_before.push(open);
            for event in &line.events {
                if matches!(event, RawEvent::TurnStarted { .. }) {
                    open = Some(turns.starts.len());
                    turns.starts.push(at);
                }
            }
            if line.signals.iter().any(|signal| matches!(signal, Signal::TurnEnded(_))) {
                open = None;
                turns.ends.push(at);
            }
        }
        turns
    }

    /// The turn that a message at this line begins. `None` for the first turn, which the prompt begins.
    fn begun_from(&self, at: usize) -> Option<usize> {
        let next = self.starts.iter().position(|start| *start >= at)?;
        (next > 0).then(|| self.starts[next])
    }

    /// The line at which the preceding turn ended.
    fn end_before(&self, index: usize) -> usize {
        let start = self.starts[index];
        self.ends.iter().rev().copied().find(|end| *end < start).unwrap_or(0)
    }
}

#[derive(Debug, Default)]
struct SentMessage {
    /// The first line that shows it.
    sent: usize,
    /// The line at which the model has received it.
    taken: Option<usize>,
    /// The runtime reported its progress.
    is_tracked: bool,
    /// Another message followed before the next turn.
    is_followed: bool,
}

/// Where the agent used a message.
enum Place {
    /// Within a turn; awaited before this line.
    InTurn(usize),
    /// At the beginning of the turn that starts with this line.
    Begins(usize),
    /// Not used, or used as the prompt.
    Nowhere,
}

impl SentMessage {
    fn place(&self, turns: &Turns) -> Place {
        let begins = |from| turns.begun_from(from).map_or(Place::Nowhere, Place::Begins);
        match self.taken {
            Some(taken) => match turns.open_before[taken] {
                None => begins(taken),
                turn if turns.open_before[self.sent] == turn => Place::InTurn(self.sent),
                _ => Place::InTurn(taken),
            },
            // Withdrawn, or never delivered.
            None if self.is_tracked => Place::Nowhere,
            None if turns.open_before[self.sent].is_none() => begins(self.sent),
            None => match turns.begun_from(self.sent) {
                Some(next) if !self.is_followed => Place::Begins(next),
                _ => Place::InTurn(self.sent),
            },
        }
    }
}

fn sent_messages(lines: &[(&RecordingLine, Translated)]) -> Vec<SentMessage> {
    let mut messages: Vec<SentMessage> = Vec::new();
    let mut by_uuid: HashMap<String, usize> = HashMap::new();
    // Messages that were written without a `uuid`. The runtime assigns one.
    let mut unnamed: VecDeque<usize> = VecDeque::new();
    // Messages that no turn has followed yet.
    let mut since_turn: Vec<usize> = Vec::new();
    for (at, (line, translated)) in lines.iter().enumerate() {
        if is_message(line) {
            for earlier in &since_turn {
                messages[*earlier].is_followed = true;
            }
            since_turn.push(messages.len());
            match text(&line.value, "uuid") {
                Some(uuid) => drop(by_uuid.insert(uuid.to_owned(), messages.len())),
                None => unnamed.push_back(messages.len()),
            }
            messages.push(SentMessage { sent: at, ..SentMessage::default() });
        }
        if translated.events.iter().any(|event| matches!(event, RawEvent::TurnStarted { .. })) {
            since_turn.clear();
        }
        for signal in &translated.signals {
            let Signal::Message { uuid, state } = signal else { continue };
            if is_of_the_runtime(line) {
                continue;
            }
            let index = *by_uuid.entry(uuid.clone()).or_insert_with(|| {
                unnamed.pop_front().unwrap_or_else(|| {
                    messages.push(SentMessage { sent: at, ..SentMessage::default() });
                    messages.len() - 1
                })
            });
            messages[index].is_tracked = true;
            if matches!(state, MessageState::Started | MessageState::Completed) {
                messages[index].taken.get_or_insert(at);
            }
        }
    }
    messages
}

/// Whether the line is a message that was written to the agent, rather than a tool result.
fn is_message(line: &RecordingLine) -> bool {
    line.direction == Direction::ToAgent
        && text(&line.value, "type") == Some("user")
        && line.value["message"]["content"][0]["type"] != "tool_result"
}

/// Whether the line repeats the output of one of the runtime's own commands.
fn is_of_the_runtime(line: &RecordingLine) -> bool {
    let words = line.value["message"]["content"].as_str().unwrap_or_default();
    line.value["isSynthetic"] == true
        || words.starts_with("<local-command-")
        || words.starts_with("<command-")
}

fn background_task_ended(lines: &[(&RecordingLine, Translated)], from: usize, to: usize) -> bool {
    lines[from..to].iter().any(|(line, _)| text(&line.value, "subtype") == Some("task_notification"))
}
