//! Recordings of Claude Code: parsing the file and splitting it into runs.

use std::path::{Path, PathBuf};

use pilothouse_domain::Timestamp;
use serde_json::Value;

use crate::kit::json::text;

/// A recording of one or more runs, with one JSON object per line.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    segments: Vec<Segment>,
}

/// One run of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    name: Option<String>,
    lines: Vec<RecordingLine>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordingLine {
    /// Line number in the file, from 1.
    pub number: usize,
    /// The message, without the envelope of a recorder.
    pub value: Value,
    pub direction: Direction,
    /// When the recorder saw the message, in milliseconds since the recording began.
    recorded_at: Option<i64>,
}

/// The writer of a recorded message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The agent, on its standard output. Without envelopes, all lines are from it.
    FromAgent,
    /// The program that drove the agent, on its standard input.
    ToAgent,
}

/// Why a file is not a usable recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("failed to read the recording {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("line {line} of the recording is not JSON")]
    NotJson {
        /// Line number, from 1.
        line: usize,
        source: serde_json::Error,
    },
    #[error("line {line} of the recording is not a JSON object")]
    NotAnObject {
        /// Line number, from 1.
        line: usize,
    },
    #[error("the recording is empty")]
    Empty,
    /// Another agent than Claude Code wrote the recording.
    #[error("the recording is not of Claude Code{}; only recordings of Claude Code can be played", other_protocol(*is_json_rpc))]
    OtherAgent {
        /// Whether its messages are JSON-RPC, as in the Agent Client Protocol.
        is_json_rpc: bool,
    },
    #[error("line {line} of the recording names a second run `{name}`")]
    RepeatedName {
        /// Line number, from 1.
        line: usize,
        name: String,
    },
}

impl Recording {
    /// Reads a recording of Claude Code. A line `{"__marker": "name"}` begins a run with that name. Without markers,
    /// the whole file is one unnamed run. Empty lines are skipped.
    ///
    /// A line is a message of the agent, or a message in the envelope of a recorder,
    /// `{"t": milliseconds, "dir": "in" | "out", "m": message}`. Envelopes with another `dir` (`stderr`, `argv`) and
    /// messages that are not objects are skipped.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| RecordingError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    pub fn parse(recorded: &str) -> Result<Self, RecordingError> {
        let mut segments: Vec<Segment> = Vec::new();
        for (line, json) in (1..).zip(recorded.lines()).filter(|(_, json)| !json.trim().is_empty()) {
            let value: Value =
                serde_json::from_str(json).map_err(|source| RecordingError::NotJson { line, source })?;
            if !value.is_object() {
                return Err(RecordingError::NotAnObject { line });
            }
            let name = text(&value, "__marker").map(str::to_owned);
            if let Some(name) = name.clone().filter(|_| segments.iter().any(|s| s.name == name)) {
                return Err(RecordingError::RepeatedName { line, name });
            }
            if name.is_some() || segments.is_empty() {
                segments.push(Segment { name, lines: Vec::new() });
            }
            if let Some(segment) = segments.last_mut() {
                segment.lines.extend(RecordingLine::unwrap(line, value));
            }
        }
        if segments.is_empty() {
            return Err(RecordingError::Empty);
        }
        let mut lines = segments.iter().flat_map(Segment::lines);
        if lines.clone().any(RecordingLine::is_of_claude) {
            Ok(Self { segments })
        } else {
            let is_json_rpc = lines.any(|line| line.value.get("jsonrpc").is_some());
            Err(RecordingError::OtherAgent { is_json_rpc })
        }
    }

    /// The runs in order, at least one.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub fn segment(&self, name: &str) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.name.as_deref() == Some(name))
    }
}

impl Segment {
    /// The name on its marker. `None` for lines before the first marker.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn lines(&self) -> &[RecordingLine] {
        &self.lines
    }
}

impl RecordingLine {
    /// Removes the envelope, if there is one. `None` if the line is not a message.
    fn unwrap(number: usize, mut value: Value) -> Option<Self> {
        let has_envelope = text(&value, "type").is_none() && value.get("m").is_some();
        let Some(direction) = text(&value, "dir").filter(|_| has_envelope) else {
            return Some(Self { number, value, direction: Direction::FromAgent, recorded_at: None });
        };
        let direction = match direction {
            "out" => Direction::FromAgent,
            "in" => Direction::ToAgent,
            _ => return None,
        };
        let recorded_at = value["t"].as_i64();
        let value = value["m"].take();
        value.is_object().then_some(Self { number, value, direction, recorded_at })
    }

    /// Whether the message is from Claude Code or its SDK.
    fn is_of_claude(&self) -> bool {
        let kind = text(&self.value, "type").unwrap_or_default();
        self.direction == Direction::FromAgent
            && matches!(kind, "system" | "assistant" | "result" | "stream_event")
    }

    /// When the message was written. Comparable only within one recording.
    pub(super) fn time(&self) -> Option<Timestamp> {
        match self.recorded_at {
            Some(millis) => Some(Timestamp::from_millis(millis)),
            None => text(&self.value, "timestamp").and_then(|time| time.parse().ok()),
        }
    }
}

const fn other_protocol(is_json_rpc: bool) -> &'static str {
    if is_json_rpc { " but of an agent that speaks JSON-RPC, as the Agent Client Protocol does" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_line_is_named_by_its_number() {
        assert!(matches!(Recording::parse("{}\n\n{\"a\":"), Err(RecordingError::NotJson { line: 3, .. })));
        assert!(matches!(Recording::parse("{}\n7\n"), Err(RecordingError::NotAnObject { line: 2 })));
        assert!(matches!(Recording::parse("\n"), Err(RecordingError::Empty)));
        let error = Recording::load("/nowhere/at/all.jsonl").unwrap_err();
        assert_eq!(error.to_string(), "failed to read the recording /nowhere/at/all.jsonl");
    }

    #[test]
    fn markers_begin_runs() {
        let recording =
            Recording::parse("{\"__marker\":\"a\"}\n{\"type\":\"system\"}\n{\"__marker\":\"b\"}\n").unwrap();
        assert_eq!(recording.segments().len(), 2);
        assert_eq!(recording.segment("a").unwrap().lines().len(), 2);
        assert_eq!(recording.segment("b").unwrap().lines()[0].number, 3);
        assert!(recording.segment("c").is_none());
        let twice = "{\"__marker\":\"a\"}\n{\"__marker\":\"a\"}\n";
        assert!(matches!(Recording::parse(twice), Err(RecordingError::RepeatedName { line: 2, .. })));
    }

    #[test]
    fn message_is_extracted_from_its_recorder_envelope() {
        let raw = [
            r#"{"t":2,"dir":"argv","m":["claude"]}"#,
            r#"{"t":3,"dir":"in","m":{"type":"user","message":{"content":"go"}}}"#,
            r#"{"t":9,"dir":"out","m":{"type":"system","subtype":"init"}}"#,
            r#"{"t":9,"dir":"stderr","m":"a warning"}"#,
        ];
        let recording = Recording::parse(&raw.join("\n")).unwrap();
        let lines = recording.segments()[0].lines();
        let seen: Vec<_> = lines.iter().map(|line| (line.number, line.direction)).collect();
        assert_eq!(seen, [(2, Direction::ToAgent), (3, Direction::FromAgent)]);
        assert_eq!(lines[1].value["subtype"], "init");
        assert_eq!(lines[1].time(), Some(Timestamp::from_millis(9)));
    }

    #[test]
    fn a_recording_of_another_agent_is_refused() {
        let acp = r#"{"t":2,"dir":"out","m":{"jsonrpc":"2.0","id":1,"result":{}}}"#;
        let error = Recording::parse(acp).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the recording is not of Claude Code but of an agent that speaks JSON-RPC, as the Agent Client Protocol does; \
             only recordings of Claude Code can be played"
        );
        let other = r#"{"t":2,"dir":"out","m":{"type":"response","command":"get_state"}}"#;
        assert!(matches!(Recording::parse(other), Err(RecordingError::OtherAgent { is_json_rpc: false })));
        assert!(matches!(
            Recording::parse(r#"{"type":"session","version":3}"#),
            Err(RecordingError::OtherAgent { is_json_rpc: false })
        ));
    }
}
