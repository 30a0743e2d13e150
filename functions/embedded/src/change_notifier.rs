use async_trait::async_trait;
use pilothouse_app::change_notifier::{ChangeNotifier, ChangeSubscription};
use pilothouse_domain::{AgentSessionId, UserId};
use pilothouse_sqlite::Watch;
use pilothouse_store::layout::{feed_partition, session_partition};
use pilothouse_store::sqlite::SqliteTable;

/// Notifies live streams of changes in a partition of the table.
pub(super) struct TableChangeNotifier(pub(super) SqliteTable);

struct PartitionWatch(Watch);

impl ChangeNotifier for TableChangeNotifier {
    fn subscribe(&self, id: AgentSessionId) -> Box<dyn ChangeSubscription> {
        Box::new(PartitionWatch(self.0.watch(&session_partition(id))))
    }

    fn subscribe_to_owner(&self, owner: &UserId) -> Box<dyn ChangeSubscription> {
        Box::new(PartitionWatch(self.0.watch(&feed_partition(owner))))
    }
}

#[async_trait]
impl ChangeSubscription for PartitionWatch {
    async fn changed(&mut self) -> bool {
        self.0.changed().await
    }
}
