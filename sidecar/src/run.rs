//! `run`: one sidecar process from start to exit.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::CommandId;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::event::SessionEnd;
use pilothouse_wire::launch::{LaunchRequest, SidecarLaunch};
use pilothouse_wire::secrets::VARIABLE;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::acp::Acp;
use crate::adapter::{Adapter, Refusal};
use crate::batching::BatchWindow;
use crate::broker::{Broker, BrokerError, Purpose};
use crate::claude::Claude;
use crate::exit::Exit;
use crate::faults::Faults;
use crate::heartbeat;
use crate::host::{AfterCommand, Host, HostEvent};
use crate::kit::deferral::wait_until;
use crate::lease::Lease;
use crate::link::Link;
use crate::listener::Listener;
use crate::native::Native;
use crate::offline::{Offline, Reason};
use crate::process::{self, AgentUser, Processes};
use crate::publisher::{Connection, PublishError, Publisher};
use crate::retry::Backoff;
use crate::run_dir::{RunDir, RunDirError, SessionLock, until_space};
use crate::runner::Runner;
use crate::script::Script;
use crate::secrets;
use crate::shim::Shim;
use crate::spool::{Outgoing, Sealer, Spool, SpoolError};
use crate::unreported;

/// Lower bound of the time for the remaining events at exit, if a test shortens the heartbeat.
const MIN_FLUSH: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run directory cannot be used.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("failed to create the broker client")]
    Broker(#[source] BrokerError),
    #[error("there is no adapter `{0}`")]
    UnknownAdapter(String),
    #[error("failed to install signal handlers")]
    Signals(#[source] std::io::Error),
    /// The lease file cannot be written.
    #[error("failed to write the lease file")]
    Lease(#[source] std::io::Error),
    /// The path of the sidecar's own program, which is also the guard, is unknown.
    #[error("failed to find the program of the sidecar")]
    Guard(#[source] std::io::Error),
}

/// The time limit of the brief for the run.
fn time_limit(request: &LaunchRequest) -> Option<Duration> {
    let limits = request.workspace.as_ref()?.resource_limits?;
    limits.timeout_ms.map(Duration::from_millis)
}

fn adapter(request: &LaunchRequest, faults: &Faults) -> Result<Box<dyn Adapter>, RunError> {
    let governed = request.authorize_tools;
    match request.adapter.as_str() {
        Script::NAME => Ok(Box::new(Script::new(faults.clone(), governed))),
        Claude::NAME => Ok(Box::new(Claude)),
        Native::NAME => Ok(Box::new(Native::new(governed))),
        Acp::NAME => Ok(Box::new(Acp)),
        Shim::NAME => Ok(Box::new(Shim)),
        other => Err(RunError::UnknownAdapter(other.to_owned())),
    }
}

enum End {
    /// By a stop command or a signal.
    Stopped,
    /// No publish was accepted for the length of the lease.
    LeaseExpired,
    Rejected,
}

/// Runs the sidecar of a run directory until it ends. `user` is the agent's user, if it differs from the sidecar's.
pub async fn run(path: &Path, user: Option<AgentUser>) -> Result<Exit, RunError> {
    let dir = match RunDir::lock(path) {
        Err(RunDirError::Locked(_)) => return Ok(Exit::Locked),
        other => other?,
    };
    if dir.is_over() {
        warn!("the runtime has already closed this run");
        return Ok(Exit::Locked);
    }
    let launch = Arc::new(dir.launch()?);
    process::shut_off();
    unreported::begin(&launch);
    let session_lock = SessionLock::share(Path::new(&launch.session_home))?;
    let lease = Lease::begin(launch.request.lease(), &dir.lease_path()).map_err(RunError::Lease)?;
    let processes = Processes::of_run(&launch, user)
        .map_err(RunError::Guard)?
        .leased(lease.file())
        .locking(session_lock.as_ref().map(|lock| lock.path().to_owned()));
    let secrets = secrets::of_launch(&launch.request, std::env::var(VARIABLE).ok().as_deref());
    let faults = Faults::default();
    let adapter = Box::new(Runner::wrap(adapter(&launch.request, &faults)?));
    let broker = Broker::new(&launch, Purpose::Run).map_err(RunError::Broker)?;
    let spool = until_space(|| Spool::open(&dir.spool_path(), Sealer::new(&launch)))?;

    let restarted = spool.last_sequence().await? > 0;
    if !restarted {
        let ready = RawEvent::SidecarReady {
            sidecar_version: env!("CARGO_PKG_VERSION").into(),
            adapter: adapter.name().into(),
            capabilities: adapter.capabilities(),
        };
        spool.append(Outgoing::event(ready)?).await?;
    }
    let (processes, no_secrets) = match secrets {
        Ok(secrets) => {
            for secret in secrets.values() {
                spool.redactor().keep(secret);
            }
            (processes.with_secrets(secrets), None)
        }
        Err(missing) => (processes, Some(missing)),
    };
    let (mut host, abandoned) =
        Host::new(Arc::clone(&launch), spool.clone(), adapter, processes, lease.clone());
    if let Some(missing) = no_secrets {
        warn!(missing, "the agent cannot start");
        host.refuse_agent(missing);
    }
    let connection = Connection { link: Arc::default(), lease };
    let mut sidecar = Sidecar::start(&launch, spool, broker, faults, connection, host, abandoned)?;
    let end = match if restarted { sidecar.recover().await? } else { AfterCommand::Continue } {
        AfterCommand::Continue => sidecar.run_until_end().await?,
        AfterCommand::End => End::Stopped,
    };
    sidecar.finish(end).await
}

struct Sidecar {
    spool: Spool,
    host: Host,
    connection: Connection,
    offline: Arc<Offline>,
    heartbeat: Duration,
    commands: mpsc::UnboundedReceiver<IssuedCommand>,
    abandoned: mpsc::UnboundedReceiver<CommandId>,
    /// Publisher, listener and heartbeat. One of them returns only if the run cannot continue.
    tasks: JoinSet<PublishError>,
    window: BatchWindow,
    drained: watch::Receiver<bool>,
    /// The end of the run's time limit.
    ends_at: Option<Instant>,
    terminate: Signal,
    interrupt: Signal,
}

impl Sidecar {
    fn start(
        launch: &SidecarLaunch,
        spool: Spool,
        broker: Broker,
        faults: Faults,
        connection: Connection,
        host: Host,
        abandoned: mpsc::UnboundedReceiver<CommandId>,
    ) -> Result<Self, RunError> {
        let (taken, commands) = mpsc::unbounded_channel();
        let heartbeat = seconds(launch.heartbeat_seconds);
        let backoff = Backoff::broker(heartbeat);
        let window = match &broker {
            Broker::Gateway(_) => BatchWindow::default(),
            Broker::Sqs(_) => BatchWindow::of_run(heartbeat),
        };
        let (publisher, drained) = Publisher::new(
            spool.clone(),
            broker.clone(),
            window.clone(),
            connection.clone(),
            faults.clone(),
            backoff.clone(),
        );
        let listener = Listener {
            broker: broker.clone(),
            spool: spool.clone(),
            window: window.clone(),
            faults: faults.clone(),
            backoff,
            taken,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(publisher.run());
        tasks.spawn(listener.run());
        if let Broker::Gateway(gateway) = &broker {
            tasks.spawn(host.drafts().clone().publish(gateway.clone()));
        }
        let (sealer, beating) = (spool.sealer().clone(), connection.clone());
        let held = spool.waiting_for_space();
        tasks.spawn(async move { heartbeat::run(broker, sealer, heartbeat, &beating, faults, held).await });
        let offline = host.offline();
        Ok(Self {
            spool,
            host,
            offline,
            connection,
            heartbeat,
            commands,
            abandoned,
            tasks,
            window,
            drained,
            ends_at: time_limit(&launch.request).map(|time| Instant::now() + time),
            terminate: signal(SignalKind::terminate()).map_err(RunError::Signals)?,
            interrupt: signal(SignalKind::interrupt()).map_err(RunError::Signals)?,
        })
    }

    /// Recovers after an earlier process of this run died: an agent that it started is lost, and unfinished commands
    /// are executed.
    async fn recover(&mut self) -> Result<AfterCommand, SpoolError> {
        warn!("an earlier process of this run died");
        if self.spool.begun().await? {
            self.host.mark_agent_lost();
            let end = SessionEnd {
                is_error: true,
                reason: "agent_lost".into(),
                message: Some("the sidecar died and its agent with it".into()),
                output: None,
            };
            self.spool.append(Outgoing::event(RawEvent::SessionEnd(end))?).await?;
        }
        for issued in self.spool.unfinished().await? {
            if self.host.execute(issued).await? == AfterCommand::End {
                return Ok(AfterCommand::End);
            }
        }
        Ok(AfterCommand::Continue)
    }

    /// Ends the agent at the time limit. The control plane then stops the run.
    async fn time_limit_reached(&mut self) -> Result<(), SpoolError> {
        self.ends_at = None;
        self.host.stop_agent().await?;
        let end = SessionEnd {
            is_error: true,
            reason: "time_over".into(),
            message: Some("the time limit of the brief (`resourceLimits.timeoutMs`) is over".into()),
            output: None,
        };
        self.spool.append(Outgoing::event(RawEvent::SessionEnd(end))?).await.map(drop)
    }

    async fn run_until_end(&mut self) -> Result<End, SpoolError> {
        loop {
            let held = self.host.held();
            // Waits before the release, so that the control plane learns of the spend and pauses the agent.
            let wait = if held == Some(Reason::Cap) { self.heartbeat * 2 } else { Duration::ZERO };
            tokio::select! {
                () = wait_until(self.ends_at) => self.time_limit_reached().await?,
                () = self.connection.lease.expired() => return Ok(End::LeaseExpired),
                Some(issued) = self.commands.recv() => {
                    // The lease may have expired during a suspension, before the timer fires.
                    if self.connection.lease.is_expired() {
                        return Ok(End::LeaseExpired);
                    }
                    if self.host.execute(issued).await? == AfterCommand::End {
                        return Ok(End::Stopped);
                    }
                }
                Some(id) = self.abandoned.recv() => self.host.refuse(id, Refusal::no_agent()).await?,
                next_event = self.host.next_event() => match next_event {
                    HostEvent::Ended(ended) => {
                        info!("the agent has ended");
                        self.host.record_agent_end(ended).await?;
                    }
                    HostEvent::Validated(id, result) => self.host.publish_result(id, *result).await?,
                },
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(PublishError::Spool(e)) => return Err(e),
                    Ok(PublishError::LeaseExpired) => return Ok(End::LeaseExpired),
                    Ok(e) => {
                        error!(error = &e as &dyn std::error::Error, "the run ends");
                        return Ok(End::Rejected);
                    }
                    Err(e) => {
                        error!(error = &e as &dyn std::error::Error, "a task of the sidecar failed");
                        return Err(SpoolError::Gone);
                    }
                },
                reason = self.offline.reached(&self.connection.link), if self.host.can_pause_agent() => {
                    self.host.hold(reason).await?;
                }
                () = wait_until_online(&self.connection.link, self.drained.clone(), wait), if held.is_some() => {
                    self.host.release().await?;
                }
                _ = self.terminate.recv() => return self.stop_on_signal().await,
                _ = self.interrupt.recv() => return self.stop_on_signal().await,
            }
        }
    }

    async fn stop_on_signal(&mut self) -> Result<End, SpoolError> {
        self.host.stop_agent().await?;
        self.notice("terminated", "the sidecar received a termination signal and stopped its agent").await?;
        Ok(End::Stopped)
    }

    async fn notice(&self, name: &str, summary: &str) -> Result<(), SpoolError> {
        let notice = RawEvent::Notice { name: name.into(), summary: summary.into(), detail: None };
        self.spool.append(Outgoing::event(notice)?).await.map(drop)
    }

    async fn finish(mut self, end: End) -> Result<Exit, RunError> {
        if let End::LeaseExpired = end {
            error!("the lease has expired without a publish; the agent is stopped");
            self.host.stop_agent().await?;
            let summary =
                "nothing could be published for as long as the lease of this run, so the agent was stopped";
            self.notice("lease_expired", summary).await?;
            // `drain` sends the remaining events later, without an agent.
            return Ok(Exit::LeaseExpired);
        }
        if let End::Rejected = end {
            self.host.stop_agent().await?;
            return Ok(Exit::Rejected);
        }
        while let Ok(id) = self.abandoned.try_recv() {
            self.host.refuse(id, Refusal::no_agent()).await?;
        }
        let drained = self.flush().await?;
        Ok(match drained {
            Ok(true) => Exit::Done,
            Ok(false) => Exit::Undrained,
            Err(()) => Exit::Rejected,
        })
    }

    /// Waits until all events are sent, for at most four heartbeat intervals (one minute by default).
    async fn flush(&mut self) -> Result<Result<bool, ()>, SpoolError> {
        self.window.close();
        let deadline = tokio::time::sleep((self.heartbeat * 4).max(MIN_FLUSH));
        tokio::pin!(deadline);
        loop {
            // Marked as seen before the count, so that a later change is not missed.
            self.drained.borrow_and_update();
            if self.spool.unsent().await? == 0 {
                return Ok(Ok(true));
            }
            tokio::select! {
                _ = self.drained.changed() => {}
                Some(Ok(ended)) = self.tasks.join_next() => match ended {
                    PublishError::Rejected(_) => return Ok(Err(())),
                    PublishError::LeaseExpired => return Ok(Ok(false)),
                    PublishError::Spool(e) => return Err(e),
                },
                () = &mut deadline => return Ok(Ok(false)),
            }
        }
    }
}

/// Waits until the control plane is reachable and has all events of the outage, then for `wait`.
async fn wait_until_online(link: &Link, mut drained: watch::Receiver<bool>, wait: Duration) {
    link.online().await;
    // The sender lives as long as the sidecar, so this cannot fail.
    let _ = drained.wait_for(|drained| *drained).await;
    tokio::time::sleep(wait).await;
}

/// Converts a time of the launch file. Values that are no positive duration become one second.
pub(crate) fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).ok().filter(|d| !d.is_zero()).unwrap_or(Duration::from_secs(1))
}
