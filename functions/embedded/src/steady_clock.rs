//! The time of the server: the machine's clock, except that it never goes back. Deadlines and queues use it; a clock that is
//! set back by hours would otherwise delay all of them by hours.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pilothouse_domain::Timestamp;
use pilothouse_sqlite::{Clock, system_clock};

use super::CLOCK_OFFSET;

/// Follows a wall clock forward. While that clock is behind, the time advances with the monotonic clock.
#[derive(Clone)]
pub(super) struct SteadyClock {
    wall: Clock,
    /// The last known time, and the moment of the monotonic clock that it belongs to.
    known: Arc<Mutex<(Timestamp, Instant)>>,
}

impl SteadyClock {
    /// Follows the machine's clock, with the offset of a test.
    pub(super) fn system() -> Self {
        let system = system_clock();
        let Some(file) = std::env::var_os(CLOCK_OFFSET).map(PathBuf::from) else { return Self::new(system) };
        Self::new(Arc::new(move || {
            let offset = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<i64>().ok());
            Timestamp::from_millis(system().as_millis() + offset.unwrap_or_default())
        }))
    }

    fn new(wall: Clock) -> Self {
        let known = Arc::new(Mutex::new((wall(), Instant::now())));
        Self { wall, known }
    }

    pub(super) fn now(&self) -> Timestamp {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (time, at) = *known;
        let (wall, steady) = ((self.wall)(), time + at.elapsed());
        if wall >= steady {
            *known = (wall, Instant::now());
        }
        wall.max(steady)
    }

    /// Advances the time to at least `seen`, a time that an earlier server of the data folder has recorded.
    pub(super) fn advance_to(&self, seen: Timestamp) {
        if self.now() < seen {
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = (seen, Instant::now());
        }
    }

    pub(super) fn clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn clock_follows_forward_steps_and_never_goes_back() {
        let hour = 3_600_000;
        let wall = Arc::new(AtomicI64::new(10 * hour));
        let read = Arc::clone(&wall);
        let clock = SteadyClock::new(Arc::new(move || Timestamp::from_millis(read.load(Ordering::Relaxed))));
        let begun = Instant::now();
        let between = |least: i64| {
            let (now, passed) = (clock.now(), begun.elapsed());
            let most = Timestamp::from_millis(least) + passed + Duration::from_millis(1);
            assert!(Timestamp::from_millis(least) <= now && now <= most, "{now:?}");
        };
        between(10 * hour);
        wall.store(19 * hour, Ordering::Relaxed);
        between(19 * hour);
        wall.store(10 * hour, Ordering::Relaxed);
        between(19 * hour);
        let before = clock.now();
        while clock.now() == before {
            assert!(begun.elapsed() < Duration::from_secs(10), "the time does not advance");
        }
        clock.advance_to(Timestamp::from_millis(20 * hour));
        between(20 * hour);
        clock.advance_to(Timestamp::from_millis(hour));
        between(20 * hour);
    }
}
