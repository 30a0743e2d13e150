//! Criteria of autonomous sessions, checked with real commands (S0 8.5, decision 36).

use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_domain::CommandId;
use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{Folders, Sidecar, message, playing, turn};

fn validation(criteria: Value, timeout_seconds: u64) -> Command {
    Command::RunValidation { criteria: serde_json::from_value(criteria).unwrap(), timeout_seconds }
}

fn criterion(command: &str) -> Value {
    json!({ "type": "CustomCommand", "customCommand": command })
}

fn coverage(command: &str, threshold: &str) -> Value {
    json!({ "type": "CoverageThreshold", "threshold": threshold, "customCommand": command })
}

/// The agent is between two turns.
async fn resting() -> (Gateway, Folders, Sidecar) {
    let (gateway, folders, sidecar) = playing(json!([turn(json!([{ "say": "Done." }]))])).await;
    gateway.sees("turn_completed").await;
    (gateway, folders, sidecar)
}

async fn results(gateway: &Gateway, id: CommandId) -> Vec<Value> {
    let body = gateway
        .until("a result", |gateway| {
            let of_it = |b: &Value| b["type"] == "validation_result" && b["commandId"] == id.to_string();
            gateway.delivered().into_iter().map(|e| e.body).find(of_it)
        })
        .await;
    body["results"].as_array().unwrap().clone()
}

async fn checked(gateway: &Gateway, criteria: Value) -> Vec<Value> {
    let id = gateway.send(validation(criteria, 60));
    results(gateway, id).await
}

/// The process that wrote its id to a file of the folder.
async fn process(gateway: &Gateway, file: &Path) -> Pid {
    let read = |_: &Gateway| std::fs::read_to_string(file).ok()?.trim().parse().ok();
    Pid::from_raw(gateway.until("a process id", read).await)
}

async fn until_gone(gateway: &Gateway, pid: Pid) {
    let gone = |_: &Gateway| (is_gone(pid)).then_some(());
    let polled = gateway.clone();
    for _ in 0..600 {
        if is_gone(pid) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    polled.until("the end of a process", gone).await;
}

/// The process may be a zombie that its new parent has not reaped.
fn is_gone(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None) == Err(Errno::ESRCH) || state.contains(") Z ")
}

#[tokio::test]
async fn each_criterion_is_met_or_has_a_reason() {
    let (gateway, folders, _sidecar) = resting().await;
    let of = |kind: &str, command: &str| json!({ "type": kind, "customCommand": command });
    let results = checked(
        &gateway,
        json!([
            of("TestsPassing", "true"),
            of("LintPassing", "echo one; echo two >&2; exit 3"),
            of("CustomCommand", "pwd; kill -TERM $$"),
            of("CustomCommand", "no-such-program"),
        ]),
    )
    .await;
    assert_eq!(results[0], json!({ "type": "TestsPassing", "passed": true }));
    assert_eq!(results[1]["type"], "LintPassing");
    assert_eq!(
        (&results[1]["passed"], &results[1]["output"]),
        (&json!(false), &json!("one\ntwo")),
        "both streams, in order"
    );
    assert_eq!(results[1]["reason"], "`echo one; echo two >&2; exit 3` failed with exit code 3: two");
    let reason = results[2]["reason"].as_str().unwrap();
    assert!(reason.contains("signal 15"), "{reason}");
    let folder = folders.root().canonicalize().unwrap();
    assert_eq!(results[2]["output"].as_str().unwrap(), folder.to_str().unwrap(), "the working directory");
    assert!(results[3]["reason"].as_str().unwrap().contains("exit code 127"), "{results:?}");
    assert!(gateway.story().iter().any(|s| s == "validation_ack received"));
}

#[tokio::test]
async fn coverage_is_read_from_command_output() {
    let (gateway, _folders, _sidecar) = resting().await;
    let mut own = coverage("echo 'cov=91.5 of 120%'", "91.5");
    own["coveragePattern"] = json!(r"cov=(\d+\.\d+)");
    let results = checked(
        &gateway,
        json!([
            coverage("echo 'TOTAL  120  12  90%'", "80"),
            coverage("echo 'TOTAL  120  12  71.5%'", "80"),
            coverage("echo 'all is well'", "80"),
            coverage("echo 'TOTAL 100%'; exit 1", "80"),
            own,
        ]),
    )
    .await;
    let passed: Vec<_> = results.iter().map(|r| r["passed"].as_bool().unwrap()).collect();
    assert_eq!(passed, [true, false, false, false, true]);
    assert_eq!(results[0]["coverage"], "90");
    assert_eq!(results[1]["reason"], "coverage is 71.5%, below 80%");
    assert_eq!(results[1]["coverage"], "71.5");
    assert_eq!(results[2]["reason"], "no coverage was found in the output of `echo 'all is well'`");
    assert_eq!(results[3]["coverage"], Value::Null, "a command that fails covers nothing");
    assert_eq!(results[4]["coverage"], "91.5");
}

#[tokio::test]
async fn validation_output_is_bounded_and_its_end_is_kept() {
    let (gateway, _folders, _sidecar) = resting().await;
    let results = checked(
        &gateway,
        json!([coverage(
            "echo first; yes 'a line of no interest' | head -n 200000; echo 'coverage: 88%'",
            "80"
        )]),
    )
    .await;
    assert_eq!((&results[0]["passed"], &results[0]["coverage"]), (&json!(true), &json!("88")));
    let output = results[0]["output"].as_str().unwrap();
    assert!(output.starts_with("first") && output.ends_with("coverage: 88%") && output.len() < 4000);
}

/// A command that exceeds the limit ends with all its descendants. Later criteria have no time left.
#[tokio::test]
async fn timeout_ends_all_processes_of_a_command() {
    let (gateway, folders, _sidecar) = resting().await;
    let file = folders.root().join("pid");
    let command = format!("sh -c 'echo $$ > {}; exec sleep 600' & echo begun; wait", file.display());
    let id = gateway.send(validation(json!([criterion(&command), criterion("true")]), 1));
    let pid = process(&gateway, &file).await;
    let results = results(&gateway, id).await;
    assert_eq!(results[0]["passed"], false);
    assert!(
        results[0]["reason"].as_str().unwrap().contains("did not end within the 1 seconds"),
        "{results:?}"
    );
    assert_eq!(results[0]["output"], "begun");
    assert_eq!(results.len(), 2);
    until_gone(&gateway, pid).await;
}

/// Background processes end with their command and do not delay the result.
#[tokio::test]
async fn leftovers_of_a_command_end_with_it() {
    let (gateway, folders, _sidecar) = resting().await;
    let file = folders.root().join("pid");
    let command = format!(
        "sh -c 'echo $$ > {0}; exec sleep 600' & while [ ! -s {0} ]; do :; done; echo over",
        file.display()
    );
    let results = checked(&gateway, json!([criterion(&command)])).await;
    assert_eq!((&results[0]["passed"], &results[0]["output"]), (&json!(true), &json!("over")));
    until_gone(&gateway, process(&gateway, &file).await).await;
}

/// The agent's next turn, a request or a stop cancels a validation. The result is published without details.
#[tokio::test]
async fn new_commands_abort_a_running_validation() {
    let (gateway, folders, sidecar) = resting().await;
    let words = [
        message("go on", MessagePriority::Immediate),
        Command::Interrupt {},
        Command::Pause {},
        validation(json!([criterion("true")]), 60),
        Command::Stop {},
    ];
    for (n, word) in words.into_iter().enumerate() {
        let file = folders.root().join(format!("pid-{n}"));
        let command = format!("echo $$ > {}; sleep 600", file.display());
        let id = gateway.send(validation(json!([criterion(&command)]), 600));
        let pid = process(&gateway, &file).await;
        gateway.send(word);
        assert_eq!(results(&gateway, id).await, Vec::<Value>::new());
        until_gone(&gateway, pid).await;
    }
    assert!(sidecar.ended().await.success());
}

/// Processes in any group end with a killed sidecar (decision 15).
#[tokio::test]
async fn validation_processes_die_with_the_sidecar() {
    let (gateway, folders, sidecar) = resting().await;
    let file = folders.root().join("pid");
    let command = format!("trap '' HUP TERM INT; echo $$ > {}; while :; do sleep 1; done", file.display());
    gateway.send(validation(json!([criterion(&command)]), 600));
    let pid = process(&gateway, &file).await;
    sidecar.signal(Signal::SIGKILL);
    until_gone(&gateway, pid).await;
}

/// If a sidecar dies during a validation, the next process repeats it, even without an agent.
#[tokio::test]
async fn validation_resumes_in_the_next_process_of_the_run() {
    let (gateway, folders, sidecar) = resting().await;
    let (file, marker) = (folders.root().join("pid"), folders.root().join("again"));
    let command = format!("echo $$ > {}; [ -e {} ] || sleep 600", file.display(), marker.display());
    let id = gateway.send(validation(json!([criterion(&command)]), 600));
    process(&gateway, &file).await;
    sidecar.signal(Signal::SIGKILL);
    let _ = sidecar.ended().await;
    std::fs::write(&marker, "").unwrap();
    let _again = folders.start();
    assert_eq!(results(&gateway, id).await[0]["passed"], true);
}
