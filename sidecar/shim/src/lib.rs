//! The wire protocol of agent shims (S2): a shim is a local process that drives an agent of any SDK, and serves HTTP
//! endpoints and a `WebSocket` of events on loopback. This crate is the other side. It knows nothing of sessions.
//!
//! | module | purpose |
//! |---|---|
//! | [`message`] | requests and responses |
//! | [`event`] | events of the agent |
//! | [`validation`] | classifies received messages: valid, repaired, plain text, a draft, or not usable |
//! | [`sequence`] | order of events: gaps, repetitions, early events |
//! | [`error`] | errors of a shim, and the recovery from each |
//! | [`client`], [`stream`] | send requests, receive events |
//! | [`byte_budget`] | bounds the bytes of messages that wait |
//! | [`backend`] | the server for a shim: token renewal and artifact upload |
//! | [`check`] | the conformance program |

pub mod backend;
pub mod byte_budget;
pub mod check;
pub mod client;
pub mod error;
pub mod event;
pub mod message;
pub mod sequence;
pub mod stream;
pub mod validation;

/// How often to ask a starting shim for its health. S2 allows up to half a second.
pub const START_POLL: std::time::Duration = std::time::Duration::from_millis(100);

/// A secret of this process: 24 random bytes in hexadecimal.
pub fn random_token() -> std::io::Result<String> {
    use std::io::Read as _;
    let mut bytes = [0; 24];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex::encode(bytes))
}

/// A free port of loopback. Another process can take it before the shim does; then the shim fails to start.
pub fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
