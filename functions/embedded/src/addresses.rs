//! The addresses at which the server listens.
//!
//! A sidecar reads the address of its server once and outlives the server, so the next one listens there too, wherever else its
//! options let it listen. For that reason sidecars get a loopback address: it exists on every network, and listening there does not
//! open the server to other machines.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use tokio::net::TcpListener;

use super::{StartError, port};

pub(super) struct Listeners {
    pub(super) all: Vec<TcpListener>,
    /// The address that the options name, with its port.
    pub(super) address: SocketAddr,
    /// The address for the sidecars of new runs.
    pub(super) of_sidecars: SocketAddr,
}

/// Listens at `wanted`, and where the unfinished runs of the data folder reach their server. Nothing in the folder is changed.
pub(super) async fn listen(wanted: SocketAddr, data: &Path) -> Result<Listeners, StartError> {
    let refused = |source| StartError::Listen { address: wanted, source };
    let own = port::listen(wanted).await.map_err(refused)?;
    let address = own.local_addr().map_err(refused)?;
    let mut listeners = Listeners { all: vec![own], address, of_sidecars: address };
    let mut addresses = vec![address];
    for earlier in earlier_addresses(data)? {
        if addresses.iter().any(|listening| covers(*listening, earlier)) {
            continue;
        }
        match port::listen(earlier).await {
            // The options do not open the server to that network.
            Ok(_) if !earlier.ip().is_loopback() => return Err(StartError::EarlierNetwork(earlier)),
            Ok(listener) => {
                tracing::info!(address = %earlier, "listening also for agents of an earlier start");
                listeners.all.push(listener);
                addresses.push(earlier);
            }
            // Nothing could make that server reachable again.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => tracing::warn!(
                address = %earlier,
                "agents of an earlier start reach this server at an address that this machine no longer has; they are stopped after \
                 ten minutes"
            ),
            Err(source) => return Err(StartError::EarlierAddress { address: earlier, source }),
        }
    }
    let loopback = addresses.into_iter().map(reachable).find(|address| address.ip().is_loopback());
    if let Some(loopback) = loopback {
        listeners.of_sidecars = loopback;
    } else if let Some((listener, loopback)) = listen_on_loopback(address.port()).await {
        listeners.all.push(listener);
        listeners.of_sidecars = loopback;
    }
    Ok(listeners)
}

/// Listens on loopback, at `port` if it is free. `None` if the machine has no such address.
async fn listen_on_loopback(port: u16) -> Option<(TcpListener, SocketAddr)> {
    for port in [port, 0] {
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            let address = listener.local_addr().ok()?;
            return Some((listener, address));
        }
    }
    None
}

/// Where the sidecars of unfinished runs connect to.
fn earlier_addresses(data: &Path) -> Result<BTreeSet<SocketAddr>, StartError> {
    let urls = pilothouse_worker::gateway_urls(data)
        .map_err(|source| pilothouse_worker::StartError::Data { path: data.to_owned(), source })?;
    Ok(urls.iter().filter_map(|url| address_of(url)).map(reachable).collect())
}

/// The address in the URL of an embedded server. `None` for the URL of another control plane.
fn address_of(url: &str) -> Option<SocketAddr> {
    url.strip_prefix("http://")?.trim_end_matches('/').parse().ok()
}

/// The address where a connection to `address` arrives: the system connects to loopback instead of to no address.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let ip = if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        address.set_ip(ip);
    }
    address
}

/// Whether a listener at `listening` accepts connections to `address`.
fn covers(listening: SocketAddr, address: SocketAddr) -> bool {
    let all = listening.ip().is_unspecified() && (listening.is_ipv6() || address.is_ipv4());
    listening.port() == address.port() && (all || listening.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_embedded_servers_are_read_from_urls() {
        assert_eq!(address_of("http://127.0.0.1:7433"), Some(address("127.0.0.1:7433")));
        assert_eq!(address_of("http://[::1]:7433/"), Some(address("[::1]:7433")));
        assert_eq!(address_of("https://deployment.example"), None);
        assert_eq!(address_of("http://ship.example:7433"), None);
    }

    #[test]
    fn unspecified_addresses_are_reached_on_loopback() {
        assert_eq!(reachable(address("0.0.0.0:1")), address("127.0.0.1:1"));
        assert_eq!(reachable(address("[::]:1")), address("[::1]:1"));
        assert_eq!(reachable(address("192.168.0.7:1")), address("192.168.0.7:1"));
    }

    #[test]
    fn a_listener_at_every_address_covers_its_port() {
        let covered = |listening: &str, other: &str| covers(address(listening), address(other));
        assert!(covered("127.0.0.1:1", "127.0.0.1:1"));
        assert!(covered("0.0.0.0:1", "127.0.0.1:1") && covered("[::]:1", "127.0.0.1:1"));
        assert!(!covered("0.0.0.0:1", "[::1]:1") && !covered("0.0.0.0:2", "127.0.0.1:1"));
        assert!(!covered("127.0.0.1:1", "192.168.0.7:1"));
    }

    #[tokio::test]
    async fn sidecars_get_a_loopback_address() {
        let data = tempfile::tempdir().unwrap();
        for wanted in ["127.0.0.1:0", "0.0.0.0:0"] {
            let listeners = listen(address(wanted), data.path()).await.unwrap();
            assert_eq!(listeners.all.len(), 1, "{wanted}");
            assert_eq!(listeners.of_sidecars, address(&format!("127.0.0.1:{}", listeners.address.port())));
        }
        let (listener, loopback) = listen_on_loopback(0).await.unwrap();
        assert_eq!(listener.local_addr().unwrap(), loopback);
        // The port is in use, so it selects another one.
        let (_other, other) = listen_on_loopback(loopback.port()).await.unwrap();
        assert!(other.ip().is_loopback() && other != loopback);
    }
}
