//! What is told of a run that ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use pilothouse_wire::launch::RunExit;

use crate::run_dir::RunDir;

/// The code with which a sidecar exits when another sidecar runs, or ran, its run.
pub(crate) const RUN_IS_TAKEN: i32 = 3;

/// The code with which a sidecar exits when the broker refuses its run for good.
pub(crate) const RUN_IS_REFUSED: i32 = 5;

const LAST_BYTES: u64 = 4096;
const LAST_LINES: usize = 10;

/// The exit of a child of this process.
pub(crate) fn of_child(status: ExitStatus, dir: &RunDir) -> RunExit {
    let (code, signal) = (status.code(), status.signal());
    let what = match (code, signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("the sidecar exited with code {code}")),
        (None, Some(signal)) => Some(format!("the sidecar was ended by signal {signal}")),
        (None, None) => Some("the sidecar ended".to_owned()),
    };
    RunExit { code, signal, drained: false, detail: what.map(|what| with_last_words(what, dir)) }
}

/// The exit of a process that was not a child of this one, so that nobody knows how it ended.
pub(crate) fn unobserved(dir: &RunDir) -> RunExit {
    without_process(with_last_words(
        "the sidecar ended; it is not known how, as the server was restarted meanwhile".to_owned(),
        dir,
    ))
}

/// The exit of a run that had no process, and why.
pub(crate) fn without_process(detail: String) -> RunExit {
    RunExit { code: None, signal: None, drained: false, detail: Some(detail) }
}

fn with_last_words(what: String, dir: &RunDir) -> String {
    match last_words(&dir.log()) {
        Ok(words) if !words.is_empty() => format!("{what}; its last words:\n{words}"),
        _ => what,
    }
}

/// The last lines of a log, of a bounded length, without control characters.
fn last_words(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .take(LAST_LINES)
        .collect();
    lines.reverse();
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_few_and_printable() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut written = "x".repeat(100_000);
        written.extend((0..30).map(|n| format!("line {n}\x1b[0m\n\n")));
        std::fs::write(&log, written).unwrap();
        let words = last_words(&log).unwrap();
        assert_eq!(words.lines().count(), LAST_LINES);
        assert!(words.starts_with("line 20[0m\n") && words.ends_with("line 29[0m"), "{words}");
    }
}
