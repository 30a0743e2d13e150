//! Measures the requests and logs between two points in time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pilothouse_app::function::Trigger;
use pilothouse_functions::catalog::EVENT_FUNCTIONS;
use pilothouse_tests::log_capture::LogCapture;
use pilothouse_tests::{Api, WorkerProcess};

use crate::deployment::Deployment;
use crate::functions::{Functions, now};
use crate::price;
use crate::proxy::{Passed, Proxy, is_aside};

/// After this time without requests, all effects of an action are complete.
const QUIET: Duration = Duration::from_secs(2);
const OWNER: &str = "bench";

#[derive(Debug, Default, Clone)]
pub(crate) struct Cost {
    seconds: f64,
    /// Requests of functions by action.
    requests: BTreeMap<String, f64>,
    /// Queue requests of other senders, by rule: Lambda receives and deletes the messages that trigger a function; a sidecar sends each
    /// batch of events, and receives and deletes each command.
    taking: f64,
    write_units: f64,
    read_units: f64,
    refused: f64,
    http: f64,
    invocations: f64,
    lambda_seconds: f64,
    gb_seconds: f64,
    logged: f64,
}

impl Cost {
    /// Adds `other`, multiplied by `times`.
    #[must_use]
    pub(crate) fn plus(&self, other: &Self, times: f64) -> Self {
        let mut sum = self.clone();
        for (action, count) in &other.requests {
            *sum.requests.entry(action.clone()).or_default() += count * times;
        }
        let fields: [fn(&mut Self) -> &mut f64; 10] = [
            |c| &mut c.seconds,
            |c| &mut c.taking,
            |c| &mut c.write_units,
            |c| &mut c.read_units,
            |c| &mut c.refused,
            |c| &mut c.http,
            |c| &mut c.invocations,
            |c| &mut c.lambda_seconds,
            |c| &mut c.gb_seconds,
            |c| &mut c.logged,
        ];
        let mut other = other.clone();
        for field in fields {
            *field(&mut sum) += *field(&mut other) * times;
        }
        sum
    }

    /// The cost of one of `n`, without the cost of an idle session in the same time.
    pub(crate) fn each(&self, n: f64, idle: &Self) -> Self {
        let over = self.plus(idle, -self.seconds / idle.seconds.max(1.0));
        Self::default().plus(&over, 1.0 / n)
    }

    /// The cost per hour.
    pub(crate) fn hourly(&self) -> Self {
        Self::default().plus(self, 3600.0 / self.seconds)
    }

    fn of(&self, service: &str) -> f64 {
        let ours = |(action, _): &(&String, &f64)| action.split(' ').next() == Some(service);
        self.requests.iter().filter(ours).map(|(_, count)| count).sum()
    }

    /// Dollars per million.
    pub(crate) fn dollars(&self) -> f64 {
        self.write_units * price::WRITE_UNITS
            + self.read_units * price::READ_UNITS
            + (self.of("SQS") + self.taking) * price::FIFO_REQUESTS
            + self.http * price::HTTP_REQUESTS
            + self.invocations * price::INVOCATIONS
            + self.gb_seconds * price::GB_SECONDS
            + self.logged * price::LOG_KB
    }

    pub(crate) fn print(&self, name: &str) {
        println!(
            "  {name:<34} {:>5.1} WRU {:>5.1} RRU {:>5.1} table {:>4.1} SQS {:>4.1} taking {:>4.1} invocations {:>5.1} ms {:>4.1} KB logs  ${:>6.2}",
            shown(self.write_units),
            shown(self.read_units),
            shown(self.of("DynamoDB")),
            shown(self.of("SQS")),
            shown(self.taking),
            shown(self.invocations),
            shown(self.lambda_seconds * 1000.0),
            shown(self.logged),
            self.dollars(),
        );
        let frequent = self.requests.iter().filter(|(_, count)| **count >= 0.05);
        let frequent: Vec<_> = frequent.map(|(action, count)| format!("{action} {count:.1}")).collect();
        println!("    {}{}", frequent.join(", "), if self.refused > 0.05 { ", some refused" } else { "" });
    }
}

/// Zero for values below the printed precision.
fn shown(value: f64) -> f64 {
    if value.abs() < 0.05 { 0.0 } else { value }
}

/// A deployment with a proxy in front of its cloud, and a worker.
pub(crate) struct Bench {
    pub(crate) api: Api,
    /// The working directory of the agents.
    pub(crate) folder: tempfile::TempDir,
    functions: Functions,
    names: Vec<String>,
    proxy: Proxy,
    worker: WorkerProcess,
}

/// Without logs, because a bench asserts nothing.
struct Silent;

#[async_trait]
impl LogCapture for Silent {
    async fn logs(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

impl Bench {
    pub(crate) async fn open(deployment: Deployment) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_mins(1)).build().unwrap();
        let functions = Functions::new(http.clone(), &deployment.endpoint, &deployment.prefix);
        let (proxy, address) = Proxy::start(&deployment.endpoint).await;
        let names = functions.names().await;
        for name in &names {
            functions.direct(name, Some(format!("{address}/{name}"))).await;
        }
        let token = deployment.token(OWNER);
        let worker =
            WorkerProcess::start(&deployment.api_url, token.clone(), "bench", &["--capacity", "100"]);
        let api = Api::new(http, deployment.api_url, Some(token), Arc::new(Silent));
        Self { api, folder: tempfile::tempdir().unwrap(), functions, names, proxy, worker }
    }

    /// Removes the proxy.
    pub(crate) async fn close(mut self) {
        self.worker.terminate();
        for name in &self.names {
            self.functions.direct(name, None).await;
        }
    }

    /// The cost of a piece of work with all its effects, without the cost of workers.
    pub(crate) async fn measure(&self, work: impl AsyncFnOnce()) -> Cost {
        self.quiet().await;
        let (began, from, before) = (Instant::now(), now(), self.snapshot());
        work().await;
        self.quiet().await;
        let (until, after) = (now(), self.snapshot());
        let mut cost = after.plus(&before, -1.0);
        cost.seconds = began.elapsed().as_secs_f64();
        for name in self.names.iter().filter(|name| !is_aside(name)) {
            let found = self.functions.invocations(name, from, until).await;
            let count = found.count as f64;
            cost.invocations += count;
            cost.lambda_seconds += found.seconds;
            cost.gb_seconds += found.gb_seconds;
            cost.logged += found.logged;
            match EVENT_FUNCTIONS.iter().find(|function| function.name == name) {
                None => cost.http += count,
                // The request of the sidecar itself is added.
                Some(_) if name == "intake" => cost.taking += 3.0 * count,
                Some(function) if function.triggers().any(|t| matches!(t, Trigger::Queue(_))) => {
                    cost.taking += 2.0 * count;
                }
                Some(_) => {}
            }
        }
        cost
    }

    fn snapshot(&self) -> Cost {
        let passed = self.proxy.passed.lock().unwrap();
        let mut cost = Cost {
            write_units: passed.ledger.bill.write_units as f64,
            read_units: passed.ledger.bill.read_half_units as f64 / 2.0,
            refused: passed.refused as f64,
            ..Cost::default()
        };
        for ((function, action), count) in &passed.requests {
            if !is_aside(function) {
                *cost.requests.entry(action.clone()).or_default() += *count as f64;
            }
            if function == "react" && action.starts_with("SQS Send") {
                cost.taking += 2.0 * *count as f64;
            }
        }
        cost
    }

    /// Returns when only workers and sidecars poll.
    async fn quiet(&self) {
        let busy = |passed: &Passed| -> u64 {
            let idle =
                |(function, action): &(String, String)| is_aside(function) || action.starts_with("SQS");
            passed.requests.iter().filter(|(of, _)| !idle(of)).map(|(_, count)| count).sum()
        };
        let (mut seen, mut since) = (0, Instant::now());
        let give_up = Instant::now() + QUIET * 5;
        while since.elapsed() < QUIET && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = busy(&self.proxy.passed.lock().unwrap());
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
    }
}
