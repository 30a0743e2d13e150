//! Recorded requests and their outcomes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::script::Tokens;

#[derive(Debug, Clone)]
pub struct Request {
    pub dialect: Dialect,
    pub kind: Kind,
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers with lower-case names.
    pub headers: BTreeMap<String, String>,
    /// Null if it was not JSON.
    pub body: Value,
    /// The conversation of the script that answers it.
    pub conversation: Option<String>,
    pub step: Option<usize>,
    /// The tokens that the reply reports; `None` until there is one.
    pub usage: Option<Tokens>,
    /// `None` until there is a response.
    pub status: Option<u16>,
    pub outcome: Outcome,
    /// The provider's message, if the request was rejected before the script was consulted.
    pub refused: Option<String>,
    /// When the request was read.
    pub received: Instant,
}

impl Request {
    /// The body as text, for searching.
    pub fn text(&self) -> String {
        self.body.to_string()
    }

    /// Whether this is a prompt that violated the protocol.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Anthropic,
    Chat,
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
    /// A request outside these protocols.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Prompt,
    /// A side request of a runtime: for a title, or to check the quota.
    Side,
    /// Counts the tokens of a prompt.
    Count,
    /// Asks for the vectors of texts.
    Embeddings,
    Models,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It waits, or its reply is being sent.
    Open,
    /// The complete reply or error was sent.
    Sent,
    /// It failed on purpose: its stream was broken.
    Failed,
    /// The client disconnected before the end.
    Gone,
}

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
    pub(crate) fn all(&self) -> Vec<Request> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<usize> {
        self.changes.subscribe()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Request>) -> T) -> T {
        let result = change(&mut self.all.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|changes| *changes += 1);
        result
    }
}

/// A request that is being answered. Dropping it without an outcome means that the client disconnected.
#[derive(Debug)]
pub(crate) struct Exchange {
    records: Arc<Records>,
    place: usize,
    is_over: bool,
}

impl Exchange {
    pub(crate) fn begin(records: &Arc<Records>, request: Request) -> Self {
        let place = records.change(|all| {
            all.push(request);
            all.len() - 1
        });
        Self { records: Arc::clone(records), place, is_over: false }
    }

    /// Records the tokens that the reply reports.
    pub(crate) fn usage(&self, usage: Tokens) {
        self.records.change(|all| all[self.place].usage = Some(usage));
    }

    pub(crate) fn status(&self, status: u16) {
        self.records.change(|all| all[self.place].status = Some(status));
    }

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
