//! Reads recordings, and runs them through the translator.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pilothouse_domain::value::DraftKind;
use pilothouse_sidecar::kit::claude_stream::{Ignored, Options, Recording, Segment, Signal, Translator};
use pilothouse_wire::event::{AssistantContent, RawEvent, SessionEnd, UsageUpdate};
use serde_json::Value;

pub(crate) const SDK_TOUR: &str = "claude-sdk-full-tour.jsonl";
pub(crate) const STDIO_TOUR: &str = "claude-stdio-full-tour.stdout.jsonl";
pub(crate) const STDIO_TOUR_INPUT: &str = "claude-stdio-full-tour.stdin.jsonl";
pub(crate) const ERRORS: &str = "claude-sdk-errors.jsonl";

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/transcripts").join(file)
}

/// The lines of a recording, read without the code under test.
pub(crate) fn raw(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn raw_text(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap()
}

pub(crate) fn load(file: &str) -> Recording {
    Recording::load(path(file)).unwrap()
}

pub(crate) fn options() -> Options {
    Options::new("run").unwrap()
}

#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) events: Vec<RawEvent>,
    pub(crate) signals: Vec<Signal>,
    /// What the agent wrote, piece by piece.
    pub(crate) drafts: Vec<(DraftKind, String)>,
    pub(crate) ignored: BTreeMap<Ignored, usize>,
    /// Number of lines that became events.
    pub(crate) translated: usize,
}

/// Translates a run, and checks that every line has either events or a reason.
pub(crate) fn translate_with(segment: &Segment, options: Options) -> Run {
    let mut translator = Translator::new(options);
    let mut run = Run::default();
    for line in segment.lines() {
        let translated = translator.line(&line.value);
        assert_eq!(translated.events.is_empty(), translated.ignored.is_some(), "line {}", line.number);
        match translated.ignored {
            Some(reason) => *run.ignored.entry(reason).or_default() += 1,
            None => run.translated += 1,
        }
        run.signals.extend(translated.signals);
        run.drafts.extend(translated.draft);
        run.events.extend(translated.events);
    }
    run.events.extend(translator.finish());
    run
}

pub(crate) fn translate(segment: &Segment) -> Run {
    translate_with(segment, options())
}

/// The only run of a recording.
pub(crate) fn tour(file: &str) -> Run {
    let recording = load(file);
    assert_eq!(recording.segments().len(), 1);
    translate(&recording.segments()[0])
}

impl Run {
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(RawEvent::name).collect()
    }

    pub(crate) fn notices(&self) -> Vec<(&str, &str)> {
        self.events
            .iter()
            .filter_map(|event| match event {
                RawEvent::Notice { name, summary, .. } => Some((name.as_str(), summary.as_str())),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn notices_named(&self, wanted: &str) -> Vec<&str> {
        self.notices().into_iter().filter(|(name, _)| *name == wanted).map(|(_, summary)| summary).collect()
    }

    pub(crate) fn usage(&self) -> Vec<&UsageUpdate> {
        self.events
            .iter()
            .filter_map(|event| if let RawEvent::UsageUpdate(update) = event { Some(update) } else { None })
            .collect()
    }

    pub(crate) fn session_ends(&self) -> Vec<&SessionEnd> {
        self.events
            .iter()
            .filter_map(|event| if let RawEvent::SessionEnd(end) = event { Some(end) } else { None })
            .collect()
    }

    /// Text and calls of the main agent.
    pub(crate) fn main_content(&self) -> Vec<&AssistantContent> {
        self.events
            .iter()
            .filter_map(|event| match event {
                RawEvent::AssistantMessage { content, .. } => Some(content),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.main_content()
            .into_iter()
            .filter_map(|content| match content {
                AssistantContent::Text { text } => Some(text.text().into_owned()),
                _ => None,
            })
            .collect()
    }
}
