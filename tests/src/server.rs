//! A server process with its data folder.

use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_client::{Client, Credentials};
use pilothouse_domain::UserId;
use pilothouse_local_keys::{DEFAULT_OWNER, LocalKeys};
use serde_json::Value;
use tempfile::TempDir;

use crate::log_capture::LogFiles;
use crate::processes::{self, Sidecar};
use crate::small_disk::SmallDisk;
use crate::{Api, programs};

const TTL: Duration = Duration::from_hours(1);
/// Limit for the first response of a server.
const START: Duration = Duration::from_secs(30);

/// Limits of the machine that a server runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine {
    /// Size of a separate disk for the data folder.
    pub disk_mebibytes: Option<u64>,
    /// For each process: the server and its children.
    pub descriptors: Option<u32>,
}

/// A real server with its own port and data folder. Dropping it kills the server and then its sidecars.
pub struct ServerProcess {
    /// Unmounted before its folder is removed.
    disk: Option<SmallDisk>,
    folder: TempDir,
    /// `None` keeps the limit of this process.
    descriptors: Option<u32>,
    deadline_divisor: u32,
    environment: Vec<(String, String)>,
    child: Option<Child>,
    /// Written by the server when it started to listen.
    said: Value,
    /// `http://127.0.0.1:port`
    url: String,
    keys: Arc<LocalKeys>,
    http: reqwest::Client,
}

impl ServerProcess {
    /// Starts a server with every deadline divided by `deadline_divisor`, and waits until it responds.
    pub async fn start(deadline_divisor: u32) -> Self {
        Self::start_with(deadline_divisor, &[]).await
    }

    /// Starts a server like [`Self::start`] with additional environment variables. A restart keeps them.
    pub async fn start_with(deadline_divisor: u32, environment: &[(&str, &str)]) -> Self {
        Self::start_on(deadline_divisor, environment, Machine::default()).await.unwrap()
    }

    /// Starts a server like [`Self::start_with`] with a limit of open descriptors. A restart keeps it.
    pub async fn start_limited(
        deadline_divisor: u32,
        environment: &[(&str, &str)],
        descriptors: Option<u32>,
    ) -> Self {
        Self::start_on(deadline_divisor, environment, Machine { descriptors, ..Machine::default() })
            .await
            .unwrap()
    }

    /// Starts a server like [`Self::start_with`] on a limited machine. Returns `None` where the test may not create such a machine.
    pub async fn start_on(
        deadline_divisor: u32,
        environment: &[(&str, &str)],
        machine: Machine,
    ) -> Option<Self> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = environment.collect();
        let folder = tempfile::Builder::new().prefix("pilothouse-e2e-").tempdir().unwrap();
        let data = folder.path().join("data");
        let disk = match machine.disk_mebibytes {
            Some(mebibytes) => {
                std::fs::create_dir(&data).unwrap();
                Some(SmallDisk::mount(&data, mebibytes)?)
            }
            None => None,
        };
        let keys = Arc::new(LocalKeys::open_or_create(&data).unwrap());
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_mins(1)).build().unwrap();
        let mut server = Self {
            disk,
            folder,
            descriptors: machine.descriptors,
            deadline_divisor,
            environment,
            child: None,
            said: Value::Null,
            url: String::new(),
            keys,
            http,
        };
        server.url = server.spawn(&free_address());
        server.answers().await;
        Some(server)
    }

    pub const fn disk(&self) -> Option<&SmallDisk> {
        self.disk.as_ref()
    }

    /// Returns the address that the server reports.
    fn spawn(&mut self, listen: &str) -> String {
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = match self.descriptors {
            // Sets the soft and the hard limit.
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &limit.to_string()]);
                shell.arg(programs::pilothouse());
                shell
            }
            None => Command::new(programs::pilothouse()),
        };
        let mut child = command
            .args(["--json", "up", "--listen", listen, "--data"])
            .arg(self.data())
            .env("PILOTHOUSE_DEADLINE_DIVISOR", self.deadline_divisor.to_string())
            .env("PILOTHOUSE_SIDECAR", programs::sidecar())
            .env("PILOTHOUSE_CLOCK_OFFSET_FILE", self.clock_offset_file())
            .env("PILOTHOUSE_DEFAULT_ADAPTER", "script")
            // Webhook receivers of tests listen on loopback.
            .env("PILOTHOUSE_WEBHOOK_REACH", "loopback")
            .env("PILOTHOUSE_LOG", std::env::var("PILOTHOUSE_LOG").unwrap_or_else(|_| "info".into()))
            .env("NO_COLOR", "1")
            .env("PILOTHOUSE_UNCONFINED", (!programs::confines_agents()).to_string())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        self.child = Some(child);
        // The server writes one JSON document when it listens. An end of file before that means that it failed to start.
        let mut said = String::new();
        for line in stdout.lines() {
            said.push_str(&line.unwrap());
            if let Ok(document) = serde_json::from_str::<Value>(&said) {
                self.said = document;
                return self.said["url"].as_str().unwrap().trim_end_matches('/').to_owned();
            }
        }
        panic!("the server did not start:\n{}", self.log());
    }

    /// Kills the server and restarts it where it cannot start. Returns its exit code and output.
    pub fn refused_restart(&mut self) -> (Option<i32>, String) {
        self.kill9();
        let output = Command::new(programs::pilothouse())
            .args(["up", "--listen", "127.0.0.1:0", "--data"])
            .arg(self.data())
            .env("PILOTHOUSE_SIDECAR", programs::sidecar())
            .env("NO_COLOR", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    async fn answers(&self) {
        let give_up = Instant::now() + START;
        while !matches!(self.http.get(format!("{}/healthz", self.url)).send().await, Ok(r) if r.status().is_success())
        {
            assert!(Instant::now() < give_up, "the server does not respond:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The sidecars continue.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Suspends the server (SIGSTOP).
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok()).expect("the server runs");
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Relative to the system clock.
    pub fn set_clock_offset(&self, milliseconds: i64) {
        // A rename is atomic, because the server may read the file at any time.
        let (file, new) = (self.clock_offset_file(), self.folder.path().join("clock-offset.new"));
        std::fs::write(&new, milliseconds.to_string()).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    fn clock_offset_file(&self) -> PathBuf {
        self.folder.path().join("clock-offset")
    }

    /// Restarts the server with the same port and data, and waits until it responds.
    pub async fn restart(&mut self) {
        self.kill9();
        let address = self.url.trim_start_matches("http://").to_owned();
        let url = self.spawn(&address);
        assert_eq!(url, self.url);
        self.answers().await;
    }

    /// Restarts the server with the same data at another port, and waits until it responds.
    pub async fn restart_elsewhere(&mut self) {
        self.kill9();
        self.url = self.spawn(&free_address());
        self.answers().await;
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// `http://127.0.0.1:port`; [`Self::restart`] keeps it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Written by the server when it started to listen.
    pub const fn said(&self) -> &Value {
        &self.said
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A working directory for agents.
    pub fn work_folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub fn keys(&self) -> Arc<LocalKeys> {
        Arc::clone(&self.keys)
    }

    pub fn token(&self, owner: &str) -> String {
        self.keys.mint(&UserId::parse(owner).unwrap(), TTL).unwrap()
    }

    pub fn api(&self) -> Api {
        self.api_of(DEFAULT_OWNER)
    }

    pub fn api_of(&self, owner: &str) -> Api {
        self.api_with(Some(self.token(owner)))
    }

    /// Requests with any token, or without one.
    pub fn api_with(&self, token: Option<String>) -> Api {
        let log_capture = LogFiles { process: ("server", self.log_path()), data: self.data() };
        Api::new(self.http.clone(), self.url.clone(), token, Arc::new(log_capture))
    }

    pub fn client(&self) -> Client {
        self.client_of(DEFAULT_OWNER)
    }

    pub fn client_of(&self, owner: &str) -> Client {
        let credentials = Credentials::local(Arc::clone(&self.keys), UserId::parse(owner).unwrap());
        Client::new(&self.url, credentials).unwrap()
    }

    pub fn sidecars(&self) -> Vec<Sidecar> {
        processes::alive(&self.data())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

/// A free loopback address that stays free while its server is down: the system assigns no ports from this range.
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
