//! The live inbox: a watch that lists the pending decisions and follows their changes, across connections (decision 80).

use std::time::Duration;

use pilothouse_api::decisions::{DecisionView, InboxMessage};
use pilothouse_api::stream::{Subscribe, SubscribeAction, SubscribeTopic};
use tokio::time::sleep;

use super::inputs::{DecisionFilter, PageQuery};
use super::stream::{Incoming, LiveSocket, backoff};
use super::subscription::{Renewal, error_from_frame};
use super::{ApiError, Client};

/// The largest page of the server.
const PAGE: u32 = 200;

/// Watches the owner's inbox, and reconnects after failures.
#[derive(Debug)]
pub struct InboxWatch {
    client: Client,
    stream: Option<InboxStream>,
    /// A message whose event is not returned yet. It stays here while its requests are under way.
    message: Option<InboxMessage>,
    failures: u32,
}

/// An event of the inbox.
#[derive(Debug)]
pub enum InboxEvent {
    /// All pending decisions in their order, at the begin of each connection and now and then later.
    Listed(Vec<DecisionView>),
    /// A decision as it is now: opened, changed or over. It may be repeated.
    Decision(Box<DecisionView>),
    /// The connection failed; the next call waits and reconnects.
    Disconnected {
        /// Reason, for people.
        reason: String,
        /// Wait before the reconnection.
        retry_in: Duration,
    },
}

#[derive(Debug)]
struct InboxStream {
    socket: LiveSocket,
    /// Set on a WebSocket API.
    renewal: Option<Renewal>,
}

impl Client {
    /// Watches the owner's inbox.
    pub fn watch_inbox(&self) -> InboxWatch {
        InboxWatch { client: self.clone(), stream: None, message: None, failures: 0 }
    }

    /// All pending decisions in the order of the inbox.
    pub async fn pending_decisions(&self) -> Result<Vec<DecisionView>, ApiError> {
        let mut query = PageQuery { limit: Some(PAGE), cursor: None };
        let mut all = Vec::new();
        loop {
            let page = self.decisions(&DecisionFilter::default(), &query).await?;
            all.extend(page.items);
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn open_inbox(&self) -> Result<InboxStream, ApiError> {
        let socket = self.open_live("ws/decisions", None).await?;
        let renewal = self.has_websocket_api().then(Renewal::new);
        let mut stream = InboxStream { socket, renewal };
        stream.subscribe().await?;
        Ok(stream)
    }
}

impl InboxStream {
    async fn subscribe(&mut self) -> Result<(), ApiError> {
        let Some(renewal) = &mut self.renewal else { return Ok(()) };
        let subscribe = Subscribe {
            action: SubscribeAction::Subscribe,
            session_id: None,
            project_id: None,
            topic: Some(SubscribeTopic::Decisions),
            after: None,
        };
        self.socket.send_text(renewal.request(&subscribe)?).await
    }

    async fn next(&mut self) -> Result<Option<InboxMessage>, ApiError> {
        loop {
            if self.renewal.as_ref().map_or(Ok(false), Renewal::is_due)? {
                self.subscribe().await?;
            }
            match self.socket.next().await? {
                Incoming::Text(text) => {
                    let message = serde_json::from_str(&text).map_err(|e| error_from_frame(&text, e))?;
                    self.renewal.iter_mut().for_each(Renewal::confirm);
                    return Ok(Some(message));
                }
                Incoming::Idle => {}
                Incoming::Closed => return Ok(None),
            }
        }
    }
}

impl InboxWatch {
    /// Waits for the next event. An error is final: the server refused, or sent an unknown message.
    ///
    /// Cancel-safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Result<InboxEvent, ApiError> {
        match self.receive().await {
            Ok(Some(event)) => {
                self.failures = 0;
                Ok(event)
            }
            Ok(None) => Ok(self.disconnected("the server closed the stream".into())),
            Err(e) if e.is_transient() => Ok(self.disconnected(e.to_string())),
            Err(e) => Err(e),
        }
    }

    async fn receive(&mut self) -> Result<Option<InboxEvent>, ApiError> {
        if self.message.is_none() {
            self.message = self.next_message().await?;
        }
        let event = match &self.message {
            None => return Ok(None),
            // Every change after this message is sent, so nothing is missing between the list and the changes.
            Some(InboxMessage::CaughtUp {}) => InboxEvent::Listed(self.client.pending_decisions().await?),
            Some(InboxMessage::Decision(decision)) => InboxEvent::Decision(decision.clone()),
            Some(InboxMessage::Changed(changed)) => {
                InboxEvent::Decision(Box::new(self.client.decision(changed.id).await?))
            }
        };
        self.message = None;
        Ok(Some(event))
    }

    async fn next_message(&mut self) -> Result<Option<InboxMessage>, ApiError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            slot => {
                if self.failures > 0 {
                    sleep(backoff(self.failures)).await;
                }
                slot.insert(self.client.open_inbox().await?)
            }
        };
        stream.next().await
    }

    fn disconnected(&mut self, reason: String) -> InboxEvent {
        (self.stream, self.message) = (None, None);
        self.failures = self.failures.saturating_add(1);
        InboxEvent::Disconnected { reason, retry_in: backoff(self.failures) }
    }
}
