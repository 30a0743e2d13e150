//! Benches of the control plane on the embedded engine. They print figures and assert nothing.
//!
//! `cargo bench -p pilothouse-tests --bench control_plane [-- commands writes events growth]`
//!
//! The server is a separate process (this program starts itself again), so that its memory and start time can be measured. Its
//! sidecars are shells that sleep, so the figures cover the control plane alone. Client and server share the processor cores.

// Benches panic on errors, and print ratios of counts.
#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::duration_suboptimal_units,
    clippy::items_after_statements
)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_app::FreshIds;
use pilothouse_app::http::Keyring;
use pilothouse_app::{App, Parts, queues};
use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_broker::{Broker, MAX_BATCH, OutgoingMessage};
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::{AllowedModels, Capabilities};
use pilothouse_domain::{AgentSessionId, DomainContext, IdSource, RunId, UserId};
use pilothouse_embedded::{AgentsOnExit, Options, Retention, SIDECAR, Server};
use pilothouse_functions::events::intake;
use pilothouse_local_keys::{AUDIENCE, ISSUER, LocalKeys};
use pilothouse_sqlite::system_clock;
use pilothouse_store::Commit;
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_test_support::{
    EmbeddedEngines, InertRuntime, create_session_with_run, new_session, sealed_event,
};
use pilothouse_wire::event::{AssistantContent, RawEvent};

const SERVE: &str = "PILOTHOUSE_BENCH_SERVE";

fn main() {
    if let Ok(data) = std::env::var(SERVE) {
        return serve(Path::new(&data));
    }
    // `cargo test` runs benches with `--test`; skip the work then.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!(
        "control plane, embedded engine, {} cores",
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let parts: [(&str, fn()); 4] =
        [("commands", commands), ("writes", writes), ("events", events), ("growth", growth)];
    for (name, part) in parts {
        if named.is_empty() || named.iter().any(|n| n == name) {
            part();
        }
    }
}

// ── the server ─────────────────────────────────────────────────────────────────────────────────────────────────────

fn serve(data: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let agents_on_exit = AgentsOnExit::End;
        let options = Options {
            listen,
            data: data.to_owned(),
            agents_on_exit,
            confine: Some(vec![]),
            secrets: None,
            pass_env: vec![],
            console_hosts: vec![],
            default_adapter: Some(AdapterName::script()),
            allowed_models: AllowedModels::default(),
            retention: Retention::default(),
        };
        let server = Server::start(options).await.unwrap();
        println!("{}", server.url());
        server.run_until(std::future::pending()).await;
    });
}

struct ServerProcess {
    child: Child,
    address: SocketAddr,
    data: tempfile::TempDir,
    started_in: Duration,
}

impl ServerProcess {
    fn start() -> Self {
        let data = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .tempdir()
            .unwrap();
        // The sidecar is a process without work, so that the figures cover only the control plane. It says that it can confine agents,
        // because a server without confinement serves one owner.
        let sidecar = data.path().join("sidecar.sh");
        let script =
            "#!/bin/sh\nif test \"$1\" = confinement; then echo files-and-signals; else exec sleep 600; fi\n";
        std::fs::write(&sidecar, script).unwrap();
        std::fs::set_permissions(&sidecar, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        LocalKeys::open_or_create(data.path()).unwrap();
        let begun = Instant::now();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(SERVE, data.path())
            .env(SIDECAR, &sidecar)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = child.stdout.take().unwrap();
        let mut byte = [0];
        while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
        let address: SocketAddr = line.strip_prefix("http://").unwrap().parse().unwrap();
        let mut client = Client::connect(address, "");
        client.request("GET", "/healthz", "");
        Self { child, address, data, started_in: begun.elapsed() }
    }

    fn token(&self, owner: &str) -> String {
        let keys = LocalKeys::open_or_create(self.data.path()).unwrap();
        keys.mint(&UserId::parse(owner).unwrap(), Duration::from_secs(3600)).unwrap()
    }

    fn rss_mib(&self) -> f64 {
        rss_mib(self.child.id())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Nobody can kill the sleeping sidecars here, because they have their own process groups and write no process ids. They exit by
        // themselves.
    }
}

fn rss_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or("VmRSS: 0 kB");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// A minimal HTTP client: one connection, sequential requests.
struct Client {
    stream: TcpStream,
    token: String,
    buffer: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr, token: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, token: token.to_owned(), buffer: Vec::new() }
    }

    fn request(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).unwrap();
        self.buffer.clear();
        let mut chunk = [0; 16 * 1024];
        loop {
            let n = self.stream.read(&mut chunk).unwrap();
            assert!(n > 0, "the server closed the connection");
            self.buffer.extend_from_slice(&chunk[..n]);
            if let Some(end) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
                let length = head
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|s| s.split("\r\n").next())
                    .map_or(0, |n| n.parse().unwrap());
                if self.buffer.len() >= end + 4 + length {
                    let status = head[9..12].parse().unwrap();
                    return (
                        status,
                        String::from_utf8_lossy(&self.buffer[end + 4..end + 4 + length]).into_owned(),
                    );
                }
            }
        }
    }

    fn create_session(&mut self) -> String {
        let body = r#"{"workingDirectory":"/tmp","objective":"bench","budgetCapUsd":"1"}"#;
        let (status, body) = self.request("POST", "/api/agents/sessions", body);
        assert!(status == 201 || status == 202, "{status} {body}");
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        value["session"]["id"].as_str().unwrap().to_owned()
    }

    fn enqueue(&mut self, session: &str) -> bool {
        let path = format!("/api/agents/sessions/{session}/messages/queue");
        self.request("POST", &path, r#"{"content":"please look at the tests first"}"#).0 == 201
    }
}

// ── commands ───────────────────────────────────────────────────────────────────────────────────────────────────────

fn percentile(sorted: &[Duration], p: usize) -> Duration {
    sorted.get((sorted.len() * p / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Runs `work` in `clients` threads and prints the rate. Each thread has its own connection and owner, and sends `each` requests.
fn load(
    name: &str,
    server: &ServerProcess,
    clients: usize,
    each: usize,
    work: impl Fn(&mut Client, usize) + Sync,
) {
    load_as(|n| format!("owner-{n}"), name, server, clients, each, work);
}

/// Like [`load`], with the owner that `owner` names for a thread.
fn load_as(
    owner: impl Fn(usize) -> String,
    name: &str,
    server: &ServerProcess,
    clients: usize,
    each: usize,
    work: impl Fn(&mut Client, usize) + Sync,
) {
    let begun = Instant::now();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|n| {
                let (work, token) = (&work, server.token(&owner(n)));
                scope.spawn(move || {
                    let mut client = Client::connect(server.address, &token);
                    (0..each)
                        .map(|i| {
                            let begun = Instant::now();
                            work(&mut client, n * each + i);
                            begun.elapsed()
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let all = begun.elapsed();
    times.sort();
    println!(
        "  {name:<34} {clients} clients  p50 {:>7.3} ms  p95 {:>7.3} ms  p99 {:>7.3} ms  {:>7.0}/s",
        percentile(&times, 50).as_secs_f64() * 1e3,
        percentile(&times, 95).as_secs_f64() * 1e3,
        percentile(&times, 99).as_secs_f64() * 1e3,
        times.len() as f64 / all.as_secs_f64()
    );
}

fn commands() {
    println!("durable commands over HTTP");
    let server = ServerProcess::start();
    println!(
        "  server: ready after {:.0} ms, {:.1} MiB",
        server.started_in.as_secs_f64() * 1e3,
        server.rss_mib()
    );
    for n in 0..8 {
        // Each owner has one run: the other sessions stay queued and start no process.
        let mut client = Client::connect(server.address, &server.token(&format!("owner-{n}")));
        client.request("PATCH", "/api/agents/pool", r#"{"maxConcurrentSessions":1}"#);
        client.create_session();
    }
    let sessions: Vec<Vec<String>> = (0..8)
        .map(|n| {
            let mut client = Client::connect(server.address, &server.token(&format!("owner-{n}")));
            (0..40).map(|_| client.create_session()).collect()
        })
        .collect();
    load("read a session", &server, 1, 3000, |client, _| {
        client.request("GET", &format!("/api/agents/sessions/{}", sessions[0][0]), "");
    });
    // A queue accepts 100 messages, so 40 sessions accept 4,000.
    load("enqueue a message", &server, 1, 1500, |client, i| assert!(client.enqueue(&sessions[0][i % 40])));
    load("enqueue a message", &server, 8, 2000, |client, i| {
        let (owner, i) = (i / 2000, i % 2000);
        assert!(client.enqueue(&sessions[owner][i % 40]) || owner == 0);
    });
    load("start a session (own pool each)", &server, 1, 200, |client, _| {
        client.create_session();
    });
    load("start a session (own pool each)", &server, 8, 100, |client, _| {
        client.create_session();
    });
    println!("  server with {} sessions: {:.1} MiB", 8 * 41 + 1000, server.rss_mib());
    one_pool(&server);
}

/// Starts of one owner from many connections: with a slot each, and in the waiting line.
fn one_pool(server: &ServerProcess) {
    for (name, slots, clients, each) in
        [("slots", 1000, 8, 20), ("line", 1, 8, 50), ("long-line", 1, 8, 120), ("wide-line", 1, 32, 25)]
    {
        let owner = format!("one-{name}");
        let mut client = Client::connect(server.address, &server.token(&owner));
        let pool = format!("{{\"maxConcurrentSessions\":{slots}}}");
        client.request("PATCH", "/api/agents/pool", &pool);
        client.create_session();
        let title = format!("start a session (one pool, {name})");
        load_as(
            |_| owner.clone(),
            &title,
            server,
            clients,
            each,
            |client, _| {
                client.create_session();
            },
        );
    }
}

fn writes() {
    println!("items and bytes that a command writes (table only, without the messages of the broker)");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = Bench::open().await;
        let owner = UserId::parse("bench").unwrap();
        let token = bench.keys.mint(&owner, Duration::from_secs(600)).unwrap();
        let router = pilothouse_functions::router(bench.app.clone());
        let call = async |method: &str, path: String, body: &'static str| {
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .header("authorization", format!("Bearer {token}"));
            let before = bench.table.usage().snapshot();
            let response = tower::ServiceExt::oneshot(
                router.clone(),
                request.body(axum::body::Body::from(body)).unwrap(),
            )
            .await
            .unwrap();
            let status = response.status();
            let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let after = bench.table.usage().snapshot();
            (
                status,
                bytes,
                after.items_written - before.items_written,
                after.bytes_written - before.bytes_written,
            )
        };
        let start = r#"{"workingDirectory":"/tmp","objective":"bench","budgetCapUsd":"1"}"#;
        let (status, bytes, items, written) = call("POST", "/api/agents/sessions".to_owned(), start).await;
        println!("  start a session    {status}: {items} items, {written} bytes");
        let id = serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["session"]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = format!("/api/agents/sessions/{id}");
        for (name, method, rest, body) in [
            (
                "enqueue a message",
                "POST",
                "/messages/queue",
                r#"{"content":"please look at the tests first"}"#,
            ),
            ("change the budget", "PATCH", "/budget", r#"{"capUsd":"2"}"#),
            ("cancel", "POST", "/cancel", "{}"),
        ] {
            let (status, _, items, written) = call(method, format!("{path}{rest}"), body).await;
            println!("  {name:<18} {status}: {items} items, {written} bytes");
        }
    });
}

/// Prints the cost of a command depending on the amount of stored data.
fn growth() {
    println!("a command by amount of stored data (journal items; store without HTTP)");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = Bench::open().await;
        let (session, run) = bench.running_session().await;
        let mut stored = 0u64;
        for target in [100u64, 1_000, 10_000, 100_000] {
            bench.send(session, run, stored + 2, target - stored).await;
            bench.drain(4).await;
            stored = target;
            let mut times = Vec::new();
            for n in 0..200u64 {
                let begun = Instant::now();
                bench.touch(session, n).await;
                times.push(begun.elapsed());
            }
            times.sort();
            println!(
                "  {stored:>7} items: p50 {:.3} ms, p99 {:.3} ms",
                percentile(&times, 50).as_secs_f64() * 1e3,
                percentile(&times, 99).as_secs_f64() * 1e3
            );
        }
    });
}

// ── events ─────────────────────────────────────────────────────────────────────────────────────────────────────────

fn events() {
    println!("events through intake (signed envelopes, broker to committed journal)");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for (sessions, consumers) in [(1usize, 1usize), (8, 4), (32, 8), (64, 16)] {
            let bench = Bench::open().await;
            let each = 20_000 / sessions as u64;
            let mut ready = Vec::new();
            for _ in 0..sessions {
                ready.push(bench.running_session().await);
            }
            for (session, run) in ready {
                bench.send(session, run, 2, each).await;
            }
            let before = bench.table.usage().snapshot();
            let begun = Instant::now();
            bench.drain(consumers).await;
            let took = begun.elapsed();
            let after = bench.table.usage().snapshot();
            let count = each * sessions as u64;
            println!(
                "  {sessions:>2} sessions, {consumers:>2} consumers: {:>6.0} events/s; {:.2} items and {:.0} bytes written an event",
                count as f64 / took.as_secs_f64(),
                (after.items_written - before.items_written) as f64 / count as f64,
                (after.bytes_written - before.bytes_written) as f64 / count as f64,
            );
        }
    });
}

/// The control plane without HTTP and processes.
struct Bench {
    app: App,
    table: SqliteTable,
    broker: EmbeddedBroker,
    keys: LocalKeys,
    _engines: EmbeddedEngines,
}

impl Bench {
    async fn open() -> Self {
        let engines = EmbeddedEngines::open(system_clock()).await;
        let keys = LocalKeys::open_or_create(&engines.folder().join("keys")).unwrap();
        let public = HashMap::from([(keys.kid().to_owned(), keys.decoding_key().clone())]);
        let app = App::new(Parts {
            runtime: Arc::new(InertRuntime::with_workspace("bench")),
            keyring: Keyring::new(ISSUER, AUDIENCE, public),
            ..engines.parts()
        });
        let (table, broker) = (engines.table.clone(), engines.broker.clone());
        Self { app, table, broker, keys, _engines: engines }
    }

    async fn running_session(&self) -> (AgentSessionId, RunId) {
        let owner = UserId::parse(format!("owner-{}", FreshIds.fresh())).unwrap();
        let (id, run) = create_session_with_run(&self.app, new_session(&owner, "1000")).await;
        let ready = RawEvent::SidecarReady {
            sidecar_version: "bench".to_owned(),
            adapter: "bench".to_owned(),
            capabilities: Capabilities::default(),
        };
        self.broker.send(&queues::events(), vec![self.message(id, run, 1, ready)]).await.unwrap();
        self.drain(1).await;
        (id, run)
    }

    fn message(&self, session: AgentSessionId, run: RunId, sequence: u64, body: RawEvent) -> OutgoingMessage {
        sealed_event(&self.app, session, run, Some(sequence), body)
    }

    async fn send(&self, session: AgentSessionId, run: RunId, from: u64, count: u64) {
        let said = |n: u64| RawEvent::AssistantMessage {
            content: AssistantContent::Text {
                text: format!("I looked at file {n} and found nothing that needs a change.").into(),
            },
            turn_id: None,
        };
        let messages: Vec<_> = (from..from + count).map(|n| self.message(session, run, n, said(n))).collect();
        for batch in messages.chunks(MAX_BATCH) {
            self.broker.send(&queues::events(), batch.to_vec()).await.unwrap();
        }
    }

    async fn drain(&self, consumers: usize) {
        let tasks: Vec<_> = (0..consumers)
            .map(|_| {
                let (app, broker) = (self.app.clone(), self.broker.clone());
                tokio::spawn(async move {
                    loop {
                        let batch =
                            broker.receive(&queues::events(), MAX_BATCH, Duration::ZERO).await.unwrap();
                        if batch.is_empty() {
                            let depth = broker.depth(&queues::events()).await.unwrap();
                            if depth.visible + depth.in_flight == 0 {
                                return;
                            }
                            tokio::task::yield_now().await;
                            continue;
                        }
                        intake::process_and_settle(&app, batch).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }

    /// Commits one change to a session with a long journal.
    async fn touch(&self, session: AgentSessionId, n: u64) {
        let mut loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let mut ids = FreshIds;
        let mut ctx: DomainContext<'_> = self.app.domain_context(&mut ids);
        let cap = format!("{}", 1000 + n % 7).parse().unwrap();
        let events = loaded
            .conversation
            .session
            .change_budget(pilothouse_domain::session::BudgetChange {
                cap_usd: Some(cap),
                ..Default::default()
            })
            .unwrap();
        let events = self.app.with_consequences(&mut loaded.conversation, events, &mut ctx);
        let mut commit = Commit::new();
        self.app.record(&mut commit, &mut loaded, pilothouse_domain::journal::Cause::Clock, events).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }
}
