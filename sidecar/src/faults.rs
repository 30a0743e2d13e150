//! Faults that a script asks the sidecar itself for. Nothing here happens unless a script says so.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_domain::CommandId;
use pilothouse_wire::command::IssuedCommand;
use tokio::time::{Instant, sleep_until};

use crate::link::Link;

/// How long a command is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignore {
    /// Each attempt.
    Always,
    /// The first attempt that comes; the next one is carried out.
    Once,
}

#[derive(Debug, Default)]
struct Armed {
    silent_until: Option<Instant>,
    ignore_next: HashMap<String, Ignore>,
    ignored: HashSet<CommandId>,
}

/// The faults that are armed, shared by the script and what it disturbs.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Armed>>);

impl Faults {
    fn armed(&self) -> MutexGuard<'_, Armed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Neither events nor heartbeats leave for `time`.
    pub fn silence(&self, time: Duration) {
        self.armed().silent_until = Some(Instant::now() + time);
    }

    /// The next command of that name is treated as if it never came.
    pub fn ignore(&self, command: &str, how: Ignore) {
        self.armed().ignore_next.insert(command.to_owned(), how);
    }

    /// Waits while silence is asked for. A chosen silence is no isolation.
    pub async fn while_silent(&self, link: &Link) {
        while let Some(until) = self.silent_until() {
            link.excused(until);
            sleep_until(until).await;
        }
    }

    fn silent_until(&self) -> Option<Instant> {
        self.armed().silent_until.filter(|until| *until > Instant::now())
    }

    /// Whether this attempt of a command is to be ignored.
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
