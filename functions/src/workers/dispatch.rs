//! Central assignment: which worker runs what. Every change is one transaction under the versions that it was decided by
//! ([`pilothouse_store::workers`]), so that launches, heartbeats and claims may happen at the same time anywhere.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_broker::{Broker, Outgoing, QueueError};
use pilothouse_domain::{AgentSession, Deadlines, Timestamp};
use pilothouse_runtime::{ReportError, RunEvents as _};
use pilothouse_store::{
    Clock, Commit, CommitError, Loaded, Place, Placement, Store, StoreError, WorkerKey, WorkerRecord,
};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::{LaunchRequest, RunExit};
use pilothouse_wire::worker::{Order, StopOrder};

use super::Ends;
use crate::app::App;
use crate::edge::Problem;
use crate::queues;

/// How often a lost race is run again.
pub(super) const TRIES: u32 = 24;
/// Workers that are read at once.
const PAGE: usize = 100;
/// The label that names one worker (`worker/id` on a session).
const ID: &str = "id";

/// Assigns runs to workers.
#[derive(Clone)]
pub struct Dispatch {
    pub(super) store: Store,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) ends: Ends,
    pub(super) pace: Pace,
    clock: Clock,
}

/// How often a worker is heard, in proportion to when a run counts as silent (ruling 13).
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Time between two heartbeats: 15 s.
    pub heartbeat: Duration,
    /// Time after the last heartbeat after which a worker is given nothing more: 45 s.
    pub alive: Duration,
}

impl Pace {
    /// The pace under these deadlines.
    pub fn of(deadlines: &Deadlines) -> Self {
        Self { heartbeat: deadlines.silent / 6, alive: deadlines.silent / 2 }
    }
}

/// Why nothing was assigned, or not all of it. Trying again may work.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Others changed the same again and again.
    #[error("others are changing this at the same time")]
    Contended,
    /// The worker's queue failed.
    #[error("the worker could not be told")]
    Queue(#[from] QueueError),
    /// The end of a run could not be told.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl From<CommitError> for DispatchError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) => Self::Store(error),
            CommitError::Conflict
            | CommitError::AnswerExists
            | CommitError::MessageExists
            | CommitError::NameTaken => Self::Contended,
        }
    }
}

impl From<DispatchError> for Problem {
    fn from(error: DispatchError) -> Self {
        match error {
            DispatchError::Contended => Self::VersionConflict,
            DispatchError::Store(error) => error.into(),
            DispatchError::Queue(error) => Self::internal(error),
            DispatchError::Report(error) => Self::internal(error),
        }
    }
}

impl Dispatch {
    /// Assignment over a store and the queues of workers. `secret` signs the word that a run is over.
    pub fn new(
        store: Store,
        broker: Arc<dyn Broker>,
        secret: RootSecret,
        deadlines: &Deadlines,
        clock: Clock,
    ) -> Self {
        let ends = Ends::new(Arc::clone(&broker), secret, Arc::clone(&clock));
        Self { store, broker, ends, pace: Pace::of(deadlines), clock }
    }

    /// With the engines of an app.
    pub fn of(app: &App) -> Self {
        Self::new(
            app.store.clone(),
            Arc::clone(&app.broker),
            app.secret.clone(),
            &app.deadlines,
            Arc::clone(&app.clock),
        )
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Whether a worker was heard lately.
    pub fn is_alive(&self, worker: &WorkerRecord) -> bool {
        worker.seen_at + self.pace.alive >= self.now()
    }

    /// Whether a worker takes more: not if it is silent, or about to end.
    pub(super) fn takes_more(&self, worker: &WorkerRecord) -> bool {
        self.is_alive(worker) && !worker.draining
    }

    /// Gives a run to a worker that can take it, or lets it wait for one. A run that was given or waits already is
    /// told to its worker again, or waits on.
    pub async fn launch(&self, request: LaunchRequest) -> Result<(), DispatchError> {
        for attempt in 0..TRIES {
            let Some(session) = self.session_of(&request).await? else { return Ok(()) };
            let placement = match self.store.placement(request.run_id).await? {
                None => Loaded::new(Placement {
                    owner: session.owner_id().clone(),
                    request: request.clone(),
                    place: Place::Waiting,
                }),
                Some(known) => match &known.value.place {
                    Place::Waiting => known,
                    Place::Given { worker, at } => return self.tell_launch(worker, &known.value, *at).await,
                    Place::Claimed { .. } | Place::Over { .. } => return Ok(()),
                },
            };
            match self.place(placement).await {
                Err(DispatchError::Contended) => self.pause(attempt).await,
                placed => return placed,
            }
        }
        Err(DispatchError::Contended)
    }

    async fn place(&self, placement: Loaded<Placement>) -> Result<(), DispatchError> {
        match self.choose(&placement.value).await? {
            Some(mut worker) => self.give(placement, &mut worker, None).await,
            None if placement.version > 0 => Ok(()), // it waits already
            None => {
                tracing::info!(run = %placement.value.request.run_id, "a launch waits for a worker");
                let mut commit = Commit::new();
                commit.placement(&placement)?;
                Ok(self.store.commit(commit).await?)
            }
        }
    }

    /// The worker that is to run it: where its session's folders are; else the least loaded of its owner; else the least
    /// loaded of those that serve everybody.
    async fn choose(&self, placement: &Placement) -> Result<Option<Loaded<WorkerRecord>>, DispatchError> {
        if let Some(home) = self.home_of(placement).await? {
            return Ok(Some(home).filter(|home| self.fits(&home.value, placement)));
        }
        let mut best = None;
        let mut after = None;
        loop {
            let page = self.store.workers(&placement.owner, PAGE, after).await?;
            best = self.least_loaded(best, page.items, placement);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        while best.is_none() {
            let page = self.store.shared_workers(PAGE, after).await?;
            best = self.least_loaded(best, page.items, placement);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(best)
    }

    fn least_loaded(
        &self,
        best: Option<Loaded<WorkerRecord>>,
        more: Vec<Loaded<WorkerRecord>>,
        placement: &Placement,
    ) -> Option<Loaded<WorkerRecord>> {
        let load = |worker: &Loaded<WorkerRecord>| {
            let WorkerRecord { runs, capacity, .. } = &worker.value;
            runs.len() * 1000 / (*capacity as usize).max(1)
        };
        best.into_iter()
            .chain(more.into_iter().filter(|worker| self.fits(&worker.value, placement)))
            .min_by_key(load)
    }

    /// The worker that has the session's folders, if there still is such a worker (ruling 23).
    pub(super) async fn home_of(
        &self,
        placement: &Placement,
    ) -> Result<Option<Loaded<WorkerRecord>>, DispatchError> {
        match self.store.home(placement.request.session_id).await? {
            Some(home) => Ok(self.store.worker(&home).await?),
            None => Ok(None),
        }
    }

    /// Whether a worker may and can run it now.
    pub(super) fn fits(&self, worker: &WorkerRecord, placement: &Placement) -> bool {
        let has = |(name, wanted): (&String, &String)| match name.as_str() {
            ID => worker.key.id.as_str() == wanted,
            name => worker.labels.get(name) == Some(wanted),
        };
        (worker.shared || worker.key.owner == placement.owner)
            && self.takes_more(worker)
            && worker.room() > 0
            && placement.request.worker_labels.iter().all(has)
    }

    /// Gives a run to a worker, taking it from another that has vanished, and tells it.
    pub(super) async fn give(
        &self,
        mut placement: Loaded<Placement>,
        to: &mut Loaded<WorkerRecord>,
        from: Option<Loaded<WorkerRecord>>,
    ) -> Result<(), DispatchError> {
        let (run, at) = (placement.value.request.run_id, self.now());
        let mut commit = Commit::new();
        if let Some(mut from) = from {
            from.value.runs.remove(&run);
            commit.worker(&from)?;
        }
        to.value.runs.insert(run);
        placement.value.place = Place::Given { worker: to.value.key.clone(), at };
        commit.worker(to)?;
        commit.placement(&placement)?;
        self.store.commit(commit).await?;
        to.version += 1;
        tracing::info!(%run, worker = %to.value.key.id, "a run is given to a worker");
        self.tell_launch(&to.value.key, &placement.value, at).await
    }

    /// Tells a worker that it was given a run. Told again of the same, it is not told twice.
    pub(super) async fn tell_launch(
        &self,
        worker: &WorkerKey,
        placement: &Placement,
        at: Timestamp,
    ) -> Result<(), DispatchError> {
        let request = placement.request.clone();
        let id = format!("launch-{}-{}", request.run_id, at.as_millis());
        let group = request.session_id.to_string();
        self.tell(worker, group, id, &Order::Launch { request }).await
    }

    /// Tells a worker to end a run.
    pub(super) async fn tell_stop(
        &self,
        worker: &WorkerKey,
        request: &LaunchRequest,
        mode: StopOrder,
    ) -> Result<(), DispatchError> {
        let (session_id, run_id) = (request.session_id, request.run_id);
        let id = match mode {
            StopOrder::Terminate => format!("terminate-{run_id}"),
            StopOrder::Kill => format!("kill-{run_id}"),
        };
        let order = Order::Stop { session_id, run_id, mode };
        match self.tell(worker, session_id.to_string(), id, &order).await {
            // The worker was removed: nobody is left to tell.
            Err(DispatchError::Queue(QueueError::NoSuchQueue(_))) => Ok(()),
            told => told,
        }
    }

    async fn tell(
        &self,
        worker: &WorkerKey,
        group: String,
        id: String,
        order: &Order,
    ) -> Result<(), DispatchError> {
        let body = serde_json::to_string(order).map_err(StoreError::Unwritable)?;
        let sent = self.broker.send(&queues::worker(worker), vec![Outgoing::new(group, id, body)]).await?;
        match sent.failed.into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(error.into()),
        }
    }

    /// The session of a request, as long as the run is its current one.
    pub(super) async fn session_of(
        &self,
        request: &LaunchRequest,
    ) -> Result<Option<AgentSession>, DispatchError> {
        let session = self.store.session(request.session_id).await?;
        Ok(session.filter(|session| session.run().is_some_and(|run| run.id == request.run_id)))
    }

    /// Tells that a run whose process nobody started, or nobody knows, is over.
    pub(super) async fn tell_over(&self, request: &LaunchRequest, why: &str) -> Result<(), DispatchError> {
        let exit = RunExit { code: None, signal: None, drained: true, detail: Some(why.to_owned()) };
        Ok(self.ends.exited(request.session_id, request.run_id, exit).await?)
    }

    pub(super) async fn pause(&self, attempt: u32) {
        tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
    }
}
