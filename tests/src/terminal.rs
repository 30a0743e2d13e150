//! A program on a pseudo terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;

use crate::PATIENCE;

/// What the program writes before each screen.
const CLEAR: &str = "\x1b[2J";
const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// Killed when it is dropped.
pub struct TerminalProcess {
    child: Child,
    master: File,
    /// Stays open, so that the settings of the terminal can be read after the program ended.
    slave: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
    before: LocalFlags,
}

impl TerminalProcess {
    pub fn start(mut command: Command) -> Self {
        let pty = openpty(&SIZE, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap().local_flags;
        let end = || pty.slave.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end()).env("NO_COLOR", "1");
        let child = command.spawn().unwrap();
        let master = File::from(pty.master);
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut reading, all) = (master.try_clone().unwrap(), Arc::clone(&written));
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = reading.read(&mut chunk) {
                all.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..count]);
            }
        });
        Self { child, master, slave: pty.slave, written, before }
    }

    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub fn terminate(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM).unwrap();
    }

    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits until the screen shows all of these texts.
    pub async fn until_shown(&self, texts: &[&str]) -> String {
        self.until(&format!("{texts:?} on the screen"), || {
            let written = self.written();
            let screen = written.rsplit(CLEAR).next().unwrap_or_default();
            texts.iter().all(|text| screen.contains(text)).then(|| screen.to_owned())
        })
        .await
    }

    /// Waits for the end of the program.
    pub async fn ended(&mut self) -> ExitStatus {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(tokio::time::Instant::now() < deadline, "it does not end: {}", self.written());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether the terminal has the settings that it had at the start.
    pub fn is_restored(&self) -> bool {
        tcgetattr(&self.slave).unwrap().local_flags == self.before && self.written().contains("\x1b[?1049l")
    }

    async fn until<T>(&self, what: &str, condition: impl Fn() -> Option<T>) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(found) = condition() {
                return found;
            }
            assert!(tokio::time::Instant::now() < deadline, "not reached: {what}: {}", self.written());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for TerminalProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
