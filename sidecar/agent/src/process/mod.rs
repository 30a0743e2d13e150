//! Programs that an agent starts: none outlives the agent, however that ends.
//!
//! | module | what it is |
//! |---|---|
//! | [`guard`] | the program that stands between, and ends everything: a verb of the host's |
//! | [`launch`] | how programs are started |
//! | [`group`] | a program that was started, with everything that it started |
//! | [`user`] | who they run as |
//!
//! A host whose program has the verb says so ([`Guard::this_program`]); one without it has [`Guard::GroupAlone`].

pub mod group;
pub mod guard;
pub mod launch;
mod tree;
pub mod user;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

pub use self::group::{Group, Reins};
pub use self::launch::{Ending, Guard, Launch, Program};
pub use self::user::AgentUser;

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
