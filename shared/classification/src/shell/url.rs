//! URLs.

use pilothouse_domain::effect::{BlastRadius, Effect};

use super::walk::Walker;
use crate::marks::is_literal;
use crate::path::Access;
use crate::tables::USES_NETWORK;

/// A request to a URL.
pub(super) fn access(walker: &mut Walker<'_>, url: &str) {
    if let Some(path) = url.strip_prefix("file://") {
        walker.access(path, Access::Read);
        return;
    }
    walker.findings.add(effect(url), url);
    walker.check_text(url.split_once(['?', '#']).map_or("", |(_, query)| query));
}

/// The effect of a request. A server on this machine belongs to the work of the agent.
pub(crate) fn effect(url: &str) -> Effect {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let is_port = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    let host = host.rsplit_once(':').map_or(host, |(name, port)| if is_port(port) { name } else { host });
    let is_local = is_literal(url) && matches!(host, "localhost" | "127.0.0.1" | "[::1]" | "0.0.0.0");
    if is_local { Effect { blast_radius: BlastRadius::Trivial, ..USES_NETWORK } } else { USES_NETWORK }
}
