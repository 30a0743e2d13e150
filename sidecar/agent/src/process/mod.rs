//! Programs that an agent starts, each a process group: none outlives the agent, however that ends.

mod group;
mod guard;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

pub use self::group::{Group, Program};

/// What a program complains about goes to the log, not to the conversation.
pub(crate) async fn log_complaints(program: String, complaints: impl AsyncRead + Unpin) {
    let mut complaints = BufReader::new(complaints);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut complaints).take(64 * 1024).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => tracing::debug!(program, "{}", String::from_utf8_lossy(line.trim_ascii_end())),
        }
    }
}
