//! The functions of a deployment as the local cloud runs them: a sequence of processes with a log each.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_functions::catalog::{EVENT_FUNCTIONS, cloud_functions};
use pilothouse_tests::log_capture::tail;
use serde_json::{Value, json};

/// Names the function in the environment of its process.
const NAME: &str = "AWS_LAMBDA_FUNCTION_NAME=";

/// Time limit until a killed process is dead.
const DYING: Duration = Duration::from_secs(5);

pub(super) struct Functions {
    http: reqwest::Client,
    endpoint: String,
    prefix: String,
    /// The start of the test since the Unix epoch. Older log lines are ignored.
    since: Duration,
}

impl Functions {
    pub(super) fn new(http: reqwest::Client, endpoint: &str, prefix: &str, since: Duration) -> Self {
        Self { http, endpoint: endpoint.to_owned(), prefix: prefix.to_owned(), since }
    }

    /// Kills every process of every function and waits until they are dead. The local cloud notices a death only then, and could send the
    /// next request to a dying process.
    pub(super) fn kill(&self) {
        let ours = format!("{NAME}{}-", self.prefix);
        let mut killed = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let Some(pid) = pid.filter(|pid| *pid > 1) else { continue };
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_ours = environment.split(|byte| *byte == 0).any(|line| line.starts_with(ours.as_bytes()));
            // A process that has exited meanwhile is dead, too.
            if is_ours && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok() {
                killed.push(pid);
            }
        }
        let give_up = Instant::now() + DYING;
        while killed.iter().any(|pid| !is_dead(*pid)) && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The log lines of a function since the start of the test that contain `part`.
    pub(super) async fn log_of(&self, function: &str, part: &str) -> String {
        let ask = json!({
            "logGroupName": format!("/aws/lambda/{}-{function}", self.prefix),
            "startTime": u64::try_from(self.since.as_millis()).unwrap(),
        });
        let response = self.call("Logs_20140328.FilterLogEvents", &ask).await;
        let events = response["events"].as_array().into_iter().flatten();
        let lines = events.filter_map(|event| event["message"].as_str()).filter(|line| line.contains(part));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The ends of all logs, only lines with `part`.
    pub(super) async fn all_logs(&self, part: &str) -> Vec<String> {
        let mut logs = Vec::new();
        let of_http = cloud_functions().into_iter().map(|function| function.name);
        for name in of_http.chain(EVENT_FUNCTIONS.iter().map(|function| function.name)) {
            let log = self.log_of(name, part).await;
            if !log.is_empty() {
                logs.push(format!("{name}:\n{}", tail(&log)));
            }
        }
        logs
    }

    /// Unsigned, in the JSON protocol. The local cloud does not check signatures.
    pub(super) async fn call(&self, action: &str, ask: &Value) -> Value {
        let service = if action.starts_with("Logs") { "logs" } else { "secretsmanager" };
        let scope = format!("Credential=test/20260101/eu-central-1/{service}/aws4_request");
        let request = self
            .http
            .post(&self.endpoint)
            .header("x-amz-target", action)
            .header("content-type", "application/x-amz-json-1.1")
            .header("authorization", format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"))
            .body(ask.to_string());
        let text = request.send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }
}

/// True for a zombie.
fn is_dead(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // After the name, which may contain any character. `Z` is a zombie.
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
}
