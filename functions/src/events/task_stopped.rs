//! Handles `ECS Task State Change` events with the status `STOPPED`: the run of the task ended. A rule of `EventBridge` delivers
//! the events.
//!
//! ECS delivers them at least once, late and in any order. A run whose event is lost still ends by decision 13.

use pilothouse_app::App;
use pilothouse_app::function::requirements::TASK_STOPPED;
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::run_exit::RunExitReporter;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::RunEvents as _;
use pilothouse_runtime::ecs::{CONTAINER, session_of};
use pilothouse_wire::launch::RunExit;
use serde::Deserialize;

pub const FUNCTION: EventFunction = EventFunction::new(
    "runs-task-stopped",
    &[Subscription::task_stopped(|ctx, event| {
        Box::pin(async move {
            report_stopped_task(&ctx.app, serde_json::from_value(event).map_err(Problem::internal)?).await
        })
    })],
    TASK_STOPPED,
)
.summary("Report stopped ECS tasks to the intake");

/// The event, limited to the fields that are used.
#[derive(Debug, Deserialize)]
pub struct TaskStateChange {
    pub detail: Task,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub task_arn: String,
    /// The status of the task. `STOPPED` is final.
    pub last_status: String,
    /// Identifies the session.
    #[serde(default)]
    pub group: Option<String>,
    /// Identifies the run.
    #[serde(default)]
    pub started_by: Option<String>,
    #[serde(default)]
    pub stopped_reason: Option<String>,
    #[serde(default)]
    pub containers: Vec<Container>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// The name in the task definition.
    pub name: String,
    /// Absent when the container never ran.
    #[serde(default)]
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub reason: Option<String>,
}

/// Reports the end of a run to the intake, behind all events that its sidecar sent. Ignores tasks that are not runs, and other
/// state changes.
pub async fn report_stopped_task(app: &App, change: TaskStateChange) -> Result<(), Problem> {
    let task = change.detail;
    if task.last_status != "STOPPED" {
        return Ok(());
    }
    let Some((session, run)) = whose(&task) else {
        tracing::debug!(task = task.task_arn, "ignored a stopped task that is not a run");
        return Ok(());
    };
    let exit = exit_of(&task);
    tracing::info!(%session, %run, task = task.task_arn, code = exit.code, detail = exit.detail, "a task has stopped");
    RunExitReporter::of(app).report_exit(session, run, exit).await.map_err(Problem::internal)
}

fn whose(task: &Task) -> Option<(AgentSessionId, RunId)> {
    Some((session_of(task.group.as_deref()?)?, task.started_by.as_deref()?.parse().ok()?))
}

/// Returns how the sidecar ended. With exit code 0 it has sent all its events.
fn exit_of(task: &Task) -> RunExit {
    let sidecar = task.containers.iter().find(|container| container.name == CONTAINER);
    let status = sidecar.and_then(|container| container.exit_code);
    // Container engines report signals like a shell: 128 plus the number.
    let signal = status.filter(|status| (129..=192).contains(status)).map(|status| status - 128);
    let code = status.filter(|_| signal.is_none());
    let what = match (code, signal) {
        (Some(0), _) => return RunExit { code, signal, drained: true, detail: None },
        (Some(code), _) => format!("the sidecar exited with code {code}"),
        (None, Some(signal)) => format!("the sidecar was ended by signal {signal}"),
        (None, None) => "the sidecar did not start".to_owned(),
    };
    let reasons = [task.stopped_reason.as_deref(), sidecar.and_then(|container| container.reason.as_deref())];
    let given = reasons.into_iter().flatten().filter(|reason| !reason.is_empty());
    let detail = given.fold(what, |what, reason| format!("{what}; {reason}"));
    RunExit { code, signal, drained: false, detail: Some(detail) }
}

#[cfg(test)]
mod tests {
    use pilothouse_runtime::ecs::group_of;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    const SESSION: u128 = 1;
    const RUN: u128 = 2;

    /// An event in the format of ECS.
    fn task(containers: &Value, reason: &str) -> Task {
        let change = json!({
            "version": "0",
            "source": "aws.ecs",
            "detail-type": "ECS Task State Change",
            "detail": {
                "clusterArn": "arn:aws:ecs:eu-central-1:111122223333:cluster/pilothouse",
                "taskArn": "arn:aws:ecs:eu-central-1:111122223333:task/pilothouse/c13b4cb40f1f4fe4a2971f76ae5a47ad",
                "desiredStatus": "STOPPED",
                "lastStatus": "STOPPED",
                "launchType": "FARGATE",
                "group": group_of(AgentSessionId::new(Uuid::from_u128(SESSION))),
                "startedBy": Uuid::from_u128(RUN).to_string(),
                "stopCode": "EssentialContainerExited",
                "stoppedReason": reason,
                "containers": containers,
                "overrides": { "containerOverrides": [{ "name": "sidecar" }] },
                "version": 5,
            },
        });
        serde_json::from_value::<TaskStateChange>(change).unwrap().detail
    }

    #[test]
    fn task_names_its_run_and_other_tasks_name_none() {
        let mut task = task(&json!([]), "");
        let ids = (AgentSessionId::new(Uuid::from_u128(SESSION)), RunId::new(Uuid::from_u128(RUN)));
        assert_eq!(whose(&task), Some(ids));
        task.group = Some("family:something-else".to_owned());
        assert_eq!(whose(&task), None);
    }

    #[test]
    fn successful_sidecar_exit_counts_as_drained() {
        let containers =
            json!([{ "name": "log-router", "exitCode": 1 }, { "name": "sidecar", "exitCode": 0 }]);
        let exit = exit_of(&task(&containers, "Essential container in task exited"));
        assert_eq!(exit, RunExit { code: Some(0), signal: None, drained: true, detail: None });
    }

    #[test]
    fn exit_codes_signals_and_failed_starts_are_distinguished() {
        let reported = |containers: Value, reason: &str| {
            let exit = exit_of(&task(&containers, reason));
            assert!(!exit.drained);
            (exit.code, exit.signal, exit.detail.unwrap())
        };
        assert_eq!(
            reported(json!([{ "name": "sidecar", "exitCode": 6 }]), "Essential container in task exited"),
            (Some(6), None, "the sidecar exited with code 6; Essential container in task exited".to_owned())
        );
        let killed = json!([{ "name": "sidecar", "exitCode": 137, "reason": "OutOfMemoryError: killed" }]);
        assert_eq!(
            reported(killed, ""),
            (None, Some(9), "the sidecar was ended by signal 9; OutOfMemoryError: killed".to_owned())
        );
        let missing = "CannotPullContainerError: not found";
        assert_eq!(
            reported(json!([{ "name": "sidecar" }]), missing),
            (None, None, format!("the sidecar did not start; {missing}"))
        );
    }
}
