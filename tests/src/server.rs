//! A server process with its data.

use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_cli::client::{Client, Credentials};
use pilothouse_cli::keys::{DEFAULT_OWNER, LocalKeys};
use pilothouse_domain::UserId;
use serde_json::Value;
use tempfile::TempDir;

use crate::processes::{self, Sidecar};
use crate::witness::LogFiles;
use crate::{Api, programs};

/// How long a token of a test is good.
const TTL: Duration = Duration::from_hours(1);
/// How long a server may take to answer its first request.
const START: Duration = Duration::from_secs(30);

/// A real server on a port of its own, with a data folder of its own. Dropped, it is killed, and its sidecars
/// after it.
pub struct ServerProcess {
    folder: TempDir,
    hurry: u32,
    environment: Vec<(String, String)>,
    child: Option<Child>,
    /// `http://127.0.0.1:port`
    url: String,
    keys: Arc<LocalKeys>,
    http: reqwest::Client,
}

impl ServerProcess {
    /// Starts a server whose every deadline is divided by `hurry`, and waits until it answers.
    pub async fn start(hurry: u32) -> Self {
        Self::start_with(hurry, &[]).await
    }

    /// Starts a server with these variables in its environment too, as [`Self::start`] does; restarts keep them.
    pub async fn start_with(hurry: u32, environment: &[(&str, &str)]) -> Self {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = environment.collect();
        let folder = tempfile::Builder::new().prefix("pilothouse-e2e-").tempdir().unwrap();
        let data = folder.path().join("data");
        let keys = Arc::new(LocalKeys::open_or_create(&data).unwrap());
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_mins(1)).build().unwrap();
        let mut server = Self { folder, hurry, environment, child: None, url: String::new(), keys, http };
        server.url = server.spawn(&free_address());
        server.answers().await;
        server
    }

    /// Starts the process, and returns the address that it says it listens on.
    fn spawn(&mut self, listen: &str) -> String {
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let mut child = Command::new(programs::pilothouse())
            .args(["--json", "up", "--listen", listen, "--data"])
            .arg(self.data())
            .env("PILOTHOUSE_HURRY", self.hurry.to_string())
            .env("PILOTHOUSE_SIDECAR", programs::sidecar())
            // Receivers of tests stand on this machine.
            .env("PILOTHOUSE_WEBHOOK_REACH", "loopback")
            .env("PILOTHOUSE_LOG", std::env::var("PILOTHOUSE_LOG").unwrap_or_else(|_| "info".into()))
            .env("NO_COLOR", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        self.child = Some(child);
        // It writes one JSON document when it listens. A pipe that ends first is that of a server that did not start.
        let mut said = String::new();
        for line in stdout.lines() {
            said.push_str(&line.unwrap());
            if let Ok(document) = serde_json::from_str::<Value>(&said) {
                return document["url"].as_str().unwrap().trim_end_matches('/').to_owned();
            }
        }
        panic!("the server did not start:\n{}", self.log());
    }

    async fn answers(&self) {
        let give_up = Instant::now() + START;
        while !matches!(self.http.get(format!("{}/healthz", self.url)).send().await, Ok(r) if r.status().is_success())
        {
            assert!(Instant::now() < give_up, "the server does not answer:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the server at once, as a power cut would. Its sidecars go on.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again, on the same port and the same data, and waits until it answers.
    pub async fn restart(&mut self) {
        self.kill9();
        let address = self.url.trim_start_matches("http://").to_owned();
        let url = self.spawn(&address);
        assert_eq!(url, self.url);
        self.answers().await;
    }

    /// Whether its process is alive.
    pub fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Its process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// `http://127.0.0.1:port`, the same after a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A folder that agents may work in.
    pub fn work_folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// What it signs with.
    pub fn keys(&self) -> Arc<LocalKeys> {
        Arc::clone(&self.keys)
    }

    /// A token that speaks for `owner`.
    pub fn token(&self, owner: &str) -> String {
        self.keys.mint(&UserId::parse(owner).unwrap(), TTL).unwrap()
    }

    /// Requests of the owner that the program speaks for.
    pub fn api(&self) -> Api {
        self.api_of(DEFAULT_OWNER)
    }

    /// Requests of `owner`.
    pub fn api_of(&self, owner: &str) -> Api {
        self.api_with(Some(self.token(owner)))
    }

    /// Requests with any token, or none.
    pub fn api_with(&self, token: Option<String>) -> Api {
        let witness = LogFiles { process: ("server", self.log_path()), data: self.data() };
        Api::new(self.http.clone(), self.url.clone(), token, Arc::new(witness))
    }

    /// The typed client, for the owner that the program speaks for.
    pub fn client(&self) -> Client {
        self.client_of(DEFAULT_OWNER)
    }

    /// The typed client, for `owner`.
    pub fn client_of(&self, owner: &str) -> Client {
        let credentials = Credentials::local(Arc::clone(&self.keys), UserId::parse(owner).unwrap());
        Client::new(&self.url, credentials).unwrap()
    }

    /// The sidecars that are alive.
    pub fn sidecars(&self) -> Vec<Sidecar> {
        processes::alive(&self.data())
    }

    /// What the server logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

/// An address of this machine that is free, and that stays free while its server is away: the system gives ports of this
/// range to nobody who does not ask for them, as it does with those that it takes for outgoing connections.
fn free_address() -> String {
    const PORTS: std::ops::Range<u16> = 15_000..32_000;
    loop {
        let random = RandomState::new().hash_one(std::process::id());
        let port = PORTS.start + u16::try_from(random % u64::from(PORTS.end - PORTS.start)).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return format!("127.0.0.1:{port}");
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill9();
        processes::kill_all(&self.data());
    }
}
