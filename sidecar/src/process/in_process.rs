//! Runs work of the sidecar's own process with the agent's file access rights. Tools that access files for the agent
//! must have the rights of its other processes and no more, and the files that they create must belong to the agent.
//!
//! On Linux every thread has its own file system user and its own confinement. A dedicated thread and its child threads
//! do such work.

use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use pilothouse_agent::process::Confinement;

use super::AgentUser;

#[derive(Debug, Clone)]
pub enum Rights {
    OfUser(AgentUser),
    Confined(Confinement),
}

impl Rights {
    fn apply(&self) -> io::Result<()> {
        match self {
            Self::OfUser(user) => become_for_files(user),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Confined(confinement) => confinement.confine_thread(),
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            Self::Confined(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A thread with the agent's file access rights. It ends when its last handle is dropped.
#[derive(Debug, Clone)]
pub struct AgentThread {
    handle: Handle,
    starts_programs: bool,
    _held: std::sync::Arc<oneshot::Sender<()>>,
}

impl AgentThread {
    pub fn start(rights: Rights) -> io::Result<Self> {
        let (held, released) = oneshot::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        // The guard of a program that a confined thread starts is confined too, and could not confine the program.
        let starts_programs = matches!(rights, Rights::OfUser(_));
        thread::Builder::new().name("agent-files".into()).spawn(move || {
            let built = rights.apply().and_then(|()| {
                // Threads inherit the rights. For a user, each thread verifies them.
                let check = move || {
                    if let Rights::OfUser(_) = &rights {
                        drop(rights.apply());
                    }
                };
                Builder::new_current_thread().enable_all().on_thread_start(check).build()
            });
            match built {
                Ok(runtime) => {
                    let _ = sender.send(Ok(runtime.handle().clone()));
                    let _ = runtime.block_on(released);
                    runtime.shutdown_background();
                }
                Err(e) => drop(sender.send(Err(e))),
            }
        })?;
        let handle = receiver.recv().map_err(io::Error::other)??;
        Ok(Self { handle, starts_programs, _held: std::sync::Arc::new(held) })
    }

    pub const fn starts_programs(&self) -> bool {
        self.starts_programs
    }

    /// Runs `work` on the thread. Dropping the future cancels the work.
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
    // Both calls return the previous id, so a second call verifies the first. The group changes first, because the user
    // may lack the right to change it.
    setfsgid(user.gid());
    setfsuid(user.uid());
    if setfsgid(user.gid()) == user.gid() && setfsuid(user.uid()) == user.uid() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "failed to switch to the agent's user"))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn become_for_files(_: &AgentUser) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this platform has no file system user per thread"))
}
