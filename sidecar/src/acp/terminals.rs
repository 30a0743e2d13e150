//! Commands that the agent runs through the sidecar: in the working directory, with a selected environment, limited
//! output, and a guaranteed end.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::v1::schema::{CreateTerminalRequest, TerminalExitStatus, TerminalOutputResponse};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use super::files::Folder;
use crate::process::{Group, ProcessHandle, Processes};

/// Default and upper bound, in bytes.
const KEPT: usize = 1024 * 1024;
const MAX_TERMINALS: usize = 64;
/// How long to read the output after a command has ended, because leftover processes may keep it open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long killed commands may take to disappear.
const KILLED: Duration = Duration::from_secs(3);

/// How a command ended; `None` while it runs.
type Exit = watch::Receiver<Option<TerminalExitStatus>>;

pub(super) struct Terminals {
    folder: Folder,
    processes: Processes,
    open: BTreeMap<String, Terminal>,
    /// Output of released terminals, for calls that refer to them and end later.
    released: BTreeMap<String, String>,
    made: u64,
}

struct Terminal {
    handle: ProcessHandle,
    output: Arc<Mutex<Output>>,
    exit: Exit,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.handle.kill();
        self.task.abort();
    }
}

#[derive(Debug)]
struct Output {
    kept: VecDeque<u8>,
    most: usize,
    truncated: bool,
}

impl Output {
    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let excess = self.kept.len().saturating_sub(self.most);
        self.truncated |= excess > 0;
        self.kept.drain(..excess);
    }

    /// Begins at the first complete character.
    fn text(&self) -> String {
        let (a, b) = self.kept.as_slices();
        let bytes = [a, b].concat();
        let cut = if self.truncated {
            bytes.iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80).count()
        } else {
            0
        };
        String::from_utf8_lossy(&bytes[cut..]).into_owned()
    }
}

impl Terminals {
    /// The commands run in `folder`.
    pub(super) fn new(folder: Folder, processes: Processes) -> Self {
        Self { folder, processes, open: BTreeMap::new(), released: BTreeMap::new(), made: 0 }
    }

    /// Returns the terminal's id. The error is a sentence.
    pub(super) fn create(&mut self, request: &CreateTerminalRequest) -> Result<String, String> {
        if self.open.len() >= MAX_TERMINALS {
            return Err(format!("there are {MAX_TERMINALS} terminals already; release some"));
        }
        let folder = match &request.cwd {
            None => self.folder.path().to_owned(),
            Some(cwd) => self.folder.resolve(cwd).map_err(|e| e.to_string())?,
        };
        let most =
            request.output_byte_limit.map_or(KEPT, |limit| usize::try_from(limit).unwrap_or(KEPT).min(KEPT));
        let output = Arc::new(Mutex::new(Output { kept: VecDeque::new(), most, truncated: false }));
        let cannot = |e: std::io::Error| format!("`{}` cannot be run: {e}", request.command);
        let (group, pipe) = self.spawn(request, folder).map_err(cannot)?;
        let handle = group.handle();
        let (ended, exit) = watch::channel(None);
        let task = tokio::spawn(wait_for_exit(group, pipe, Arc::clone(&output), ended));
        self.made += 1;
        let id = format!("terminal-{}", self.made);
        self.open.insert(id.clone(), Terminal { handle, output, exit, task });
        Ok(id)
    }

    fn spawn(
        &self,
        request: &CreateTerminalRequest,
        folder: PathBuf,
    ) -> std::io::Result<(Group, pipe::Receiver)> {
        let (reader, writer) = std::io::pipe()?;
        // Some agents put a whole shell line into the command.
        let line = request.args.is_empty() && request.command.contains(char::is_whitespace);
        let mut guarded = self.processes.command(if line { "/bin/sh" } else { &request.command })?;
        let command = guarded.command();
        if line {
            command.arg("-c").arg(&request.command);
        }
        command
            .args(&request.args)
            .current_dir(folder)
            .envs(request.env.iter().map(|variable| (&variable.name, &variable.value)))
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        Ok((guarded.spawn()?, pipe::Receiver::from_owned_fd(reader.into())?))
    }

    pub(super) fn output(&self, id: &str) -> Result<TerminalOutputResponse, String> {
        let terminal = self.find(id)?;
        let exit = terminal.exit.borrow().clone();
        let (text, truncated) =
            terminal.output.lock().map(|output| (output.text(), output.truncated)).unwrap_or_default();
        Ok(TerminalOutputResponse::new(text, truncated).exit_status(exit))
    }

    pub(super) fn exit(&self, id: &str) -> Result<Exit, String> {
        self.find(id).map(|terminal| terminal.exit.clone())
    }

    /// The output stays available.
    pub(super) fn kill(&self, id: &str) -> Result<(), String> {
        self.find(id)?.handle.kill();
        Ok(())
    }

    /// Ends the command if it is running.
    pub(super) fn release(&mut self, id: &str) -> Result<(), String> {
        self.find(id)?;
        if let Some(terminal) = self.open.remove(id)
            && let Ok(output) = terminal.output.lock()
        {
            self.released.insert(id.to_owned(), output.text());
        }
        Ok(())
    }

    /// The output of a terminal, also after its release.
    pub(super) fn printed(&self, id: &str) -> Option<String> {
        let open = || self.open.get(id)?.output.lock().ok().map(|output| output.text());
        self.released.get(id).cloned().or_else(open)
    }

    /// Discards the output of released terminals at the end of a turn.
    pub(super) fn forget_released(&mut self) {
        self.released.clear();
    }

    pub(super) async fn kill_all(&self) {
        let killed: Vec<Exit> = self
            .running()
            .map(|terminal| {
                terminal.handle.kill();
                terminal.exit.clone()
            })
            .collect();
        let all_gone = async {
            for mut exit in killed {
                let _ = exit.wait_for(Option::is_some).await;
            }
        };
        // A process in a stuck system call cannot start anything.
        let _ = tokio::time::timeout(KILLED, all_gone).await;
    }

    /// Handles to stop and continue each running command.
    pub(super) fn handles(&self) -> impl Iterator<Item = ProcessHandle> {
        self.running().map(|terminal| terminal.handle.clone())
    }

    fn running(&self) -> impl Iterator<Item = &Terminal> {
        self.open.values().filter(|terminal| terminal.exit.borrow().is_none())
    }

    fn find(&self, id: &str) -> Result<&Terminal, String> {
        self.open.get(id).ok_or_else(|| format!("there is no terminal `{id}`"))
    }
}

/// Reads a command's output until it has ended.
async fn wait_for_exit(
    mut group: Group,
    mut pipe: pipe::Receiver,
    output: Arc<Mutex<Output>>,
    ended: watch::Sender<Option<TerminalExitStatus>>,
) {
    let status = {
        let reading = read(&mut pipe, &output);
        tokio::pin!(reading);
        let mut open = true;
        loop {
            tokio::select! {
                status = group.wait() => break status,
                () = &mut reading, if open => open = false,
            }
        }
    };
    // Ends leftover processes.
    drop(group);
    let _ = tokio::time::timeout(LAST_WORDS, read(&mut pipe, &output)).await;
    ended.send_replace(Some(status.map_or_else(|_| TerminalExitStatus::new(), exit_status)));
}

async fn read(pipe: &mut pipe::Receiver, output: &Mutex<Output>) {
    let mut buffer = vec![0; 8192];
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        if let Ok(mut output) = output.lock() {
            output.push(&buffer[..length]);
        }
    }
}

fn exit_status(status: ExitStatus) -> TerminalExitStatus {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().and_then(|code| u32::try_from(code).ok());
    let signal = status.signal().and_then(|signal| nix::sys::signal::Signal::try_from(signal).ok());
    TerminalExitStatus::new().exit_code(code).signal(signal.map(|signal| signal.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn terminals(dir: &Path) -> Terminals {
        Terminals::new(Folder::open(dir).unwrap(), Processes::unguarded())
    }

    fn request(command: &str) -> CreateTerminalRequest {
        CreateTerminalRequest::new("s", "/bin/sh").args(vec!["-c".into(), command.into()])
    }

    async fn ended(terminals: &Terminals, id: &str) -> TerminalOutputResponse {
        let mut exit = terminals.exit(id).unwrap();
        tokio::time::timeout(Duration::from_secs(20), exit.wait_for(Option::is_some)).await.unwrap().unwrap();
        terminals.output(id).unwrap()
    }

    #[tokio::test]
    async fn command_runs_in_the_folder_with_chosen_variables_only() {
        let dir = tempfile::tempdir().unwrap();
        let mut terminals = terminals(dir.path());
        let id = terminals.create(&request("pwd; env | grep -c CARGO_PKG; echo err >&2; exit 3")).unwrap();
        let output = ended(&terminals, &id).await;
        assert_eq!(output.output, format!("{}\n0\nerr\n", dir.path().canonicalize().unwrap().display()));
        assert_eq!(output.exit_status.unwrap().exit_code, Some(3));
        terminals.release(&id).unwrap();
        assert!(terminals.output(&id).is_err());
        assert!(terminals.printed(&id).unwrap().ends_with("err\n"));
        assert!(terminals.create(&request("true").cwd(PathBuf::from("/"))).unwrap_err().contains("outside"));
    }

    #[tokio::test]
    async fn endless_output_keeps_its_end_and_a_kill_ends_the_group() {
        let dir = tempfile::tempdir().unwrap();
        let mut terminals = terminals(dir.path());
        let id = terminals
            .create(&request("for i in 1 2 3; do printf 'ääää'; done").output_byte_limit(5))
            .unwrap();
        let output = ended(&terminals, &id).await;
        assert_eq!((output.output.as_str(), output.truncated), ("ää", true));
        let id = terminals.create(&request("sleep 300 & echo on; wait")).unwrap();
        while !terminals.output(&id).unwrap().output.contains("on") {
            tokio::task::yield_now().await;
        }
        terminals.kill(&id).unwrap();
        assert_eq!(ended(&terminals, &id).await.exit_status.unwrap().signal.as_deref(), Some("SIGKILL"));
    }
}
