//! The live stream of a session: a single connection ([`SessionStream`]), and a watch that reconnects ([`SessionWatch`]).

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use pilothouse_api::stream::StreamMessage;
use pilothouse_domain::AgentSessionId;
use reqwest::Url;
use reqwest::header::AUTHORIZATION;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Bytes, Error as SocketError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::subscription::Subscription;
use super::{ApiError, Client, error_from_body};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A silent stream is pinged after this time.
const PING_EVERY: Duration = Duration::from_secs(20);
/// A stream that stays silent for this long despite pings is broken.
const SILENCE_LIMIT: Duration = Duration::from_secs(65);
/// It doubles after each failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// A connection to the live stream of a session.
#[derive(Debug)]
pub struct SessionStream {
    socket: LiveSocket,
    /// Set on a WebSocket API, where a connection subscribes to a session.
    subscription: Option<Subscription>,
}

/// The connection of a live stream, which detects that its server is gone.
#[derive(Debug)]
pub(super) struct LiveSocket {
    socket: Socket,
    last_frame_at: Instant,
}

/// What arrived on a connection.
#[derive(Debug)]
pub(super) enum Incoming {
    Text(String),
    /// Nothing for the reader. The connection works, or was pinged.
    Idle,
    Closed,
}

impl LiveSocket {
    fn new(socket: Socket) -> Self {
        Self { socket, last_frame_at: Instant::now() }
    }

    /// Waits for the next frame, at most for the interval of pings. Cancel-safe, except while it sends a ping.
    pub(super) async fn next(&mut self) -> Result<Incoming, ApiError> {
        let frame = match timeout(PING_EVERY, self.socket.next()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None | Some(Err(SocketError::ConnectionClosed | SocketError::AlreadyClosed))) => {
                return Ok(Incoming::Closed);
            }
            Ok(Some(Err(e))) => return Err(ApiError::Stream(e.to_string())),
            Err(_) if self.last_frame_at.elapsed() >= SILENCE_LIMIT => {
                return Err(ApiError::Stream("the server fell silent".into()));
            }
            Err(_) => {
                self.send(Message::Ping(Bytes::new())).await?;
                return Ok(Incoming::Idle);
            }
        };
        self.last_frame_at = Instant::now();
        Ok(match frame {
            Message::Text(text) => Incoming::Text(text.to_string()),
            Message::Close(_) => Incoming::Closed,
            _ => Incoming::Idle,
        })
    }

    pub(super) async fn send_text(&mut self, text: String) -> Result<(), ApiError> {
        self.send(Message::text(text)).await
    }

    async fn send(&mut self, message: Message) -> Result<(), ApiError> {
        self.socket.send(message).await.map_err(|e| ApiError::Stream(e.to_string()))
    }
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Where the client opens live streams.
#[derive(Debug, Clone)]
pub(super) enum StreamEndpoint {
    /// On the server, at a URL of each session.
    Server,
    /// On a WebSocket API of API Gateway, if its address is known.
    WebSocketApi(Option<Url>),
}

impl Client {
    /// Opens live streams on the WebSocket API of a deployment in the cloud, for example
    /// `wss://abc.execute-api.eu-central-1.amazonaws.com/live`. Without an address, opening a stream fails.
    pub fn with_websocket_api(self, address: Option<&str>) -> Result<Self, ApiError> {
        let parse = |text: &str| {
            let invalid = |why: String| ApiError::InvalidUrl { url: text.to_owned(), why };
            let url = Url::parse(text).map_err(|e| invalid(e.to_string()))?;
            if matches!(url.scheme(), "ws" | "wss") {
                Ok(url)
            } else {
                Err(invalid("it must begin with ws:// or wss://".into()))
            }
        };
        Ok(Self { stream_endpoint: StreamEndpoint::WebSocketApi(address.map(parse).transpose()?), ..self })
    }

    /// Opens the live stream of a session after the cursor `after`, or from its beginning.
    pub async fn stream(&self, id: AgentSessionId, after: Option<&str>) -> Result<SessionStream, ApiError> {
        let after_query = after.map(|after| ("after", after));
        let socket = self.open_live(&format!("ws/agents/sessions/{id}/stream"), after_query).await?;
        let subscription = self.has_websocket_api().then(|| Subscription::new(id, after));
        let mut stream = SessionStream { socket, subscription };
        stream.subscribe().await?;
        Ok(stream)
    }

    /// Whether streams are opened on a WebSocket API, where a connection subscribes to what it follows.
    pub(super) const fn has_websocket_api(&self) -> bool {
        matches!(self.stream_endpoint, StreamEndpoint::WebSocketApi(_))
    }

    /// Connects to a live stream: at `path` of the server, or to the WebSocket API.
    pub(super) async fn open_live(
        &self,
        path: &str,
        query: Option<(&str, &str)>,
    ) -> Result<LiveSocket, ApiError> {
        let url = match &self.stream_endpoint {
            StreamEndpoint::Server => {
                let mut url = self.url(path)?;
                let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
                if url.set_scheme(scheme).is_err() {
                    let why = "it cannot carry a WebSocket".into();
                    return Err(ApiError::InvalidUrl { url: url.to_string(), why });
                }
                if let Some((name, value)) = query {
                    url.query_pairs_mut().append_pair(name, value);
                }
                url
            }
            StreamEndpoint::WebSocketApi(url) => url.clone().ok_or(ApiError::NoWebSocketApi)?,
        };
        Ok(LiveSocket::new(self.connect(&url).await?))
    }

    async fn connect(&self, url: &Url) -> Result<Socket, ApiError> {
        let to_error = |e: SocketError| match e {
            SocketError::Http(response) => {
                error_from_body(response.status(), response.body().as_deref().unwrap_or_default())
            }
            SocketError::Io(e) => ApiError::Unreachable { url: url.to_string(), source: Box::new(e) },
            e => ApiError::Stream(e.to_string()),
        };
        let mut request = url.as_str().into_client_request().map_err(to_error)?;
        request.headers_mut().insert(AUTHORIZATION, self.authorization()?);
        // Frames are short and urgent: disable Nagle's algorithm. Boxed, because a TLS handshake is a large future.
        let connecting = Box::pin(connect_async_with_config(request, None, true));
        let (socket, _) = timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| ApiError::Stream("the server does not answer".into()))?
            .map_err(to_error)?;
        Ok(socket)
    }

    /// Watches the live stream of a session, and reconnects after failures.
    pub fn watch(&self, id: AgentSessionId, after: Option<String>) -> SessionWatch {
        SessionWatch { client: self.clone(), id, cursor: after, stream: None, failures: 0 }
    }
}

impl SessionStream {
    /// Waits for the next message; `None` after the server closed the stream.
    pub async fn next(&mut self) -> Result<Option<StreamMessage>, ApiError> {
        loop {
            if self.subscription.as_ref().map_or(Ok(false), Subscription::needs_renewal)? {
                self.subscribe().await?;
            }
            let text = match self.socket.next().await? {
                Incoming::Text(text) => text,
                Incoming::Idle => continue,
                Incoming::Closed => return Ok(None),
            };
            match &mut self.subscription {
                None => {
                    let message = serde_json::from_str(&text);
                    return message.map(Some).map_err(|source| ApiError::Decode { status: 101, source });
                }
                Some(subscription) => {
                    if let Some(message) = subscription.accept(&text)? {
                        return Ok(Some(message));
                    }
                }
            }
        }
    }

    async fn subscribe(&mut self) -> Result<(), ApiError> {
        match &mut self.subscription {
            Some(subscription) => {
                let text = subscription.request()?;
                self.socket.send_text(text).await
            }
            None => Ok(()),
        }
    }
}

/// Watches a session across connections: each new connection continues after the last cursor.
#[derive(Debug)]
pub struct SessionWatch {
    client: Client,
    id: AgentSessionId,
    cursor: Option<String>,
    stream: Option<SessionStream>,
    failures: u32,
}

/// An event of a watch.
#[derive(Debug)]
pub enum WatchEvent {
    /// A message of the stream.
    Message(Box<StreamMessage>),
    /// The connection failed; the next call waits and reconnects.
    Disconnected {
        /// Reason, for people.
        reason: String,
        /// Wait before the reconnection.
        retry_in: Duration,
    },
}

impl SessionWatch {
    /// Cursor of the last message. [`Client::watch`] continues after it.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Waits for the next event. An error is final: the server refused, or sent an unknown message.
    ///
    /// Cancel-safe: dropping the future loses no message.
    pub async fn next(&mut self) -> Result<WatchEvent, ApiError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            slot => {
                if self.failures > 0 {
                    sleep(backoff(self.failures)).await;
                }
                match self.client.stream(self.id, self.cursor.as_deref()).await {
                    Ok(stream) => slot.insert(stream),
                    Err(e) if e.is_transient() => return Ok(self.disconnected(e.to_string())),
                    Err(e) => return Err(e),
                }
            }
        };
        match stream.next().await {
            Ok(Some(message)) => {
                self.failures = 0;
                self.cursor = Some(message.cursor.clone());
                Ok(WatchEvent::Message(Box::new(message)))
            }
            Ok(None) => Ok(self.disconnected("the server closed the stream".into())),
            Err(e) if e.is_transient() => Ok(self.disconnected(e.to_string())),
            Err(e) => Err(e),
        }
    }

    fn disconnected(&mut self, reason: String) -> WatchEvent {
        self.stream = None;
        self.failures = self.failures.saturating_add(1);
        WatchEvent::Disconnected { reason, retry_in: backoff(self.failures) }
    }
}

/// Wait after this number of consecutive failures.
pub(super) fn backoff(failures: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_BACKOFF)
}
