//! `pilothouse-sidecar run <run-dir>` and `pilothouse-sidecar drain <run-dir>`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use pilothouse_sidecar::exit::Exit;
use pilothouse_sidecar::{drain, run};
use tracing::error;

const USAGE: &str = "usage: pilothouse-sidecar run <run-dir>\n       pilothouse-sidecar drain <run-dir>";

fn main() -> ExitCode {
    let level =
        std::env::var("PILOTHOUSE_LOG").ok().and_then(|l| l.parse().ok()).unwrap_or(tracing::Level::INFO);
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_ansi(false).init();

    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (drains, path) = match &arguments[..] {
        [verb, path] if verb == "run" => (false, PathBuf::from(path)),
        [verb, path] if verb == "drain" => (true, PathBuf::from(path)),
        _ => {
            eprintln!("{USAGE}");
            return Exit::Usage.into();
        }
    };
    // One thread: the sidecar mostly waits, and stands beside every agent.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            error!(error = &e as &dyn std::error::Error, "the runtime cannot be started");
            return Exit::Failed.into();
        }
    };
    let ended =
        runtime.block_on(async { if drains { drain::drain(&path).await } else { run::run(&path).await } });
    match ended {
        Ok(exit) => exit.into(),
        Err(e) => {
            error!(error = &e as &dyn std::error::Error, "the sidecar failed");
            Exit::Failed.into()
        }
    }
}
