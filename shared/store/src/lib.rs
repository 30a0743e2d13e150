//! Storage of the control plane: the table port with its SQLite and DynamoDB engines, and the repositories on it.
//!
//! The [`table`] module defines the port, [`layout`] the keys of all items, and [`commit`] how changes are written. [`Store`] has
//! the queries. Large contents go to the [`blob`] port.

pub mod agent_items;
pub mod aggregate;
pub mod artifacts;
pub mod blob;
pub mod coherence;
pub mod commit;
pub mod connections;
mod console_logins;
#[cfg(feature = "contract")]
pub mod contract;
pub mod cursor;
mod decision_log;
mod decisions;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
mod embeddings;
pub mod error;
pub mod feed;
mod ids;
mod knowledge;
pub mod layout;
mod limits;
pub mod pool;
mod range;
pub mod redrive;
pub mod repository;
mod retention;
mod runs;
pub mod sqlite;
pub mod table;
mod ticks;
pub mod usage;
mod watch;
mod web_push;
pub mod webhooks;
pub mod workers;

pub use aggregate::{AggregateRef, LoadedAggregate};
pub use artifacts::ArtifactList;
pub use coherence::{IssueList, ScanMark};
pub use commit::{Commit, Loaded, LoadedConversation, ParkedEnvelope, SentMessage, StoredResponse};
pub use connections::{Connection, ConnectionId, Followed, Watcher};
pub use embeddings::TextEmbedding;
pub use error::{CommitError, StoreError};
pub use feed::{FeedHead, PublishedRange};
pub use knowledge::{Indexed, IndexedSubject, SnapshotMark};
pub use layout::{DATA_FORMAT, JournalView};
pub use pilothouse_sqlite::{Clock, is_disk_full, system_clock};
pub use pool::{LineScope, LoadedPool, OwnerBrakes};
pub use redrive::{QuarantineRecord, Redrive};
pub use repository::{Claim, JournalPage, Listing, Store};
pub use retention::{InvalidRetention, Retention};
pub use watch::ClockSweep;
pub use webhooks::WebhooksGuard;
pub use workers::{Placement, PlacementState, WorkerKey, WorkerRecord};
