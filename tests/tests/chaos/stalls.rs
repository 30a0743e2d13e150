//! Stalls of the machine, for which missed deadlines are excused.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pilothouse_domain::Timestamp;
use pilothouse_sqlite::system_clock;

/// Between probes of scheduling and disk writes.
const EVERY: Duration = Duration::from_millis(50);
/// A slower probe is a stall.
const USUAL: Duration = Duration::from_millis(250);

/// Probes the scheduling of a thread, and a disk with a file.
pub(crate) struct Stalls {
    /// Start and end of each.
    seen: Arc<Mutex<Vec<(Timestamp, Timestamp)>>>,
    enough: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stalls {
    pub(crate) fn watch(folder: &Path) -> Self {
        let mut file = OpenOptions::new().create(true).append(true).open(folder.join("stalls")).unwrap();
        let (seen, enough) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (stalls, over): (Arc<Mutex<Vec<_>>>, _) = (Arc::clone(&seen), Arc::clone(&enough));
        let thread = std::thread::spawn(move || {
            let clock = system_clock();
            while !over.load(Ordering::SeqCst) {
                let (from, due) = (clock(), Instant::now() + EVERY);
                std::thread::sleep(EVERY);
                file.write_all(b".").and_then(|()| file.sync_data()).unwrap();
                if due.elapsed() > USUAL {
                    stalls.lock().unwrap().push((from + EVERY, clock()));
                }
            }
        });
        Self { seen, enough, thread: Some(thread) }
    }

    /// Records a stall that the test itself caused.
    pub(crate) fn note(&self, from: Timestamp, to: Timestamp) {
        self.seen.lock().unwrap().push((from, to));
    }

    /// The total length of the stalls in a time range.
    pub(crate) fn between(&self, from: Timestamp, to: Timestamp) -> Duration {
        let seen = self.seen.lock().unwrap();
        let overlap = |(begun, over): &(Timestamp, Timestamp)| {
            (*over).min(to).as_millis() - (*begun).max(from).as_millis()
        };
        let still: i64 = seen.iter().map(overlap).filter(|millis| *millis > 0).sum();
        Duration::from_millis(still.unsigned_abs())
    }

    /// The number, total and maximum of the stalls.
    pub(crate) fn summary(&self) -> String {
        let seen = self.seen.lock().unwrap();
        let millis: Vec<i64> = seen.iter().map(|(from, to)| to.as_millis() - from.as_millis()).collect();
        let (all, longest) = (millis.iter().sum::<i64>(), millis.iter().max().copied().unwrap_or(0));
        format!("the machine stalled {} times, {all} ms in total, {longest} ms at most", millis.len())
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
