//! Builds the console with Node.js and embeds its files. Without Node.js, or when npm fails, the crate is built without the
//! console, and says why.
//!
//! `console/scripts/build.mjs` keeps stamps, so that it installs and bundles only after a change. `PILOTHOUSE_CONSOLE=off` leaves
//! the console out.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The sources of the bundle, below the folder of the crate.
const INPUTS: &[&str] = &[
    "embed/build.rs",
    "index.html",
    "package.json",
    "package-lock.json",
    "public",
    "scripts/build.mjs",
    "src",
    "tsconfig.json",
    "vite.config.ts",
];
/// The oldest version of Node.js that the tools support.
const MIN_NODE: (u32, u32) = (20, 19);
/// The limit of a build. One that installs everything takes about 30 seconds.
const TIMEOUT: Duration = Duration::from_mins(5);
const REBUILD: &str = "run `cargo clean -p pilothouse-console && cargo build`";

fn main() -> io::Result<()> {
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    println!("cargo::rerun-if-env-changed=PILOTHOUSE_CONSOLE");
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", folder.join(input).display());
    }
    let source = match bundle(&folder, &out) {
        Ok(dist) => files(&dist, &out)?,
        Err(reason) => {
            println!("cargo::warning=built without the web console: {reason}");
            format!("static CONSOLE: Result<Console, &str> = Err({reason:?});")
        }
    };
    fs::write(out.join("files.rs"), source)
}

fn variable(name: &str) -> io::Result<String> {
    std::env::var(name).map_err(io::Error::other)
}

/// Bundles the console. Returns the folder of the bundle, or the reason for the failure.
fn bundle(folder: &Path, out: &Path) -> Result<PathBuf, String> {
    if std::env::var("PILOTHOUSE_CONSOLE").is_ok_and(|value| value == "off") {
        return Err("PILOTHOUSE_CONSOLE is `off`; unset it and build again".into());
    }
    let (major, minor) = MIN_NODE;
    let wanted = format!("install Node.js {major}.{minor} or later with npm, then {REBUILD}");
    let node = output("node", "--version").ok_or_else(|| format!("Node.js is not installed; {wanted}"))?;
    if version(&node).is_none_or(|version| version < MIN_NODE) {
        return Err(format!("Node.js {node} is too old; {wanted}"));
    }
    output("npm", "--version").ok_or_else(|| format!("npm is not installed; {wanted}"))?;
    // Builds with other target folders or profiles use the same node_modules.
    let lock = File::create(folder.join(".build.lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let log = out.join("build.log");
    run(folder, &log).map_err(|why| format!("{why}; see {}. To try again, {REBUILD}", log.display()))?;
    // A copy, because the next build of another profile may replace the folder.
    let dist = out.join("dist");
    let copied = copy(&folder.join("dist"), &dist);
    copied.map(|()| dist).map_err(|error| format!("failed to copy the bundle: {error}"))
}

fn output(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix('v')?.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

fn run(folder: &Path, log: &Path) -> Result<(), String> {
    let file = File::create(log).map_err(|error| error.to_string())?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    let mut child = Command::new("node")
        .arg("scripts/build.mjs")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("node failed to start: {error}"))?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => {
                let log = fs::read_to_string(log).unwrap_or_default();
                let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output");
                return Err(format!("`console/scripts/build.mjs` failed: {last}"));
            }
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(50)),
            Ok(None) => {
                let killed = child.kill().and_then(|()| child.wait());
                return Err(format!(
                    "`console/scripts/build.mjs` took longer than {} s ({killed:?})",
                    TIMEOUT.as_secs()
                ));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for path in all_files(from)? {
        let target = to.join(path.strip_prefix(from).map_err(io::Error::other)?);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(&path, target)?;
    }
    Ok(())
}

fn all_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(all_files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// The source of the table of files.
fn files(dist: &Path, out: &Path) -> io::Result<String> {
    let mut assets = Vec::new();
    for path in all_files(dist)? {
        let relative = path.strip_prefix(out).map_err(io::Error::other)?.to_string_lossy().into_owned();
        if let Some(url) = relative.strip_prefix("dist").and_then(|url| url.strip_suffix(".gz")) {
            assets.push((url.to_owned(), relative));
        }
    }
    assets.sort();
    let include = |file: &str| format!("concat!(env!(\"OUT_DIR\"), {:?})", format!("/{file}"));
    let mut source = format!(
        "static CONSOLE: Result<Console, &str> = Ok(Console {{ page: include_str!({}), assets: &[",
        include("dist/index.html")
    );
    for (url, file) in assets {
        write!(source, "Asset {{ path: {url:?}, gzip: include_bytes!({}) }},", include(&file))
            .map_err(io::Error::other)?;
    }
    source.push_str("] });\n");
    Ok(source)
}
