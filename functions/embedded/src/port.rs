//! The port of the server.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;

/// How long a port may be in use. Many times what a process needs to become another program on a busy machine.
const IN_USE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(20);

/// Listens on the address. If a server is killed while it starts a sidecar, the new process holds the port of the server until it has
/// become the program of the sidecar. The next server waits for that.
pub(crate) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let give_up = Instant::now() + IN_USE;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < give_up => {
                tokio::time::sleep(RETRY).await;
            }
            listening => return listening,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_of_a_killed_server_is_awaited() {
        let held = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = held.local_addr().unwrap();
        let (listening, ()) = tokio::join!(listen(address), async {
            assert_eq!(TcpListener::bind(address).await.unwrap_err().kind(), ErrorKind::AddrInUse);
            drop(held);
        });
        assert_eq!(listening.unwrap().local_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn port_of_a_running_server_is_refused() {
        let held = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refused = listen(held.local_addr().unwrap()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
    }
}
