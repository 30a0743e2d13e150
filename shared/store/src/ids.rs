use std::fmt;
use std::str::FromStr;

use pilothouse_domain::{AgentSessionId, ProjectId, UserId};
use pilothouse_wire::worker::WorkerId;
use serde::{Deserialize, Serialize};

/// Reference to an aggregate of any type, as the Due index and reactions use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregateRef {
    pub kind: String,
    pub id: String,
}

/// Id that API Gateway gives a connection: 1 to 128 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a connection")]
pub struct InvalidConnectionId;

impl ConnectionId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ConnectionId {
    type Err = InvalidConnectionId;

    fn from_str(text: &str) -> Result<Self, InvalidConnectionId> {
        let fits = (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidConnectionId) }
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a connection follows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Followed {
    Session(AgentSessionId),
    /// The decisions of an owner.
    Inbox(UserId),
    Project(ProjectId),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerKey {
    pub owner: UserId,
    /// Unique for its owner.
    pub id: WorkerId,
}
