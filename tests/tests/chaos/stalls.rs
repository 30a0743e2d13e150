//! When the machine stood still: nobody is late who could not run or write.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pilothouse_domain::Timestamp;
use pilothouse_sqlite::system_clock;

/// How often it is tried whether a thread gets its turn and a disk its write.
const EVERY: Duration = Duration::from_millis(50);
/// What a turn and a write may take; more is a stall.
const USUAL: Duration = Duration::from_millis(250);

/// Watches the machine from a thread of its own, and a disk with a file of its own.
pub(crate) struct Stalls {
    /// From when to when.
    seen: Arc<Mutex<Vec<(Timestamp, Timestamp)>>>,
    enough: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stalls {
    /// Begins to watch the disk that `folder` is on.
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

    /// How long of a time the machine stood still.
    pub(crate) fn between(&self, from: Timestamp, to: Timestamp) -> Duration {
        let seen = self.seen.lock().unwrap();
        let overlap = |(begun, over): &(Timestamp, Timestamp)| {
            (*over).min(to).as_millis() - (*begun).max(from).as_millis()
        };
        let still: i64 = seen.iter().map(overlap).filter(|millis| *millis > 0).sum();
        Duration::from_millis(still.unsigned_abs())
    }

    /// How long it stood still in all, and the longest of these times.
    pub(crate) fn summary(&self) -> String {
        let seen = self.seen.lock().unwrap();
        let millis: Vec<i64> = seen.iter().map(|(from, to)| to.as_millis() - from.as_millis()).collect();
        let (all, longest) = (millis.iter().sum::<i64>(), millis.iter().max().copied().unwrap_or(0));
        format!("the machine stood still {} times, {all} ms in all and {longest} ms at once", millis.len())
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
