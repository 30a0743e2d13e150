//! `pilothouse-sidecar tools <socket>`: what an agent starts as its MCP server. It knows nothing: it carries bytes between its
//! standard streams and the sidecar's socket, and ends when either side does.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::path::Path;
use std::process::ExitCode;

use super::socket;

/// The verb of the program.
pub const VERB: &str = "tools";

/// Carries bytes until it is over.
pub fn run(path: &OsStr) -> ExitCode {
    match carry(Path::new(path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("the tools of the session cannot be reached: {e}");
            ExitCode::FAILURE
        }
    }
}

fn carry(path: &Path) -> io::Result<()> {
    let mut answers = socket::connect(path)?;
    let mut requests = answers.try_clone()?;
    // Ends with the process: a read of the standard input cannot be cut off.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut requests);
        // The agent is gone: the server answers what it has, and closes.
        let _ = requests.shutdown(Shutdown::Write);
    });
    let mut out = io::stdout().lock();
    io::copy(&mut answers, &mut out)?;
    out.flush()
}
