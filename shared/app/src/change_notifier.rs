use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, ProjectAgentId, ProjectId, UserId};

/// Notifies subscribers that a journal has changed. Subscribers read the journal from the store.
pub trait ChangeNotifier: Send + Sync + 'static {
    fn subscribe(&self, id: AgentSessionId) -> Box<dyn ChangeSubscription>;

    /// Subscribes to changes of an owner's notifications. By default there are none to wait for.
    fn subscribe_to_owner(&self, _owner: &UserId) -> Box<dyn ChangeSubscription> {
        Box::new(Never)
    }

    /// Subscribes to changes of an owner's decisions.
    fn subscribe_to_inbox(&self, _owner: &UserId) -> Box<dyn ChangeSubscription> {
        Box::new(Never)
    }

    fn subscribe_to_project(&self, _id: ProjectId) -> Box<dyn ChangeSubscription> {
        Box::new(Never)
    }

    /// Subscribes to changes of an agent of a project.
    fn subscribe_to_agent(&self, _id: ProjectAgentId) -> Box<dyn ChangeSubscription> {
        Box::new(Never)
    }

    /// Subscribes to changes of an owner's brakes.
    fn subscribe_to_brakes(&self, _owner: &UserId) -> Box<dyn ChangeSubscription> {
        Box::new(Never)
    }

    /// Subscribes to changes of the sessions of all owners.
    fn subscribe_to_sessions(&self) -> Box<dyn SessionsSubscription> {
        Box::new(Never)
    }
}

struct Never;

#[async_trait]
impl SessionsSubscription for Never {
    async fn next(&mut self) -> Option<ChangedSessions> {
        None
    }
}

#[async_trait]
impl ChangeSubscription for Never {
    async fn changed(&mut self) -> bool {
        false
    }
}

#[async_trait]
pub trait ChangeSubscription: Send {
    /// Waits until the journal has changed since the last call. Returns false when the server shuts down.
    async fn changed(&mut self) -> bool;
}

/// What changed since the last call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedSessions {
    Sessions(Vec<AgentSessionId>),
    /// The subscriber was too slow: any session may have changed.
    Missed,
}

#[async_trait]
pub trait SessionsSubscription: Send {
    /// Waits for the next change. Returns `None` when the server shuts down. Dropping the future loses nothing.
    async fn next(&mut self) -> Option<ChangedSessions>;
}
