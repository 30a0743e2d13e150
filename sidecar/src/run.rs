//! `run`: one life of one sidecar.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::CommandId;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::event::SessionEnd;
use pilothouse_wire::launch::SidecarLaunch;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::acp::Acp;
use crate::adapter::{Adapter, Refusal};
use crate::broker::{Broker, BrokerError, Purpose};
use crate::claude::Claude;
use crate::exit::Exit;
use crate::faults::Faults;
use crate::heartbeat;
use crate::host::{Happened, Host, Next};
use crate::link::Link;
use crate::listener::Listener;
use crate::native::Native;
use crate::process::{self, AgentUser, Processes};
use crate::publisher::{PublishError, Publisher};
use crate::retry::Backoff;
use crate::run_dir::{RunDir, RunDirError};
use crate::runner::Runner;
use crate::script::Script;
use crate::spool::{Outgoing, Sealer, Spool, SpoolError};

/// A run that could not be carried on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder cannot be used.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The spool does not work.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// There is no client of the broker.
    #[error("the client of the broker cannot be made")]
    Broker(#[source] BrokerError),
    /// No adapter has that name.
    #[error("there is no adapter `{0}`")]
    UnknownAdapter(String),
    /// Signals cannot be handled.
    #[error("signals cannot be handled")]
    Signals(#[source] std::io::Error),
    /// This program cannot be found, which guards those of the agent.
    #[error("the program of the sidecar cannot be found")]
    Guard(#[source] std::io::Error),
}

/// The adapter that a launch names.
fn adapter(name: &str, faults: &Faults) -> Result<Box<dyn Adapter>, RunError> {
    match name {
        Script::NAME => Ok(Box::new(Script::new(faults.clone()))),
        Claude::NAME => Ok(Box::new(Claude)),
        Native::NAME => Ok(Box::new(Native)),
        Acp::NAME => Ok(Box::new(Acp)),
        other => Err(RunError::UnknownAdapter(other.to_owned())),
    }
}

/// Why the sidecar ends.
enum End {
    /// It was told to, by command or signal; the agent is stopped.
    Told,
    /// Nothing could be published for too long.
    Isolated,
    /// The broker refuses the run.
    Rejected,
}

/// Runs the sidecar of the folder until it ends. `user`: who its agent runs as, when that is another.
pub async fn run(path: &Path, user: Option<AgentUser>) -> Result<Exit, RunError> {
    let dir = match RunDir::lock(path) {
        Err(RunDirError::Locked(_)) => return Ok(Exit::Locked),
        other => other?,
    };
    if dir.is_over() {
        warn!("the runtime has closed this run already");
        return Ok(Exit::Locked);
    }
    let launch = Arc::new(dir.launch()?);
    process::shut_off();
    let processes = Processes::new(user).map_err(RunError::Guard)?;
    let faults = Faults::default();
    let adapter = Box::new(Runner::around(adapter(&launch.request.adapter, &faults)?));
    let broker = Broker::new(&launch, Purpose::Run).map_err(RunError::Broker)?;
    let spool = Spool::open(&dir.spool_path(), Sealer::new(&launch))?;

    let restarted = spool.last_sequence().await? > 0;
    if !restarted {
        let ready = RawEvent::SidecarReady {
            sidecar_version: env!("CARGO_PKG_VERSION").into(),
            adapter: adapter.name().into(),
            capabilities: adapter.capabilities(),
        };
        spool.append(Outgoing::event(ready)?).await?;
    }
    let (host, abandoned) = Host::new(Arc::clone(&launch), spool.clone(), adapter, processes);
    let mut sidecar = Sidecar::start(&launch, spool, broker, faults, host, abandoned)?;
    let end = match if restarted { sidecar.take_up().await? } else { Next::GoOn } {
        Next::GoOn => sidecar.until_end().await?,
        Next::End => End::Told,
    };
    sidecar.finish(end).await
}

struct Sidecar {
    spool: Spool,
    host: Host,
    link: Arc<Link>,
    isolation: Duration,
    commands: mpsc::UnboundedReceiver<IssuedCommand>,
    abandoned: mpsc::UnboundedReceiver<CommandId>,
    /// Publisher, listener and heartbeat: each ends only when the run cannot go on.
    tasks: JoinSet<PublishError>,
    drained: watch::Receiver<bool>,
    terminate: Signal,
    interrupt: Signal,
}

impl Sidecar {
    fn start(
        launch: &SidecarLaunch,
        spool: Spool,
        broker: Broker,
        faults: Faults,
        host: Host,
        abandoned: mpsc::UnboundedReceiver<CommandId>,
    ) -> Result<Self, RunError> {
        let link = Arc::new(Link::default());
        let (taken, commands) = mpsc::unbounded_channel();
        let isolation = seconds(launch.isolation_seconds);
        let backoff = Backoff::broker(isolation);
        let (publisher, drained) =
            Publisher::new(spool.clone(), broker.clone(), Arc::clone(&link), faults.clone(), backoff.clone());
        let listener =
            Listener { broker: broker.clone(), spool: spool.clone(), faults: faults.clone(), backoff, taken };
        let mut tasks = JoinSet::new();
        tasks.spawn(publisher.run());
        tasks.spawn(listener.run());
        let every = seconds(launch.heartbeat_seconds);
        let (sealer, beating) = (spool.sealer().clone(), Arc::clone(&link));
        tasks.spawn(async move {
            PublishError::Rejected(heartbeat::run(broker, sealer, every, &beating, faults).await)
        });
        Ok(Self {
            spool,
            host,
            link,
            isolation,
            commands,
            abandoned,
            tasks,
            drained,
            terminate: signal(SignalKind::terminate()).map_err(RunError::Signals)?,
            interrupt: signal(SignalKind::interrupt()).map_err(RunError::Signals)?,
        })
    }

    /// An earlier process of this run died. If its agent was begun, that is lost; what was not done is done now.
    async fn take_up(&mut self) -> Result<Next, SpoolError> {
        warn!("an earlier process of this run died");
        if self.spool.begun().await? {
            self.host.agent_was_lost();
            let end = SessionEnd {
                is_error: true,
                reason: "agent_lost".into(),
                message: Some("the sidecar died and its agent with it".into()),
                output: None,
            };
            self.spool.append(Outgoing::event(RawEvent::SessionEnd(end))?).await?;
        }
        for issued in self.spool.unfinished().await? {
            if self.host.execute(issued).await? == Next::End {
                return Ok(Next::End);
            }
        }
        Ok(Next::GoOn)
    }

    async fn until_end(&mut self) -> Result<End, SpoolError> {
        loop {
            tokio::select! {
                Some(issued) = self.commands.recv() => {
                    if self.host.execute(issued).await? == Next::End {
                        return Ok(End::Told);
                    }
                }
                Some(id) = self.abandoned.recv() => self.host.refuse(id, Refusal::no_agent()).await?,
                happened = self.host.happened() => match happened {
                    Happened::Ended(ended) => {
                        info!("the agent is over");
                        self.host.bury(ended).await?;
                    }
                    Happened::Validated(id, result) => self.host.tell(id, *result).await?,
                },
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(PublishError::Spool(e)) => return Err(e),
                    Ok(e) => {
                        error!(error = &e as &dyn std::error::Error, "the run ends");
                        return Ok(End::Rejected);
                    }
                    Err(e) => {
                        error!(error = &e as &dyn std::error::Error, "a task of the sidecar failed");
                        return Err(SpoolError::Gone);
                    }
                },
                () = self.link.isolated(self.isolation) => return Ok(End::Isolated),
                _ = self.terminate.recv() => return self.told_by_signal().await,
                _ = self.interrupt.recv() => return self.told_by_signal().await,
            }
        }
    }

    async fn told_by_signal(&mut self) -> Result<End, SpoolError> {
        self.host.stop_agent().await?;
        self.notice("terminated", "the sidecar was told to end by a signal, and stopped its agent").await?;
        Ok(End::Told)
    }

    async fn notice(&self, name: &str, summary: &str) -> Result<(), SpoolError> {
        let notice = RawEvent::Notice { name: name.into(), summary: summary.into(), detail: None };
        self.spool.append(Outgoing::event(notice)?).await.map(drop)
    }

    async fn finish(mut self, end: End) -> Result<Exit, RunError> {
        if let End::Isolated = end {
            error!(limit = ?self.isolation, "nothing could be published; the agent is stopped");
            self.host.stop_agent().await?;
            self.notice("isolated", "nothing could be published for too long, so the agent was stopped")
                .await?;
        }
        if let End::Rejected = end {
            self.host.stop_agent().await?;
            return Ok(Exit::Rejected);
        }
        while let Ok(id) = self.abandoned.try_recv() {
            self.host.refuse(id, Refusal::no_agent()).await?;
        }
        let drained = self.flush().await?;
        Ok(match (end, drained) {
            (End::Isolated, _) => Exit::Isolated,
            (_, Ok(true)) => Exit::Done,
            (_, Ok(false)) => Exit::Undrained,
            (_, Err(())) => Exit::Rejected,
        })
    }

    /// Waits until everything is sent, as long as a sidecar may be isolated.
    async fn flush(&mut self) -> Result<Result<bool, ()>, SpoolError> {
        let deadline = tokio::time::sleep(self.isolation);
        tokio::pin!(deadline);
        loop {
            // Before the count, so that what is sent after it is noticed.
            self.drained.borrow_and_update();
            if self.spool.unsent().await? == 0 {
                return Ok(Ok(true));
            }
            tokio::select! {
                _ = self.drained.changed() => {}
                Some(Ok(PublishError::Rejected(_))) = self.tasks.join_next() => return Ok(Err(())),
                () = &mut deadline => return Ok(Ok(false)),
            }
        }
    }
}

/// A time from a launch file; nonsense becomes a second.
pub(crate) fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).ok().filter(|d| !d.is_zero()).unwrap_or(Duration::from_secs(1))
}
