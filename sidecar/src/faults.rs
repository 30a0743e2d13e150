//! Faults of the sidecar itself, which only scripts inject.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_domain::CommandId;
use pilothouse_wire::command::IssuedCommand;
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignore {
    /// Every attempt.
    Always,
    Once,
}

#[derive(Debug, Default)]
struct Armed {
    silent_until: Option<Instant>,
    ignore_next: HashMap<String, Ignore>,
    ignored: HashSet<CommandId>,
}

/// The armed faults, which the script shares with the tasks that it disturbs.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Armed>>);

impl Faults {
    fn armed(&self) -> MutexGuard<'_, Armed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends no events and no heartbeats for `time`.
    pub fn silence(&self, time: Duration) {
        self.armed().silent_until = Some(Instant::now() + time);
    }

    /// Ignores the next command with that name.
    pub fn ignore(&self, command: &str, how: Ignore) {
        self.armed().ignore_next.insert(command.to_owned(), how);
    }

    /// Waits until the requested silence is over.
    pub async fn while_silent(&self) {
        while let Some(until) = self.silent_until() {
            sleep_until(until).await;
        }
    }

    fn silent_until(&self) -> Option<Instant> {
        self.armed().silent_until.filter(|until| *until > Instant::now())
    }

    pub fn ignores(&self, issued: &IssuedCommand) -> bool {
        let mut armed = self.armed();
        if armed.ignored.contains(&issued.command_id) {
            return true;
        }
        match armed.ignore_next.remove(issued.command.name()) {
            Some(Ignore::Always) => {
                armed.ignored.insert(issued.command_id);
                true
            }
            Some(Ignore::Once) => true,
            None => false,
        }
    }
}
