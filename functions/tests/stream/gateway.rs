//! Connections that record the frames they receive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pilothouse_api::decisions::InboxMessage;
use pilothouse_api::project_stream::ProjectMessage;
use pilothouse_api::stream::{StreamBody, StreamMessage, parse_cursor};
use pilothouse_app::connections::{Connections, MAX_MESSAGE_BYTES, PostError};
use pilothouse_store::ConnectionId;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The connection does not exist.
    Gone,
    /// The post is refused this many times.
    Refused(usize),
    /// The post never completes.
    Hangs,
}

/// A fake of API Gateway that records posts in order and fails on demand. It has no clients, so every recorded post counts as
/// received.
#[derive(Default)]
pub(crate) struct Gateway {
    posted: Mutex<BTreeMap<ConnectionId, Vec<String>>>,
    closed: Mutex<BTreeSet<ConnectionId>>,
    /// By connection: the number of posts that succeed first, and the result of the next.
    fates: Mutex<BTreeMap<ConnectionId, (usize, Fate)>>,
    close_fails: Mutex<bool>,
}

impl Gateway {
    pub(crate) fn new() -> (Arc<Self>, Arc<dyn Connections>) {
        let gateway = Arc::new(Self::default());
        (Arc::clone(&gateway), gateway)
    }

    /// Applies `fate` to `id` after this many more posts.
    pub(crate) fn after(&self, id: &ConnectionId, posts: usize, fate: Fate) {
        self.fates.lock().unwrap().insert(id.clone(), (posts, fate));
    }

    pub(crate) fn heal(&self, id: &ConnectionId) {
        self.fates.lock().unwrap().remove(id);
    }

    pub(crate) fn keep_open(&self, keep: bool) {
        *self.close_fails.lock().unwrap() = keep;
    }

    pub(crate) fn is_closed(&self, id: &ConnectionId) -> bool {
        self.closed.lock().unwrap().contains(id)
    }

    fn texts(&self, id: &ConnectionId) -> Vec<String> {
        self.posted.lock().unwrap().get(id).cloned().unwrap_or_default()
    }

    pub(crate) fn messages(&self, id: &ConnectionId) -> Vec<StreamMessage> {
        self.texts(id).iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    pub(crate) fn inbox(&self, id: &ConnectionId) -> Vec<InboxMessage> {
        self.texts(id).iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// The messages about a project, without the confirmations of subscriptions.
    pub(crate) fn project(&self, id: &ConnectionId) -> Vec<ProjectMessage> {
        let texts = self.texts(id).into_iter().filter(|text| !text.contains("\"subscribed\""));
        texts.map(|text| serde_json::from_str(&text).unwrap()).collect()
    }

    /// The last message, if it is a problem.
    pub(crate) fn problem(&self, id: &ConnectionId) -> Option<Value> {
        let last: Value = serde_json::from_str(self.texts(id).last()?).unwrap();
        (last["type"] == "problem").then(|| last["data"].clone())
    }

    /// The cursors that were posted, without those of `caught_up`.
    pub(crate) fn cursors(&self, id: &ConnectionId) -> Vec<String> {
        let is_change = |m: &StreamMessage| !matches!(m.body, StreamBody::CaughtUp {});
        self.messages(id).into_iter().filter(is_change).map(|message| message.cursor).collect()
    }

    /// The cursors that a client keeps, which ignores messages whose cursor it has passed.
    pub(crate) fn kept(&self, id: &ConnectionId, after: Option<&str>) -> Vec<String> {
        let mut last = after.and_then(parse_cursor).unwrap_or_default();
        let mut kept = Vec::new();
        for cursor in self.cursors(id) {
            let place = parse_cursor(&cursor).unwrap();
            if place > last {
                last = place;
                kept.push(cursor);
            }
        }
        kept
    }

    pub(crate) fn times_caught_up(&self, id: &ConnectionId) -> usize {
        self.messages(id).iter().filter(|m| matches!(m.body, StreamBody::CaughtUp {})).count()
    }
}

fn refused() -> PostError {
    PostError::Failed("as configured".into())
}

#[async_trait]
impl Connections for Gateway {
    async fn post(&self, connection: &ConnectionId, text: &str) -> Result<(), PostError> {
        assert!(text.len() <= MAX_MESSAGE_BYTES, "API Gateway refuses {} bytes", text.len());
        let fate = {
            let mut fates = self.fates.lock().unwrap();
            match fates.get_mut(connection) {
                Some((posts, _)) if *posts > 0 => {
                    *posts -= 1;
                    None
                }
                Some((_, Fate::Refused(times))) => {
                    *times -= 1;
                    if *times == 0 {
                        fates.remove(connection);
                    }
                    Some(Fate::Refused(0))
                }
                Some((_, fate)) => Some(*fate),
                None => None,
            }
        };
        match fate {
            Some(Fate::Gone) => return Err(PostError::Gone),
            Some(Fate::Refused(_)) => return Err(refused()),
            Some(Fate::Hangs) => std::future::pending().await,
            None => {}
        }
        if self.is_closed(connection) {
            return Err(PostError::Gone);
        }
        self.posted.lock().unwrap().entry(connection.clone()).or_default().push(text.to_owned());
        Ok(())
    }

    async fn close(&self, connection: &ConnectionId) -> Result<(), PostError> {
        if *self.close_fails.lock().unwrap() {
            return Err(refused());
        }
        self.closed.lock().unwrap().insert(connection.clone());
        Ok(())
    }
}
