//! The control plane under test: a server process of the test or, with `PILOTHOUSE_CLOUD`, a deployment that `localstack/test`
//! creates in a local cloud, with a worker of the test. Tests behave the same on both unless they say otherwise.

mod cloud;

use std::path::PathBuf;
use std::sync::Arc;

use cloud::Deployed;
use pilothouse_broker::embedded;
use pilothouse_client::{Client, Credentials};
use pilothouse_domain::{AgentSessionId, RunId, UserId};
use pilothouse_local_keys::{DEFAULT_OWNER, LocalKeys, TokenSettings};
use pilothouse_sqlite::{Database, system_clock};
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_store::table::{Table, Write};
use pilothouse_tests::processes::Sidecar;
use pilothouse_tests::{Api, ServerProcess, Session};
use pilothouse_wire::{RootSecret, Signed};
use serde_json::{Value, json};
use uuid::Uuid;

/// The variable with the address of the local cloud.
const CLOUD: &str = "PILOTHOUSE_CLOUD";

/// Other tests do not see its owners, sessions and agents.
pub(crate) struct Server {
    host: Host,
}

enum Host {
    Embedded(Box<ServerProcess>),
    Cloud(Box<Deployed>),
}

use Host::{Cloud, Embedded};

impl Server {
    /// Divides deadlines by `deadline_divisor`, and waits until the control plane responds.
    pub(crate) async fn start(deadline_divisor: u32) -> Self {
        let host = match std::env::var(CLOUD) {
            Ok(endpoint) => Cloud(Box::new(Deployed::join(&endpoint, deadline_divisor))),
            Err(_) => Embedded(Box::new(ServerProcess::start(deadline_divisor).await)),
        };
        Self { host }
    }

    /// Starts a server process with further environment variables, also where other tests use a deployment.
    pub(crate) async fn start_with(deadline_divisor: u32, environment: &[(&str, &str)]) -> Self {
        let server = ServerProcess::start_with(deadline_divisor, environment).await;
        Self { host: Embedded(Box::new(server)) }
    }

    /// Sets the clock of a server process, relative to the system clock.
    pub(crate) fn set_clock_offset(&self, milliseconds: i64) {
        match &self.host {
            Embedded(server) => server.set_clock_offset(milliseconds),
            Cloud(_) => panic!("the clock of a cloud cannot be set"),
        }
    }

    /// Whether functions in a cloud are the control plane.
    pub(crate) const fn in_cloud(&self) -> bool {
        matches!(self.host, Cloud(_))
    }

    /// Agents continue. In the cloud, kills every process of every function; the next event starts a new one.
    pub(crate) fn kill9(&mut self) {
        match &mut self.host {
            Embedded(server) => server.kill9(),
            Cloud(deployed) => deployed.kill_functions(),
        }
    }

    pub(crate) async fn restart(&mut self) {
        match &mut self.host {
            Embedded(server) => server.restart().await,
            Cloud(deployed) => deployed.kill_functions(),
        }
    }

    /// The address of the API.
    pub(crate) fn url(&self) -> &str {
        match &self.host {
            Embedded(server) => server.url(),
            Cloud(deployed) => deployed.url(),
        }
    }

    pub(crate) fn work_folder(&self) -> PathBuf {
        match &self.host {
            Embedded(server) => server.work_folder(),
            Cloud(deployed) => deployed.work_folder(),
        }
    }

    pub(crate) fn keys(&self) -> Arc<LocalKeys> {
        match &self.host {
            Embedded(server) => server.keys(),
            Cloud(deployed) => deployed.keys(),
        }
    }

    pub(crate) fn keys_folder(&self) -> PathBuf {
        match &self.host {
            Embedded(server) => server.data(),
            Cloud(deployed) => deployed.keys_folder(),
        }
    }

    /// The issuer and the audience that it accepts in tokens.
    pub(crate) fn trust(&self) -> TokenSettings {
        match &self.host {
            Embedded(_) => TokenSettings::default(),
            Cloud(deployed) => deployed.trust(),
        }
    }

    /// In the cloud, the owner id is unique to the test.
    pub(crate) fn owner(&self, name: &str) -> UserId {
        let name = match &self.host {
            Embedded(_) => name.to_owned(),
            Cloud(deployed) => deployed.owner(name),
        };
        UserId::parse(name).unwrap()
    }

    /// The owner with operator rights.
    pub(crate) fn operator(&self) -> UserId {
        let name = if self.in_cloud() { cloud::OPERATOR } else { DEFAULT_OWNER };
        UserId::parse(name).unwrap()
    }

    pub(crate) fn token(&self, owner: &str) -> String {
        self.token_of(&self.owner(owner))
    }

    fn token_of(&self, owner: &UserId) -> String {
        self.keys().mint_with(&self.trust(), owner, cloud::TTL).unwrap()
    }

    pub(crate) fn api(&self) -> Api {
        self.api_of(DEFAULT_OWNER)
    }

    pub(crate) fn api_of(&self, owner: &str) -> Api {
        self.api_with(Some(self.token(owner)))
    }

    pub(crate) fn api_of_operator(&self) -> Api {
        self.api_with(Some(self.token_of(&self.operator())))
    }

    /// `None` sends no token.
    pub(crate) fn api_with(&self, token: Option<String>) -> Api {
        match &self.host {
            Embedded(server) => server.api_with(token),
            Cloud(deployed) => deployed.api_with(token),
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_of(DEFAULT_OWNER)
    }

    pub(crate) fn client_of(&self, owner: &str) -> Client {
        let credentials = Credentials::minted(self.keys(), self.owner(owner), self.trust());
        let client = Client::new(self.url(), credentials).unwrap();
        match &self.host {
            Embedded(_) => client,
            Cloud(deployed) => client.with_websocket_api(Some(deployed.stream_url())).unwrap(),
        }
    }

    /// Ensures that the sessions of another owner have a worker, too.
    pub(crate) fn serve(&mut self, owner: &str) {
        let token = self.token(owner);
        if let Cloud(deployed) = &mut self.host {
            deployed.serve(token);
        }
    }

    pub(crate) fn sidecars(&self) -> Vec<Sidecar> {
        match &self.host {
            Embedded(server) => server.sidecars(),
            Cloud(deployed) => deployed.sidecars(),
        }
    }

    pub(crate) async fn log_of(&self, function: &str) -> String {
        match &self.host {
            Embedded(server) => server.log(),
            Cloud(deployed) => deployed.log_of(function).await,
        }
    }

    /// The root secret, from which it derives keys.
    pub(crate) async fn root_secret(&self) -> RootSecret {
        match &self.host {
            Embedded(server) => server.keys().root_secret().clone(),
            Cloud(deployed) => deployed.root_secret().await,
        }
    }

    /// With the access of a run's sidecar, and any content and signature.
    pub(crate) async fn publish(&self, sender: (AgentSessionId, RunId), envelopes: &[Signed]) {
        let entry = |signed: &Signed| {
            let body = serde_json::to_string(signed).unwrap();
            json!({ "deduplicationId": Uuid::now_v7().to_string(), "body": body })
        };
        for some in envelopes.chunks(10) {
            if let Cloud(deployed) = &self.host {
                deployed.publish(sender.0, some).await;
                continue;
            }
            let token = self.root_secret().await.gateway_token(sender.0, sender.1);
            let gateway = self.api_with(Some(token.as_str().to_owned()));
            let entries: Vec<_> = some.iter().map(entry).collect();
            let reply =
                gateway.post("/internal/gateway/events", json!({ "entries": entries })).await.expect(200);
            assert_eq!(reply.body["accepted"].as_array().unwrap().len(), some.len());
        }
    }

    /// Kills the embedded server first, because it locks the table's file.
    pub(crate) async fn plant(&mut self, write: Write) {
        match &mut self.host {
            Cloud(deployed) => deployed.table().transact(vec![write]).await.unwrap(),
            Embedded(server) => {
                server.kill9();
                let file = server.data().join("pilothouse.db");
                let db = Database::open(file, &[sqlite::SCHEMA, embedded::SCHEMA]).unwrap();
                SqliteTable::new(db, system_clock()).transact(vec![write]).await.unwrap();
                server.restart().await;
            }
        }
    }

    /// All stored items of a session and its owner, as bytes.
    pub(crate) async fn kept(&self, session: AgentSessionId) -> Vec<u8> {
        match &self.host {
            Embedded(server) => ["pilothouse.db", "pilothouse.db-wal"]
                .iter()
                .flat_map(|file| std::fs::read(server.data().join(file)).unwrap_or_default())
                .collect(),
            Cloud(deployed) => deployed.kept(session, &self.owner(DEFAULT_OWNER)).await,
        }
    }
}

/// With a budget of five dollars, in the working directory of `server`.
pub(crate) fn work(server: &Server, script: &Value) -> Value {
    json!({
        "workingDirectory": server.work_folder(),
        "objective": "Keep the promise of this test",
        "budgetCapUsd": "5",
        "adapterOptions": { "script": script },
    })
}

/// Starts a session of the default owner that plays `script`.
pub(crate) async fn started(server: &Server, script: &Value) -> Session {
    Session::start(&server.api(), work(server, script)).await
}
