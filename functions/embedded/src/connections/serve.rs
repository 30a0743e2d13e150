use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use pilothouse_app::http::peer::PeerConnection;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tower::ServiceExt as _;

use super::body::{RequestBoundBody, TimedBody};
use super::socket::Socket;
use super::{Connection, Connections, IDLE_TIMEOUT};

/// Most bytes of a request's head, and of read-ahead.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Interval of the check for overdue connections.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Interval of the log entries about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Serves `router` until `stop` changes or is dropped, then until the current requests have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Arc<Connections>,
    mut stop: watch::Receiver<()>,
) {
    let mut serving = JoinSet::new();
    let mut look = tokio::time::interval(CHECK_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut logged: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.changed() => break,
            _ = look.tick() => {
                connections.close_overdue();
                while serving.try_join_next().is_some() {}
                continue;
            }
            accepted = accept(&listener, &connections) => accepted,
        };
        match accepted {
            Ok((stream, connection)) => {
                serving.spawn(serve_connection(stream, connection, router.clone(), stop.clone()));
            }
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                // Usually the descriptors are exhausted: close a connection, and wait, so that the loop does not spin.
                let made_room = connections.make_room();
                if logged.is_none_or(|at| at.elapsed() > LOG_INTERVAL) {
                    logged = Some(Instant::now());
                    tracing::error!(%error, made_room, "failed to accept a connection; retrying");
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    while serving.join_next().await.is_some() {}
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Connections>,
) -> io::Result<(TcpStream, Arc<Connection>)> {
    connections.wait_for_room().await;
    let (stream, address) = listener.accept().await?;
    Ok((stream, connections.register(address.ip())))
}

/// Whether only the accepted connection failed.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

async fn serve_connection(
    stream: TcpStream,
    connection: Arc<Connection>,
    router: Router,
    mut stop: watch::Receiver<()>,
) {
    // Responses are small and urgent: disable Nagle's algorithm.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to disable Nagle's algorithm");
    }
    let socket = Socket::new(stream, Arc::clone(&connection));
    let peer = Arc::clone(&connection);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let active = peer.request();
        let mut request = request.map(|body| Body::new(TimedBody::new(body)));
        request.extensions_mut().insert(PeerConnection(peer.clone()));
        let answering = router.clone().oneshot(request);
        async move {
            let response = answering.await?;
            Ok::<_, Infallible>(response.map(|body| Body::new(RequestBoundBody::new(body, active))))
        }
    });
    let builder = builder();
    let mut serving = pin!(builder.serve_connection_with_upgrades(TokioIo::new(socket), service));
    let mut stopping = false;
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection failed");
                }
                break;
            }
            () = connection.close.notified() => break,
            _ = stop.changed(), if !stopping => {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
    connection.upgraded();
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Slower heads are only allowed after authentication; anonymous connections are closed sooner.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(64 * 1024)
        .max_concurrent_streams(64)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(30));
    builder
}
