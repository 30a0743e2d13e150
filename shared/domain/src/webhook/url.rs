use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::EgressPolicy;
use super::egress::is_below;
use crate::string_value::string_value;

/// URL of a webhook: `https://` (or `http://`), a host, and optionally a port, path and query. User names, fragments and unusual
/// spellings of IPv4 addresses are rejected, because parsers disagree about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebhookUrl {
    text: String,
    secure: bool,
    host: Host,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A host name, which is resolved at each delivery.
    Name(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebhookUrl {
    #[error("must have at most {} characters", WebhookUrl::MAX)]
    TooLong,
    #[error("must be an address like https://example.com/hooks, without user and fragment")]
    Malformed,
    #[error("must begin with https://")]
    Insecure,
    /// The host is not allowed.
    #[error("leads into a network that webhooks may not reach")]
    OutOfReach,
}

impl WebhookUrl {
    pub const MAX: usize = 2000;

    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidWebhookUrl> {
        let text = text.into();
        if text.len() > Self::MAX {
            return Err(InvalidWebhookUrl::TooLong);
        }
        let parts = Self::split(&text).ok_or(InvalidWebhookUrl::Malformed);
        let (secure, host) = parts?;
        Ok(Self { text, secure, host })
    }

    fn split(text: &str) -> Option<(bool, Host)> {
        let plain = |c: char| {
            c.is_ascii_graphic() && !matches!(c, '\\' | '#' | '<' | '>' | '"' | '`' | '{' | '}' | '|' | '^')
        };
        if !text.chars().all(plain) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = rest.split(['/', '?']).next()?;
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                let address = Host::Address(IpAddr::V6(address.parse().ok()?));
                (address, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (Self::named(host)?, Some(port)),
                None => (Self::named(authority)?, None),
            },
        };
        let fits = |port: &str| {
            port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
        };
        port.is_none_or(fits).then_some((secure, host))
    }

    fn named(host: &str) -> Option<Host> {
        if let Ok(address) = host.parse::<Ipv4Addr>() {
            return Some(Host::Address(IpAddr::V4(address)));
        }
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // Some parsers read a numeric last label as an IPv4 address.
        let last = host.rsplit('.').next()?;
        let numeric = last.starts_with(|c: char| c.is_ascii_digit());
        let fits = host.len() <= 253 && host.split('.').all(label) && !numeric;
        fits.then(|| Host::Name(host.to_ascii_lowercase()))
    }

    /// Checks scheme and host of the URL against `egress_policy`.
    pub fn check(&self, egress_policy: EgressPolicy) -> Result<(), InvalidWebhookUrl> {
        let local = match &self.host {
            Host::Address(address) => {
                if !egress_policy.admits(*address) {
                    return Err(InvalidWebhookUrl::OutOfReach);
                }
                address.is_loopback() || egress_policy == EgressPolicy::Private
            }
            Host::Name(name) => {
                if !egress_policy.admits_name(name) {
                    return Err(InvalidWebhookUrl::OutOfReach);
                }
                is_below(name, "localhost") || egress_policy == EgressPolicy::Private
            }
        };
        if self.secure || (local && egress_policy >= EgressPolicy::Loopback) {
            Ok(())
        } else {
            Err(InvalidWebhookUrl::Insecure)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Scheme, host and port, as written.
    pub fn origin(&self) -> &str {
        let authority = self.text.find("://").map_or(0, |scheme| scheme + 3);
        let end = self.text[authority..].find(['/', '?']);
        end.map_or(&self.text, |end| &self.text[..authority + end])
    }

    pub const fn host(&self) -> &Host {
        &self.host
    }
}

string_value!(WebhookUrl.text, InvalidWebhookUrl, Self::parse, {
    "type": "string", "format": "uri", "maxLength": Self::MAX
});

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_address_is_refused() {
        for good in [
            "https://example.com",
            "https://example.com/hooks?a=b",
            "https://Example.com:8443/",
            "http://[::1]:80/x",
            "https://a_b.example",
            "https://1.2.3.4/x",
        ] {
            assert!(WebhookUrl::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "ftp://example.com",
            "https://",
            "https:///x",
            "https://a@b.example",
            "https://b.example#x",
            "https://127.1/",
            "https://0x7f000001/",
            "https://2130706433/",
            "https://example.com:0/",
            "https://example.com:99999/",
            "https://example.com:8o/",
            "https://exa mple.com",
            "https://example.com\\x",
            "https://[::1",
            "https://[::1]x/",
            "https://-a.example/",
            "https://a..b/",
            "https://ex\u{e4}mple.com",
            "HTTPS://example.com",
            "https://1.2.3.4.5/",
        ] {
            assert_eq!(WebhookUrl::parse(bad), Err(InvalidWebhookUrl::Malformed), "{bad}");
        }
        let long = format!("https://example.com/{}", "x".repeat(2000));
        assert_eq!(WebhookUrl::parse(long), Err(InvalidWebhookUrl::TooLong));
    }

    #[test]
    fn only_loopback_endpoints_may_be_unencrypted() {
        use InvalidWebhookUrl::{Insecure, OutOfReach};
        let check = |text: &str, egress_policy| WebhookUrl::parse(text).unwrap().check(egress_policy);
        assert_eq!(check("https://example.com", EgressPolicy::Public), Ok(()));
        assert_eq!(check("http://example.com", EgressPolicy::Public), Err(Insecure));
        assert_eq!(check("http://example.com", EgressPolicy::Loopback), Err(Insecure));
        assert_eq!(check("http://127.0.0.1:80/", EgressPolicy::Public), Err(OutOfReach));
        assert_eq!(check("http://127.0.0.1:80/", EgressPolicy::Loopback), Ok(()));
        assert_eq!(check("http://localhost/", EgressPolicy::Loopback), Ok(()));
        assert_eq!(check("https://localhost/", EgressPolicy::Public), Err(OutOfReach));
        assert_eq!(check("https://10.0.0.1/", EgressPolicy::Loopback), Err(OutOfReach));
        assert_eq!(check("http://10.0.0.1/", EgressPolicy::Private), Ok(()));
        assert_eq!(check("http://169.254.169.254/latest", EgressPolicy::Private), Err(OutOfReach));
    }

    #[test]
    fn names_for_private_networks_are_refused() {
        let check = |text: &str, egress_policy| WebhookUrl::parse(text).unwrap().check(egress_policy);
        let refused = Err(InvalidWebhookUrl::OutOfReach);
        for name in ["metadata.google.internal", "Metadata.Google.Internal", "metadata.goog", "metadata"] {
            for egress_policy in [EgressPolicy::Public, EgressPolicy::Loopback, EgressPolicy::Private] {
                assert_eq!(
                    check(&format!("https://{name}/computeMetadata/v1/"), egress_policy),
                    refused,
                    "{name}"
                );
            }
        }
        for name in ["intranet", "printer.local", "db.internal", "router.home.arpa", "x.lan"] {
            let url = format!("https://{name}/");
            assert_eq!(check(&url, EgressPolicy::Public), refused, "{name}");
            assert_eq!(check(&url, EgressPolicy::Private), Ok(()), "{name}");
        }
        for name in ["example.com", "internal.example.com", "notlocalhost.com", "metadata.example.com"] {
            assert_eq!(check(&format!("https://{name}/"), EgressPolicy::Public), Ok(()), "{name}");
        }
    }
}
