use async_trait::async_trait;
use pilothouse_app::change_notifier::{
    ChangeNotifier, ChangeSubscription, ChangedSessions, SessionsSubscription,
};
use pilothouse_domain::{
    AgentSessionId, Aggregate as _, Brake, Project, ProjectAgent, ProjectAgentId, ProjectId, UserId,
};
use pilothouse_sqlite::Watch;
use pilothouse_store::layout::{
    aggregate_journal_partition, aggregate_partition, ended_decisions_partition, feed_partition,
    open_decisions_partition, session_of_partition, session_partition, suspended_decisions_partition,
};
use pilothouse_store::sqlite::{SqliteTable, TableChanges, WrittenPartitions};

/// Notifies live streams of changes in a partition of the table or of its Listing index.
pub(super) struct TableChangeNotifier(pub(super) SqliteTable);

struct PartitionWatch(Watch);

struct InboxWatch {
    open: Watch,
    suspended: Watch,
    ended: Watch,
}

impl ChangeNotifier for TableChangeNotifier {
    fn subscribe(&self, id: AgentSessionId) -> Box<dyn ChangeSubscription> {
        Box::new(PartitionWatch(self.0.watch(&session_partition(id))))
    }

    fn subscribe_to_owner(&self, owner: &UserId) -> Box<dyn ChangeSubscription> {
        Box::new(PartitionWatch(self.0.watch(&feed_partition(owner))))
    }

    /// A decision that moves to another partition notifies only the new one.
    fn subscribe_to_inbox(&self, owner: &UserId) -> Box<dyn ChangeSubscription> {
        Box::new(InboxWatch {
            open: self.0.watch(&open_decisions_partition(owner)),
            suspended: self.0.watch(&suspended_decisions_partition(owner)),
            ended: self.0.watch(&ended_decisions_partition(owner)),
        })
    }

    fn subscribe_to_project(&self, id: ProjectId) -> Box<dyn ChangeSubscription> {
        Box::new(PartitionWatch(self.0.watch(&aggregate_journal_partition::<Project>(id))))
    }

    fn subscribe_to_agent(&self, id: ProjectAgentId) -> Box<dyn ChangeSubscription> {
        Box::new(PartitionWatch(self.0.watch(&aggregate_journal_partition::<ProjectAgent>(id))))
    }

    fn subscribe_to_brakes(&self, owner: &UserId) -> Box<dyn ChangeSubscription> {
        Box::new(PartitionWatch(self.0.watch(&aggregate_partition(owner, Brake::KIND))))
    }

    fn subscribe_to_sessions(&self) -> Box<dyn SessionsSubscription> {
        Box::new(WrittenSessions(self.0.changes()))
    }
}

struct WrittenSessions(TableChanges);

#[async_trait]
impl SessionsSubscription for WrittenSessions {
    async fn next(&mut self) -> Option<ChangedSessions> {
        loop {
            match self.0.next().await? {
                WrittenPartitions::Missed => return Some(ChangedSessions::Missed),
                WrittenPartitions::Partitions(partitions) => {
                    let sessions = partitions.iter().filter_map(|it| session_of_partition(it));
                    let sessions: Vec<_> = sessions.collect();
                    if !sessions.is_empty() {
                        return Some(ChangedSessions::Sessions(sessions));
                    }
                }
            }
        }
    }
}

#[async_trait]
impl ChangeSubscription for PartitionWatch {
    async fn changed(&mut self) -> bool {
        self.0.changed().await
    }
}

#[async_trait]
impl ChangeSubscription for InboxWatch {
    async fn changed(&mut self) -> bool {
        tokio::select! {
            is_running = self.open.changed() => is_running,
            is_running = self.suspended.changed() => is_running,
            is_running = self.ended.changed() => is_running,
        }
    }
}
