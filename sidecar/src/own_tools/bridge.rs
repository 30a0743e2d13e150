//! `pilothouse-sidecar tools <socket>`: what an agent starts as its MCP server. It knows nothing: it carries bytes between its
//! standard streams and the sidecar's socket, and ends when either side does.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
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
        let _ = pass(&mut io::stdin().lock(), &mut requests);
        // The agent is gone: the server answers what it has, and closes.
        let _ = requests.shutdown(Shutdown::Write);
    });
    pass(&mut answers, &mut io::stdout().lock())
}

/// Passes on whatever comes, at once. Not by `io::copy`: that has the kernel move the bytes, which holds the pipe locked while
/// it waits for the socket, and whoever reads the pipe hangs until something comes.
fn pass(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                to.write_all(&buffer[..length])?;
                to.flush()?;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // The other side went before it had read everything: it is over all the same.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}
