//! The login of the web console, which the embedded server serves below `/console`.

use pilothouse_domain::UserId;
use serde::{Deserialize, Serialize};

/// A code that logs a browser in once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleCode {
    /// Belongs in the fragment of a link, which browsers do not send.
    pub code: String,
    /// How long it can be used.
    pub expires_in_seconds: u64,
}

/// The exchange of a code for a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsoleLogin {
    /// The code of the link.
    pub code: String,
}

/// A browser that is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleSession {
    /// The owner that the browser acts for.
    pub owner_id: UserId,
    /// The key that each request carries besides the cookie. Only the response to a login has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A link that logs a browser in and then opens a page of the console, by default the inbox.
pub fn link(server: &str, code: &str, path: Option<&str>) -> String {
    // A server that listens on all addresses is reached by the loopback address.
    let server =
        server.trim_end_matches('/').replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
    let to = path.map(|path| format!("&to={path}")).unwrap_or_default();
    format!("{server}/login#code={code}{to}")
}
