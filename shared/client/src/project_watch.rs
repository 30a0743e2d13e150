//! The live stream of a project: a watch that reconnects and resumes at its cursor (decision 82).

use std::time::Duration;

use pilothouse_api::project_stream::{
    ProjectMessage, ProjectMessageBody, ProjectPosition, ProjectStateView, StateSync,
};
use pilothouse_api::stream::{Subscribe, SubscribeAction, SubscriptionResponse};
use pilothouse_domain::ProjectId;
use tokio::time::sleep;

use super::stream::{Incoming, LiveSocket, backoff};
use super::subscription::{Renewal, error_from_frame};
use super::{ApiError, Client};

/// Watches a project across connections: each new connection continues after the last cursor.
#[derive(Debug)]
pub struct ProjectWatch {
    client: Client,
    id: ProjectId,
    cursor: Option<String>,
    connection: Option<Connection>,
    /// A message that is not returned yet. It stays here while its state is requested.
    message: Option<Box<ProjectMessage>>,
    failures: u32,
}

#[derive(Debug)]
struct Connection {
    socket: LiveSocket,
    /// Set on a WebSocket API, which delivers messages at least once.
    renewal: Option<Renewal>,
    seen: Option<ProjectPosition>,
}

/// An event of a watch.
#[derive(Debug)]
pub enum ProjectWatchEvent {
    /// A message of the stream. A state that was too large for a message was requested.
    Message(Box<ProjectMessage>),
    /// The connection failed; the next call waits and reconnects.
    Disconnected {
        /// Reason, for people.
        reason: String,
        /// Wait before the reconnection.
        retry_in: Duration,
    },
}

impl Client {
    /// The state of a project, with the cursor after which its stream continues.
    pub async fn project_state(&self, id: ProjectId) -> Result<ProjectStateView, ApiError> {
        self.get(format!("api/projects/{id}/state")).await
    }

    /// Watches the live stream of a project, and reconnects after failures. Without a cursor it starts with the state.
    pub fn watch_project(&self, id: ProjectId, after: Option<String>) -> ProjectWatch {
        ProjectWatch { client: self.clone(), id, cursor: after, connection: None, message: None, failures: 0 }
    }
}

impl ProjectWatch {
    /// Cursor of the last message. [`Client::watch_project`] continues after it.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Waits for the next event. An error is final: the server refused, or sent an unknown message.
    ///
    /// Cancel-safe: dropping the future loses no message.
    pub async fn next(&mut self) -> Result<ProjectWatchEvent, ApiError> {
        match self.receive().await {
            Ok(Some(message)) => {
                self.failures = 0;
                self.cursor = Some(message.cursor.clone());
                Ok(ProjectWatchEvent::Message(message))
            }
            Ok(None) => Ok(self.disconnected("the server closed the stream".into())),
            Err(e) if e.is_transient() => Ok(self.disconnected(e.to_string())),
            Err(e) => Err(e),
        }
    }

    async fn receive(&mut self) -> Result<Option<Box<ProjectMessage>>, ApiError> {
        if self.message.is_none() {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                slot => {
                    if self.failures > 0 {
                        sleep(backoff(self.failures)).await;
                    }
                    slot.insert(Connection::open(&self.client, self.id, self.cursor.as_deref()).await?)
                }
            };
            self.message = connection.next(self.id, self.cursor.as_deref()).await?.map(Box::new);
        }
        if let Some(message) = &mut self.message
            && let ProjectMessageBody::StateSync(state) = &mut message.body
            && matches!(**state, StateSync::At(_))
        {
            **state = StateSync::Whole(Box::new(self.client.project_state(self.id).await?.state));
        }
        Ok(self.message.take())
    }

    fn disconnected(&mut self, reason: String) -> ProjectWatchEvent {
        (self.connection, self.message) = (None, None);
        self.failures = self.failures.saturating_add(1);
        ProjectWatchEvent::Disconnected { reason, retry_in: backoff(self.failures) }
    }
}

impl Connection {
    async fn open(client: &Client, id: ProjectId, after: Option<&str>) -> Result<Self, ApiError> {
        let query = after.map(|after| ("after", after));
        let socket = client.open_live(&format!("ws/projects/{id}"), query).await?;
        let renewal = client.has_websocket_api().then(Renewal::new);
        let mut connection = Self { socket, renewal, seen: after.and_then(ProjectPosition::decode) };
        connection.subscribe(id, after).await?;
        Ok(connection)
    }

    async fn subscribe(&mut self, id: ProjectId, after: Option<&str>) -> Result<(), ApiError> {
        let Some(renewal) = &mut self.renewal else { return Ok(()) };
        let subscribe = Subscribe {
            action: SubscribeAction::Subscribe,
            session_id: None,
            project_id: Some(id),
            topic: None,
            after: after.map(str::to_owned),
        };
        self.socket.send_text(renewal.request(&subscribe)?).await
    }

    /// Waits for the next message that was not received before.
    async fn next(&mut self, id: ProjectId, after: Option<&str>) -> Result<Option<ProjectMessage>, ApiError> {
        loop {
            if self.renewal.as_ref().map_or(Ok(false), Renewal::is_due)? {
                self.subscribe(id, after).await?;
            }
            let text = match self.socket.next().await? {
                Incoming::Text(text) => text,
                Incoming::Idle => continue,
                Incoming::Closed => return Ok(None),
            };
            if self.renewal.is_some()
                && matches!(serde_json::from_str(&text), Ok(SubscriptionResponse::Subscribed {}))
            {
                self.renewal.iter_mut().for_each(Renewal::confirm);
                continue;
            }
            let message: ProjectMessage =
                serde_json::from_str(&text).map_err(|e| error_from_frame(&text, e))?;
            let position = ProjectPosition::decode(&message.cursor);
            let is_state = matches!(message.body, ProjectMessageBody::StateSync(_));
            let is_repeated = self.renewal.is_some()
                && !is_state
                && matches!((&self.seen, &position), (Some(seen), Some(position)) if seen.covers(position));
            if is_repeated {
                continue;
            }
            self.seen = position;
            return Ok(Some(message));
        }
    }
}
