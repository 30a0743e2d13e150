//! What came, and what became of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use serde_json::Value;
use tokio::sync::watch;

/// A request, as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// The protocol that it speaks.
    pub dialect: Dialect,
    /// What it is for.
    pub kind: Kind,
    /// `POST`, …
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null where it was no JSON.
    pub body: Value,
    /// The conversation of the script that answers it.
    pub conversation: Option<String>,
    /// The place of the step in its conversation.
    pub step: Option<usize>,
    /// The status that it got; none while it waits.
    pub status: Option<u16>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was refused before the script was asked, in the provider's words.
    pub refused: Option<String>,
    /// When it was read.
    pub received: Instant,
}

impl Request {
    /// The body as text, to look something up in.
    pub fn text(&self) -> String {
        self.body.to_string()
    }

    /// Whether it is a prompt that broke the protocol: a test can hold that there was none.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }
}

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// None: what is asked beside prompts.
    None,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A prompt, for the script to answer.
    Prompt,
    /// What runtimes ask on the side: a title, whether the plan still pays.
    Side,
    /// How many tokens a prompt has.
    Count,
    /// Which models there are.
    Models,
    /// Anything else.
    Other,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It waits, or its answer is on the way.
    Open,
    /// Its answer was handed over whole, a refusal too.
    Sent,
    /// It failed on purpose: its stream was broken.
    Failed,
    /// The client went away before the end.
    Gone,
}

/// Everything that came.
#[derive(Debug)]
pub(crate) struct Records {
    all: Mutex<Vec<Request>>,
    changes: watch::Sender<usize>,
}

impl Default for Records {
    fn default() -> Self {
        Self { all: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl Records {
    /// All of it.
    pub(crate) fn all(&self) -> Vec<Request> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wakes at each change.
    pub(crate) fn changes(&self) -> watch::Receiver<usize> {
        self.changes.subscribe()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Request>) -> T) -> T {
        let result = change(&mut self.all.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|changes| *changes += 1);
        result
    }
}

/// A request that is being answered. One that is dropped without an end lost its client.
#[derive(Debug)]
pub(crate) struct Exchange {
    records: Arc<Records>,
    place: usize,
    is_over: bool,
}

impl Exchange {
    /// Records a request.
    pub(crate) fn begin(records: &Arc<Records>, request: Request) -> Self {
        let place = records.change(|all| {
            all.push(request);
            all.len() - 1
        });
        Self { records: Arc::clone(records), place, is_over: false }
    }

    /// The status that it gets.
    pub(crate) fn status(&self, status: u16) {
        self.records.change(|all| all[self.place].status = Some(status));
    }

    /// It is over.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        self.is_over = true;
        self.records.change(|all| all[self.place].outcome = outcome);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(Outcome::Gone);
        }
    }
}
