//! A deployment in a local cloud (`localstack/test`) that concurrent tests share. Each test has its own owners and a worker that
//! runs their sessions.

mod functions;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use functions::Functions;
use pilothouse_broker::{Broker as _, OutgoingMessage, QueueName, SqsBroker, SqsConfig};
use pilothouse_domain::{AgentSessionId, UserId};
use pilothouse_local_keys::{DEFAULT_OWNER, LocalKeys, TokenSettings};
use pilothouse_sqlite::system_clock;
use pilothouse_store::dynamodb::DynamoTable;
use pilothouse_store::layout;
use pilothouse_store::table::{Query, SortRange, Table as _};
use pilothouse_tests::log_capture::{LogCapture, LogFiles};
use pilothouse_tests::processes::Sidecar;
use pilothouse_tests::{Api, WorkerProcess};
use pilothouse_wire::{RootSecret, Signed};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

pub(super) const TTL: Duration = Duration::from_hours(1);
/// Test deployments treat this owner as operator.
pub(super) const OPERATOR: &str = "operator";

/// The description of a deployment, which `infra/deploy` writes.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Description {
    api_url: String,
    stream_url: String,
    issuer: String,
    audience: String,
    keys: PathBuf,
    prefix: String,
    table_name: String,
    secret_arn: String,
    region: String,
    endpoint: String,
}

/// A client of a service of the deployment, with arbitrary credentials: the local cloud of these tests does not check them.
macro_rules! client {
    ($service:ident, $description:expr) => {
        $service::Client::from_conf(
            $service::Config::builder()
                .behavior_version(BehaviorVersion::v2026_01_12())
                .region(Region::new($description.region.clone()))
                .endpoint_url(&$description.endpoint)
                .credentials_provider(Credentials::new("test", "test", None, None, "test"))
                .http_client(aws_smithy_http_client::Builder::new().build_http())
                .build(),
        )
    };
}

pub(super) struct Deployed {
    description: Description,
    keys: Arc<LocalKeys>,
    functions: Arc<Functions>,
    /// Makes the test's owner ids unique.
    suffix: String,
    folder: TempDir,
    workers: Vec<WorkerProcess>,
    http: reqwest::Client,
}

impl Deployed {
    /// Divides deadlines by `deadline_divisor`, and starts a worker for the default owner.
    pub(super) fn join(endpoint: &str, deadline_divisor: u32) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../target/deploy/e2e-h{deadline_divisor}.json"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| {
            panic!("{}: {error}; `localstack/test` deploys what these tests need", file.display())
        });
        let description: Description = serde_json::from_str(&text).unwrap();
        assert_eq!(description.endpoint, endpoint, "{} is on another cloud", file.display());
        let keys = LocalKeys::open(&description.keys).unwrap().expect("the keys of the deployment");
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_mins(1)).build().unwrap();
        let folder = tempfile::Builder::new().prefix("pilothouse-e2e-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let functions = Functions::new(http.clone(), endpoint, &description.prefix, since);
        let mut deployed = Self {
            keys: Arc::new(keys),
            functions: Arc::new(functions),
            suffix: Uuid::now_v7().simple().to_string()[20..].to_owned(),
            folder,
            workers: Vec::new(),
            http,
            description,
        };
        deployed.serve(deployed.token(&deployed.owner(DEFAULT_OWNER)));
        deployed
    }

    fn token(&self, owner: &str) -> String {
        self.keys.mint_with(&self.trust(), &UserId::parse(owner).unwrap(), TTL).unwrap()
    }

    /// Starts a worker for the owner of this token.
    pub(super) fn serve(&mut self, token: String) {
        let id = format!("w{}", self.workers.len() + 1);
        self.workers.push(WorkerProcess::start(self.url(), token, &id, &["--capacity", "50"]));
    }

    pub(super) fn kill_functions(&self) {
        self.functions.kill();
    }

    pub(super) fn url(&self) -> &str {
        &self.description.api_url
    }

    pub(super) fn stream_url(&self) -> &str {
        &self.description.stream_url
    }

    pub(super) fn work_folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(super) fn keys(&self) -> Arc<LocalKeys> {
        Arc::clone(&self.keys)
    }

    pub(super) fn keys_folder(&self) -> PathBuf {
        self.description.keys.clone()
    }

    pub(super) fn trust(&self) -> TokenSettings {
        let Description { issuer, audience, .. } = &self.description;
        TokenSettings { issuer: issuer.clone(), audience: audience.clone() }
    }

    pub(super) fn owner(&self, name: &str) -> String {
        format!("{name}-{}", self.suffix)
    }

    pub(super) fn api_with(&self, token: Option<String>) -> Api {
        let worker = &self.workers[0];
        let files = LogFiles { process: ("worker", worker.log_path()), data: worker.data() };
        let logs = Logs { files, functions: Arc::clone(&self.functions) };
        Api::new(self.http.clone(), self.url().to_owned(), token, Arc::new(logs))
    }

    pub(super) fn sidecars(&self) -> Vec<Sidecar> {
        self.workers.iter().flat_map(WorkerProcess::sidecars).collect()
    }

    pub(super) async fn log_of(&self, function: &str) -> String {
        self.functions.log_of(function, "").await
    }

    /// In AWS only functions that need the secret may read it; a local cloud allows everybody.
    pub(super) async fn root_secret(&self) -> RootSecret {
        let ask = serde_json::json!({ "SecretId": self.description.secret_arn });
        let response = self.functions.call("secretsmanager.GetSecretValue", &ask).await;
        let kept: Value = serde_json::from_str(response["SecretString"].as_str().unwrap()).unwrap();
        let bytes = kept["secret"].as_str().unwrap().as_bytes().to_vec();
        RootSecret::new(kept["id"].as_str().unwrap(), bytes).unwrap()
    }

    pub(super) async fn publish(&self, session: AgentSessionId, envelopes: &[Signed]) {
        let client = client!(aws_sdk_sqs, self.description);
        let broker = SqsBroker::new(client, SqsConfig::new(&self.description.prefix)).unwrap();
        let messages = envelopes.iter().map(|signed| {
            let id = Uuid::now_v7().to_string();
            OutgoingMessage::new(session.to_string(), id, serde_json::to_string(signed).unwrap())
        });
        let events = QueueName::parse("events.fifo").unwrap();
        let outcome = broker.send(&events, messages.collect()).await.unwrap();
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    }

    pub(super) fn table(&self) -> DynamoTable {
        let client = client!(aws_sdk_dynamodb, self.description);
        DynamoTable::new(client, &self.description.table_name, system_clock())
    }

    /// All items in the partitions of a session and of its owner.
    pub(super) async fn kept(&self, session: AgentSessionId, owner: &UserId) -> Vec<u8> {
        let table = self.table();
        let mut kept = Vec::new();
        for partition in [layout::session_partition(session), layout::owner_partition(owner)] {
            let mut query = Query::new(partition, SortRange::All, 200);
            loop {
                let page = table.query(&query).await.unwrap();
                kept.extend(page.items.iter().flat_map(|item| format!("{item:?}").into_bytes()));
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
        }
        assert!(!kept.is_empty());
        kept
    }
}

/// Of the worker, of its sidecars and of the functions.
struct Logs {
    files: LogFiles,
    functions: Arc<Functions>,
}

#[async_trait]
impl LogCapture for Logs {
    async fn logs(&self, session: &str) -> Vec<String> {
        let mut logs = self.files.logs(session).await;
        logs.extend(self.functions.all_logs(session).await);
        logs
    }

    async fn failures(&self) -> Option<String> {
        Some(self.functions.all_logs("\"level\":\"ERROR\"").await.join("\n"))
    }
}
