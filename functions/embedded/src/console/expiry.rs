//! The end of live streams whose login or token expires. A stream is one long request, so nothing else would check it again
//! (decision 99).

use std::sync::Arc;
use std::time::Duration;

use pilothouse_app::http::peer::Peer;
use pilothouse_domain::Timestamp;
use pilothouse_sqlite::Clock;

/// The longest time between two looks at the clock, which jumps when it is set and after the machine has slept.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The end of the login or the token that authenticated a request.
pub(super) struct Expiry {
    pub(super) at: Timestamp,
    /// The clock by which further requests are refused. A token is checked by the clock of the system, a login by that of the server.
    pub(super) clock: Clock,
}

impl Expiry {
    /// Closes the connection of a stream at this time, in a task that ends with the connection.
    pub(super) fn close_at_expiry(self, stream: &Arc<dyn Peer>) {
        let stream = Arc::downgrade(stream);
        tokio::spawn(async move {
            while let Some(open) = stream.upgrade() {
                let left = self.at.since((self.clock)());
                if left.is_zero() {
                    open.close();
                    return;
                }
                drop(open);
                tokio::time::sleep(left.min(CHECK_INTERVAL)).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_test_support::TestClock;

    use super::super::recording_peer::RecordingPeer;
    use super::*;

    const LIFETIME: Duration = Duration::from_hours(7 * 24);

    #[tokio::test(start_paused = true)]
    async fn stream_is_closed_when_its_login_expires() {
        let start = Timestamp::from_millis(0);
        let clock = TestClock::at(start);
        let (peer, stream) = RecordingPeer::open();
        Expiry { at: start + LIFETIME, clock: clock.as_fn() }.close_at_expiry(&stream);
        clock.advance(LIFETIME.saturating_sub(Duration::from_millis(1)));
        tokio::time::sleep(2 * CHECK_INTERVAL).await;
        assert!(!peer.is_closed());
        clock.advance(Duration::from_millis(1));
        peer.until_closed().await;
    }
}
