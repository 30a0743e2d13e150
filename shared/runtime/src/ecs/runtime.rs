use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_ecs::Client;
use aws_sdk_ecs::error::SdkError;
use aws_sdk_ecs::operation::run_task::{RunTaskError, RunTaskOutput};
use aws_sdk_ecs::types::DesiredStatus;
use pilothouse_domain::project_agent::{SandboxCapability, WorkspaceOffer};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::LaunchRequest;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::port::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Most tasks of one description request (ECS).
const MAX_DESCRIBED_TASKS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EcsSettings {
    /// Name or ARN of the cluster.
    pub cluster: String,
    /// Family, family with revision, or ARN of the task definition. Its container [`CONTAINER`](super::CONTAINER) is the sidecar.
    pub task_definition: String,
    /// Subnets of the tasks' network interfaces. If empty, the task definition has its own network.
    pub subnets: Vec<String>,
    pub security_groups: Vec<String>,
    /// Whether the interfaces get public addresses. In a public subnet, tasks have no Internet access without them.
    pub public_addresses: bool,
    /// Whether the folders of sessions are on a volume that outlives tasks (decision 23).
    pub durable_workspace: bool,
    /// How long a sidecar keeps running without an accepted publish (decision 13).
    pub lease: Duration,
}

#[derive(Clone)]
pub struct EcsRuntime {
    pub(super) client: Client,
    pub(super) settings: EcsSettings,
    pub(super) url: String,
    secret: RootSecret,
}

#[derive(Debug, thiserror::Error)]
pub enum EcsError {
    /// ECS has no capacity, or the task cannot be placed.
    #[error("ECS started no task: {0}")]
    NoTask(String),
    /// The session requires a worker with certain labels.
    #[error("the session requires a worker, which ECS does not provide")]
    NoWorkers,
    #[error("ECS did not respond in time")]
    TimedOut,
    #[error("the request to ECS failed")]
    Service(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl EcsRuntime {
    /// Derives tokens from `secret`. `url` is the base URL of the control plane for sidecars. The client configures region,
    /// credentials and a dated behavior version.
    pub const fn new(client: Client, settings: EcsSettings, url: String, secret: RootSecret) -> Self {
        Self { client, settings, url, secret }
    }

    async fn tasks(&self, run: RunId, desired: DesiredStatus) -> Result<Vec<String>, EcsError> {
        let request = self
            .client
            .list_tasks()
            .cluster(&self.settings.cluster)
            .started_by(run.to_string())
            .desired_status(desired);
        // A run normally has one task, rarely two. One page has a hundred.
        Ok(response_to(request.send()).await?.task_arns.unwrap_or_default())
    }

    /// Whether any of these tasks still has running containers.
    async fn any_running(&self, tasks: Vec<String>) -> Result<bool, EcsError> {
        let tasks: Vec<_> = tasks.into_iter().take(MAX_DESCRIBED_TASKS).collect();
        let request = self.client.describe_tasks().cluster(&self.settings.cluster).set_tasks(Some(tasks));
        let described = response_to(request.send()).await?.tasks.unwrap_or_default();
        Ok(described.iter().any(|task| !matches!(task.last_status(), Some("STOPPED" | "DELETED"))))
    }

    async fn state_of(&self, run: RunId) -> Result<ProcessState, EcsError> {
        if !self.tasks(run, DesiredStatus::Running).await?.is_empty() {
            return Ok(ProcessState::Alive);
        }
        let stopped = self.tasks(run, DesiredStatus::Stopped).await?;
        Ok(if stopped.is_empty() {
            // Stopped long ago, or never started: ECS remembers stopped tasks for an hour. The lease decides.
            ProcessState::Unreachable
        } else if self.any_running(stopped).await? {
            // The task is stopping.
            ProcessState::Alive
        } else {
            ProcessState::Dead
        })
    }

    async fn stop_all(&self, run: RunId, reason: &str) -> Result<(), EcsError> {
        for task in self.tasks(run, DesiredStatus::Running).await? {
            info!(%run, task, reason, "stopping a task");
            let request = self.client.stop_task().cluster(&self.settings.cluster).task(task);
            response_to(request.reason(reason).send()).await?;
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
        let outcome = timeout(TIMEOUT, sent).await.map_err(|_| EcsError::TimedOut).and_then(started);
        outcome.map_err(|error| LaunchError::Unreachable(Box::new(error)))
    }

    /// ECS stops tasks in one way: it sends a signal, and kills the rest after the stop timeout of the task definition.
    async fn stop(&self, _: AgentSessionId, run: RunId, mode: StopMode) -> Result<(), StopError> {
        let reason = match mode {
            StopMode::Terminate => "the run was stopped",
            StopMode::Kill => "the run was killed",
        };
        let unreachable = |error| StopError::Unreachable { run, source: Box::new(error) };
        self.stop_all(run, reason).await.map_err(unreachable)
    }

    async fn state(&self, run: RunId) -> ProcessState {
        self.state_of(run).await.unwrap_or_else(|error| {
            warn!(%run, error = &error as &dyn std::error::Error, "failed to find out the state of a task");
            ProcessState::Unreachable
        })
    }

    /// The size and the image of a task are those of its definition. Its disk is not known here, so none is announced.
    fn workspace(&self) -> Option<WorkspaceOffer> {
        use SandboxCapability::{Git, NetworkExternal, Terminal};
        let capabilities = [Terminal, Git, NetworkExternal].into();
        Some(WorkspaceOffer { capabilities, ..WorkspaceOffer::default() })
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities {
            durable_workspace: self.settings.durable_workspace,
            lease: Some(self.settings.lease),
            placement: format!("ecs/{}", name_of(&self.settings.cluster)),
        }
    }
}

async fn response_to<T, E, F>(sent: F) -> Result<T, EcsError>
where
    E: std::error::Error + Send + Sync + 'static,
    F: Future<Output = Result<T, SdkError<E>>> + Send,
{
    match timeout(TIMEOUT, sent).await {
        Ok(response) => response.map_err(|error| EcsError::Service(Box::new(error))),
        Err(_) => Err(EcsError::TimedOut),
    }
}

/// Whether the task was started by this or an earlier request.
fn started(outcome: Result<RunTaskOutput, SdkError<RunTaskError>>) -> Result<(), EcsError> {
    let output = match outcome {
        Ok(output) => output,
        // The token was used before with other settings: the task exists.
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

fn name_of(cluster: &str) -> &str {
    cluster.rsplit('/').next().unwrap_or(cluster)
}
