//! Programs that an agent starts. None of them outlives the agent, however the agent ends.
//!
//! | module | purpose |
//! |---|---|
//! | [`launch`] | starts programs |
//! | [`group`] | a running program together with everything that it started |
//! | [`guard`] | the process between the agent and a program, which ends everything; a subcommand of the host program |
//! | [`lease`] | ends programs unless the host extends their lease |
//! | [`confinement`] | which files programs may read and write |
//! | [`user`] | the user that programs run as |
//! | [`tool_processes`] | finds and ends the processes that a turn's tool calls have started |
//!
//! A host program with the guard's subcommand uses [`Guard::this_program`], one without it [`Guard::GroupAlone`].

pub mod confinement;
mod ending;
pub mod group;
pub mod guard;
pub mod launch;
pub mod lease;
pub mod tool_processes;
mod tree;
pub mod user;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

pub use self::confinement::Confinement;
pub use self::ending::Ending;
pub use self::group::{Group, ProcessHandle};
pub use self::launch::{Guard, Launch, Program};
pub use self::tool_processes::ToolProcesses;
pub use self::tree::{ProcessId, ProcessInfo, is_below_this};
pub use self::user::AgentUser;

/// Logs a program's standard error, which does not belong into the conversation.
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
