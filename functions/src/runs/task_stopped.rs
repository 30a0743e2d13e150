//! `ECS Task State Change` with the status `STOPPED`: the run of the task is over. Comes from a rule of `EventBridge`.
//!
//! ECS says it at least once and in any order, and may be late; a run that nobody hears of ends by ruling 13 all the same.

use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::RunEvents as _;
use pilothouse_runtime::ecs::{CONTAINER, session_of};
use pilothouse_wire::launch::RunExit;
use serde::Deserialize;

use crate::app::App;
use crate::edge::Problem;
use crate::workers::Ends;

/// The event, as far as it is read.
#[derive(Debug, Deserialize)]
pub struct TaskStateChange {
    /// The task.
    pub detail: Task,
}

/// A task of ECS, as its events show it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its ARN.
    pub task_arn: String,
    /// How far it is: `STOPPED` is the end.
    pub last_status: String,
    /// Names the session.
    #[serde(default)]
    pub group: Option<String>,
    /// Names the run.
    #[serde(default)]
    pub started_by: Option<String>,
    /// A sentence of ECS, why it ended.
    #[serde(default)]
    pub stopped_reason: Option<String>,
    /// What ran in it.
    #[serde(default)]
    pub containers: Vec<Container>,
}

/// A container of a task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Its name in the task definition.
    pub name: String,
    /// How it exited; nothing when it never ran.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// A sentence of ECS, what went wrong with it.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Puts the runtime's signed word that the run is over behind everything that its sidecar has sent. Tasks that are no
/// runs, and changes that are no ends, are passed over.
pub async fn handle(app: &App, change: TaskStateChange) -> Result<(), Problem> {
    let task = change.detail;
    if task.last_status != "STOPPED" {
        return Ok(());
    }
    let Some((session, run)) = whose(&task) else {
        tracing::debug!(task = task.task_arn, "a task of something else has stopped");
        return Ok(());
    };
    let exit = exit_of(&task);
    tracing::info!(%session, %run, task = task.task_arn, code = exit.code, detail = exit.detail, "a task has stopped");
    Ends::of(app).exited(session, run, exit).await.map_err(Problem::internal)
}

fn whose(task: &Task) -> Option<(AgentSessionId, RunId)> {
    Some((session_of(task.group.as_deref()?)?, task.started_by.as_deref()?.parse().ok()?))
}

/// How the sidecar ended. With code 0 it has sent everything that it had.
fn exit_of(task: &Task) -> RunExit {
    let sidecar = task.containers.iter().find(|container| container.name == CONTAINER);
    let status = sidecar.and_then(|container| container.exit_code);
    // As a shell has it, which is how container engines report signals.
    let signal = status.filter(|status| (129..=192).contains(status)).map(|status| status - 128);
    let code = status.filter(|_| signal.is_none());
    let what = match (code, signal) {
        (Some(0), _) => return RunExit { code, signal, drained: true, detail: None },
        (Some(code), _) => format!("the sidecar exited with code {code}"),
        (None, Some(signal)) => format!("the sidecar was ended by signal {signal}"),
        (None, None) => "the sidecar did not start".to_owned(),
    };
    let reasons = [task.stopped_reason.as_deref(), sidecar.and_then(|container| container.reason.as_deref())];
    let told = reasons.into_iter().flatten().filter(|reason| !reason.is_empty());
    let detail = told.fold(what, |what, reason| format!("{what}; {reason}"));
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

    /// An event in the shape of ECS's own.
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
    fn the_task_names_its_run_and_another_one_none() {
        let mut task = task(&json!([]), "");
        let ids = (AgentSessionId::new(Uuid::from_u128(SESSION)), RunId::new(Uuid::from_u128(RUN)));
        assert_eq!(whose(&task), Some(ids));
        task.group = Some("family:something-else".to_owned());
        assert_eq!(whose(&task), None);
    }

    #[test]
    fn a_sidecar_that_ended_well_has_sent_everything() {
        let containers =
            json!([{ "name": "log-router", "exitCode": 1 }, { "name": "sidecar", "exitCode": 0 }]);
        let exit = exit_of(&task(&containers, "Essential container in task exited"));
        assert_eq!(exit, RunExit { code: Some(0), signal: None, drained: true, detail: None });
    }

    #[test]
    fn codes_signals_and_tasks_that_never_ran_are_told_apart() {
        let told = |containers: Value, reason: &str| {
            let exit = exit_of(&task(&containers, reason));
            assert!(!exit.drained);
            (exit.code, exit.signal, exit.detail.unwrap())
        };
        assert_eq!(
            told(json!([{ "name": "sidecar", "exitCode": 6 }]), "Essential container in task exited"),
            (Some(6), None, "the sidecar exited with code 6; Essential container in task exited".to_owned())
        );
        let killed = json!([{ "name": "sidecar", "exitCode": 137, "reason": "OutOfMemoryError: killed" }]);
        assert_eq!(
            told(killed, ""),
            (None, Some(9), "the sidecar was ended by signal 9; OutOfMemoryError: killed".to_owned())
        );
        let missing = "CannotPullContainerError: not found";
        assert_eq!(
            told(json!([{ "name": "sidecar" }]), missing),
            (None, None, format!("the sidecar did not start; {missing}"))
        );
    }
}
