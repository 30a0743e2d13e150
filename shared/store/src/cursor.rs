//! Cursors: positions in a list as strings for clients (decision 5).
//!
//! A cursor is base64url of JSON: a version, the position, and a digest of both and of the list. A cursor that was changed, or that
//! belongs to another list, filter or owner, is refused. The digest is not a secret: a forged cursor can only lead to a position in
//! a list that the caller may read, because the partition is never taken from the cursor.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::table::{Index, Position};

const VERSION: u8 = 1;
/// Longest accepted cursor. A position contains three keys of at most DynamoDB's sizes.
const MAX_CHARS: usize = 8 * 1024;
const DIGEST_BYTES: usize = 12;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Name of the list with its filter and order, in a fixed spelling: `sessions?status=Running`.
    pub list: &'a str,
    pub index: Option<Index>,
    /// Partition that the list reads, which determines its owner.
    pub partition: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list")]
pub struct InvalidCursor;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u8,
    /// Partition of the primary key, if an index is read; otherwise the list's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    p: Option<String>,
    s: String,
    /// Sort key in the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    i: Option<String>,
    d: String,
}

impl Scope<'_> {
    pub fn encode(&self, position: &Position) -> String {
        let wire = Wire {
            v: VERSION,
            p: self.index.is_some().then(|| position.partition.clone()),
            s: position.sort.clone(),
            i: position.index_sort.clone(),
            d: self.digest(position),
        };
        // Strings and a number always serialize.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    pub fn decode(&self, cursor: &str) -> Result<Position, InvalidCursor> {
        if cursor.len() > MAX_CHARS {
            return Err(InvalidCursor);
        }
        let json = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| InvalidCursor)?;
        let wire: Wire = serde_json::from_slice(&json).map_err(|_| InvalidCursor)?;
        let partition = match (self.index, wire.p) {
            (None, None) => self.partition.to_owned(),
            (Some(_), Some(partition)) => partition,
            (None, Some(_)) | (Some(_), None) => return Err(InvalidCursor),
        };
        let position = Position { partition, sort: wire.s, index_sort: wire.i };
        let fits = wire.v == VERSION
            && position.index_sort.is_some() == self.index.is_some()
            && wire.d == self.digest(&position);
        fits.then_some(position).ok_or(InvalidCursor)
    }

    fn digest(&self, position: &Position) -> String {
        let index = match self.index {
            None => "",
            Some(Index::Listing) => "listing",
            Some(Index::Due) => "due",
        };
        let mut hash = Sha256::new();
        let index_sort = position.index_sort.as_deref().unwrap_or_default();
        for part in [self.list, index, self.partition, &position.partition, &position.sort, index_sort] {
            // Hash the length of each part, so that different parts cannot be concatenated to the same input.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..DIGEST_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Scope<'_> = Scope { list: "sessions", index: Some(Index::Listing), partition: "OWNER#1" };
    const JOURNAL: Scope<'_> = Scope { list: "journal", index: None, partition: "SESSION#1" };

    fn position() -> Position {
        Position { partition: "SESSION#1".into(), sort: "a/ü".into(), index_sort: Some("2026".into()) }
    }

    #[test]
    fn cursor_round_trips_for_its_own_list() {
        assert_eq!(MINE.decode(&MINE.encode(&position())), Ok(position()));
        let plain = Position { index_sort: None, ..position() };
        assert_eq!(JOURNAL.decode(&JOURNAL.encode(&plain)), Ok(plain));
    }

    #[test]
    fn a_cursor_of_another_list_filter_index_or_owner_is_refused() {
        let cursor = MINE.encode(&position());
        let others = [
            Scope { list: "sessions?status=Idle", ..MINE },
            Scope { index: Some(Index::Due), ..MINE },
            Scope { index: None, ..MINE },
            Scope { partition: "OWNER#2", ..MINE },
        ];
        for other in others {
            assert_eq!(other.decode(&cursor), Err(InvalidCursor), "{other:?}");
        }
    }

    #[test]
    fn altered_cursor_is_refused() {
        let cursor = MINE.encode(&position());
        for place in 0..cursor.len() {
            let mut changed = cursor.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(MINE.decode(&changed), Err(InvalidCursor), "{changed}");
        }
        for nonsense in ["", "!", "e30", &"A".repeat(MAX_CHARS + 1), &cursor[1..]] {
            assert_eq!(MINE.decode(nonsense), Err(InvalidCursor));
        }
    }
}
