//! Recorded lines: the file, its runs, and where they begin.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::text;

/// A recording of one or several runs, one JSON object a line.
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

/// One line of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingLine {
    /// Its number in the file, from 1.
    pub number: usize,
    /// What it says.
    pub value: Value,
}

/// A file that is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error("the recording {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not JSON.
    #[error("line {line} of the recording is not JSON")]
    NotJson {
        /// The line's number, from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// A line is JSON, but no object.
    #[error("line {line} of the recording is not a JSON object")]
    NotAnObject {
        /// The line's number, from 1.
        line: usize,
    },
    /// There are no lines.
    #[error("the recording is empty")]
    Empty,
    /// Two runs have the same name.
    #[error("line {line} of the recording names a second run `{name}`")]
    RepeatedName {
        /// The line's number, from 1.
        line: usize,
        /// The name.
        name: String,
    },
}

impl Recording {
    /// Reads a recording. A line `{"__marker": "name"}` begins a run of that name; without any, the whole file is
    /// one run without a name. Empty lines do not count.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| RecordingError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Takes the text of a recording.
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
                segment.lines.push(RecordingLine { number: line, value });
            }
        }
        if segments.is_empty() { Err(RecordingError::Empty) } else { Ok(Self { segments }) }
    }

    /// The runs in order; at least one.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The run of that name.
    pub fn segment(&self, name: &str) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.name.as_deref() == Some(name))
    }
}

impl Segment {
    /// The name on its marker; none for what stands before any marker.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Its lines, the marker too.
    pub fn lines(&self) -> &[RecordingLine] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_is_named_by_its_number() {
        assert!(matches!(Recording::parse("{}\n\n{\"a\":"), Err(RecordingError::NotJson { line: 3, .. })));
        assert!(matches!(Recording::parse("{}\n7\n"), Err(RecordingError::NotAnObject { line: 2 })));
        assert!(matches!(Recording::parse("\n"), Err(RecordingError::Empty)));
        let error = Recording::load("/nowhere/at/all.jsonl").unwrap_err();
        assert_eq!(error.to_string(), "the recording /nowhere/at/all.jsonl cannot be read");
    }

    #[test]
    fn markers_begin_runs() {
        let recording = Recording::parse("{\"__marker\":\"a\"}\n{\"x\":1}\n{\"__marker\":\"b\"}\n").unwrap();
        assert_eq!(recording.segments().len(), 2);
        assert_eq!(recording.segment("a").unwrap().lines().len(), 2);
        assert_eq!(recording.segment("b").unwrap().lines()[0].number, 3);
        assert!(recording.segment("c").is_none());
        let twice = "{\"__marker\":\"a\"}\n{\"__marker\":\"a\"}\n";
        assert!(matches!(Recording::parse(twice), Err(RecordingError::RepeatedName { line: 2, .. })));
    }
}
