//! The control plane under test: a server process of the test's own, or, with `PILOTHOUSE_CLOUD`, one of the deployments in
//! a local cloud that `localstack/test` makes, with a worker of the test's own. Tests see no difference, but where one of
//! them says so.

mod cloud;

use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_broker::embedded;
use pilothouse_cli::client::{Client, Credentials};
use pilothouse_cli::keys::{DEFAULT_OWNER, LocalKeys, Trust};
use pilothouse_domain::{AgentSessionId, RunId, UserId};
use pilothouse_sqlite::{Database, system_clock};
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_store::table::{Table, Write};
use pilothouse_tests::processes::Sidecar;
use pilothouse_tests::{Api, ServerProcess, Session};
use pilothouse_wire::{RootSecret, Signed};
use serde_json::{Value, json};
use uuid::Uuid;

use cloud::Deployed;

/// Names the address of the local cloud that the tests are to use.
const CLOUD: &str = "PILOTHOUSE_CLOUD";

/// The control plane of one test, with owners, sessions and agents that no other test sees.
pub(crate) struct Server {
    host: Host,
}

enum Host {
    Embedded(Box<ServerProcess>),
    Cloud(Box<Deployed>),
}

use Host::{Cloud, Embedded};

impl Server {
    /// One whose every deadline is divided by `hurry`, that answers.
    pub(crate) async fn start(hurry: u32) -> Self {
        let host = match std::env::var(CLOUD) {
            Ok(endpoint) => Cloud(Box::new(Deployed::join(&endpoint, hurry))),
            Err(_) => Embedded(Box::new(ServerProcess::start(hurry).await)),
        };
        Self { host }
    }

    /// Whether it is made of functions in a cloud.
    pub(crate) const fn in_cloud(&self) -> bool {
        matches!(self.host, Cloud(_))
    }

    /// Ends it at once, as a power cut would. Agents go on. In the cloud, every process of a function is killed in the middle
    /// of whatever it does, and the next event starts another.
    pub(crate) fn kill9(&mut self) {
        match &mut self.host {
            Embedded(server) => server.kill9(),
            Cloud(deployed) => deployed.kill_functions(),
        }
    }

    /// Kills it and starts it again.
    pub(crate) async fn restart(&mut self) {
        match &mut self.host {
            Embedded(server) => server.restart().await,
            Cloud(deployed) => deployed.kill_functions(),
        }
    }

    /// The address of its API.
    pub(crate) fn url(&self) -> &str {
        match &self.host {
            Embedded(server) => server.url(),
            Cloud(deployed) => deployed.url(),
        }
    }

    /// A folder that agents may work in.
    pub(crate) fn work_folder(&self) -> PathBuf {
        match &self.host {
            Embedded(server) => server.work_folder(),
            Cloud(deployed) => deployed.work_folder(),
        }
    }

    /// The keys that sign its owners' tokens.
    pub(crate) fn keys(&self) -> Arc<LocalKeys> {
        match &self.host {
            Embedded(server) => server.keys(),
            Cloud(deployed) => deployed.keys(),
        }
    }

    /// The folder of these keys.
    pub(crate) fn keys_folder(&self) -> PathBuf {
        match &self.host {
            Embedded(server) => server.data(),
            Cloud(deployed) => deployed.keys_folder(),
        }
    }

    /// What it expects of tokens.
    pub(crate) fn trust(&self) -> Trust {
        match &self.host {
            Embedded(_) => Trust::default(),
            Cloud(deployed) => deployed.trust(),
        }
    }

    /// An owner by the name that the test has for them: in the cloud, one that no other test has.
    pub(crate) fn owner(&self, name: &str) -> UserId {
        let name = match &self.host {
            Embedded(_) => name.to_owned(),
            Cloud(deployed) => deployed.owner(name),
        };
        UserId::parse(name).unwrap()
    }

    /// Who operates it.
    pub(crate) fn operator(&self) -> UserId {
        let name = if self.in_cloud() { cloud::OPERATOR } else { DEFAULT_OWNER };
        UserId::parse(name).unwrap()
    }

    /// A token that speaks for `owner`.
    pub(crate) fn token(&self, owner: &str) -> String {
        self.token_of(&self.owner(owner))
    }

    fn token_of(&self, owner: &UserId) -> String {
        self.keys().mint_for(&self.trust(), owner, cloud::TTL).unwrap()
    }

    /// Requests of the owner that tests speak for.
    pub(crate) fn api(&self) -> Api {
        self.api_of(DEFAULT_OWNER)
    }

    /// Requests of `owner`.
    pub(crate) fn api_of(&self, owner: &str) -> Api {
        self.api_with(Some(self.token(owner)))
    }

    /// Requests of the operator.
    pub(crate) fn api_of_operator(&self) -> Api {
        self.api_with(Some(self.token_of(&self.operator())))
    }

    /// Requests with any token, or none.
    pub(crate) fn api_with(&self, token: Option<String>) -> Api {
        match &self.host {
            Embedded(server) => server.api_with(token),
            Cloud(deployed) => deployed.api_with(token),
        }
    }

    /// The typed client, for the owner that tests speak for.
    pub(crate) fn client(&self) -> Client {
        let credentials = Credentials::minted(self.keys(), self.owner(DEFAULT_OWNER), self.trust());
        let client = Client::new(self.url(), credentials).unwrap();
        match &self.host {
            Embedded(_) => client,
            Cloud(deployed) => client.with_websocket_api(Some(deployed.stream_url())).unwrap(),
        }
    }

    /// Makes sure that somebody runs the sessions of this owner too.
    pub(crate) fn serve(&mut self, owner: &str) {
        let token = self.token(owner);
        if let Cloud(deployed) = &mut self.host {
            deployed.serve(token);
        }
    }

    /// The sidecars that are alive.
    pub(crate) fn sidecars(&self) -> Vec<Sidecar> {
        match &self.host {
            Embedded(server) => server.sidecars(),
            Cloud(deployed) => deployed.sidecars(),
        }
    }

    /// What a function logged, as a line of text each.
    pub(crate) async fn log_of(&self, function: &str) -> String {
        match &self.host {
            Embedded(server) => server.log(),
            Cloud(deployed) => deployed.log_of(function).await,
        }
    }

    /// The secret that it derives keys from.
    pub(crate) async fn root_secret(&self) -> RootSecret {
        match &self.host {
            Embedded(server) => server.keys().root_secret().clone(),
            Cloud(deployed) => deployed.root_secret().await,
        }
    }

    /// Puts envelopes on the events queue as the sidecar of a run could: whatever they say, and whoever signed them.
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

    /// Writes to its table behind its back. The embedded server is killed for it, as the file is its own.
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

    /// Everything that it keeps about a session and its owner, as bytes.
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

/// What a session is started with to play `script`: five dollars, in the folder of `server`.
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
