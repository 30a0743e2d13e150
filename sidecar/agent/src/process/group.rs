//! A program that was started, with everything that it started.

use std::io::{self, PipeWriter, Write as _};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{Ending, guard, tree};

/// How long dropping waits for the end of what it ends. A guard takes a few milliseconds.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// A program and whatever it starts. Dropped, all of it ends: at once, and is mostly gone when that returns, unless its
/// [`Ending`](Ending) gives it time.
///
/// With a guard that is everything, and it ends when this process dies, too. Without one ([`Guard::GroupAlone`](super::Guard)) it is
/// the process group.
#[derive(Debug)]
pub struct Group {
    child: Child,
    reins: Reins,
    /// Whether it ends at once when it is let go of.
    at_once: bool,
}

/// What a [`Group`] can be told by others than the one who waits for it. Once it has ended, nothing of it does anything.
#[derive(Debug, Clone)]
pub struct Reins(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    /// The guard's, or that of the program, which leads a group.
    id: Pid,
    by: By,
    ended: bool,
}

/// What it is ended by.
#[derive(Debug)]
enum By {
    /// None: it was let go of.
    Guard(Option<PipeWriter>),
    Group,
}

impl Group {
    pub(super) fn new(child: Child, leash: Option<PipeWriter>, ending: Ending) -> io::Result<Self> {
        let id = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .ok_or_else(|| io::Error::other("a process without an id"))?;
        let by = leash.map_or(By::Group, |leash| By::Guard(Some(leash)));
        let held = Held { id: Pid::from_raw(id), by, ended: false };
        let reins = Reins(Arc::new(Mutex::new(held)));
        Ok(Self { child, reins, at_once: ending.grace.is_zero() })
    }

    /// For whoever else may end or stop it.
    pub fn reins(&self) -> Reins {
        self.reins.clone()
    }

    /// Its standard input, once, when that was asked for.
    pub const fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, once, when that was asked for.
    pub const fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, once, when that was asked for.
    pub const fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the program has ended and, with a guard, nothing is left of what it started. May be cancelled.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.reins.held().ended = true;
        Ok(status)
    }

    /// Asks it to end, and kills what has not after `grace`. Nothing of it is left when this returns.
    pub async fn end(mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.reins.terminate();
        if let Ok(status) = timeout(grace, self.wait()).await {
            return status;
        }
        self.reins.kill();
        self.wait().await
    }

    /// Waits for its end; all of it ends when the handle is dropped.
    pub(crate) fn attended(mut self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            _ = self.wait().await;
        }))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.reins.let_go() && self.at_once {
            let deadline = Instant::now() + DROP_LIMIT;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Reins {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all of it is gone, and somebody has seen it.
    pub fn has_ended(&self) -> bool {
        self.held().ended
    }

    /// Asks the program and its group to end.
    pub fn terminate(&self) {
        self.held().say(guard::TERMINATE, Signal::SIGTERM);
    }

    /// Ends all of it.
    pub fn kill(&self) {
        let mut held = self.held();
        held.say(guard::KILL, Signal::SIGKILL);
        held.wake();
    }

    /// Nobody listens to what is left once the program has ended: it need not [linger](Ending::linger).
    pub fn hush(&self) {
        let mut held = self.held();
        if matches!(held.by, By::Guard(_)) {
            held.say(guard::HUSH, Signal::SIGTERM);
        }
    }

    /// Stops all of it where it is; the guard goes on.
    pub fn pause(&self) {
        let held = self.held();
        if held.ended {
            return;
        }
        if matches!(held.by, By::Group) {
            _ = kill(held.id, Signal::SIGSTOP);
        }
        tree::stop_below(held.id);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        let held = self.held();
        if !held.ended {
            tree::go_on_below(held.id);
            held.wake();
        }
    }
}

impl Reins {
    /// Its handle is dropped. Answers whether there is a guard whose end is near.
    fn let_go(&self) -> bool {
        let mut held = self.held();
        let had_ended = held.ended;
        match &mut held.by {
            // What was left in the group when its program ended ends here.
            By::Group => _ = killpg(held.id, Signal::SIGKILL),
            By::Guard(leash) => drop(leash.take()),
        }
        held.wake();
        held.ended = true;
        matches!(held.by, By::Guard(_)) && !had_ended
    }
}

impl Held {
    fn say(&mut self, order: u8, signal: Signal) {
        if self.ended {
            return;
        }
        match &mut self.by {
            // A guard that is gone needs no order.
            By::Guard(Some(leash)) => _ = leash.write_all(&[order]),
            By::Guard(None) => {}
            By::Group => _ = killpg(self.id, signal),
        }
    }

    /// A guard that somebody has stopped does its work all the same.
    fn wake(&self) {
        if !self.ended {
            _ = kill(self.id, Signal::SIGCONT);
        }
    }
}
