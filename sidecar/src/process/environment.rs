//! The environment variables that agent processes get from the sidecar: an explicit list.

use std::ffi::OsString;

/// Program and file paths, the language, proxies.
pub const CHOSEN: [&str; 22] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TMPDIR",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "JAVA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
];

pub fn chosen() -> Vec<(OsString, OsString)> {
    of(&CHOSEN)
}

fn of(names: &[&str]) -> Vec<(OsString, OsString)> {
    names.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
}
