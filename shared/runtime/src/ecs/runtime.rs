//! The runtime.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_ecs::Client;
use aws_sdk_ecs::error::SdkError;
use aws_sdk_ecs::operation::run_task::{RunTaskError, RunTaskOutput};
use aws_sdk_ecs::types::DesiredStatus;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::LaunchRequest;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::port::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many tasks are described at once (ECS).
const MOST_DESCRIBED: usize = 100;

/// Where tasks run, and as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EcsSettings {
    /// The cluster, by name or ARN.
    pub cluster: String,
    /// The task definition, by family, family and revision, or ARN. Its container [`CONTAINER`](super::CONTAINER) is
    /// the sidecar.
    pub task_definition: String,
    /// The subnets of the tasks' network interfaces. None: the task definition brings its own network.
    pub subnets: Vec<String>,
    /// The security groups of those interfaces.
    pub security_groups: Vec<String>,
    /// Whether the interfaces get public addresses: in a public subnet, tasks reach nothing without.
    pub public_addresses: bool,
    /// Whether sessions' folders are on a volume that outlives tasks (ruling 23).
    pub durable_workspace: bool,
}

/// Runs sidecars as tasks of one cluster.
#[derive(Clone)]
pub struct EcsRuntime {
    pub(super) client: Client,
    pub(super) settings: EcsSettings,
    /// Base address of the control plane, as sidecars reach it.
    pub(super) url: String,
    secret: RootSecret,
}

/// What ECS answered instead of a task.
#[derive(Debug, thiserror::Error)]
pub enum EcsError {
    /// There is no room, or nothing to run it on.
    #[error("ECS started no task: {0}")]
    NoTask(String),
    /// The session asks for a worker with certain labels.
    #[error("the session asks for a worker, and ECS has none")]
    NoWorkers,
    /// It did not answer in time.
    #[error("ECS did not answer in time")]
    Late,
    /// It refused, or could not be reached.
    #[error("ECS did not do it")]
    Service(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl EcsRuntime {
    /// Runs what `settings` say with tokens derived from `secret`; `url` is the base address of the control plane, as
    /// sidecars reach it. The client brings region, credentials and a dated
    /// behavior version.
    pub const fn new(client: Client, settings: EcsSettings, url: String, secret: RootSecret) -> Self {
        Self { client, settings, url, secret }
    }

    /// The tasks of a run that ECS wants in this state.
    async fn tasks(&self, run: RunId, desired: DesiredStatus) -> Result<Vec<String>, EcsError> {
        let request = self
            .client
            .list_tasks()
            .cluster(&self.settings.cluster)
            .started_by(run.to_string())
            .desired_status(desired);
        // A run has one task, or two after an accident: one page holds a hundred.
        Ok(answer(request.send()).await?.task_arns.unwrap_or_default())
    }

    /// Whether any of these tasks still has containers.
    async fn any_lives(&self, tasks: Vec<String>) -> Result<bool, EcsError> {
        let tasks: Vec<_> = tasks.into_iter().take(MOST_DESCRIBED).collect();
        let request = self.client.describe_tasks().cluster(&self.settings.cluster).set_tasks(Some(tasks));
        let described = answer(request.send()).await?.tasks.unwrap_or_default();
        Ok(described.iter().any(|task| !matches!(task.last_status(), Some("STOPPED" | "DELETED"))))
    }

    async fn state_of(&self, run: RunId) -> Result<ProcessState, EcsError> {
        if !self.tasks(run, DesiredStatus::Running).await?.is_empty() {
            return Ok(ProcessState::Alive);
        }
        let stopped = self.tasks(run, DesiredStatus::Stopped).await?;
        Ok(if stopped.is_empty() {
            ProcessState::Unknown
        } else if self.any_lives(stopped).await? {
            // It is being stopped, and may take its time.
            ProcessState::Alive
        } else {
            ProcessState::Dead
        })
    }

    async fn stop_all(&self, run: RunId, reason: &str) -> Result<(), EcsError> {
        for task in self.tasks(run, DesiredStatus::Running).await? {
            info!(%run, task, reason, "stopping a task");
            let request = self.client.stop_task().cluster(&self.settings.cluster).task(task);
            answer(request.reason(reason).send()).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl AgentRuntime for EcsRuntime {
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError> {
        let (session, run) = (request.session_id, request.run_id);
        if !request.worker_labels.is_empty() {
            return Err(LaunchError::Unreachable(Box::new(EcsError::NoWorkers)));
        }
        let token = self.secret.gateway_token(session, run);
        let sent = self.request(session, run, &token).send();
        let outcome = timeout(TIMEOUT, sent).await.map_err(|_| EcsError::Late).and_then(started);
        outcome.map_err(|error| LaunchError::Unreachable(Box::new(error)))
    }

    /// ECS knows one way to stop: it asks, and kills what is left after the stop timeout of the task definition.
    async fn stop(&self, _: AgentSessionId, run: RunId, mode: StopMode) -> Result<(), StopError> {
        let reason = match mode {
            StopMode::Terminate => "the run was told to end",
            StopMode::Kill => "the run is to end at once",
        };
        let unreachable = |error| StopError::Unreachable { run, source: Box::new(error) };
        self.stop_all(run, reason).await.map_err(unreachable)
    }

    async fn state(&self, run: RunId) -> ProcessState {
        self.state_of(run).await.unwrap_or_else(|error| {
            warn!(%run, error = &error as &dyn std::error::Error, "the state of a task is not known");
            ProcessState::Unknown
        })
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities {
            durable_workspace: self.settings.durable_workspace,
            placement: format!("ecs/{}", name_of(&self.settings.cluster)),
        }
    }
}

/// The answer to a request, within the time that it has.
async fn answer<T, E, F>(sent: F) -> Result<T, EcsError>
where
    E: std::error::Error + Send + Sync + 'static,
    F: Future<Output = Result<T, SdkError<E>>> + Send,
{
    match timeout(TIMEOUT, sent).await {
        Ok(answer) => answer.map_err(|error| EcsError::Service(Box::new(error))),
        Err(_) => Err(EcsError::Late),
    }
}

/// Whether a task was started, now or before.
fn started(outcome: Result<RunTaskOutput, SdkError<RunTaskError>>) -> Result<(), EcsError> {
    let output = match outcome {
        Ok(output) => output,
        // The token was used with other settings, before they were changed: the run has its task.
        Err(error) if error.as_service_error().is_some_and(RunTaskError::is_conflict_exception) => {
            return Ok(());
        }
        Err(error) => return Err(EcsError::Service(Box::new(error))),
    };
    if !output.tasks().is_empty() {
        return Ok(());
    }
    let reasons = output.failures().iter().map(|failure| {
        let [reason, detail] = [failure.reason(), failure.detail()].map(Option::unwrap_or_default);
        format!("{reason} {detail}").trim().to_owned()
    });
    Err(EcsError::NoTask(reasons.collect::<Vec<_>>().join("; ")))
}

/// The name of a cluster that is given by name or ARN.
fn name_of(cluster: &str) -> &str {
    cluster.rsplit('/').next().unwrap_or(cluster)
}
