//! The login of the web console: at the embedded server below `/console`, and in AWS with a token.

use pilothouse_domain::console_login::ConsoleLogin;
use pilothouse_domain::text::DeviceName;
use pilothouse_domain::{ConsoleLoginId, UserId};
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
pub struct ConsoleLoginRequest {
    /// The code of the link.
    pub code: String,
    /// What the browser calls itself.
    pub device: DeviceName,
}

/// A browser that is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleSession {
    /// The owner that the browser acts for.
    pub owner_id: UserId,
    /// The login of the browser; absent if the request was authenticated by a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_id: Option<ConsoleLoginId>,
    /// The key that each request carries besides the cookie. Only the response to a login has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The browsers in which an owner is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleLoginsView {
    /// The logins, oldest first.
    pub items: Vec<ConsoleLogin>,
}

/// A link to the console of a deployment in AWS that logs a browser in and then opens a page, by default the inbox. Without a token, the
/// console asks for one.
pub fn token_link(console: &str, token: Option<&str>, path: Option<&str>) -> String {
    let parts = [("token", token), ("to", path)];
    let parts: Vec<_> =
        parts.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}"))).collect();
    let fragment = if parts.is_empty() { String::new() } else { format!("#{}", parts.join("&")) };
    format!("{}/login{fragment}", console.trim_end_matches('/'))
}

/// A link that logs a browser in and then opens a page of the console, by default the inbox.
pub fn link(server: &str, code: &str, path: Option<&str>) -> String {
    // A server that listens on all addresses is reached by the loopback address.
    let server =
        server.trim_end_matches('/').replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
    let to = path.map(|path| format!("&to={path}")).unwrap_or_default();
    format!("{server}/login#code={code}{to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_in_the_fragment_of_the_link() {
        let console = "https://d1.cloudfront.net/";
        assert_eq!(token_link(console, None, None), "https://d1.cloudfront.net/login");
        assert_eq!(token_link(console, Some("a.b.c"), None), "https://d1.cloudfront.net/login#token=a.b.c");
        assert_eq!(
            token_link(console, Some("a.b.c"), Some("/sessions/1")),
            "https://d1.cloudfront.net/login#token=a.b.c&to=/sessions/1"
        );
    }
}
