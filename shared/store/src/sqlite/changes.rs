use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::TOPIC_PREFIX;

/// Reports the partitions of each commit, of the table and of the Listing index.
pub struct TableChanges(pub(super) Receiver<Arc<[String]>>);

/// What one commit wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrittenPartitions {
    Partitions(Vec<String>),
    /// The subscriber was too slow, and some commits are lost.
    Missed,
}

impl TableChanges {
    /// Waits for the next commit. Returns `None` when the database is closed. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<WrittenPartitions> {
        match self.0.recv().await {
            Ok(topics) => {
                let partitions = topics.iter().filter_map(|topic| topic.strip_prefix(TOPIC_PREFIX));
                Some(WrittenPartitions::Partitions(partitions.map(str::to_owned).collect()))
            }
            Err(RecvError::Lagged(_)) => Some(WrittenPartitions::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}
