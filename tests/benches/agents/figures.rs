use std::time::Duration;

/// Prints the median and the extremes of the times.
pub(crate) fn times(what: &str, mut all: Vec<Duration>) {
    all.sort_unstable();
    let at = |part: f64| millis(all[((all.len() - 1) as f64 * part).round() as usize]);
    println!(
        "{what:<58} median {:>7.2} ms, best {:>7.2} ms, 95 % {:>7.2} ms, 99 % {:>7.2} ms, worst {:>7.2} ms, of {}",
        at(0.5),
        at(0.0),
        at(0.95),
        at(0.99),
        at(1.0),
        all.len()
    );
}

pub(crate) fn figure(what: &str, figure: impl std::fmt::Display) {
    println!("{what:<58} {figure}");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// In MB, from `/proc/{pid}/status`.
pub(crate) fn memory(pid: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0 / 1e6
}

/// Processor time of all threads of a process so far.
pub(crate) fn on_processor(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let schedstat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedstat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
