//! Live connections of the `aws` profile, with their cursors.
//!
//! API Gateway identifies a connection only by its id. There are two items for each: the connection under its id, and a watcher in
//! the partition of what it follows. The relay finds watchers there with a consistent read.

use pilothouse_domain::{Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::commit::Loaded;
use crate::error::{CommitError, StoreError};
pub use crate::ids::{ConnectionId, Followed, InvalidConnectionId};
use crate::layout;
use crate::repository::{Store, read, write};
use crate::table::{Condition, Item, Query, SortRange, TableError, Write};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    pub owner: UserId,
    pub token_ends: Timestamp,
    /// When the connection ends at the latest; its items expire then.
    pub ends: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Followed>,
}

/// A connection that follows something, with its cursor. An inbox has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Watcher {
    pub owner: UserId,
    pub token_ends: Timestamp,
    pub ends: Timestamp,
    /// Last journal entry that was sent completely.
    pub after: u64,
    /// Number of messages of the next entry that were sent.
    pub seen: usize,
    /// The cursor in the stream of a project, which has several journals. Absent until its state was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_cursor: Option<String>,
    /// Whether the client received the marker of the end of the past entries.
    pub caught_up: bool,
}

fn guard(loaded: u64) -> Condition {
    if loaded == 0 { Condition::Absent } else { Condition::Version(loaded) }
}

fn connection_item(id: &ConnectionId, connection: &Connection, version: u64) -> Result<Item, StoreError> {
    let item = write(layout::connection(id), "connection", connection)?;
    Ok(Item { version, expires_at: Some(connection.ends), ..item })
}

fn watcher_item(
    followed: &Followed,
    id: &ConnectionId,
    watcher: &Watcher,
    version: u64,
) -> Result<Item, StoreError> {
    let item = write(layout::watcher(followed, id), "watcher", watcher)?;
    Ok(Item { version, expires_at: Some(watcher.ends), ..item })
}

fn conflict(error: TableError) -> CommitError {
    match error {
        TableError::ConditionFailed { .. } | TableError::Contended => CommitError::Conflict,
        other => other.into(),
    }
}

impl Store {
    pub async fn open_connection(
        &self,
        id: &ConnectionId,
        connection: &Connection,
    ) -> Result<(), StoreError> {
        let item = connection_item(id, connection, 1)?;
        Ok(self.table.transact(vec![Write::Put(item, Condition::Always)]).await?)
    }

    /// A connection, unless it expired.
    pub async fn connection(&self, id: &ConnectionId) -> Result<Option<Loaded<Connection>>, StoreError> {
        self.load(&layout::connection(id)).await
    }

    pub async fn watcher(
        &self,
        followed: &Followed,
        id: &ConnectionId,
    ) -> Result<Option<Loaded<Watcher>>, StoreError> {
        self.load(&layout::watcher(followed, id)).await
    }

    /// Makes a connection follow `followed` from the cursor `watcher`, and nothing else. `watching` is the version of its existing
    /// cursor there; 0 if there is none.
    ///
    /// Fails with [`CommitError::Conflict`] if the connection was closed or changed meanwhile.
    pub async fn watch(
        &self,
        id: &ConnectionId,
        connection: &Loaded<Connection>,
        followed: &Followed,
        watcher: &Watcher,
        watching: u64,
    ) -> Result<(), CommitError> {
        let moved = Connection { follows: Some(followed.clone()), ..connection.value.clone() };
        let mut writes = vec![
            Write::Put(
                connection_item(id, &moved, connection.version + 1)?,
                Condition::Version(connection.version),
            ),
            Write::Put(watcher_item(followed, id, watcher, watching + 1)?, guard(watching)),
        ];
        if let Some(left) = connection.value.follows.as_ref().filter(|left| *left != followed) {
            writes.push(Write::Delete(layout::watcher(left, id), Condition::Always));
        }
        self.table.transact(writes).await.map_err(conflict)
    }

    pub async fn watchers(
        &self,
        followed: &Followed,
    ) -> Result<Vec<(ConnectionId, Loaded<Watcher>)>, StoreError> {
        let mut watchers = Vec::new();
        let mut query = watchers_of(followed, 100);
        loop {
            let page = self.table.query(&query).await?;
            for item in &page.items {
                let id = item.key.sort.strip_prefix(layout::WATCHERS).and_then(|id| id.parse().ok());
                let Some(id) = id else { continue };
                watchers.push((id, Loaded { value: read(item)?, version: item.version }));
            }
            query.after = page.next;
            if query.after.is_none() {
                return Ok(watchers);
            }
        }
    }

    /// Whether a connection follows it. The read is consistent: a connection that starts to follow afterwards reads the state after
    /// this call.
    pub async fn is_watched(&self, followed: &Followed) -> Result<bool, StoreError> {
        let mut query = watchers_of(followed, 1);
        loop {
            let page = self.table.query(&query).await?;
            query.after = page.next;
            // A page with only expired items is empty, but more pages may follow.
            if !page.items.is_empty() || query.after.is_none() {
                return Ok(!page.items.is_empty());
            }
        }
    }

    /// Moves the cursor of a connection. Fails with [`CommitError::Conflict`] if it was removed or moved meanwhile.
    pub async fn move_watcher(
        &self,
        followed: &Followed,
        id: &ConnectionId,
        watcher: &Loaded<Watcher>,
    ) -> Result<(), CommitError> {
        let item = watcher_item(followed, id, &watcher.value, watcher.version + 1)?;
        let write = Write::Put(item, Condition::Version(watcher.version));
        self.table.transact(vec![write]).await.map_err(conflict)
    }

    /// Removes a connection with its cursor. Fails with [`CommitError::Conflict`] if it follows something else now.
    pub async fn close_connection(
        &self,
        id: &ConnectionId,
        connection: &Loaded<Connection>,
    ) -> Result<(), CommitError> {
        let mut writes = vec![Write::Delete(layout::connection(id), Condition::Version(connection.version))];
        if let Some(followed) = &connection.value.follows {
            writes.push(Write::Delete(layout::watcher(followed, id), Condition::Always));
        }
        self.table.transact(writes).await.map_err(conflict)
    }

    /// Removes a connection that is gone, with its cursor.
    pub async fn remove_watcher(&self, followed: &Followed, id: &ConnectionId) -> Result<(), StoreError> {
        let writes = vec![
            Write::Delete(layout::watcher(followed, id), Condition::Always),
            Write::Delete(layout::connection(id), Condition::Always),
        ];
        Ok(self.table.transact(writes).await?)
    }
}

fn watchers_of(followed: &Followed, limit: usize) -> Query {
    Query::new(layout::watchers_partition(followed), SortRange::Prefix(layout::WATCHERS.to_owned()), limit)
}

#[cfg(test)]
mod tests {
    use super::ConnectionId;

    #[test]
    fn connection_id_has_the_gateway_format() {
        assert!("L0SM9cOFvHcCIhw=".parse::<ConnectionId>().is_ok());
        for text in ["", "a b", "ä", &"x".repeat(129)] {
            assert!(text.parse::<ConnectionId>().is_err(), "{text}");
        }
    }
}
