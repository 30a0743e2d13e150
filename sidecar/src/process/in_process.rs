//! Work of the sidecar's own process with the agent's rights to files: tools that read and write files for the agent are to
//! be able to do what the agent's other processes can, and no more, and what they make is to be the agent's.
//!
//! On Linux each thread has a user of its own for files. One thread is set apart for such work, with those that it starts.

use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::AgentUser;

/// A thread whose access to files is the agent's. It ends when the last of its handles is dropped.
#[derive(Debug, Clone)]
pub struct AgentThread {
    handle: Handle,
    _held: std::sync::Arc<oneshot::Sender<()>>,
}

impl AgentThread {
    /// Starts it.
    pub fn start(user: &AgentUser) -> io::Result<Self> {
        let (held, released) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let user = user.clone();
        thread::Builder::new().name("agent-files".into()).spawn(move || {
            let on_start = user.clone();
            let built = become_for_files(&user).and_then(|()| {
                // Threads inherit it; asked for again, it is checked on each.
                let check = move || drop(become_for_files(&on_start));
                Builder::new_current_thread().enable_all().on_thread_start(check).build()
            });
            match built {
                Ok(runtime) => {
                    let _ = tell.send(Ok(runtime.handle().clone()));
                    let _ = runtime.block_on(released);
                    runtime.shutdown_background();
                }
                Err(e) => drop(tell.send(Err(e))),
            }
        })?;
        let handle = told.recv().map_err(io::Error::other)??;
        Ok(Self { handle, _held: std::sync::Arc::new(held) })
    }

    /// Does `work` there. Dropped, it is cut off.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        AbortOnDropHandle::new(self.handle.spawn(work)).await.map_err(io::Error::other)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn become_for_files(user: &AgentUser) -> io::Result<()> {
    use nix::unistd::{setfsgid, setfsuid};
    // Answers what was before; asked a second time, it tells whether the first worked. The group first: the user may not.
    setfsgid(user.gid());
    setfsuid(user.uid());
    if setfsgid(user.gid()) == user.gid() && setfsuid(user.uid()) == user.uid() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the agent's user cannot be taken on"))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn become_for_files(_: &AgentUser) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "users cannot be told apart within a process here"))
}
