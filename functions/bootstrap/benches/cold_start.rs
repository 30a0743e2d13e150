//! Measures the time from `exec` to the first poll for an event, which Lambda counts as initialisation. A fake Runtime API on
//! loopback measures until `GET …/invocation/next` arrives, and a fake cloud answers the requests that warm up connections.
//!
//! ```text
//! cargo bench -p pilothouse-bootstrap --bench cold_start
//! BOOTSTRAP=target/lambda/bootstrap/bootstrap cargo bench -p pilothouse-bootstrap --bench cold_start
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fake::{FakeResponse, environment, serve};

const RUNS: usize = 40;
const FUNCTIONS: [(&str, &str); 3] =
    [("openapi", "touches nothing"), ("sessions-get", "warms the table"), ("intake", "reads the secret too")];
const SECRET: &str = r#"{"SecretString":"{\"id\":\"1\",\"secret\":\"0123456789abcdef0123456789abcdef\"}"}"#;

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).expect("the file is there").len()
}

/// The processor time of a process's threads, which hardly depends on the load of the machine.
fn on_processor(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let schedstat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// The size of the artifact, zipped like `infra/deploy` does.
fn zipped(program: &Path) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let zip = folder.path().join("bootstrap.zip");
    let values = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/values.py");
    match Command::new("python3").args([values, "zip"]).args([program, &zip]).status() {
        Ok(status) if status.success() => format!("{} zipped", size(&zip)),
        _ => "not zipped: that takes python3".to_owned(),
    }
}

fn main() {
    // `cargo test --benches` only checks that it starts.
    let runs = if std::env::args().any(|argument| argument == "--test") { 1 } else { RUNS };
    let program = std::env::var_os("BOOTSTRAP").unwrap_or_else(|| env!("CARGO_BIN_EXE_bootstrap").into());
    let program = PathBuf::from(program);
    println!("{}: {} bytes, {}", program.display(), size(&program), zipped(&program));

    let (polled, polls) = channel();
    let runtime_api = serve(move |request| {
        if request.head.contains("/invocation/next") {
            let _ = polled.send(Instant::now());
        }
        FakeResponse::Never
    });
    let cloud = serve(|request| {
        let asks_secret = request.head.contains("secretsmanager");
        FakeResponse::json("200 OK", if asks_secret { SECRET } else { "{}" })
    });
    for (function, what) in FUNCTIONS {
        let (mut times, mut busy): (Vec<_>, Vec<_>) = (0..runs)
            .map(|_| {
                let began = Instant::now();
                let mut child = Command::new(&program)
                    .env_clear()
                    .envs(environment(function, &runtime_api, &cloud))
                    .stdout(Stdio::null())
                    .spawn()
                    .expect("the program starts");
                let polled = polls.recv_timeout(Duration::from_secs(10)).expect("it polls");
                let busy = on_processor(child.id());
                child.kill().unwrap();
                child.wait().unwrap();
                (polled.duration_since(began), busy)
            })
            .unzip();
        times.sort();
        busy.sort();
        let at = |all: &[Duration], share: usize| all[(all.len() - 1) * share / 100].as_secs_f64() * 1000.0;
        println!(
            "{function:14} ({what}): median {:.1} ms, p90 {:.1} ms, best {:.1} ms; on the processor median {:.1} ms",
            at(&times, 50),
            at(&times, 90),
            at(&times, 0),
            at(&busy, 50),
        );
    }
}
