//! State: the Table port with its SQLite and DynamoDB engines, and what commits, lists and feeds from it.

pub mod agent_items;
pub mod blob;
pub mod commit;
pub mod connections;
#[cfg(feature = "contract")]
pub mod contract;
pub mod cursor;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
pub mod error;
pub mod feed;
pub mod layout;
mod limits;
pub mod owned;
mod range;
pub mod redrive;
pub mod repository;
pub mod runs;
pub mod sqlite;
pub mod table;
pub mod usage;
pub mod webhooks;
pub mod workers;

pub use commit::{Commit, Loaded, LoadedConversation, ParkedEnvelope, SentMessage, StoredAnswer};
pub use connections::{Connection, ConnectionId, Watcher};
pub use error::{CommitError, StoreError};
pub use feed::{FeedHead, Told};
pub use layout::View;
pub use owned::{LoadedOwned, OwnedRef};
pub use pilothouse_sqlite::{Clock, system_clock};
pub use redrive::{Redrive, SetAside};
pub use repository::{Claim, Listing, Store};
pub use workers::{Place, Placement, WorkerKey, WorkerRecord};
