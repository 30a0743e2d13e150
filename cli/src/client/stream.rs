//! The live stream of a session: one connection, and a watch that reconnects by itself.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use pilothouse_domain::AgentSessionId;
use pilothouse_functions::api::stream::StreamMessage;
use reqwest::Url;
use reqwest::header::AUTHORIZATION;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Bytes, Error as SocketError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::subscription::Subscription;
use super::{ApiError, Client, refusal_of};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A quiet stream is asked for a sign of life this often.
const PING_EVERY: Duration = Duration::from_secs(20);
/// A stream that is quiet for this long, even when asked, is broken.
const SILENCE: Duration = Duration::from_secs(65);
/// The wait before the first reconnection; it doubles each time.
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
/// The longest wait.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// One connection to the live stream of a session.
#[derive(Debug)]
pub struct SessionStream {
    socket: Socket,
    heard_at: Instant,
    /// What was said that is followed, where that has to be said.
    subscription: Option<Subscription>,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Where live streams are.
#[derive(Debug, Clone)]
pub(super) enum Live {
    /// On the server itself, at an address of each session.
    Server,
    /// On a WebSocket API of API Gateway, if its address is known.
    WebSocketApi(Option<Url>),
}

impl Client {
    /// The same client for a deployment in the cloud, whose live streams are on a WebSocket API of their own, for example
    /// `wss://abc.execute-api.eu-central-1.amazonaws.com/live`. Without its address nothing can be followed.
    pub fn with_websocket_api(self, address: Option<&str>) -> Result<Self, ApiError> {
        let parse = |text: &str| {
            let wrong = |why: String| ApiError::InvalidUrl { url: text.to_owned(), why };
            let url = Url::parse(text).map_err(|e| wrong(e.to_string()))?;
            if matches!(url.scheme(), "ws" | "wss") {
                Ok(url)
            } else {
                Err(wrong("it must begin with ws:// or wss://".into()))
            }
        };
        Ok(Self { live: Live::WebSocketApi(address.map(parse).transpose()?), ..self })
    }

    /// Opens the live stream: everything after the cursor `after`, or from the session's beginning.
    pub async fn stream(&self, id: AgentSessionId, after: Option<&str>) -> Result<SessionStream, ApiError> {
        match &self.live {
            Live::Server => {
                let mut url = self.url(&format!("ws/agents/sessions/{id}/stream"))?;
                let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
                if url.set_scheme(scheme).is_err() {
                    let why = "it cannot carry a WebSocket".into();
                    return Err(ApiError::InvalidUrl { url: url.to_string(), why });
                }
                if let Some(after) = after {
                    url.query_pairs_mut().append_pair("after", after);
                }
                Ok(SessionStream::new(self.connect(&url).await?, None))
            }
            Live::WebSocketApi(url) => {
                let url = url.as_ref().ok_or(ApiError::NoWebSocketApi)?;
                let subscription = Subscription::new(id, after);
                let mut stream = SessionStream::new(self.connect(url).await?, Some(subscription));
                stream.subscribe().await?;
                Ok(stream)
            }
        }
    }

    async fn connect(&self, url: &Url) -> Result<Socket, ApiError> {
        let broken = |e: SocketError| match e {
            SocketError::Http(response) => {
                refusal_of(response.status(), response.body().as_deref().unwrap_or_default())
            }
            SocketError::Io(e) => ApiError::Unreachable { url: url.to_string(), source: Box::new(e) },
            e => ApiError::Stream(e.to_string()),
        };
        let mut request = url.as_str().into_client_request().map_err(broken)?;
        request.headers_mut().insert(AUTHORIZATION, self.authorization()?);
        // What is said here is short, and waited for. Boxed: a TLS handshake is a large future.
        let connecting = Box::pin(connect_async_with_config(request, None, true));
        let (socket, _) = timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| ApiError::Stream("the server does not answer".into()))?
            .map_err(broken)?;
        Ok(socket)
    }

    /// Follows the live stream, over lost connections too. Never ends by itself.
    pub fn follow(&self, id: AgentSessionId, after: Option<String>) -> Following {
        Following { client: self.clone(), id, cursor: after, stream: None, failures: 0 }
    }
}

impl SessionStream {
    fn new(socket: Socket, subscription: Option<Subscription>) -> Self {
        Self { socket, heard_at: Instant::now(), subscription }
    }

    /// The next message; nothing when the server closed the stream.
    pub async fn next(&mut self) -> Result<Option<StreamMessage>, ApiError> {
        loop {
            if let Some(subscription) = &self.subscription {
                if subscription.is_overdue() {
                    return Err(ApiError::Stream("the subscription was not answered".into()));
                }
                if subscription.is_due() {
                    self.subscribe().await?;
                }
            }
            let frame = match timeout(PING_EVERY, self.socket.next()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None | Some(Err(SocketError::ConnectionClosed | SocketError::AlreadyClosed))) => {
                    return Ok(None);
                }
                Ok(Some(Err(e))) => return Err(ApiError::Stream(e.to_string())),
                Err(_) if self.heard_at.elapsed() >= SILENCE => {
                    return Err(ApiError::Stream("the server fell silent".into()));
                }
                Err(_) => {
                    self.say(Message::Ping(Bytes::new())).await?;
                    continue;
                }
            };
            self.heard_at = Instant::now();
            match frame {
                Message::Text(text) => match &mut self.subscription {
                    None => {
                        let message = serde_json::from_str(&text);
                        return message.map(Some).map_err(|source| ApiError::Decode { status: 101, source });
                    }
                    Some(subscription) => {
                        if let Some(message) = subscription.take(&text)? {
                            return Ok(Some(message));
                        }
                    }
                },
                Message::Close(_) => return Ok(None),
                _ => {}
            }
        }
    }

    /// Says on a WebSocket API what is to be followed.
    async fn subscribe(&mut self) -> Result<(), ApiError> {
        match &mut self.subscription {
            Some(subscription) => {
                let text = subscription.ask()?;
                self.say(Message::text(text)).await
            }
            None => Ok(()),
        }
    }

    async fn say(&mut self, message: Message) -> Result<(), ApiError> {
        self.socket.send(message).await.map_err(|e| ApiError::Stream(e.to_string()))
    }
}

/// Follows a session over lost connections: each new one goes on after the last cursor that was seen.
#[derive(Debug)]
pub struct Following {
    client: Client,
    id: AgentSessionId,
    cursor: Option<String>,
    stream: Option<SessionStream>,
    failures: u32,
}

/// What a watch sees.
#[derive(Debug)]
pub enum Followed {
    /// A message of the stream.
    Message(Box<StreamMessage>),
    /// The connection is gone; the next call waits and connects again.
    Lost {
        /// Why, in a sentence.
        why: String,
        /// How long it will wait.
        retry_in: Duration,
    },
}

impl Following {
    /// The cursor after the last message; what to give to `--after` to go on from here.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next thing that happens. An error is final: a refusal, or an answer that is not understood.
    ///
    /// Nothing is lost when this is dropped before it is done.
    pub async fn next(&mut self) -> Result<Followed, ApiError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                if self.failures > 0 {
                    sleep(backoff(self.failures)).await;
                }
                match self.client.stream(self.id, self.cursor.as_deref()).await {
                    Ok(stream) => none.insert(stream),
                    Err(e) if e.is_transient() => return Ok(self.lost(e.to_string())),
                    Err(e) => return Err(e),
                }
            }
        };
        match stream.next().await {
            Ok(Some(message)) => {
                self.failures = 0;
                self.cursor = Some(message.cursor.clone());
                Ok(Followed::Message(Box::new(message)))
            }
            Ok(None) => Ok(self.lost("the server closed the stream".into())),
            Err(e) if e.is_transient() => Ok(self.lost(e.to_string())),
            Err(e) => Err(e),
        }
    }

    fn lost(&mut self, why: String) -> Followed {
        self.stream = None;
        self.failures = self.failures.saturating_add(1);
        Followed::Lost { why, retry_in: backoff(self.failures) }
    }
}

/// The wait after so many failures in a row.
fn backoff(failures: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_BACKOFF)
}
