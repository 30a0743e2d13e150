//! Live streams: of a session (S0 8.9), of a project (decision 82), of notifications, and of the inbox (decision 80).
//!
//! The stream of a session is derived from the journal: messages are built from its entries in order, and cursors are positions in it. A client
//! that reconnects with its last cursor resumes exactly there.
//!
//! | | embedded server | `aws`: a WebSocket API of API Gateway |
//! |---|---|---|
//! | a client connects | [`connect`]: `WS /ws/agents/sessions/{id}/stream?after=CURSOR` | [`authorize`], [`open`] |
//! | and follows a session | by the same request | [`subscribe`] |
//! | the journal gets a new entry | the task of the connection reads it | `relay` triggers [`push()`](push::push) by the pushes queue |
//! | the connection ends | the task ends | [`closed`] |
//!
//! On the embedded server a client receives each message once. In `aws` it receives each message at least once and in order, and
//! ignores messages whose cursor it has passed.
//!
//! The stream of a project works in the same way, with several journals: [`projects`] on the embedded server, [`push_projects`] in `aws`.
//!
//! The stream of the inbox has no cursor. It sends each decision that changed, as it is then: [`decisions`] on the embedded server,
//! [`push_decisions`] in `aws`. The stream of the list of sessions works alike, on the embedded server only: [`sessions`].

pub mod authorize;
pub mod closed;
pub mod connect;
pub mod decisions;
mod frame;
pub mod notifications;
pub mod open;
pub mod projects;
pub mod push;
mod push_decisions;
mod push_projects;
pub mod push_queue;
mod pusher;
pub mod sessions;
mod socket;
pub mod subscribe;
