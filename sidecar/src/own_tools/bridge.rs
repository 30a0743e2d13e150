//! `pilothouse-sidecar tools <socket>`: the MCP server that an agent starts. It copies bytes between its standard
//! streams and the sidecar's socket, and ends when either side closes.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::process::ExitCode;

use super::socket;

/// Subcommand of the program.
pub const VERB: &str = "tools";

pub fn run(path: &OsStr) -> ExitCode {
    match relay(Path::new(path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("failed to connect to the tools of the session: {e}");
            ExitCode::FAILURE
        }
    }
}

fn relay(path: &Path) -> io::Result<()> {
    let mut answers = socket::connect(path)?;
    let mut requests = answers.try_clone()?;
    // Ends with the process, because a blocked read of standard input cannot be cancelled.
    std::thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut requests);
        // The agent has closed its side. The server still answers open requests and then closes.
        let _ = requests.shutdown(Shutdown::Write);
    });
    copy(&mut answers, &mut io::stdout().lock())
}

/// Forwards data as soon as it arrives. `io::copy` would let the kernel move the bytes, which locks the pipe while it
/// waits for the socket, so that a reader of the pipe hangs until data arrives.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                to.write_all(&buffer[..length])?;
                to.flush()?;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // The other side closed before it had read everything, which also ends the connection.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}
