//! The variables of the sidecar's environment that agent processes see: an explicit list.

use std::ffi::OsString;

/// Variables that every process gets if they are set: program and file paths, the language, proxies.
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

/// Keys of model providers. Only an agent that calls models itself gets them; tools do not. They never appear in an
/// event.
pub const PROVIDER_KEYS: [&str; 9] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
];

/// Base URLs of model providers, if they are not the defaults.
pub const PROVIDER_ADDRESSES: [&str; 2] = ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"];

/// The [`CHOSEN`] variables of this process.
pub fn chosen() -> Vec<(OsString, OsString)> {
    of(&CHOSEN)
}

/// Additional variables for an agent that calls models itself: [`PROVIDER_KEYS`] and [`PROVIDER_ADDRESSES`].
pub fn of_providers() -> Vec<(OsString, OsString)> {
    [of(&PROVIDER_KEYS), of(&PROVIDER_ADDRESSES)].concat()
}

fn of(names: &[&str]) -> Vec<(OsString, OsString)> {
    names.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
}
