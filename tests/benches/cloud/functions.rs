//! The functions of the deployment: the address that their requests go to, and their logs.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// Bytes that `CloudWatch` adds to each line.
const LINE: usize = 26;
/// Variables with a service's address. They override `AWS_ENDPOINT_URL`, which the local cloud sets.
const VARIABLES: [&str; 5] = [
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ENDPOINT_URL_SECRETS_MANAGER",
];

pub(crate) struct Functions {
    http: reqwest::Client,
    endpoint: String,
    prefix: String,
}

/// The totals of one function's invocations.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Invocations {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) gb_seconds: f64,
    pub(crate) logged: f64,
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

impl Functions {
    pub(crate) fn new(http: reqwest::Client, endpoint: &str, prefix: &str) -> Self {
        Self { http, endpoint: endpoint.to_owned(), prefix: prefix.to_owned() }
    }

    /// The names of all functions, without the prefix.
    pub(crate) async fn names(&self) -> Vec<String> {
        let (mut names, mut marker) = (Vec::new(), String::new());
        loop {
            let page = self.lambda("GET", &format!("/2015-03-31/functions/?MaxItems=50{marker}"), None).await;
            let of_page = page["Functions"].as_array().into_iter().flatten();
            names.extend(of_page.filter_map(|function| {
                let name = function["FunctionName"].as_str()?.strip_prefix(&self.prefix)?;
                Some(name.strip_prefix('-')?.to_owned())
            }));
            match page["NextMarker"].as_str() {
                Some(next) => marker = format!("&Marker={next}"),
                None => return names,
            }
        }
    }

    /// Directs the requests of a function to `address`, or to the cloud for `None`.
    pub(crate) async fn direct(&self, name: &str, address: Option<String>) {
        let path = format!("/2015-03-31/functions/{}-{name}/configuration", self.prefix);
        let found = self.lambda("GET", &path, None).await;
        let mut variables: Map<String, Value> =
            found["Environment"]["Variables"].as_object().cloned().unwrap_or_default();
        for variable in VARIABLES {
            match &address {
                Some(address) => variables.insert(variable.to_owned(), address.clone().into()),
                None => variables.remove(variable),
            };
        }
        let body = json!({ "Environment": { "Variables": variables } });
        self.lambda("PUT", &path, Some(&body)).await;
    }

    /// The invocations of a function between two times, from its logs.
    pub(crate) async fn invocations(&self, name: &str, from: u64, until: u64) -> Invocations {
        let mut found = Invocations::default();
        let mut next = Value::Null;
        loop {
            let mut ask = json!({
                "logGroupName": format!("/aws/lambda/{}-{name}", self.prefix),
                "startTime": from,
                "endTime": until,
            });
            if !next.is_null() {
                ask["nextToken"] = next;
            }
            let page = self.logs(&ask).await;
            for event in page["events"].as_array().into_iter().flatten() {
                let line = event["message"].as_str().unwrap_or_default();
                found.logged += (line.len() + LINE) as f64 / 1024.0;
                if line.starts_with("REPORT ") {
                    let number = |name: &str| number(line, name).unwrap_or_default();
                    found.count += 1;
                    found.seconds += number("\tDuration: ") / 1000.0;
                    found.gb_seconds += number("\tDuration: ") / 1000.0 * number("\tMemory Size: ") / 1024.0;
                }
            }
            next = page["nextToken"].clone();
            if next.is_null() {
                return found;
            }
        }
    }

    async fn logs(&self, ask: &Value) -> Value {
        let request = self
            .http
            .post(&self.endpoint)
            .header("x-amz-target", "Logs_20140328.FilterLogEvents")
            .header("content-type", "application/x-amz-json-1.1")
            .header("authorization", signed("logs"));
        let text = request.body(ask.to_string()).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn lambda(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.endpoint))
            .header("authorization", signed("lambda"));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }
}

/// The number after `name` in a line of a report.
fn number(line: &str, name: &str) -> Option<f64> {
    line.split(name).nth(1)?.split(' ').next()?.parse().ok()
}

/// An `Authorization` header that names the service. A local cloud does not check the signature.
fn signed(service: &str) -> String {
    let scope = format!("Credential=test/20260101/eu-central-1/{service}/aws4_request");
    format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0")
}
