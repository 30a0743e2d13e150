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
    received: Received,
}

/// What was received before. A WebSocket API repeats messages.
#[derive(Debug)]
struct Received {
    position: Option<ProjectPosition>,
    /// Whether a message was received on this connection.
    has_begun: bool,
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
        let received = Received { position: after.and_then(ProjectPosition::decode), has_begun: false };
        let mut connection = Self { socket, renewal, received };
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
            if self.renewal.is_none() {
                return Ok(Some(message));
            }
            if let Some(message) = self.received.accept(message) {
                return Ok(Some(message));
            }
        }
    }
}

impl Received {
    /// Returns a message that was not received before, with a cursor that covers all that were.
    fn accept(&mut self, mut message: ProjectMessage) -> Option<ProjectMessage> {
        let Some(position) = ProjectPosition::decode(&message.cursor) else { return Some(message) };
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let is_state = matches!(message.body, ProjectMessageBody::StateSync(_));
        match &mut self.position {
            // A connection begins with the state if the server refused the cursor. Then nothing that follows was received before.
            Some(before) if !(is_first && is_state) => {
                if !is_state && before.covers(&position) {
                    return None;
                }
                before.merge(&position);
                message.cursor = before.encode();
            }
            before => *before = Some(position),
        }
        Some(message)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_domain::ProjectAgentId;
    use serde_json::json;

    use super::*;

    const AGENTS: [&str; 2] =
        ["01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000002"];

    fn cursor(places: [u64; 2]) -> String {
        let project: ProjectId = "01900000-0000-7000-8000-000000000009".parse().unwrap();
        let mut position = ProjectPosition::new(project, 1);
        let agents = AGENTS.map(|agent| agent.parse::<ProjectAgentId>().unwrap());
        position.agents.extend(agents.into_iter().zip(places));
        position.encode()
    }

    /// A change of the trust of an agent, after which the journals of both were read up to `places`.
    fn trust(agent: usize, places: [u64; 2]) -> ProjectMessage {
        let message = json!({ "cursor": cursor(places), "type": "trust_update", "agentId": AGENTS[agent],
            "previousScore": 50, "newScore": 52, "delta": 2, "reason": "human_approves_tool_call" });
        serde_json::from_value(message).unwrap()
    }

    fn state(places: [u64; 2]) -> ProjectMessage {
        let message = json!({ "cursor": cursor(places), "type": "state_sync", "statePath": "/state" });
        serde_json::from_value(message).unwrap()
    }

    #[test]
    fn repetition_that_reads_the_journals_in_another_order_is_dropped() {
        let mut received = Received { position: None, has_begun: false };
        assert!(received.accept(state([1, 1])).is_some());
        assert!(received.accept(trust(0, [2, 1])).is_some());
        assert!(received.accept(trust(0, [3, 1])).is_some());
        // The server begins at its last place again, after the state, with the other agent.
        let news = received.accept(trust(1, [1, 2])).unwrap();
        assert_eq!(news.cursor, cursor([3, 2]), "a client that continues there receives nothing twice");
        assert!(received.accept(trust(0, [2, 2])).is_none());
        assert!(received.accept(trust(0, [3, 2])).is_none());
        assert!(received.accept(trust(0, [4, 2])).is_some());
    }

    #[test]
    fn connection_that_begins_with_the_state_starts_anew() {
        let before = ProjectPosition::decode(&cursor([9, 9]));
        let mut received = Received { position: before.clone(), has_begun: false };
        assert!(received.accept(state([1, 1])).is_some());
        assert!(received.accept(trust(0, [2, 1])).is_some(), "the journal is a restored one");
        let mut received = Received { position: before, has_begun: false };
        assert!(received.accept(trust(0, [2, 1])).is_none(), "a repetition");
        assert_eq!(received.accept(state([8, 8])).unwrap().cursor, cursor([9, 9]));
    }
}
