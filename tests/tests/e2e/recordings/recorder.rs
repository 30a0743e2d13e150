//! Sends requests and records them with their responses.

use std::fmt::Write as _;
use std::sync::Arc;

use pilothouse_local_keys::DEFAULT_OWNER;
use pilothouse_tests::log_capture::LogFiles;
use pilothouse_tests::{Api, Reply, ServerProcess, Session};
use reqwest::Method;
use serde_json::{Value, json};

use super::normalize::Normalizer;
use super::{folder, json};

/// The tests rewrite the recordings if it is set.
const EXPORT: &str = "PILOTHOUSE_EXPORT";
/// Not recorded, because they do not depend on the API.
const LEFT_OUT: [&str; 3] = ["date", "content-length", "connection"];

pub(super) struct Recorder {
    pub(super) server: ServerProcess,
    area: &'static str,
    http: reqwest::Client,
    normalizer: Normalizer,
    operations: Vec<Operation>,
    text: String,
}

#[derive(Clone)]
pub(super) struct Caller {
    name: &'static str,
    pub(super) api: Api,
}

pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: Method,
    pub(super) path: String,
    /// Whether the operation requires a token.
    pub(super) secured: bool,
    pub(super) takes_body: bool,
}

impl Operation {
    /// From `docs/openapi.json`.
    pub(super) fn all() -> Vec<Self> {
        let file = folder().join("../../docs/openapi.json");
        let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().iter().map(move |(method, operation)| Self {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                secured: !operation["security"].as_array().unwrap().is_empty(),
                takes_body: operation["requestBody"].is_object(),
            })
        });
        operations.collect()
    }

    fn matches(&self, method: &Method, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or_default();
        let (template, given) = (self.path.split('/'), path.split('/'));
        self.method == *method
            && template.clone().count() == given.clone().count()
            && template.zip(given).all(|(part, given)| part.starts_with('{') || part == given)
    }
}

impl Recorder {
    pub(super) async fn start(area: &'static str) -> Self {
        Self::on(area, ServerProcess::start(1).await)
    }

    pub(super) fn on(area: &'static str, server: ServerProcess) -> Self {
        let address = server.url().trim_start_matches("http://").to_owned();
        let work = server.work_folder().display().to_string();
        let data = server.data().display().to_string();
        let known =
            vec![(address, "<server>".to_owned()), (work, "<work>".to_owned()), (data, "<data>".to_owned())];
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self {
            server,
            area,
            http,
            normalizer: Normalizer::new(known),
            operations: Operation::all(),
            text: String::new(),
        }
    }

    fn caller(&self, name: &'static str, token: Option<String>) -> Caller {
        let log = self.server.data().join("../server.log");
        let logs = LogFiles { process: ("server", log), data: self.server.data() };
        Caller { name, api: Api::new(self.http.clone(), self.server.url().to_owned(), token, Arc::new(logs)) }
    }

    /// Also the operator of the server.
    pub(super) fn owner(&self) -> Caller {
        self.caller("owner", Some(self.server.token(DEFAULT_OWNER)))
    }

    /// Another owner.
    pub(super) fn stranger(&self) -> Caller {
        self.caller("stranger", Some(self.server.token("someone-else")))
    }

    pub(super) fn agent(&self, session: &Session) -> Caller {
        self.caller("agent", Some(session.api_key().to_owned()))
    }

    /// A sidecar with this token.
    pub(super) fn sidecar(&self, token: &str) -> Caller {
        self.caller("sidecar", Some(token.to_owned()))
    }

    /// A caller without a token.
    pub(super) fn nobody(&self) -> Caller {
        self.caller("nobody", None)
    }

    /// The body of a start request for a session that plays `script`, with a cap of five dollars.
    pub(super) fn work(&self, script: &Value) -> Value {
        json!({
            "workingDirectory": self.server.work_folder(),
            "objective": "Keep the promise of this test",
            "budgetCapUsd": "5",
            "adapterOptions": { "script": script },
        })
    }

    /// Does not record the start.
    pub(super) async fn started(&mut self, name: &str, script: &Value) -> Session {
        let body = self.work(script);
        self.started_with(name, body).await
    }

    /// Does not record the start.
    pub(super) async fn started_with(&mut self, name: &str, body: Value) -> Session {
        let session = Session::start(&self.owner().api, body).await;
        self.name(&session.id, name);
        session
    }

    pub(super) fn session_of(&self, reply: &Reply) -> Session {
        Session::of_start(&self.owner().api, reply.body.clone())
    }

    /// An id that is already recorded keeps its number.
    pub(super) fn name(&mut self, id: &str, name: &str) {
        self.normalizer.name(id, name);
    }

    pub(super) fn replace(&mut self, text: &str, by: &str) {
        self.normalizer.replace(text, by);
    }

    pub(super) async fn get(&mut self, path: &str) -> Reply {
        self.send(&self.owner(), Method::GET, path, &[], None).await
    }

    pub(super) async fn post(&mut self, path: &str, body: Value) -> Reply {
        self.send(&self.owner(), Method::POST, path, &[], Some(body)).await
    }

    pub(super) async fn put(&mut self, path: &str, body: Value) -> Reply {
        self.send(&self.owner(), Method::PUT, path, &[], Some(body)).await
    }

    pub(super) async fn patch(&mut self, path: &str, body: Value) -> Reply {
        self.send(&self.owner(), Method::PATCH, path, &[], Some(body)).await
    }

    pub(super) async fn delete(&mut self, path: &str) -> Reply {
        self.send(&self.owner(), Method::DELETE, path, &[], None).await
    }

    /// Records the request and the response.
    pub(super) async fn send(
        &mut self,
        caller: &Caller,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Reply {
        let body = body.map(|body| body.to_string());
        let bytes = body.clone().map(String::into_bytes);
        let reply = caller.api.send(method.clone(), path, headers, bytes).await;
        self.record(caller, &method, path, headers, body.as_deref(), &reply);
        reply
    }

    /// Records a request that was already sent, with its response.
    pub(super) fn record(
        &mut self,
        caller: &Caller,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        reply: &Reply,
    ) {
        // If several paths match, the one with the fewest parameters is the operation.
        let fitting = self.operations.iter().filter(|operation| operation.matches(method, path));
        let operation = fitting.min_by_key(|operation| operation.path.matches('{').count());
        let id = operation.map_or("internal", |operation| operation.id.as_str());
        let mut text = format!("## {id} {}\n\n{method} {path} by {}\n", reply.status, caller.name);
        for (name, value) in headers {
            let _ = writeln!(text, "{name}: {value}");
        }
        let _ = writeln!(text, "{}", body.unwrap_or_default());
        let _ = writeln!(text, "\n{}", reply.status);
        let mut headers: Vec<_> = reply
            .headers
            .iter()
            .filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()))
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        headers.sort();
        for header in headers {
            let _ = writeln!(text, "{header}");
        }
        let _ = writeln!(text, "{}", reply.text);
        self.write(&text);
    }

    /// Formats lines of JSON.
    pub(super) fn write(&mut self, text: &str) {
        for line in text.lines() {
            let is_json = line.starts_with(['{', '[']) && serde_json::from_str::<Value>(line).is_ok();
            let normal = self.normalizer.normalize(line);
            if is_json {
                assert!(json::is_compact(line), "white space between tokens is not recorded: {line}");
                self.text.push_str(&json::lay_out(&normal));
            } else {
                self.text.push_str(&normal);
            }
            self.text.push('\n');
        }
        self.text.push('\n');
    }

    /// Compares with the committed recording.
    pub(super) fn finish(self) {
        let path = folder().join(format!("{}.txt", self.area));
        let text = format!("{}\n", self.text.trim_end());
        if std::env::var_os(EXPORT).is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        if recorded == text {
            return;
        }
        let same = recorded.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
        let around = |text: &str| -> String {
            let lines = text.lines().skip(same.saturating_sub(8)).take(16);
            lines.flat_map(|line| ["  ", line, "\n"]).collect()
        };
        panic!(
            "{} differs from line {} on; {EXPORT}=1 writes it again\nrecorded:\n{}now:\n{}",
            path.display(),
            same + 1,
            around(&recorded),
            around(&text),
        );
    }
}
