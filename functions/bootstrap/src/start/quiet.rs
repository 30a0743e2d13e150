//! Ports that have nothing to do here.

use async_trait::async_trait;
use pilothouse_domain::AgentSessionId;
use pilothouse_functions::stream::{Wake, Wakes};

/// Nobody follows a session within a function: connections are woken by the queue of pushes.
pub(super) struct NoWakes;

struct NoWake;

impl Wakes for NoWakes {
    fn watch(&self, _: AgentSessionId) -> Box<dyn Wake> {
        Box::new(NoWake)
    }
}

#[async_trait]
impl Wake for NoWake {
    async fn grown(&mut self) -> bool {
        false
    }
}
