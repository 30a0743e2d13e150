use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use pilothouse_wire::launch::RunExit;

use super::replaceable::REPLACEABLE;

/// Exit code of a sidecar whose run another sidecar runs or ran.
pub(crate) const RUN_IS_TAKEN: i32 = 3;

/// Exit code of a sidecar whose run the broker refuses permanently.
pub(crate) const RUN_IS_REFUSED: i32 = 5;

const TAIL_BYTES: u64 = 4096;
const TAIL_LINES: usize = 10;

pub(crate) fn from_status(status: ExitStatus, log: &Path) -> RunExit {
    let (code, signal) = (status.code(), status.signal());
    let what = match (code, signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("the sidecar exited with code {code}")),
        (None, Some(signal)) => Some(format!("the sidecar was ended by signal {signal}")),
        (None, None) => Some("the sidecar ended".to_owned()),
    };
    RunExit { code, signal, drained: false, detail: what.map(|what| with_log_tail(what, log)) }
}

/// The exit of an adopted process, whose exit status is unknown.
pub(crate) fn unknown(log: &Path) -> RunExit {
    without_process(with_log_tail(
        "the sidecar ended; it is not known how, as the server was restarted meanwhile".to_owned(),
        log,
    ))
}

pub(crate) fn without_process(detail: String) -> RunExit {
    RunExit { code: None, signal: None, drained: false, detail: Some(detail) }
}

fn with_log_tail(what: String, log: &Path) -> String {
    match log_tail(log) {
        Ok(words) if !words.is_empty() => format!("{what}; its last words:\n{words}"),
        _ => what,
    }
}

/// The last lines of a log, with bounded length and without control characters.
fn log_tail(log: &Path) -> io::Result<String> {
    let mut file = OpenOptions::new().read(true).custom_flags(REPLACEABLE).open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .take(TAIL_LINES)
        .collect();
    lines.reverse();
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tail_is_short_and_printable() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut written = "x".repeat(100_000);
        written.extend((0..30).map(|n| format!("line {n}\x1b[0m\n\n")));
        std::fs::write(&log, written).unwrap();
        let words = log_tail(&log).unwrap();
        assert_eq!(words.lines().count(), TAIL_LINES);
        assert!(words.starts_with("line 20[0m\n") && words.ends_with("line 29[0m"), "{words}");
    }
}
