//! The functions of a deployment, as the local cloud runs them: one process and another, with a log each.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_functions::catalogue::{EVENT_FUNCTIONS, cloud_functions};
use pilothouse_tests::witness::tail;
use serde_json::{Value, json};

/// The variable that names the function to its process.
const NAME: &str = "AWS_LAMBDA_FUNCTION_NAME=";

/// How long a killed process may take to be dead.
const DYING: Duration = Duration::from_secs(5);

/// The functions of one deployment.
pub(super) struct Functions {
    http: reqwest::Client,
    endpoint: String,
    prefix: String,
    /// When the test began, since the Unix epoch: older lines of logs are none of its business.
    since: Duration,
}

impl Functions {
    pub(super) fn new(http: reqwest::Client, endpoint: &str, prefix: &str, since: Duration) -> Self {
        Self { http, endpoint: endpoint.to_owned(), prefix: prefix.to_owned(), since }
    }

    /// Kills every process of every function, and waits until they are dead: whoever sends them events sees that only then,
    /// and must not hand the next request to one that is about to die.
    pub(super) fn kill(&self) {
        let ours = format!("{NAME}{}-", self.prefix);
        let mut killed = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let Some(pid) = pid.filter(|pid| *pid > 1) else { continue };
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_ours = environment.split(|byte| *byte == 0).any(|line| line.starts_with(ours.as_bytes()));
            // One that has ended meanwhile is dead, too.
            if is_ours && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok() {
                killed.push(pid);
            }
        }
        let give_up = Instant::now() + DYING;
        while killed.iter().any(|pid| !is_dead(*pid)) && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What a function has logged since the test began, those lines that have this in them.
    pub(super) async fn log_of(&self, function: &str, part: &str) -> String {
        let ask = json!({
            "logGroupName": format!("/aws/lambda/{}-{function}", self.prefix),
            "startTime": u64::try_from(self.since.as_millis()).unwrap(),
        });
        let answer = self.call("Logs_20140328.FilterLogEvents", &ask).await;
        let events = answer["events"].as_array().into_iter().flatten();
        let lines = events.filter_map(|event| event["message"].as_str()).filter(|line| line.contains(part));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The ends of all logs, of lines that have this in them.
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

    /// One request to a service of the local cloud that speaks JSON. Nobody signs it, and a local cloud does not mind.
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

/// Whether nothing is left of a process but, at most, its entry.
fn is_dead(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // After the name, which may hold anything: the state, `Z` of a process that nobody has asked after yet.
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
}
