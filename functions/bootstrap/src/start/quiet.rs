//! Ports without a function in Lambda.

use async_trait::async_trait;
use pilothouse_app::change_notifier::{ChangeNotifier, ChangeSubscription};
use pilothouse_domain::AgentSessionId;

/// No client follows a session within a function; the pushes queue serves connections.
pub(super) struct NoChanges;

struct NoSubscription;

impl ChangeNotifier for NoChanges {
    fn subscribe(&self, _: AgentSessionId) -> Box<dyn ChangeSubscription> {
        Box::new(NoSubscription)
    }
}

#[async_trait]
impl ChangeSubscription for NoSubscription {
    async fn changed(&mut self) -> bool {
        false
    }
}
