//! The connection of a request, if the server counts connections, as the embedded one does.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use pilothouse_domain::{AgentSessionId, UserId};
use pilothouse_runtime::AtCapacity;

use super::Problem;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    Owner(UserId),
    /// The sidecar or the agent of a session, with a key of the session.
    Session(AgentSessionId),
}

pub trait Peer: Send + Sync + 'static {
    /// Records that a request on the connection was authenticated. Fails if the caller has too many connections.
    fn authenticated(&self, caller: Caller) -> Result<(), AtCapacity>;

    /// Closes the connection, also after it was upgraded to a WebSocket.
    fn close(&self);
}

/// The connection of a request. It is an extension of the request, which a client cannot set.
#[derive(Clone)]
pub struct PeerConnection(pub Arc<dyn Peer>);

impl fmt::Debug for PeerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerConnection").finish_non_exhaustive()
    }
}

/// Reports to the connection of a request that the request was authenticated.
pub fn authenticated(parts: &Parts, caller: impl FnOnce() -> Caller) -> Result<(), Problem> {
    match parts.extensions.get::<PeerConnection>() {
        Some(PeerConnection(peer)) => Ok(peer.authenticated(caller())?),
        None => Ok(()),
    }
}
